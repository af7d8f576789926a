"""The shared timer, turned by hand."""

import asyncio

from gateway.settings import Settings
from gateway.wheel import Wheel


class Watched:
    """A connection that notes what is done to it."""

    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self.connected = False
        self.heard_at = 0.0
        self.pinged_at = 0.0
        self.buffered = 0
        self.pings: list[float] = []
        self.code: int | None = None

    def ping(self, now: float) -> None:
        self.pings.append(now)
        if self.pinged_at <= self.heard_at:
            self.pinged_at = now

    def close(self, code: int, reason: str) -> None:
        self.code = code
        self.wheel.remove(self)


SETTINGS = Settings(ping_interval=8.0, pong_timeout=4.0, connect_timeout=4.0, slow_timeout=4.0)


async def watched() -> tuple[Wheel, Watched, float]:
    wheel = Wheel(SETTINGS, lambda: None)
    connection = Watched(wheel)
    wheel.add(connection)
    return wheel, connection, asyncio.get_running_loop().time()


async def test_ping_comes_once_an_interval() -> None:
    wheel, connection, now = await watched()
    connection.connected = True
    for step in range(1, 33):
        connection.heard_at = now + step
        wheel.turn(now + step)
    assert connection.pings == [now + 8, now + 16, now + 24, now + 32]
    assert connection.code is None


async def test_silence_after_a_ping_closes() -> None:
    wheel, connection, now = await watched()
    connection.connected = True
    for step in range(1, 12):
        wheel.turn(now + step)
    assert connection.code is None
    wheel.turn(now + 12)
    assert connection.code == 3012
    assert len(wheel) == 0


async def test_reader_that_takes_nothing_owes_no_pong() -> None:
    wheel, connection, now = await watched()
    connection.connected = True
    for step in range(1, 10):
        wheel.turn(now + step)
    connection.buffered = 100_000
    wheel.stuck(connection)
    for step in range(10, 40):
        connection.buffered -= 1
        wheel.turn(now + step)
    assert connection.code is None


async def test_late_connect_closes() -> None:
    wheel, connection, now = await watched()
    wheel.turn(now + 3.9)
    assert connection.code is None
    wheel.turn(now + 4.1)
    assert connection.code == 3502


async def test_full_buffer_that_does_not_shrink_closes() -> None:
    wheel, connection, now = await watched()
    connection.connected = True
    connection.heard_at = now + 100
    connection.buffered = 1000
    wheel.stuck(connection)
    wheel.turn(now + 3)
    connection.buffered = 900
    wheel.turn(now + 5)
    wheel.turn(now + 8)
    assert connection.code is None
    wheel.turn(now + 10)
    assert connection.code == 3008


async def test_buffer_that_drained_is_not_watched() -> None:
    wheel, connection, now = await watched()
    connection.connected = True
    connection.heard_at = now + 100
    connection.buffered = 1000
    wheel.stuck(connection)
    wheel.freed(connection)
    for step in range(1, 20):
        wheel.turn(now + step)
    assert connection.code is None
