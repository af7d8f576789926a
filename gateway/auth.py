"""Who a caller is: tokens and API keys, checked (PROTOCOL.md 12)."""

import hmac
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jwt
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.errors import CommandError, ErrorCode
from gateway.grants import EVERYTHING, Identity
from gateway.keys import Keyring, KeySetError
from gateway.settings import Settings, SettingsError
from gateway.tokens import (
    GrantError,
    Rules,
    check_depth,
    grants_of_caps,
    grants_of_text,
    identity_of,
    invalid,
    subscribed,
)
from gateway.types import Topic

__all__ = ["MAX_TOKEN", "Authority", "TokenGate", "listed", "refuse"]

MAX_TOKEN = 16 * 1024
"""Bytes of the longest token that is looked at."""

API_KEY_LENGTH = 16
"""Characters of the shortest API key that is taken."""

QUERY_NAMES = frozenset({"access_token", "api_key", "apikey", "authorization", "cf_connect", "jwt", "token"})
"""Where tokens are found in addresses, in small letters."""


class Authority:
    """Knows callers by their tokens and API keys.

    Where no keys are configured everybody may do everything: `serve` then listens on loopback only.

    Args:
        settings: Their keys, and the grants of everybody.

    Raises:
        SettingsError: A key or a grant of the settings has another form.

    """

    def __init__(self, settings: Settings) -> None:
        self._keyring = Keyring(
            secrets=listed(settings.token_secrets),
            public_keys=listed(settings.token_public_keys),
            key_set=settings.token_jwks,
        )
        self._api_keys = [key.encode() for key in listed(settings.api_keys)]
        if not settings.keyless and not self._keyring and not self._api_keys:
            raise SettingsError("GATEWAY_TOKEN_SECRETS, GATEWAY_API_KEYS: expected keys, got nothing but commas")
        for number, key in enumerate(self._api_keys, 1):
            if len(key) < API_KEY_LENGTH:
                raise SettingsError(
                    f"GATEWAY_API_KEYS: number {number}: expected {API_KEY_LENGTH} characters or more, got {len(key)}"
                )
        self._audience = settings.token_audience or None
        self._issuer = settings.token_issuer or None
        self._leeway = settings.token_leeway
        self._rules = _rules(settings)
        self.revoked: Callable[[str, float | None], object | None] = lambda _user, _issued_at: None
        """Tells whether the tokens of a user that were made before a time count no more; the application sets it."""
        self.counted: Callable[[Scope, str], object] = lambda _scope, _user: None
        """Counts a request, by scope and user ("" for none), or raises `CommandError` 111; the admission sets it."""
        self.open: bool = settings.keyless
        """Whether everybody may do everything, as no keys are configured."""

    def knows(self, token: str | None) -> bool:
        """Say whether a token can be checked at once, without `ready`."""
        if not token or self.open:
            return True
        try:
            return self._keyring.knows(_header(token)[1])
        except CommandError:
            return True  # no token at all, as the check will say

    async def ready(self, token: str | None) -> None:
        """Have the key that a token names, where it may have to be fetched; call it before the token is checked.

        Raises:
            CommandError: 100, temporary: the keys cannot be fetched now.

        """
        if not token or self.open:
            return
        try:
            await self._keyring.ready(_header(token)[1])
        except KeySetError as error:
            raise CommandError(ErrorCode.INTERNAL, f"{error}; try again", temporary=True) from error
        except CommandError:
            return  # no token at all, as the check will say

    def connect(self, token: str | None) -> Identity:
        """Give who connects.

        Args:
            token: A connection token; None or "" for who has none.

        Raises:
            CommandError: 101 no such token, or none where one is needed; 109 it has expired.

        """
        if self.open:
            return EVERYTHING
        if token:
            claims = self._claims(token)
            if "channel" in claims:
                raise invalid("it is for the subscription to one topic")
            identity = identity_of(claims, self._rules)
            if self.revoked(identity.user, identity.issued_at) is not None:
                raise invalid("it was revoked")
            return identity
        if not self._rules.anonymous:
            raise CommandError(ErrorCode.UNAUTHORIZED, "a token is needed here")
        return Identity(grants=self._rules.anonymous)

    def subscription(self, identity: Identity, topic: Topic, token: str, *, client: str = "") -> Identity:
        """Give what a caller may do on a topic with a subscription token.

        Args:
            identity: The caller, by its connection.
            topic: The topic it subscribes to.
            token: The subscription token.
            client: The connection's id.

        Raises:
            CommandError: 101 no such token, 103 it is for another user, connection or topic, 109 it has expired.

        """
        claims = self.subscription_claims(token)
        return identity if claims is None else subscribed(identity, topic, claims, client=client)

    def subscription_claims(self, token: str) -> Mapping[str, Any] | None:
        """Give what a subscription token says, for `subscribed`; None where tokens are not looked at.

        Raises:
            CommandError: 101 no such token, 109 it has expired.

        """
        return None if self.open else self._claims(token)

    def http(self, request: HTTPConnection) -> Identity:
        """Give who asks over HTTP: ``Authorization: Bearer <token>``, or an API key in ``X-API-Key``.

        Who has an API key is not counted; who has wrong credentials is, by address.

        Raises:
            CommandError: As `connect`; 111, too many requests.

        """
        if self.open:
            return EVERYTHING
        try:
            key, token = _credentials(request.headers)
            if key:
                self._check_api_key(key)
                return EVERYTHING
            identity = self.connect(token)
        except CommandError:
            self.counted(request.scope, "")
            raise
        self.counted(request.scope, identity.user)
        return identity

    def api(self, request: HTTPConnection) -> None:
        """Go on only for who has an API key, where keys are configured.

        Raises:
            CommandError: 101, without one; 111, too many requests without one.

        """
        if self.open:
            return
        try:
            self._check_api_key(_credentials(request.headers)[0])
        except CommandError:
            self.counted(request.scope, "")
            raise

    def websocket(self, scope: Scope) -> bool:
        """Say whether the handshake of a websocket has an API key.

        Raises:
            CommandError: 101, it has one that is none; 111, too many of those.

        """
        connection = HTTPConnection(scope)
        if self.open or "x-api-key" not in connection.headers:
            return False
        self.api(connection)
        return True

    def check(self, identity: Identity) -> None:
        """Go on only while what was found out about a caller still holds.

        Raises:
            CommandError: 101 the user was revoked since, 109 the token has expired.

        """
        if self.revoked(identity.user, identity.issued_at) is not None:
            raise invalid("it was revoked")
        if identity.expires_at is not None and time.time() >= identity.expires_at + self._leeway:
            raise CommandError(ErrorCode.TOKEN_EXPIRED, "the token has expired")

    async def aclose(self) -> None:
        """Wait for what is under way."""
        await self._keyring.aclose()

    def _check_api_key(self, key: str) -> None:
        given = key.encode("latin-1")  # as headers are read
        # All of them, whatever matches: the time tells nothing.
        matches = [hmac.compare_digest(given, known) for known in self._api_keys]
        if not any(matches):
            raise CommandError(ErrorCode.UNAUTHORIZED, "an API key is needed here" if not key else "invalid API key")

    def _claims(self, token: str) -> Mapping[str, Any]:
        algorithm, kid = _header(token)
        for key in self._keyring.candidates(algorithm=algorithm, id=kid):
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key.value,
                    algorithms=list(key.algorithms),
                    audience=self._audience,
                    issuer=self._issuer,
                    leeway=self._leeway,
                    options={"verify_aud": self._audience is not None, "verify_iss": self._issuer is not None},
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError as error:
                raise CommandError(ErrorCode.TOKEN_EXPIRED, "the token has expired") from error
            except jwt.InvalidAudienceError as error:
                raise invalid("it is for another audience") from error
            except (jwt.InvalidIssuerError, jwt.MissingRequiredClaimError) as error:
                raise invalid("it lacks a claim, or is from another issuer") from error
            except jwt.ImmatureSignatureError as error:
                raise invalid("it is not valid yet") from error
            except (jwt.PyJWTError, OverflowError, ValueError) as error:
                raise invalid("a claim or a header has another form") from error
            else:
                check_depth(claims)
                return claims
        raise invalid("no key is known that it is signed with")


