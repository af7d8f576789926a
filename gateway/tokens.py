"""What a checked token says: who it is and what may be done — pure.

The claims are those of Centrifugo's connection and subscription tokens, so that a backend which makes those needs no
change (PROTOCOL.md 12).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.errors import CommandError, ErrorCode
from gateway.grants import VERBS, Grant, Identity, deny
from gateway.redaction import Redaction
from gateway.types import Topic

__all__ = [
    "READER",
    "GrantError",
    "Rules",
    "check_depth",
    "grants_of_caps",
    "grants_of_text",
    "identity_of",
    "invalid",
    "subscribed",
]

MAX_GRANTS = 1000
"""Patterns of one token, or of one setting."""

MAX_DEPTH = 64
"""Levels of a token's header and claims: of deeper ones the stack would decide, which is another one at each call."""

MAX_USER = 200
"""Characters of a user's id."""

READER = (
    "cancel",
    "decide",
    "edit",
    "history",
    "presence",
    "publish",
    "read",
    "send",
    "topics",
    "withdraw",
)
"""What a pattern of the settings allows that names no verbs: all that a person does on a topic of their own."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    **{verb: (verb,) for verb in VERBS},
    "read": ("read", "topics"),
    "sub": ("read", "topics"),
    "pub": ("publish",),
    "prs": ("presence",),
    "hst": ("history",),
    "*": VERBS,
}
"""What the words of `allow` mean; others, of a later version, allow nothing."""

_MATCHES = {"": "exact", "exact": "exact", "wildcard": "wildcard", "regex": "regex"}

_PLAIN_USER = re.compile(r"[A-Za-z0-9_.@-]+\Z")
"""Ids that may stand in a topic's name: with a `*` or a `:` one user's pattern would cover another's topics."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class GrantError(ValueError):
    """A list of grants has another form."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings let callers do, beside what their tokens say.

    Attributes:
        users: For who has a token; ``{sub}`` in a pattern is the user's id.
        anonymous: For who has none.

    """

    users: tuple[Grant, ...] = ()
    anonymous: tuple[Grant, ...] = ()

    def of(self, user: str) -> tuple[Grant, ...]:
        """Give the grants of a user with a token."""
        plain = _PLAIN_USER.match(user) is not None
        return tuple(
            msgspec.structs.replace(grant, pattern=grant.pattern.replace("{sub}", user))
            for grant in self.users
            if plain or "{sub}" not in grant.pattern
        )


def grants_of_text(text: str) -> tuple[Grant, ...]:
    """Read the grants of a setting: patterns between spaces, perhaps with verbs, ``chat:{sub} news:*=read,history``.

    Raises:
        GrantError: A verb is none.

    """
    grants = []
    for item in text.split():
        pattern, has_verbs, words = item.partition("=")
        grants.append(Grant(pattern=pattern, verbs=_verbs(words.split(","), strict=True) if has_verbs else READER))
    return tuple(grants)


def grants_of_caps(caps: object, *, strict: bool) -> tuple[Grant, ...]:
    """Read the grants of a token's ``caps``, or of a file of the same form.

    Args:
        caps: ``[{"channels": […], "match"?: "wildcard" | "regex", "allow": […], "redact"?: …}]``.
        strict: Whether a verb that is none is an error; else it allows nothing.

    Raises:
        GrantError: They have another form.

    """
    if not isinstance(caps, list):
        raise GrantError("expected `caps` to be a list")
    grants: list[Grant] = []
    for cap in caps:
        if not isinstance(cap, dict):
            raise GrantError("expected each of `caps` to be an object")
        match = _MATCHES.get(cap.get("match") or "") if isinstance(cap.get("match", ""), str) else None
        if match is None:
            raise GrantError(f"expected `match` to be wildcard or regex, got {cap.get('match')!r:.40}")
        verbs = _verbs(_texts(cap.get("allow", []), "allow"), strict=strict)
        redaction = _redaction(cap)
        for pattern in _texts(cap.get("channels", []), "channels"):
            if match == "regex":
                _check_regex(pattern)
            grants.append(
                Grant(pattern=pattern, match=match, verbs=verbs, redaction=redaction)  # type: ignore[arg-type]  # of _MATCHES
            )
    if len(grants) > MAX_GRANTS:
        raise GrantError(f"expected at most {MAX_GRANTS} patterns, got {len(grants)}")
    return tuple(grants)


