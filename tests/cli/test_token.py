"""`token`: for development."""

import json

import click
import pytest

from gateway.auth import Authority
from gateway.cli.token import command
from gateway.settings import Settings
from gateway.tokens import READER
from gateway.types import Topic
from tests.signing import SECRET


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    command.main(list(arguments), standalone_mode=False)
    return capsys.readouterr().out.strip()


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN_SECRETS", f"{SECRET}, another-secret-of-32-characters!")


def test_token_is_taken_by_a_gateway_with_the_secret(capsys: pytest.CaptureFixture[str]) -> None:
    token = printed(capsys, "ann", "--allow", "chat:*", "--allow", "news=read", "--info", json.dumps({"name": "Ann"}))
    identity = Authority(Settings(token_secrets=SECRET)).connect(token)
    assert (identity.user, identity.info) == ("ann", {"name": "Ann"})
    assert identity.verbs(Topic("chat:1")) == READER
    assert identity.verbs(Topic("news")) == ("read", "topics")
    assert identity.verbs(Topic("other")) == ()
    assert identity.expires_at is not None
    assert identity.issued_at is not None
    assert identity.expires_at - identity.issued_at == 3600


def test_token_for_one_topic(capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(Settings(token_secrets=SECRET, user_grants="mine"))
    ann = authority.connect(printed(capsys, "ann", "--lasts", "60"))
    token = printed(capsys, "ann", "--topic", "a")
    assert authority.subscription(ann, Topic("a"), token).may("read", Topic("a"))


def test_audience_and_issuer_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    strict = Authority(Settings(token_secrets=SECRET, token_audience="us", token_issuer="me"))
    token = printed(capsys, "ann", "--token-audience", "us", "--token-issuer", "me")
    assert strict.connect(token).user == "ann"


def test_new_secret_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    secret = printed(capsys, "--new-secret")
    assert not Authority(Settings(token_secrets=secret)).open
    assert printed(capsys, "--new-secret") != secret
    assert printed(capsys, "ann", "--token-secrets", secret).count(".") == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("ann", "--token-secrets", ""), "GATEWAY_TOKEN_SECRETS"),
        (("ann", "--token-secrets", "hush"), "32 bytes or more"),
        (("ann", "--allow", "a=reed"), "reed"),
        (("ann", "--allow", "a b"), "--allow"),
        (("ann", "--allow", "a", "--topic", "a"), "--allow"),
        (("ann", "--info", "{"), "--info"),
        (("ann", "--topic", "a b"), "a b"),
        (("ann", "--lasts", "0"), "--lasts"),
        (("a\nb",), "control character"),
    ],
)
def test_what_makes_no_token_is_told(arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        command.main(list(arguments), standalone_mode=False)
    assert told in refused.value.format_message()
    assert "hush" not in refused.value.format_message()
