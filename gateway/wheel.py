"""The shared timer of all connections: pings, pongs, late connects, slow readers."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from gateway.errors import DisconnectCode
from gateway.settings import Settings

__all__ = ["Timed", "Wheel"]


class Timed(Protocol):
    """What the wheel watches."""

    connected: bool
    heard_at: float
    pinged_at: float

    @property
    def buffered(self) -> int:
        """Bytes that its socket has not taken."""

    def ping(self, now: float) -> None:
        """Send a ping, unless the socket takes nothing."""

    def close(self, code: int, reason: str) -> None:
        """Close it."""


class Wheel:
    """Visits every connection once per ping interval, and those in trouble at every step."""

    def __init__(self, settings: Settings, each_step: Callable[[], None]) -> None:
        """Make a wheel that stands still.

        Args:
            settings: The intervals.
            each_step: Called once a step, at most a second apart; must not raise.

        """
        self.settings: Settings = settings
        self.step: float = min(
            1.0,
            settings.ping_interval / 8,
            settings.pong_timeout / 4,
            settings.connect_timeout / 4,
            settings.slow_timeout / 4,
        )
        self._each_step = each_step
        self._slots: list[dict[Timed, None]] = [{} for _ in range(round(settings.ping_interval / self.step))]
        self._index: int = 0
        self._places: dict[Timed, int] = {}
        self._new: dict[Timed, float] = {}  # since when, earliest first
        self._stuck: dict[Timed, tuple[int, float]] = {}  # bytes buffered, and since when that did not shrink

    def __len__(self) -> int:
        return len(self._places)

    @property
    def new(self) -> int:
        """How many have not connected yet."""
        return sum(not connection.connected for connection in self._new)

    @property
    def lagging(self) -> int:
        """How many have a socket that takes no more."""
        return len(self._stuck)

    def add(self, connection: Timed) -> None:
        """Watch a connection from now on; its first ping comes after one interval."""
        self._places[connection] = self._index
        self._slots[self._index][connection] = None
        self._new[connection] = asyncio.get_running_loop().time()

    def remove(self, connection: Timed) -> None:
        """Watch it no more."""
        self._slots[self._places.pop(connection)].pop(connection)
        self._new.pop(connection, None)
        self._stuck.pop(connection, None)

    def stuck(self, connection: Timed) -> None:
        """Watch whether a full buffer shrinks."""
        if connection in self._places:
            self._stuck[connection] = (connection.buffered, asyncio.get_running_loop().time())

    def freed(self, connection: Timed) -> None:
        """Its buffer has drained."""
        self._stuck.pop(connection, None)

    async def run(self) -> None:
        """Turn until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.step)
            self.turn(loop.time())
            self._each_step()

    def turn(self, now: float) -> None:
        """Do what is due at ``now``, in seconds of the loop's clock."""
        self._index = (self._index + 1) % len(self._slots)
        for connection in list(self._slots[self._index]):
            connection.ping(now)
        late = self._index - round(self.settings.pong_timeout / self.step)
        for connection in list(self._slots[late % len(self._slots)]):
            unanswered = connection.pinged_at > connection.heard_at and connection not in self._stuck
            # Half of it: a slot is visited a step early or late.
            if unanswered and now - connection.pinged_at >= self.settings.pong_timeout / 2:
                connection.close(DisconnectCode.NO_PONG, "no pong")
        for connection, since in list(self._new.items()):
            if connection.connected:
                del self._new[connection]
            elif now - since > self.settings.connect_timeout:
                connection.close(DisconnectCode.STALE, "no connect in time")
        for connection, (size, since) in list(self._stuck.items()):
            buffered = connection.buffered
            if buffered < size:
                self._stuck[connection] = (buffered, now)
            elif now - since > self.settings.slow_timeout:
                connection.close(DisconnectCode.SLOW, "slow")
