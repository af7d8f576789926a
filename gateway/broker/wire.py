"""A connection to one Redis server, for many callers at once.

redis-py is used for its URLs only: it repeats a packed command on a new connection, where the server id inside the
command may no longer be true, and it takes one connection for every call in flight (STORE.md 2 and 3).
"""

import asyncio
import logging
import math
import re
import time
from collections import deque
from typing import Any, cast

import hiredis

from gateway.broker.scripts import SCRIPTS, Script
from gateway.broker.server import Argument, Server, packed
from gateway.errors import BrokerError, BrokerUnavailableError

__all__ = ["LATE", "RedirectError", "Wire", "explained", "is_sharded"]

logger = logging.getLogger(__name__)

LATE = 1.0
"""Seconds after which an answer is late: the link was not steady."""

IDLE = 5.0
"""Seconds of silence after which a connection is asked who its server is before it is used: it may have become a
replica and a master again meanwhile, which no open connection is told."""

JUMP = 1000.0
"""Milliseconds by which two measures of the server's clock may differ; beyond, that clock was set."""

_PASSING = re.compile(
    r"(?:^|[\s:-])(TRYAGAIN|MOVED|ASK|CLUSTERDOWN|LOADING|MASTERDOWN|READONLY|OOM|MISCONF|NOREPLICAS|BUSY"
    r"|max number of clients|a non local key) "
)
"""Errors that say "not now" or "not here"; Redis 6.2 wraps those that come out of a script."""

_REFUSING = {"CLUSTERDOWN", "LOADING", "MASTERDOWN", "OOM", "MISCONF", "NOREPLICAS", "BUSY"}
"""Those of a server that refuses the same to everybody for a while."""

_REDIRECTED = re.compile(r"(MOVED|ASK) (\d+) (.*):(\d+)")
"""What a server of a cluster says that has done nothing, as another one has the key's slot."""

_RIGHTS = re.compile(r"NOPERM|no permissions to|ACL failure in script|can't run this command")


class RedirectError(BrokerUnavailableError):
    """Another server of the cluster has the key's slot; nothing was done.

    Attributes:
        asking: It is being moved: for this call only.
        slot: Which.
        place: Host and port of that server.

    """

    def __init__(self, message: str, *, asking: bool, slot: int, place: tuple[str, int]) -> None:
        super().__init__(message)
        self.asking = asking
        self.slot = slot
        self.place = place


def is_sharded(facts: dict[str, str]) -> bool:
    """Tell whether a server, by its ``INFO``, has pub/sub by slot."""
    return int(facts["redis_version"].partition(".")[0]) >= 7


def explained(text: str) -> str:
    """Give a server's error with what to do about it, where it is a right that the user of Redis lacks."""
    if _RIGHTS.search(text) is None:
        return text
    return f"{text} (its user lacks rights that the gateway needs: see the README, Redis)"