def _redaction(fields: Mapping[str, Any]) -> Redaction | None:
    try:
        return Redaction.read(fields.get("redact"))
    except ValueError as error:
        raise GrantError(f"`redact`: {error}") from error


def _check_regex(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise GrantError(f"{pattern!r:.80} is no regular expression") from error


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise GrantError(f"expected `{name}` to be a list of texts")
    return value


def _verbs(words: Iterable[str], *, strict: bool) -> tuple[str, ...]:
    words = list(words)
    unknown = [word for word in words if word not in _WORDS]
    if unknown and strict:
        raise GrantError(f"expected verbs of {', '.join(sorted(_WORDS))}, got {unknown[0]!r:.40}")
    return tuple(sorted({verb for word in words for verb in _WORDS.get(word, ())}))


def identity_of(claims: Mapping[str, Any], rules: Rules) -> Identity:
    """Give who bears a connection token, and what they may do.

    The token's ``caps`` come first, then its ``channels``, which may be read, then what the settings let every user do.

    Raises:
        CommandError: 101, a claim has another form.

    """
    user = _user(claims)
    try:
        caps = grants_of_caps(claims.get("caps") or [], strict=False)
        channels = _texts(claims.get("channels") or [], "channels")
    except GrantError as error:
        raise invalid(str(error)) from error
    if len(channels) > MAX_GRANTS:
        raise invalid(f"expected at most {MAX_GRANTS} channels, got {len(channels)}")
    named = tuple(Grant(pattern=channel, match="exact", verbs=_WORDS["sub"]) for channel in channels)
    return Identity(
        user=user,
        info=_info(claims),
        issued_at=_time(claims, "iat"),
        expires_at=_time(claims, "exp"),
        grants=(*caps, *named, *(rules.of(user) if user else rules.anonymous)),
        channels=tuple(dict.fromkeys(channels)),
    )


def subscribed(identity: Identity, topic: Topic, claims: Mapping[str, Any], *, client: str) -> Identity:
    """Give what a caller may do with a subscription token on its topic, beside what it may do anyway.

    Args:
        identity: The caller, by its connection.
        topic: What it subscribes to.
        claims: Of the subscription token.
        client: The connection's id, which the token may name.

    Raises:
        CommandError: 103, the token is another user's, connection's or topic's; 101, a claim has another form.

    """
    if claims.get("channel") != topic or _user(claims) != identity.user or claims.get("client", client) != client:
        deny()
    try:
        allowed = _texts(claims.get("allow") or [], "allow")
        caps = grants_of_caps(claims.get("caps") or [], strict=False)
        redaction = _redaction(claims)
    except GrantError as error:
        raise invalid(str(error)) from error
    own = next((grant for grant in caps if grant.covers(topic)), None)
    verbs = {*_WORDS["sub"], *_verbs(allowed, strict=False), *identity.verbs(topic), *(own.verbs if own else ())}
    if "redact" not in claims:
        redaction = identity.redaction(topic) if own is None else own.redaction
    grant = Grant(pattern=topic, match="exact", verbs=tuple(sorted(verbs)), redaction=redaction)
    return Identity(
        user=identity.user,
        info=_info(claims),
        issued_at=_time(claims, "iat"),
        expires_at=_time(claims, "exp"),
        grants=(grant, *identity.grants),
    )


def check_depth(value: object) -> None:
    """Go on only with a header, or claims, of at most `MAX_DEPTH` levels.

    Raises:
        CommandError: 101, there are more.

    """
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise invalid(f"expected at most {MAX_DEPTH} levels of nesting")


def invalid(reason: str) -> CommandError:
    """Make the error of a token that is none."""
    return CommandError(ErrorCode.UNAUTHORIZED, f"invalid token: {reason}")


def _user(claims: Mapping[str, Any]) -> str:
    user = claims.get("sub", "")
    if not isinstance(user, str) or len(user) > MAX_USER or _CONTROL.search(user):
        raise invalid(f"expected `sub` to be a text of at most {MAX_USER} characters, none of them a control character")
    return user


def _info(claims: Mapping[str, Any]) -> Any:
    """Take what presence shows, which must be what JSON can say."""
    info = claims.get("info")
    try:
        msgspec.json.decode(msgspec.json.encode(info))
    except (OverflowError, RecursionError, ValueError, msgspec.MsgspecError) as error:
        raise invalid("expected `info` to be JSON in which every text is Unicode") from error
    return info


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**53:  # nor is NaN
        raise invalid(f"expected `{name}` to be a number of seconds")
    return float(value)
