"""One followed topic, against a server whose every answer the test gives."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.client import Client
from gateway.follower import Follower
from gateway.mirror import Mirror
from gateway.positions import Positions
from gateway.reader import Update
from gateway.types import Position, Publication, Topic
from tests.protocol_server import Command, ProtocolServer, delta, no_waiting, protocol_server
from tests.serving import eventually

EPOCH = "aB3dE6gH"
T = Topic("t")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", no_waiting)


def mirrored(text: str, *, epoch: str = EPOCH) -> dict[str, Any]:
    """Give the snapshot of a topic of one-letter deltas."""
    mirror = Mirror("t", epoch)
    for offset, letter in enumerate(text, start=1):
        mirror.apply(Publication(offset=offset, data=delta(offset, letter)["data"]))
    return mirror.snapshot()


class Seen:
    """What was handled: the first and last offset, and the text of the mirror."""

    def __init__(self) -> None:
        self.updates: list[tuple[int, int, str]] = []

    async def handle(self, update: Update, mirror: Mirror | None) -> None:
        text = "" if mirror is None else "".join(message["text"] for message in mirror.open)
        self.updates.append((update.first, update.position.offset, text))

    async def count(self, wanted: int) -> None:
        await eventually(lambda: len(self.updates) >= wanted)


@contextlib.asynccontextmanager
async def following(
    server: ProtocolServer, seen: Seen, positions: Positions, *, mirror: bool = True, types: list[str] | None = None
) -> AsyncIterator[Follower]:
    async with Client(server.url) as client:
        follower = Follower(client, T, positions, handle=seen.handle, types=types, mirror=mirror)
        task = asyncio.create_task(follower.follow())
        yield follower
        await follower.close()
        await task


async def state(server: ProtocolServer, text: str, *, epoch: str = EPOCH) -> None:
    """Answer the question for the state."""
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "data": {"mirror": True}}
    snapshot = mirrored(text, epoch=epoch)
    await command.reply({"epoch": epoch, "offset": len(text), "data": {"snapshot": snapshot}})
    await server.command("unsubscribe")


async def events(server: ProtocolServer, *publications: dict[str, Any], epoch: str = EPOCH) -> Command:
    """Answer the question for the events from position 1."""
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "recover": True, "epoch": EPOCH, "offset": 1}
    top = publications[-1]["offset"] if publications else 1
    await command.reply({"recovered": True, "epoch": epoch, "offset": top, "publications": list(publications)})
    return command


async def test_events_before_the_state_have_it_and_later_ones_their_own() -> None:
    seen = Seen()
    with Positions() as positions:
        positions[T] = Position(epoch=EPOCH, offset=1)
        async with protocol_server() as server, following(server, seen, positions):
            await state(server, "abc")
            command = await events(server, delta(2, "b"), delta(3, "c"))
            await command.push(delta(4, "d"))
            await seen.count(4)
            assert positions[T] == Position(epoch=EPOCH, offset=4)
    assert seen.updates == [(3, 3, "abc"), (2, 2, "abc"), (3, 3, "abc"), (4, 4, "abcd")]


async def test_event_that_the_state_lies_within_takes_a_later_state() -> None:
    seen = Seen()
    with Positions() as positions:
        positions[T] = Position(epoch=EPOCH, offset=1)
        async with protocol_server() as server, following(server, seen, positions):
            await state(server, "abc")
            await events(server, delta(4, "bcd", first=2))
            await server.command("unsubscribe")
            await state(server, "abcd")
            await events(server, delta(4, "bcd", first=2))
            await seen.count(2)
    assert seen.updates == [(3, 3, "abc"), (2, 4, "abcd")]


async def test_state_of_a_history_that_was_rolled_back_is_taken_again() -> None:
    seen = Seen()
    with Positions() as positions:
        positions[T] = Position(epoch=EPOCH, offset=1)
        async with protocol_server() as server, following(server, seen, positions):
            await state(server, "abc")
            await events(server, delta(2, "x"), epoch="ZZZZZZZZ")
            await server.command("unsubscribe")
            await state(server, "ax", epoch="ZZZZZZZZ")
            await events(server, delta(2, "x"), epoch="ZZZZZZZZ")
            await seen.count(2)
            assert positions[T] == Position(epoch="ZZZZZZZZ", offset=2)
    assert seen.updates == [(3, 3, "abc"), (2, 2, "ax")]


async def test_history_that_was_trimmed_gives_its_snapshot() -> None:
    seen = Seen()
    with Positions() as positions:
        positions[T] = Position(epoch=EPOCH, offset=1)
        async with protocol_server() as server, following(server, seen, positions, mirror=False):
            await (await server.command("subscribe")).reply({"recovered": False, "epoch": EPOCH, "offset": 5})
            await server.command("unsubscribe")
            snapshot = mirrored("abcde")
            await (await server.command("subscribe")).reply(
                {"epoch": EPOCH, "offset": 5, "data": {"snapshot": snapshot}}
            )
            await seen.count(1)
            await eventually(lambda: positions[T] == Position(epoch=EPOCH, offset=5))
    assert seen.updates == [(5, 5, "")]


async def test_only_types_that_are_wanted_are_asked_for() -> None:
    with Positions() as positions:
        async with (
            protocol_server() as server,
            following(server, Seen(), positions, mirror=False, types=["log"]) as follower,
        ):
            command = await server.command("subscribe")
            assert command.body == {"channel": "t", "recover": True, "data": {"lens": {"types": ["log"]}}}
            assert follower.quiet_since is None
            await command.reply({"recovered": True, "epoch": EPOCH, "offset": 0})
            await eventually(lambda: follower.quiet_since is not None)
