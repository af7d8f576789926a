"""Grants: patterns, verbs, and which grant decides."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import CommandError, ErrorCode
from gateway.grants import EVERYTHING, VERBS, Grant, Identity
from gateway.types import Topic


def _identity(*grants: Grant) -> Identity:
    return Identity(user="ann", grants=grants)


@pytest.mark.parametrize(
    ("match", "pattern", "topic", "covered"),
    [
        ("wildcard", "chat:42", "chat:42", True),
        ("wildcard", "chat:42", "chat:421", False),
        ("wildcard", "chat:42", "a-chat:42", False),
        ("wildcard", "chat:*", "chat:42", True),
        ("wildcard", "chat:*", "chat:", True),
        ("wildcard", "chat:*", "chats:42", False),
        ("wildcard", "*", "chat:42", True),
        ("wildcard", "chat:*:notes", "chat:42:notes", True),
        ("wildcard", "chat:*:notes", "chat:42:notes:x", False),
        ("wildcard", "a.c", "abc", False),
        ("wildcard", "", "chat:42", False),
        ("exact", "chat:42", "chat:42", True),
        ("exact", "chat:*", "chat:42", False),
        ("exact", "chat", "chat:42", False),
        ("regex", r"^posts_[\d]+$", "posts_7", True),
        ("regex", r"^posts_[\d]+$", "posts_x", False),
        ("regex", "posts", "my-posts-7", True),
    ],
)
def test_pattern_covers_what_it_names(match: str, pattern: str, topic: str, covered: bool) -> None:  # noqa: FBT001
    grant = Grant(pattern=pattern, match=match, verbs=("read",))  # type: ignore[arg-type]
    assert grant.covers(Topic(topic)) is covered


@given(st.from_regex(r"[A-Za-z0-9_.:@/-]{1,40}", fullmatch=True), st.from_regex(r"[A-Za-z0-9_.:@/-]{1,40}"))
def test_a_name_without_a_star_covers_itself_only(name: str, other: str) -> None:
    grant = Grant(pattern=name, verbs=("read",))
    assert grant.covers(Topic(name))
    assert grant.covers(Topic(other)) is (other == name)


@given(st.text("ab*", max_size=8), st.text("ab", min_size=1, max_size=8))
def test_a_star_stands_for_any_characters(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern.replace("*", ".*"), name) is not None
    assert Grant(pattern=pattern, verbs=("read",)).covers(Topic(name)) is expected


def test_many_stars_end() -> None:
    assert not Grant(pattern="*a" * 90 + "*b", verbs=("read",)).covers(Topic("a" * 200))


def test_first_grant_that_covers_decides_alone() -> None:
    identity = _identity(
        Grant(pattern="chat:secret", verbs=()),
        Grant(pattern="chat:*", verbs=("read",)),
        Grant(pattern="*", verbs=("read", "send")),
    )
    assert identity.verbs(Topic("chat:secret")) == ()
    assert identity.verbs(Topic("chat:1")) == ("read",)
    assert identity.verbs(Topic("news")) == ("read", "send")


def test_who_has_no_grant_may_nothing() -> None:
    for identity in (Identity(), _identity(Grant(pattern="chat:1", verbs=VERBS))):
        assert identity.verbs(Topic("chat:2")) == ()
        assert identity.redaction(Topic("chat:2")) is None
        assert not any(identity.may(verb, Topic("chat:2")) for verb in VERBS)


def test_require_says_the_same_about_every_topic() -> None:
    identity = _identity(Grant(pattern="chat:1", verbs=("read",)))
    identity.require("read", Topic("chat:1"))
    said = set()
    for verb, topic in (("send", "chat:1"), ("read", "chat:2"), ("read", "no-such-topic"), ("nonsense", "chat:1")):
        with pytest.raises(CommandError) as refused:
            identity.require(verb, Topic(topic))
        said.add(str(refused.value))
        assert refused.value.code == ErrorCode.PERMISSION_DENIED
        assert not refused.value.temporary
    assert said == {"103: permission denied"}


def test_everything_is_everything() -> None:
    assert EVERYTHING.user == ""
    assert EVERYTHING.expires_at is None
    assert EVERYTHING.verbs(Topic("any/topic:1")) == VERBS
    assert EVERYTHING.redaction(Topic("any")) is None


def test_verbs_are_sorted() -> None:
    assert list(VERBS) == sorted(VERBS)
