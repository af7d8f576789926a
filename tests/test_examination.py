"""The examination of settings and machine."""

import resource
from typing import Any

import pytest

from gateway.examination import check_machine, check_settings, idle_settings
from gateway.finding import Finding
from gateway.settings import Settings

GOOD = "q3Vn8LkzT0xYwR5uHc7JdPe2"


def levels(findings: list[Finding]) -> dict[str, str]:
    return {finding.about: finding.level for finding in findings}


@pytest.mark.parametrize(
    ("settings", "about", "level"),
    [
        ({}, "access", "note"),
        ({"host": "0.0.0.0"}, "access", "error"),
        ({"host": "0.0.0.0", "insecure": True}, "access", "error"),
        ({"host": "0.0.0.0", "api_keys": GOOD}, "access", "note"),
        ({"api_keys": GOOD}, "access", "ok"),
        ({"api_keys": "short"}, "keys", "error"),
        ({"api_keys": "change-me-please-now"}, "GATEWAY_API_KEYS", "error"),
        ({"token_secrets": "a" * 40}, "GATEWAY_TOKEN_SECRETS", "error"),
        ({"api_keys": GOOD, "insecure": True}, "GATEWAY_INSECURE", "warning"),
        ({"allowed_origins": "*"}, "GATEWAY_ALLOWED_ORIGINS", "warning"),
        ({"trusted_proxies": "0.0.0.0/0"}, "GATEWAY_TRUSTED_PROXIES", "warning"),
        ({"workers": 2}, "GATEWAY_METRICS_PORT", "note"),
        ({"user_grants": "chat:{sub}"}, "GATEWAY_USER_GRANTS", "warning"),
        ({"anonymous_grants": "news"}, "GATEWAY_ANONYMOUS_GRANTS", "warning"),
        ({"api_keys": GOOD, "token_audience": "us"}, "GATEWAY_TOKEN_AUDIENCE", "warning"),
    ],
)
def test_setting_is_judged(settings: dict[str, Any], about: str, level: str) -> None:
    found = check_settings(Settings(**settings))
    assert levels(found)[about] == level
    assert all(finding.advice for finding in found if finding.level != "ok")
    for secret in (settings.get("api_keys"), settings.get("token_secrets")):
        assert secret is None or secret not in " ".join(finding.found + finding.advice for finding in found)


def test_good_settings_have_nothing_to_be_said() -> None:
    assert set(levels(check_settings(Settings(api_keys=GOOD, workers=2, metrics_port=9100))).values()) == {"ok"}


def test_open_files_are_compared_with_what_is_expected() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert levels(check_machine(Settings(), connections=soft))["open files"] == "warning"
    assert levels(check_machine(Settings(workers=2), connections=soft))["open files"] == "ok"


def test_more_workers_than_cores_are_told() -> None:
    assert levels(check_machine(Settings(workers=1), connections=1))["workers"] == "ok"
    assert levels(check_machine(Settings(workers=5000), connections=1))["workers"] == "warning"


def test_settings_of_tokens_count_where_a_key_of_tokens_is_set() -> None:
    settings: dict[str, Any] = {"user_grants": "chat:{sub}", "anonymous_grants": "news", "token_issuer": "us"}
    assert idle_settings(Settings(token_secrets="s" * 64, **settings)) == {}
    # Anonymous callers need no token.
    assert set(idle_settings(Settings(api_keys=GOOD, **settings))) == {"GATEWAY_USER_GRANTS", "GATEWAY_TOKEN_ISSUER"}
    assert len(idle_settings(Settings(**settings))) == 3
