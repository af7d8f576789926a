"""Settings from the environment."""

import msgspec
import pytest

from gateway.settings import ENV_PREFIX, SECRETS, Settings, SettingsError


def test_nothing_set_gives_the_defaults() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings.from_env({"GATEWAY_PORT": "  "}) == Settings()
    assert (Settings().host, Settings().port) == ("127.0.0.1", 8000)


CHOICES = {"log_format": "json", "log_level": "debug"}
"""A value of each setting that takes only some."""


def test_each_setting_is_read_in_its_type() -> None:
    defaults = Settings()
    for name in Settings.__struct_fields__:
        default = getattr(defaults, name)
        text = CHOICES.get(name, "text") if isinstance(default, str) else "7" if type(default) is int else "2.5"
        if isinstance(default, bool):
            text = str(not default)
        settings = Settings.from_env({ENV_PREFIX + name.upper(): text})
        assert getattr(settings, name) == type(default)(text), name
        assert settings == msgspec.structs.replace(defaults, **{name: type(default)(text)})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GATEWAY_PORT", "http"),
        ("GATEWAY_PORT", "70000"),
        ("GATEWAY_PORT", "8000.5"),
        ("GATEWAY_WORKERS", "0"),
        ("GATEWAY_PING_INTERVAL", "0"),
        ("GATEWAY_DRAIN", "-1"),
        ("GATEWAY_RING_BYTES", "64 MB"),
    ],
)
def test_wrong_value_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        Settings.from_env({variable: value})


def test_each_setting_is_described_with_its_unit() -> None:
    described = Settings.descriptions()
    assert set(described) == set(Settings.__struct_fields__)
    for name, text in described.items():
        if isinstance(getattr(Settings(), name), float):
            assert "seconds" in text, name
        if name.endswith(("_bytes", "_frame")):
            assert "bytes" in text, name


def test_secrets_are_shown_nowhere() -> None:
    settings = Settings(redis_url="redis://:tell-no-one@h", token_secrets="tell-no-one" * 4, api_keys="tell-no-one" * 2)
    for text in (repr(settings), str(settings), f"{settings}", str(settings.shown())):
        assert "tell-no-one" not in text
        assert "host='127.0.0.1'" in text or "'host': '127.0.0.1'" in text
    assert Settings().shown()["token_secrets"] == ""


def test_every_setting_that_is_a_secret_is_known_as_one() -> None:
    told = {name for name in Settings.__struct_fields__ if "secret" in name or "api_key" in name or "redis_url" in name}
    assert told == SECRETS
