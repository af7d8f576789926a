"""Valkey dies again and again under a run that many read: the run goes on, and every reader is exact or is told.

With ``GATEWAY_SOAK_SECONDS`` set (``make soak``) it dies ten times in a minute under 200 readers.
"""

import asyncio
import contextlib
import os
import time
from pathlib import Path

import pytest

from gateway.context.messages import Message
from gateway.publisher import Publisher
from gateway.run import Run
from tests.faults.hurry import counted, in_a_hurry
from tests.faults.model import state_of
from tests.faults.tally import Tally
from tests.faults.world import World

SOAK = float(os.environ.get("GATEWAY_SOAK_SECONDS", "0"))
DEATHS, READERS, SECONDS = (10, 200, 60.0) if SOAK else (3, 50, 0.0)
SILENCE = 10.0
"""Seconds; all readers share one process with the gateway, which takes long to serve them after each death."""
TOPIC = "busy"


class Talker:
    """One run that goes on and on."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.written: list[str] = []
        self._silent = asyncio.Event()
        self._task = asyncio.create_task(self._talk())

    async def _talk(self) -> None:
        number = 0
        while not self._silent.is_set():
            for piece in range(5):
                await self.run.delta(f"{number}.{piece} ")
                await asyncio.sleep(0.005)
            text = f"message {number} 🚀"
            await self.run.add_message(Message.assistant(text))
            self.written.append(text)
            number += 1
        await self.run.delta("the last one stays open")
        await self.run.flush()

    async def more(self, messages: int) -> None:
        """Wait until it has written so many more, all of them acknowledged."""
        enough = len(self.written) + messages
        while len(self.written) < enough:
            assert not self._task.done(), self._task.result()
            await asyncio.sleep(0.01)
        await self.run.flush()

    async def silence(self) -> None:
        """End what it says, in the middle of a message."""
        self._silent.set()
        await self._task


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["killed", "rolled back", "promoted", "emptied"])
async def test_run_survives_the_death_of_its_store(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally()
    in_a_hurry(monkeypatch, silence=SILENCE)
    counted(monkeypatch, tally)
    async with World(tmp_path, seed=0, tally=tally, silence=SILENCE) as world:
        for reader in range(READERS):
            world.follow(TOPIC, mirror=reader % 10 > 0, late=reader % 3 == 0)
        async with asyncio.timeout(60 + DEATHS * READERS / 10):
            async with (
                Publisher(broker=world.broker(world.to_store.url)) as publisher,
                publisher.run(TOPIC, agent="talker") as run,
            ):
                talker = Talker(run)
                begun = time.monotonic()
                for number in range(DEATHS):
                    await talker.more(2)
                    await die(world, talker, kind)
                    await talker.more(2)
                    while time.monotonic() - begun < SECONDS * (number + 1) / DEATHS:
                        await talker.more(1)
                await talker.silence()
                await world.settled()
                await world.verify(written=True)
                _, events = await world.archive.whole(TOPIC)
            assert run.ended is not None
    contents = [event["content"] for event in events.values() if event.get("type") == "assistant_message"]
    assert contents == talker.written
    assert state_of([*events.values()])["open"][0]["text"] == "the last one stays open"
    assert kind == "killed" or tally.counts["restore"] >= DEATHS
    assert tally.counts["epoch change"]
    print(tally)  # noqa: T201 - the figures are a part of the answer


async def die(world: World, talker: Talker, kind: str) -> None:
    """Kill the store, and see that every reader who knew what it has lost is told."""
    kept = 0
    if kind == "killed":
        async with world.store_away():
            await asyncio.sleep(0.1)
        return
    if kind == "rolled back":
        await asyncio.to_thread(world.copy_data)
    async with world.cut_off_replica() if kind == "promoted" else contextlib.nullcontext():
        if kind != "emptied":
            kept = (await world.archive.stored(TOPIC)).position.offset
            await talker.more(2)
        before = [(follower, follower.position, follower.snapshots) for follower in world.followers]
    if kind != "promoted":
        await (world.roll_back() if kind == "rolled back" else world.empty())
    lost = [(reader, snapshots) for reader, position, snapshots in before if position.offset > kept]
    while not all(reader.snapshots > snapshots for reader, snapshots in lost):
        assert not any(reader.failure for reader, _ in lost)
        await asyncio.sleep(0.02)
