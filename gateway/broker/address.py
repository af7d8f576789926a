"""Where the store is: one server, one behind sentinels, or a cluster."""

from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

__all__ = ["FORMS", "Address"]

FORMS = (
    "redis://[user:password@]host[:port][/db], rediss:// (TLS) or unix:// of one server; "
    "redis+sentinel://[user:password@]host[:port],host[:port]/service[/db] of one behind sentinels; "
    "redis+cluster://[user:password@]host[:port],host[:port] of a cluster; both also with rediss+"
)
"""The forms of a URL, for help and errors."""

_PORTS = {"server": 6379, "sentinel": 26379, "cluster": 6379}
_SENTINELS = {"sentinel_username", "sentinel_password"}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A URL taken apart.

    Attributes:
        kind: What stands there.
        places: Host and port of the server, of the sentinels, or of some of the cluster's nodes; none of a unix socket.
        service: The master's name among its sentinels; "" elsewhere.
        url: Of the server; with sentinels and in a cluster without a host, see `at`.
        entry: User and password of the sentinels themselves, as they stand in a URL before the @; "" for none.

    """

    kind: Literal["server", "sentinel", "cluster"]
    places: tuple[tuple[str, int], ...]
    service: str
    url: str
    entry: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """Take a URL apart.

        Raises:
            ValueError: It has another form; the message leaves the URL out, which may hold a password.

        """
        from redis.asyncio.connection import parse_url  # noqa: PLC0415  # commands that only read need no client of Redis

        try:
            found = cls._of(url)
            for place in found.places or [("localhost", 6379)]:
                parse_url(found.at(*place))
        except (ValueError, TypeError) as error:
            raise ValueError(f"expected the Redis URL to be like {FORMS}") from error
        return found

    @classmethod
    def _of(cls, url: str) -> "Address":
        parts = urlsplit(url)
        scheme, _, kind = parts.scheme.partition("+")
        if scheme not in {"redis", "rediss", "unix"} or kind not in {"", "sentinel", "cluster"}:
            raise ValueError(scheme)
        if not kind:
            if parts.port == 0:
                raise ValueError("port 0")
            return cls(kind="server", places=(), service="", url=url, entry="")
        if scheme == "unix":
            raise ValueError(scheme)
        user, _, hosts = parts.netloc.rpartition("@")
        places = tuple(_place(host, default=_PORTS[kind]) for host in hosts.split(","))
        query = dict(parse_qsl(parts.query))
        service, path = "", parts.path
        if kind == "sentinel":
            service, _, database = path.removeprefix("/").partition("/")
            service, path = unquote(service), f"/{database}"
            if not service or not (database.isdecimal() or not database):
                raise ValueError("a service, then perhaps a database")
        elif path not in {"", "/", "/0"} or query.get("db", "0") != "0":
            raise ValueError("a cluster has one database")
        name, password = query.get("sentinel_username", ""), query.get("sentinel_password")
        rest = urlencode({key: value for key, value in query.items() if key not in _SENTINELS})
        return cls(
            kind="sentinel" if kind == "sentinel" else "cluster",
            places=places,
            service=service,
            url=f"{scheme}://{f'{user}@' if user else ''}{{place}}{path}{f'?{rest}' if rest else ''}",
            entry="" if password is None else f"{quote(name, safe='')}:{quote(password, safe='')}@",
        )

    @property
    def name(self) -> str:
        """The address as it may be shown: without users and passwords."""
        places = ",".join(f"{host}:{port}" for host, port in self.places)
        return f"{self.service} of the sentinels {places}" if self.service else places

    def at(self, host: str, port: int) -> str:
        """Give the URL of one of its servers."""
        return self.url.replace("{place}", f"{f'[{host}]' if ':' in host else host}:{port}", 1)

    def sentinels(self) -> list[str]:
        """Give the URLs of the sentinels."""
        parts = urlsplit(self.url)
        return [
            parts._replace(netloc=f"{self.entry}{f'[{host}]' if ':' in host else host}:{port}", path="").geturl()
            for host, port in self.places
        ]


def _place(text: str, *, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port == 0:
        raise ValueError("a host")
    return parts.hostname, parts.port or default