def listed(text: str) -> list[str]:
    """Give the items of a setting that are separated by commas."""
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _header(token: str) -> tuple[str, str | None]:
    """Read what a token says it is signed with, which decides nothing but which keys are tried."""
    if len(token) > MAX_TOKEN or not token.isascii():
        raise invalid(f"expected at most {MAX_TOKEN} ASCII characters")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise invalid("it is no JWT") from error
    check_depth(header)
    algorithm, kid = header.get("alg"), header.get("kid")
    return algorithm if isinstance(algorithm, str) else "", kid if isinstance(kid, str) else None


def _credentials(headers: Headers) -> tuple[str, str]:
    """Give the API key and the token of a request, "" where it has none."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    key = headers.get("x-api-key", "")
    match scheme.lower():
        case "":
            return key, ""
        case "bearer":
            return key, value.strip()
        case "apikey":
            return key or value.strip(), ""
        case _:
            raise CommandError(ErrorCode.UNAUTHORIZED, "expected Authorization: Bearer <token>, or X-API-Key")


def _rules(settings: Settings) -> Rules:
    found: dict[str, tuple[Any, ...]] = {}
    for name in ("users", "anonymous"):
        setting = "user_grants" if name == "users" else "anonymous_grants"
        try:
            found[name] = grants_of_text(getattr(settings, setting))
        except GrantError as error:
            raise SettingsError(f"GATEWAY_{setting.upper()}: {error}") from error
    if settings.grants_file:
        try:
            text = json.loads(Path(settings.grants_file).read_bytes())
            if not isinstance(text, dict) or not text.keys() <= found.keys():
                raise GrantError('expected {"users": […], "anonymous": […]}')
            for name, caps in text.items():
                found[name] = (*grants_of_caps(_wild(caps), strict=True), *found[name])
        except (OSError, ValueError) as error:
            raise SettingsError(f"GATEWAY_GRANTS_FILE: {settings.grants_file}: {error}") from error
    return Rules(**found)


def _wild(caps: object) -> object:
    """Read patterns of the settings as patterns, where they do not say how they are meant."""
    if not isinstance(caps, list):
        return caps
    return [{"match": "wildcard", **cap} if isinstance(cap, dict) else cap for cap in caps]


class TokenGate:
    """Refuses tokens in addresses, which end up in logs, and fetches the keys that tokens of requests name.

    Args:
        app: What is guarded.
        authority: Who knows the keys.

    """

    def __init__(self, app: ASGIApp, *, authority: Authority) -> None:
        self.app: ASGIApp = app
        self._authority = authority

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or connection, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        query = scope.get("query_string", b"").decode("latin-1")
        if any(name.lower() in QUERY_NAMES for name, _ in parse_qsl(query, keep_blank_values=True)):
            reason = "a token in an address ends up in logs; send it in the connect command or as Authorization: Bearer"
            await refuse(scope, receive, send, status=400, error=CommandError(ErrorCode.BAD_REQUEST, reason))
            return
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        if scope["type"] == "http" and scheme.lower() == "bearer":
            try:
                await self._authority.ready(token.strip())
            except CommandError as error:
                await refuse(scope, receive, send, status=503, error=error)
                return
        await self.app(scope, receive, send)


async def refuse(scope: Scope, receive: Receive, send: Send, *, status: int, error: CommandError) -> None:
    """Answer a request, or the handshake of a websocket, with a status and the error as JSON."""
    response = JSONResponse({"error": {"code": int(error.code), "message": error.message}}, status_code=status)
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": error.message[:100]})
        return
    await send({"type": "websocket.http.response.start", "status": status, "headers": response.raw_headers})
    await send({"type": "websocket.http.response.body", "body": response.body})