class Wire(asyncio.Protocol):
    """One connection; commands of all callers go out together, once a loop tick, and are answered in order.

    Made by `Wire.connect`. It ends for good when the connection does, when the server has been silent for the
    timeout while an answer is due, or when it turned out to be a replica.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.place = server.place
        """Where the server was at the connect."""
        self.publish = "PUBLISH"
        """The command that publishes on a channel of this server: SPUBLISH in a cluster that has it."""
        self.server_id = ""
        """``run_id:second_repl_offset``, as of the connect (STORE.md 3)."""
        self.skew = 0.0
        """The server's clock in ms minus this process's monotonic clock in ms."""
        self.measured = 0.0
        """When that was measured; monotonic, s."""
        self.closed = False
        self._why = "the connection has ended"
        """What callers are told once it has."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader()
        self._out: list[bytes] = []
        self._due: deque[tuple[asyncio.Future[Any] | None, float]] = deque()
        """Answers not yet come, each with the loop time of its command; None where nobody waits for it."""
        self._heard = 0.0
        """Loop time of the last bytes from the server."""
        self._timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def connect(cls, server: Server) -> "Wire":
        """Connect, enter, ask who the server is and what time it has there, and load the scripts.

        Raises:
            BrokerUnavailableError: Nobody answers, or the server is a replica or in no state to serve.
            BrokerError: It does not let us in, or is no Redis.

        """
        wire = await server.open(lambda: cls(server))
        try:
            async with asyncio.timeout(server.timeout):
                await wire._enter()  # noqa: SLF001  # its own
        except TimeoutError as error:
            wire.close()
            raise BrokerUnavailableError(f"Redis at {server.name} did not let us in in time", told=True) from error
        except BaseException:
            wire.close()
            raise
        return wire

    async def _enter(self) -> None:
        for command in self.server.greeting:
            await self.call(*command)
        await self.measure()
        server, replication = await asyncio.gather(self.facts("server"), self.facts("replication"))
        facts = server | replication
        if facts.get("redis_mode", facts.get("server_mode")) == "cluster" and not self.server.cluster:
            raise BrokerError(
                f"Redis at {self.server.name} is one of a cluster: give its address as redis+cluster://, not redis://"
            )
        if self.server.cluster and is_sharded(facts):
            self.publish = "SPUBLISH"
        if facts.get("role") != "master":
            raise BrokerUnavailableError(f"Redis at {self.server.name} is a replica, not a master", told=True)
        self.server_id = f"{facts['run_id']}:{facts['second_repl_offset']}"
        await asyncio.gather(*(self.call("SCRIPT", "LOAD", script.source) for script in SCRIPTS))
        self.server.whole.connects += 1
        self.server.steady_since = min(self.server.steady_since, self._loop.time())

    async def facts(self, section: str) -> dict[str, str]:
        """Ask what the server says about itself, by section of ``INFO``."""
        described = (await self.call("INFO", section)).decode()
        return dict(line.split(":", 1) for line in described.splitlines() if ":" in line)

    async def _asked_id(self) -> str:
        described = await asyncio.gather(self.call("INFO", "server"), self.call("INFO", "replication"))
        facts = dict(line.split(":", 1) for line in b"".join(described).decode().splitlines() if ":" in line)
        if facts.get("role") != "master":
            raise BrokerUnavailableError(f"Redis at {self.server.name} is a replica, not a master", told=True)
        return f"{facts['run_id']}:{facts['second_repl_offset']}"

    @property
    def idle(self) -> bool:
        """Whether nothing was heard for so long that the server may be another by now."""
        return not self._due and self._loop.time() - self._heard > IDLE

    async def confirm(self) -> None:
        """End the connection unless its server is who it was at the connect, and compare the clocks.

        Raises:
            BrokerUnavailableError: It is not, or does not answer.
            BrokerError: Another error from the server.

        """
        try:
            same = await self._asked_id() == self.server_id
        except BrokerUnavailableError:
            self.close()
            raise
        if not same:
            self._fail("it is another server by now")
            raise self._gone()
        await self.measure()

    async def measure(self) -> None:
        """Compare the clocks."""
        before = time.monotonic()
        seconds, micros = await self.call("TIME")
        after = time.monotonic()
        skew = int(seconds) * 1000 + int(micros) / 1000 - (before + after) * 500
        if self.measured and abs(skew - self.skew) > JUMP + (after - before) * 1000:
            # Every deadline on the server may seem to have passed, those of the living too.
            self.server.steady_since = self._loop.time()
        self.skew, self.measured = skew, after

    async def call(self, *command: Argument) -> Any:
        """Send a command and give its answer.

        Raises:
            BrokerUnavailableError: The connection ended before the answer, or the server says "not now".
            BrokerError: Another error from the server.

        """
        try:
            return await self._send(command)
        except hiredis.ReplyError as error:
            raise self._judged(error) from error

    async def run(
        self, script: Script, keys: tuple[str, ...], arguments: list[Argument], *, asking: bool = False
    ) -> Any:
        """Run a script and give its answer.

        Args:
            script: Which.
            keys: Its keys.
            arguments: Its arguments.
            asking: The server that has the keys' slot sent us here, as it is moving the slot.

        Raises:
            BrokerUnavailableError: The connection ended before the answer, or the server says "not now".
            BrokerError: Another error from the server.

        """
        try:
            return await self._send(("EVALSHA", script.sha, len(keys), *keys, *arguments), asking=asking)
        except hiredis.ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise self._judged(error) from error
        # Somebody flushed the server's scripts; it has done nothing of this one.
        try:
            return await self._send(("EVAL", script.source, len(keys), *keys, *arguments), asking=asking)
        except hiredis.ReplyError as error:
            raise self._judged(error) from error

    def cast(self, *command: Argument) -> None:
        """Send a command whose answer nobody needs; it stands before whatever is sent after it."""
        if not self.closed:
            self._put(command, None)

    def close(self) -> None:
        """End the connection at once; what waits for an answer fails."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait for the connection's end."""
        await asyncio.shield(self._ended)

    def _send(self, command: tuple[Argument, ...], *, asking: bool = False) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        if self.closed:
            future.set_exception(self._gone())
        else:
            if asking:
                self._put(("ASKING",), None)  # it is for the next command
            self._put(command, future)
        return future

    def _put(self, command: tuple[Argument, ...], future: asyncio.Future[Any] | None) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed(*command))
        self._due.append((future, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self.server.timeout, self._watch)

    def _flush(self) -> None:
        if self._transport is not None and not self.closed:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def _watch(self) -> None:
        """End the connection if the server owes an answer and has said nothing for the whole timeout."""
        self._timer = None
        if not self._due or self.closed:
            return
        deadline = max(self._due[0][1], self._heard) + self.server.timeout
        if deadline <= self._loop.time():
            self._fail(f"no answer for {self.server.timeout:g} s")
        else:
            self._timer = self._loop.call_at(deadline, self._watch)

    def _fail(self, why: str) -> None:
        logger.debug("Redis at %s: %s", self.server.name, why)
        self._why = why
        self.close()

    def _gone(self) -> BrokerUnavailableError:
        return BrokerUnavailableError(f"Redis at {self.server.name}: {self._why}", told=True)

    def _judged(self, error: hiredis.ReplyError) -> BrokerError:
        text = str(error)
        redirected = _REDIRECTED.match(text)
        if redirected is not None and self.server.cluster:
            return RedirectError(
                f"Redis at {self.server.name} answered: {text}",
                asking=redirected[1] == "ASK",
                slot=int(redirected[2]),
                place=(redirected[3].strip("[]") or self.server.host, int(redirected[4])),
            )
        passing = _PASSING.search(text)
        if passing is None:
            return BrokerError(f"Redis at {self.server.name} answered: {explained(text)}")
        if passing[1] in _REFUSING:
            # The living could not renew their leases either, though no connection was lost.
            self.server.steady_since = max(self.server.steady_since, self._loop.time())
        if passing[1] == "READONLY":
            # It was a master at the connect: what every connection knows of it is no longer true.
            for wire in tuple(self.server.wires):
                wire.close()
        return BrokerUnavailableError(f"Redis at {self.server.name} answered: {text}")

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an isinstance check: uvloop's transports are not derived from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.server.wires.add(self)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._reader.feed(data)
        while (answer := self._answer()) is not False:
            if not self._due:
                self._fail(f"it said something unasked: {answer!r:.200}")
                return
            future, sent = self._due.popleft()
            self.server.whole.latency.add(self._heard - sent)
            if self._heard - sent > LATE:
                self.server.steady_since = self._heard
            failed = isinstance(answer, hiredis.ReplyError)
            if future is None:
                if failed:
                    logger.warning("Redis at %s answered: %s", self.server.name, answer)
            elif future.done():
                continue
            elif failed:
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _answer(self) -> Any:
        """Take the next answer, False where there is none (RESP2 has no booleans)."""
        try:
            return self._reader.gets()
        except hiredis.ProtocolError:
            self._fail("what answers there is no Redis")
            return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.server.wires.discard(self)
        self.server.steady_since = math.inf
        if self._timer is not None:
            self._timer.cancel()
        for future, _ in self._due:
            if future is not None and not future.done():
                future.set_exception(self._gone())
        self._due.clear()
        self._ended.set_result(None)
