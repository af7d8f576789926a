"""Who may come into a gateway process, how much each may use of it, and when they must have gone again."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from gateway.addresses import Proxies
from gateway.auth import Authority, listed
from gateway.errors import CommandError, DisconnectCode, DisconnectError, ErrorCode
from gateway.expiry import Expiries
from gateway.grants import EVERYTHING, Grant, Identity
from gateway.limits import Limits
from gateway.settings import Settings
from gateway.tokens import subscribed
from gateway.types import Topic

__all__ = ["Admission", "Credentials", "Expiring", "lasting"]

_WHOLE = Topic("")
"""Stands for the whole connection beside its topics."""

_NOBODY = Identity()

_Checked = TypeVar("_Checked")


class Expiring(Protocol):
    """A connection whose tokens run out."""

    client: str

    def expired(self, topic: Topic | None) -> None:
        """End a subscription whose token, and the grace, have run out; None: the whole connection."""


class Admission:
    """What all connections of a process share about being let in.

    Args:
        settings: The limits, the grace, the proxies.
        authority: Who knows callers.

    Raises:
        SettingsError: A proxy's network is none.

    """

    def __init__(self, settings: Settings, authority: Authority) -> None:
        self.authority: Authority = authority
        self.limits = Limits(settings)
        self._proxies = Proxies(listed(settings.trusted_proxies))
        self._grace = settings.token_grace
        self._leeway = settings.token_leeway
        self._expiries: Expiries[tuple[str, Topic]] = Expiries()
        self._expiring: dict[str, Expiring] = {}
        authority.counted = self._count

    def address(self, scope: Any) -> str:
        """Give the address of who makes a request or a connection."""
        peer = (scope.get("client") or ("",))[0]
        forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return self._proxies.client(peer, forwarded)

    @contextlib.contextmanager
    def reading(self, scope: Any, user: str) -> Iterator[None]:
        """Count a response that may last, as a connection of its user and address that reads one topic.

        Raises:
            CommandError: 111, there are too many.

        """
        address = self.address(scope)
        with contextlib.ExitStack() as stack:
            for tally, who, whose in (
                (self.limits.connections_of_address, address, "connections from this address"),
                (self.limits.connections_of_user, user, "connections of this user"),
                (self.limits.topics_of_user, user, "topics of this user"),
            ):
                if not tally.take(who):
                    raise CommandError(ErrorCode.TOO_MANY_REQUESTS, f"too many {whose}")
                stack.callback(tally.give_back, who)
            yield

    def _count(self, scope: Any, user: str) -> None:
        # An address is no user's id: that has no control characters.
        if not self.limits.requests.take(user or f"\0{self.address(scope)}", time.monotonic()):
            raise CommandError(ErrorCode.TOO_MANY_REQUESTS, "too many requests", temporary=True)

    def expire(self, connection: Expiring, topic: Topic, at: float | None) -> None:
        """Have a connection told when a token has run out and the grace too; None for never."""
        key = connection.client, topic
        if at is not None:
            self._expiring[connection.client] = connection
        elif connection.client not in self._expiring:
            return
        self._expiries.set(key, None if at is None else at + self._grace)

    def end_at(self, connection: Expiring, at: float | None) -> None:
        """Have what cannot bring a fresh token told in the second in which its own runs out; None for never."""
        if at is not None:
            self._expiring[connection.client] = connection
            self._expiries.set((connection.client, _WHOLE), at + self._leeway)

    def forget(self, connection: Expiring, topics: Iterable[Topic]) -> None:
        """Let go of a connection and its topics."""
        if self._expiring.pop(connection.client, None) is not None:
            for topic in (_WHOLE, *topics):
                self._expiries.set((connection.client, topic), None)

    def turn(self) -> None:
        """End what has expired; call it at least once a second."""
        for client, topic in self._expiries.take(time.time()):
            connection = self._expiring.get(client)
            if connection is not None:
                connection.expired(topic or None)


class Credentials:
    """Who one connection is, by the token that it brought and those of its topics."""

    __slots__ = ("_admission", "_claims", "_connection", "_counted", "_held", "_topics", "_trusted", "identity")

    def __init__(self, admission: Admission, connection: Expiring, *, trusted: bool = False) -> None:
        """Begin as nobody, who may nothing; `trusted`: by an API key, may do everything without a token."""
        self.identity: Identity = _NOBODY
        self._trusted = trusted
        self._admission = admission
        self._connection = connection
        self._counted: bool = False  # among the user's connections
        self._held: int = 0  # topics, counted among the user's
        self._topics: dict[Topic, Identity] = {}  # by subscription tokens
        self._claims: dict[Topic, Mapping[str, Any]] = {}  # of those tokens

    def connect(self, token: str | None) -> None:
        """Become who a connection token says.

        Raises:
            CommandError: 101 a token is needed, 109 it has expired.
            DisconnectError: 3500 the token is none, 3504 the user has too many connections.

        """
        identity = self._checked(token)
        if not self._admission.limits.connections_of_user.take(identity.user):
            raise DisconnectError(DisconnectCode.CONNECTION_LIMIT, "too many connections of this user")
        self._counted = True
        self._become(identity)

    def disconnect(self) -> None:
        """Be nobody again: the connect command comes to nothing."""
        self.close()
        self.identity = _NOBODY

    def refresh(self, token: str | None) -> None:
        """Go on as the same user with a fresh token.

        Raises:
            CommandError: 109, temporary: it has expired already; 107 there is none; 108 no tokens are asked for.
            DisconnectError: 3500 the token is none, or another user's.

        """
        self._check_refresh(token)
        identity = _in_place(self._checked, token)
        if identity.user != self.identity.user:
            raise DisconnectError(DisconnectCode.INVALID_TOKEN, "the fresh token is another user's")
        self._become(identity)

    def subscribe(self, topic: Topic, token: str | None) -> Identity:
        """Give what may be done on a topic that is subscribed to from now on.

        Raises:
            CommandError: 103 it may not be read, the token is none or of something else; 109 it has expired;
                106 the user has too many topics.

        """
        identity, claims = self.identity, None
        if token:
            try:
                identity, claims = self._subscribed(topic, token)
            except CommandError as error:
                if error.code != ErrorCode.UNAUTHORIZED:
                    raise
                raise CommandError(ErrorCode.PERMISSION_DENIED, error.message) from error
        identity.require("read", topic)
        if not self._admission.limits.topics_of_user.take(self.identity.user):
            raise CommandError(ErrorCode.LIMIT_EXCEEDED, "too many topics of this user")
        self._held += 1
        if claims is not None:
            self._topics[topic] = identity
            self._claims[topic] = claims
            self._admission.expire(self._connection, topic, identity.expires_at)
        return identity

    def refresh_topic(self, topic: Topic, token: str | None) -> Identity:
        """Go on reading a topic with a fresh subscription token; raises as `subscribe`, and as `refresh` does."""
        self._check_refresh(token)
        if topic not in self._topics:
            raise CommandError(ErrorCode.BAD_REQUEST, "the subscription has no token that could be refreshed")
        identity, claims = _in_place(lambda fresh: self._subscribed(topic, fresh or ""), token)
        self._topics[topic] = identity
        if claims is not None:
            self._claims[topic] = claims
        self._admission.expire(self._connection, topic, identity.expires_at)
        return identity

    def unsubscribe(self, topic: Topic) -> None:
        """Give back what `subscribe` gave for a topic; after `close` there is nothing to give back."""
        if self._held:
            self._held -= 1
            self._admission.limits.topics_of_user.give_back(self.identity.user)
        self._claims.pop(topic, None)
        if self._topics.pop(topic, None) is not None:
            self._admission.expire(self._connection, topic, None)

    def of(self, topic: Topic) -> Identity:
        """Give what may be done on a topic."""
        return self._topics.get(topic, self.identity)

    @property
    def whole(self) -> Identity:
        """What may be done on all topics, those with tokens of their own first."""
        if not self._topics:
            return self.identity
        own: list[Grant] = [identity.grants[0] for identity in self._topics.values()]
        return Identity(
            user=self.identity.user,
            info=self.identity.info,
            expires_at=self.identity.expires_at,
            grants=(*own, *self.identity.grants),
        )

    def close(self) -> None:
        """Let go of everything."""
        self._admission.forget(self._connection, list(self._topics))
        self._topics.clear()
        self._claims.clear()
        limits = self._admission.limits
        limits.topics_of_user.give_back(self.identity.user, self._held)
        self._held = 0
        if self._counted:
            self._counted = False
            limits.connections_of_user.give_back(self.identity.user)

    def _become(self, identity: Identity) -> None:
        self.identity = identity
        self._admission.expire(self._connection, _WHOLE, identity.expires_at)
        for topic, claims in self._claims.items():
            self._topics[topic] = subscribed(identity, topic, claims, client=self._connection.client)

    def _subscribed(self, topic: Topic, token: str) -> tuple[Identity, Mapping[str, Any] | None]:
        claims = self._admission.authority.subscription_claims(token)
        if claims is None:
            return self.identity, None
        return subscribed(self.identity, topic, claims, client=self._connection.client), claims

    def _checked(self, token: str | None) -> Identity:
        if self._trusted and not token:
            return EVERYTHING
        try:
            return self._admission.authority.connect(token)
        except CommandError as error:
            if not token or error.code != ErrorCode.UNAUTHORIZED:
                raise
            raise DisconnectError(DisconnectCode.INVALID_TOKEN, error.message) from error

    def _check_refresh(self, token: str | None) -> None:
        if self._admission.authority.open:
            raise CommandError(ErrorCode.NOT_AVAILABLE, "this gateway asks for no tokens")
        if not token:
            raise CommandError(ErrorCode.BAD_REQUEST, "expected a fresh `token`")


def _in_place(check: Callable[[str | None], _Checked], token: str | None) -> _Checked:
    """Check a fresh token: one that has expired already is no reason for a client to give up."""
    try:
        return check(token)
    except CommandError as error:
        if error.code == ErrorCode.TOKEN_EXPIRED:
            raise CommandError(error.code, error.message, temporary=True) from error
        raise


def lasting(identity: Identity) -> dict[str, Any]:
    """Give what replies tell about the end of a token: when the client should bring a fresh one."""
    if identity.expires_at is None:
        return {}
    return {"expires": True, "ttl": max(1, math.ceil(identity.expires_at - time.time()))}
