"""Who a caller is and what may be done where: the one answer to "may this caller do that on this topic" — pure."""

import re
from typing import Any, Literal, NoReturn

import msgspec

from gateway.errors import CommandError, ErrorCode
from gateway.redaction import Redaction
from gateway.types import Topic

__all__ = ["EVERYTHING", "VERBS", "Grant", "Identity", "deny"]

VERBS = (
    "cancel",
    "decide",
    "delete",
    "edit",
    "export",
    "history",
    "presence",
    "publish",
    "read",
    "send",
    "topics",
    "withdraw",
    "write",
)
"""Everything that can be allowed. ``topics``: it is listed; ``write``: nothing here, runs write on the store."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done on the topics of a pattern.

    Attributes:
        pattern: Topic names.
        match: How the pattern is read: a ``*`` stands for any characters (``wildcard``), nothing stands for another
            thing (``exact``), or it is a regular expression that is searched for (``regex``).
        verbs: What is allowed there, of `VERBS`.
        redaction: What is taken out of what is read there; None takes out nothing.

    """

    pattern: str
    match: Literal["exact", "regex", "wildcard"] = "wildcard"
    verbs: tuple[str, ...]
    redaction: Redaction | None = None

    def covers(self, topic: Topic) -> bool:
        """Say whether the pattern names a topic."""
        if self.match == "regex":
            return re.search(self.pattern, topic) is not None
        return self.pattern == topic or (self.match == "wildcard" and _stars_cover(self.pattern, topic))


def _stars_cover(pattern: str, name: str) -> bool:
    """Match a pattern with stars, piece by piece: a regular expression of many stars could take for ever."""
    first, *between = pattern.split("*")
    if not between or not name.startswith(first):
        return False
    at, end = len(first), len(name) - len(between[-1])
    for piece in between[:-1]:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return at <= end and name.endswith(between[-1])


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A caller, and what it may do.

    Attributes:
        user: The user's id; "" for an anonymous one.
        info: What the token tells of the user, any JSON value; shown to who may see presence.
        issued_at: Unix time, in seconds, at which the token says it was made; None where it does not say.
        expires_at: Unix time, in seconds, at which all this ends; None for never.
        grants: The first one whose pattern names a topic decides about it, alone.
        channels: What its connections are subscribed to by the gateway itself.

    """

    user: str = ""
    info: Any = None
    issued_at: float | None = None
    expires_at: float | None = None
    grants: tuple[Grant, ...] = ()
    channels: tuple[str, ...] = ()

    def may(self, verb: str, topic: Topic) -> bool:
        """Say whether the caller may do something on a topic."""
        return verb in self.verbs(topic)

    def require(self, verb: str, topic: Topic) -> None:
        """Go on only where the caller may.

        Raises:
            CommandError: 103, with the same words whether the topic exists or not.

        """
        if not self.may(verb, topic):
            deny()

    def verbs(self, topic: Topic) -> tuple[str, ...]:
        """Give what the caller may do on a topic, sorted."""
        grant = self._deciding(topic)
        return () if grant is None else grant.verbs

    def redaction(self, topic: Topic) -> Redaction | None:
        """Give what is taken out of what the caller reads of a topic; None takes out nothing."""
        grant = self._deciding(topic)
        return None if grant is None else grant.redaction

    def _deciding(self, topic: Topic) -> Grant | None:
        return next((grant for grant in self.grants if grant.covers(topic)), None)


def deny() -> NoReturn:
    """Refuse: 103, in words that tell nothing about the topic."""
    raise CommandError(ErrorCode.PERMISSION_DENIED, "permission denied")


EVERYTHING = Identity(grants=(Grant(pattern="*", verbs=VERBS),))
"""Who may do everything everywhere: anyone where no keys are configured."""
