"""Claims and settings become grants."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import CommandError, ErrorCode
from gateway.grants import VERBS, Grant, Identity
from gateway.redaction import Redaction
from gateway.tokens import (
    READER,
    GrantError,
    Rules,
    grants_of_caps,
    grants_of_text,
    identity_of,
    subscribed,
)
from gateway.types import Topic

NO_RULES = Rules()


def _verbs(claims: dict[str, Any], topic: str, rules: Rules = NO_RULES) -> tuple[str, ...]:
    return identity_of(claims, rules).verbs(Topic(topic))


# settings


def test_patterns_of_a_setting_allow_all_that_people_do_unless_they_say_what() -> None:
    chat, news = grants_of_text(" chat:{sub}\nnews:*=read,hst ")
    assert (chat.pattern, chat.verbs) == ("chat:{sub}", READER)
    assert (news.pattern, news.match, news.verbs) == ("news:*", "wildcard", ("history", "read", "topics"))
    assert grants_of_text("") == ()


def test_verb_of_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(GrantError, match="got 'reed'"):
        grants_of_text("chat:*=reed")


def test_people_may_do_nothing_that_only_owners_and_runs_do() -> None:
    assert set(VERBS) - set(READER) == {"delete", "export", "write"}


@pytest.mark.parametrize(
    ("user", "topic", "may"),
    [
        ("ann", "chat:ann", True),
        ("ann", "chat:ann:1", False),
        ("ann", "notes:ann:1", True),
        ("ann", "chat:bob", False),
        ("a*", "chat:abc", False),
        ("*", "chat:ann", False),
        ("a:b", "notes:a:b:1", False),
        ("a b", "news", True),
        ("ann@example.com", "chat:ann@example.com", True),
    ],
)
def test_users_reach_their_own_topics(user: str, topic: str, may: bool) -> None:  # noqa: FBT001
    rules = Rules(users=grants_of_text("chat:{sub} notes:{sub}:* news"))
    assert identity_of({"sub": user}, rules).may("read", Topic(topic)) is may


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_no_user_id_reaches_another_users_topics(user: str, other: str) -> None:
    rules = Rules(users=grants_of_text("chat:{sub} notes:{sub}:*"))
    try:
        identity = identity_of({"sub": user}, rules)
    except CommandError:
        return
    for topic in (f"chat:{other}", f"notes:{other}:1"):
        if identity.may("read", Topic(topic)):
            assert other == user or other.startswith(f"{user}:")


# caps


def test_caps_mean_what_they_mean_to_centrifugo() -> None:
    claims = {
        "caps": [
            {"channels": ["news", "user_42"], "allow": ["sub"]},
            {"channels": ["user_42"], "allow": ["pub", "hst", "prs"]},
            {"channels": ["posts:*"], "match": "wildcard", "allow": ["sub", "pub", "prs", "hst"]},
            {"channels": [r"^p_[\d]+$"], "match": "regex", "allow": ["hst"]},
            {"channels": ["lit:*"], "allow": ["sub"]},
        ]
    }
    assert _verbs(claims, "news") == ("read", "topics")
    assert _verbs(claims, "user_42") == ("read", "topics"), "the first that names a topic decides"
    assert _verbs(claims, "posts:1") == ("history", "presence", "publish", "read", "topics")
    assert _verbs(claims, "p_12") == ("history",)
    assert _verbs(claims, "p_x") == _verbs(claims, "lit:1") == _verbs(claims, "other") == ()


def test_caps_may_name_our_verbs_and_all() -> None:
    claims = {"caps": [{"channels": ["a"], "allow": ["send", "cancel", "of-the-future"]}]}
    assert _verbs(claims, "a") == ("cancel", "send")
    assert _verbs({"caps": [{"channels": ["a"], "allow": ["*"]}]}, "a") == VERBS
    assert _verbs({"caps": [{"channels": ["a"]}]}, "a") == ()


@pytest.mark.parametrize(
    "caps",
    [
        {},
        "sub",
        ["sub"],
        [{"channels": "news", "allow": ["sub"]}],
        [{"channels": [1], "allow": ["sub"]}],
        [{"channels": ["a"], "allow": "sub"}],
        [{"channels": ["a"], "match": "glob", "allow": ["sub"]}],
        [{"channels": ["a"], "match": 1, "allow": ["sub"]}],
        [{"channels": ["(("], "match": "regex", "allow": ["sub"]}],
        [{"channels": ["a"] * 1001, "allow": ["sub"]}],
    ],
)
def test_caps_of_another_form_are_an_invalid_token(caps: Any) -> None:
    with pytest.raises(GrantError):
        grants_of_caps(caps, strict=False)
    if caps:
        with pytest.raises(CommandError) as refused:
            identity_of({"caps": caps}, NO_RULES)
        assert refused.value.code == ErrorCode.UNAUTHORIZED


def test_wrong_verb_is_an_error_where_caps_are_settings() -> None:
    with pytest.raises(GrantError, match="subb"):
        grants_of_caps([{"channels": ["a"], "allow": ["subb"]}], strict=True)


def test_caps_may_take_things_out() -> None:
    redact = {"drop": ["log"], "mask": ["arguments"]}
    claims = {"sub": "ann", "caps": [{"channels": ["a"], "allow": ["sub"], "redact": redact}]}
    identity = identity_of(claims, Rules(users=grants_of_text("*")))
    assert identity.redaction(Topic("a")) == Redaction.read(redact)
    assert identity.redaction(Topic("b")) is None
    with pytest.raises(CommandError, match="redact"):
        identity_of({"caps": [{"channels": ["a"], "redact": {"blur": []}}]}, NO_RULES)


# connection tokens


def test_claims_tell_who_it_is() -> None:
    identity = identity_of({"sub": "ann", "info": {"name": "Ann"}, "exp": 1900000000}, NO_RULES)
    assert (identity.user, identity.info, identity.expires_at) == ("ann", {"name": "Ann"}, 1900000000.0)
    assert identity_of({}, NO_RULES) == Identity()


def test_caps_come_before_channels_before_settings() -> None:
    rules = Rules(users=grants_of_text("*=send"), anonymous=grants_of_text("*=history"))
    claims = {"sub": "ann", "channels": ["a", "b"], "caps": [{"channels": ["a"], "allow": ["pub"]}]}
    assert _verbs(claims, "a", rules) == ("publish",)
    assert _verbs(claims, "b", rules) == ("read", "topics")
    assert _verbs(claims, "c", rules) == ("send",)
    assert _verbs({}, "c", rules) == ("history",)


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": 7},
        {"sub": "x" * 201},
        {"sub": "a\nb"},
        {"sub": "a\x00b"},
        {"sub": "\ud800"},
        {"info": "\ud800"},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"exp": 10**400},
        {"channels": "news"},
        {"channels": [1]},
        {"channels": ["a"] * 1001},
    ],
)
def test_claim_of_another_form_is_an_invalid_token(claims: dict[str, Any]) -> None:
    with pytest.raises(CommandError) as refused:
        identity_of(claims, NO_RULES)
    assert refused.value.code == ErrorCode.UNAUTHORIZED
    assert not refused.value.temporary


# subscription tokens


ANN = Identity(user="ann", info="by connection", grants=(Grant(pattern="other", verbs=("read",)),))


def test_subscription_token_lets_its_topic_be_read() -> None:
    identity = subscribed(ANN, Topic("a"), {"sub": "ann", "channel": "a", "exp": 1900000000}, client="c1")
    assert identity.verbs(Topic("a")) == ("read", "topics")
    assert identity.verbs(Topic("other")) == ("read",)
    assert (identity.user, identity.info, identity.expires_at) == ("ann", None, 1900000000.0)


def test_subscription_token_adds_to_what_the_connection_may() -> None:
    may = Identity(user="ann", grants=(Grant(pattern="a", verbs=("send",)),))
    claims = {
        "sub": "ann",
        "channel": "a",
        "allow": ["pub"],
        "info": 1,
        "caps": [{"channels": ["a"], "allow": ["hst"]}],
    }
    identity = subscribed(may, Topic("a"), claims, client="c1")
    assert identity.verbs(Topic("a")) == ("history", "publish", "read", "send", "topics")
    assert identity.info == 1


def test_subscription_token_sees_what_the_connection_sees_unless_it_says() -> None:
    redact = {"mask": ["results"]}
    masked = Identity(grants=(Grant(pattern="a", verbs=("read",), redaction=Redaction.read(redact)),))
    for more, expected in (({}, redact), ({"redact": None}, None), ({"redact": {"drop": ["log"]}}, {"drop": ["log"]})):
        identity = subscribed(masked, Topic("a"), {"channel": "a", **more}, client="c")
        assert identity.redaction(Topic("a")) == Redaction.read(expected)


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "bob", "channel": "a"},
        {"channel": "a"},
        {"sub": "ann", "channel": "b"},
        {"sub": "ann"},
        {"sub": "ann", "channel": "a", "client": "c2"},
        {"sub": "ann", "channel": 1},
    ],
)
def test_subscription_token_of_something_else_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(CommandError) as refused:
        subscribed(ANN, Topic("a"), claims, client="c1")
    assert str(refused.value) == "103: permission denied"
