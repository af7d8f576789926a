"""Which web pages may talk to a gateway: by default its own only.

A browser lets every page open websockets to every address, those of the user's own machine included, and says only
whose page it is (RFC 6455, 10.2). A name that is made to point at this machine (DNS rebinding) makes a foreign page
look like our own, so a gateway that listens on loopback also looks at the name it was called by.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.errors import ErrorCode
from gateway.settings import SettingsError

__all__ = ["OriginGuard", "is_loopback", "origins_of"]


_FOREIGN = frozenset({"cross-site", "same-site"})
"""What browsers say of requests for other origins than the page's (Fetch Metadata, `Sec-Fetch-Site`)."""


class OriginGuard:
    """Refuses, with 403, what comes from a page of another origin.

    Args:
        app: What is guarded.
        host: The address that is listened on.
        allowed: Other origins whose pages may talk to us, as ``https://example.com``; ``*`` lets all in.

    """

    def __init__(self, app: ASGIApp, *, host: str, allowed: Iterable[str]) -> None:
        self.app: ASGIApp = app
        self._origins = {origin.rstrip("/").lower() for origin in allowed}
        self._anywhere = "*" in self._origins
        self._loopback = is_loopback(host)
        self._hosts = {_authority(origin) for origin in self._origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or connection, or refuse it."""
        reason = "" if scope["type"] == "lifespan" or self._anywhere else self._objection(Headers(scope=scope), scope)
        if not reason:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": reason})
        else:
            error = {"error": {"code": int(ErrorCode.PERMISSION_DENIED), "message": reason}}
            await JSONResponse(error, status_code=403)(scope, receive, send)

    def _objection(self, headers: Headers, scope: Scope) -> str:
        if len(headers.getlist("host")) > 1:
            return "a request is for one Host"
        host = headers.get("host", "").lower()
        if self._loopback and host not in self._hosts and not is_loopback(_name(host)):
            return f"this gateway listens on loopback and was called {host[:80]!r}; --allowed-origins can name it"
        origin = headers.get("origin", "").lower()
        if origin and origin not in self._origins and not (host and _authority(origin) == host):
            return f"pages of {origin[:80]} may not talk to {host[:80]}; --allowed-origins can let them"
        # Images, scripts and such come without an Origin; links that are followed may come from anywhere.
        embedded = not origin and headers.get("sec-fetch-site", "") in _FOREIGN
        if embedded and (headers.get("sec-fetch-mode") != "navigate" or scope.get("method") not in {"GET", "HEAD"}):
            return f"pages of another site may not embed what {host[:80]} has"
        return ""


def origins_of(setting: str) -> frozenset[str]:
    """Read origins that are separated by commas.

    Raises:
        SettingsError: One is neither ``*`` nor of the form ``https://example.com``.

    """
    found = frozenset(origin for origin in (part.strip() for part in setting.split(",")) if origin)
    for origin in found:
        if origin != "*" and not _authority(origin):
            raise SettingsError(
                f"GATEWAY_ALLOWED_ORIGINS: expected origins such as https://example.com, or *, got {origin[:80]!r}"
            )
    return found


def _authority(origin: str) -> str:
    """Give the host and port of an origin; "" where it has none, as ``null``, or is no origin at all."""
    try:
        return urlsplit(origin).netloc
    except ValueError:  # `http://[::1`
        return ""


def _name(host: str) -> str:
    """Give the name in a Host header, without its port; "" where there is none."""
    try:
        return "" if "@" in host else urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Say whether an address is one that only this machine reaches."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
