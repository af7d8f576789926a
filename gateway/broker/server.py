"""Where a Redis server is, how it is entered, and what is said to it."""

import asyncio
import math
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import hiredis
from redis.asyncio.connection import RedisSSLContext, parse_url

from gateway.broker.outage import Outage
from gateway.errors import BrokerUnavailableError
from gateway.measures import SHORT, Histogram

if TYPE_CHECKING:
    from gateway.broker.wire import Wire

__all__ = ["Argument", "ProtocolT", "Server", "packed"]

Argument = str | bytes | int
ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)


def packed(*command: Argument) -> bytes:
    """Encode a command as the server reads it."""
    data: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub allows one argument only
    return data


class Server:
    """Where a server is, and how to enter it.

    Args:
        url: ``redis://``, ``rediss://`` (TLS) or ``unix://``, with ``db`` and ``ssl_*`` in its query.
        timeout: Seconds that a connection may take, and a call.
        name: For messages; "" is the address without its secrets.
        whole: What counts for all servers of a cluster; None where it is alone.

    Raises:
        ValueError: The URL has another form.

    """

    def __init__(self, url: str, *, timeout: float, name: str = "", whole: "Server | None" = None) -> None:
        options: dict[str, Any] = dict(parse_url(url))
        self.timeout = timeout
        self.path: str | None = options.get("path")
        self.host: str = options.get("host", "localhost")
        self.port: int = options.get("port", 6379)
        self.name: str = name or self.path or f"{self.host}:{self.port}"
        """For messages."""
        self.whole: Server = whole or self
        """Where connections and calls are counted."""
        self.cluster = whole is not None
        """Whether it is one of a cluster's."""
        self.checked = self.cluster
        """Whether a connection that only hears has to ask first whether the server is a master."""
        self.outage = Outage.of(self.name)
        """Where to say that the server is away, and back."""
        self.greeting: list[tuple[Argument, ...]] = []
        """The commands that open every connection, answered ``OK`` each."""
        password, user = options.get("password"), options.get("username")
        if password is not None:
            self.greeting.append(("AUTH", user, password) if user else ("AUTH", password))
        if database := int(options.get("db", 0)):
            self.greeting.append(("SELECT", database))
        self.wires: set[Wire] = set()
        """The open ones."""
        self.steady_since = math.inf
        """Loop time since which no wire was lost and no answer late; infinite until the next wire is up."""
        self.latency: Histogram = Histogram(SHORT)
        """Seconds from a command to its answer."""
        self.connects = 0
        """How often a connection was made to it that was let in."""
        self._tls = _tls(options) if url.startswith("rediss:") else None

    @property
    def place(self) -> tuple[str, int]:
        """Host and port, as of the last connect."""
        return self.host, self.port

    async def stands(self, place: tuple[str, int]) -> bool:
        """Tell whether the server is still to be found where it was."""
        return True

    async def open(self, factory: Callable[[], ProtocolT]) -> ProtocolT:
        """Connect a protocol.

        Raises:
            BrokerUnavailableError: Nobody answers there in time.

        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.timeout):
                if self.path is not None:
                    _, protocol = await loop.create_unix_connection(factory, self.path)
                else:
                    _, protocol = await loop.create_connection(factory, self.host, self.port, ssl=self._tls)
        except OSError as error:  # TimeoutError and ssl.SSLError are such
            why = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
            raise BrokerUnavailableError(f"cannot connect to Redis at {self.name}: {why}", told=True) from error
        return protocol


def _tls(options: dict[str, Any]) -> ssl.SSLContext:
    context: ssl.SSLContext = RedisSSLContext(
        keyfile=options.get("ssl_keyfile"),
        certfile=options.get("ssl_certfile"),
        cert_reqs=options.get("ssl_cert_reqs", "required"),
        ca_certs=options.get("ssl_ca_certs"),
        ca_path=options.get("ssl_ca_path"),
        check_hostname=options.get("ssl_check_hostname", True),
        password=options.get("ssl_password"),
    ).get()
    return context
