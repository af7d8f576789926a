"""Random schedules: what strikes when, all of it drawn from one seed."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from tests.faults.tally import Tally
from tests.faults.world import PATIENCE, World

__all__ = ["FAULTS", "SCHEDULES_TO_MEET_ALL", "faults_of", "run_schedule"]

SCHEDULES_TO_MEET_ALL = 14
"""So many schedules with successive seeds, the first a multiple of it, have every fault among them."""

MOST_LATE = 10
"""Late readers at a time; in a long schedule there come many."""

Fault = Callable[[World, random.Random], Coroutine[Any, Any, None]]


def _topic(world: World, choice: random.Random) -> str:
    return choice.choice(sorted(world.agents))


async def _a_while(choice: random.Random, longest: float = 0.25) -> None:
    await asyncio.sleep(choice.uniform(0.02, longest))


async def _agents_latency(world: World, choice: random.Random) -> None:
    with world.to_store.latency(0.03):
        await _a_while(choice)


async def _agents_cut(world: World, choice: random.Random) -> None:
    with world.to_store.cut():
        await _a_while(choice)


async def _agents_half_open(world: World, choice: random.Random) -> None:
    with world.to_store.half_open():
        await _a_while(choice)


async def _agents_drop(world: World, choice: random.Random) -> None:
    async with world.to_store.drop_after(choice.randrange(1, 400)):
        await _a_while(choice)


async def _hub_latency(world: World, choice: random.Random) -> None:
    with world.to_hub.latency(0.03):
        await _a_while(choice)


async def _hub_stall(world: World, choice: random.Random) -> None:
    with world.to_hub.stall():
        await _a_while(choice, 0.8)


async def _hub_cut(world: World, choice: random.Random) -> None:
    with world.to_hub.cut():
        await _a_while(choice)


async def _hub_half_open(world: World, choice: random.Random) -> None:
    with world.to_hub.half_open():
        await _a_while(choice)


async def _hub_drop(world: World, choice: random.Random) -> None:
    async with world.to_hub.drop_after(choice.randrange(1, 5000)):
        await _a_while(choice)


async def _readers_cut(world: World, choice: random.Random) -> None:
    with world.to_readers.cut():
        await _a_while(choice)


async def _readers_half_open(world: World, choice: random.Random) -> None:
    with world.to_readers.half_open():
        await _a_while(choice)


async def _readers_drop(world: World, choice: random.Random) -> None:
    async with world.to_readers.drop_after(choice.randrange(1, 20_000)):
        await _a_while(choice)


async def _readers_stall(world: World, choice: random.Random) -> None:
    """Nobody reads while much is said: readers lag and are brought up."""
    topic = _topic(world, choice)
    with world.to_readers.stall():
        for number in range(40):
            await world.publisher.publish(topic, {"type": "app.bulk", "number": number, "text": "bulk " * 2000})
        await _a_while(choice, 0.5)


async def _reader_leaves(world: World, choice: random.Random) -> None:
    follower = choice.choice(world.followers)
    await follower.leave()
    await _a_while(choice)
    follower.start()


async def _reader_pauses(world: World, choice: random.Random) -> None:
    follower = choice.choice(world.followers)
    follower.pause()
    await _a_while(choice)
    follower.resume()


async def _late_reader(world: World, choice: random.Random) -> None:
    if len(world.late) == MOST_LATE:
        await world.dismiss(world.late.pop(0))
    world.late.append(world.follow(_topic(world, choice), mirror=True, late=True))


async def _normal_clients_killed(world: World, _choice: random.Random) -> None:
    await world.kill_clients("normal")


async def _pubsub_clients_killed(world: World, _choice: random.Random) -> None:
    await world.kill_clients("pubsub")


async def _gateway_restarted(world: World, _choice: random.Random) -> None:
    await world.restart_gateway()


async def _store_killed(world: World, choice: random.Random) -> None:
    async with world.store_away():
        await _a_while(choice)


async def _store_rolled_back(world: World, choice: random.Random) -> None:
    world.copy_data()
    await _a_while(choice)
    await world.roll_back()


async def _store_emptied(world: World, _choice: random.Random) -> None:
    await world.empty()


async def _replica_promoted(world: World, choice: random.Random) -> None:
    async with world.cut_off_replica():
        await _a_while(choice)


async def _stores_clock_jumps(world: World, choice: random.Random) -> None:
    world.server.jump(choice.choice([-600, 600]))
    await _a_while(choice)


async def _process_clock_jumps(world: World, choice: random.Random) -> None:
    """The wall clock of gateway, agents and readers, for a while."""
    with world.wall_clock_off(choice.choice([-600, 600])):
        await _a_while(choice)


async def _key_evicted(world: World, choice: random.Random) -> None:
    await world.evict(_topic(world, choice), choice.choice(["", ":events", ":open"]))


async def _trimmed(world: World, choice: random.Random) -> None:
    await world.trim(_topic(world, choice))


async def _deliveries_duplicated(world: World, choice: random.Random) -> None:
    with world.garbled("duplicated"):
        await _a_while(choice)


async def _deliveries_reordered(world: World, choice: random.Random) -> None:
    with world.garbled("reordered"):
        await _a_while(choice)


async def _deliveries_dropped(world: World, choice: random.Random) -> None:
    with world.garbled("dropped"):
        await _a_while(choice)


async def _agent_killed(world: World, choice: random.Random) -> None:
    """Its run is declared lost by the next one on its topic."""
    agent = world.agents[_topic(world, choice)]
    await agent.die()
    agent.start()
    async with asyncio.timeout(PATIENCE):
        while agent.run is None:
            await asyncio.sleep(0.02)


async def _agents_process_killed(world: World, choice: random.Random) -> None:
    await world.mortal(messages=choice.randint(1, 30))


async def _gateways_process_killed(world: World, choice: random.Random) -> None:
    """Its readers have no other; it comes back on its port."""
    gateway = await world.second_gateway()
    await _a_while(choice)
    gateway.kill()
    assert gateway.process is not None
    await gateway.process.end()
    await _a_while(choice)
    await gateway.start()


async def _agent_fenced(world: World, choice: random.Random) -> None:
    agent = world.agents[_topic(world, choice)]
    await agent.stop()
    await world.fence(agent.topic)
    agent.start()


async def _all_paused(world: World, _choice: random.Random) -> None:
    await world.paused()


FAULTS: dict[str, Fault] = {
    "latency before agents": _agents_latency,
    "cut before agents": _agents_cut,
    "half-open before agents": _agents_half_open,
    "answer cut off before agents": _agents_drop,
    "latency before the gateway": _hub_latency,
    "stall before the gateway": _hub_stall,
    "cut before the gateway": _hub_cut,
    "half-open before the gateway": _hub_half_open,
    "answer cut off before the gateway": _hub_drop,
    "cut before readers": _readers_cut,
    "half-open before readers": _readers_half_open,
    "frame cut off before readers": _readers_drop,
    "stall before readers": _readers_stall,
    "reader away": _reader_leaves,
    "reader that takes nothing": _reader_pauses,
    "late reader": _late_reader,
    "CLIENT KILL normal": _normal_clients_killed,
    "CLIENT KILL pubsub": _pubsub_clients_killed,
    "gateway restarted": _gateway_restarted,
    "store killed": _store_killed,
    "store rolled back": _store_rolled_back,
    "store emptied": _store_emptied,
    "replica promoted": _replica_promoted,
    "store's clock jumps": _stores_clock_jumps,
    "processes' clock jumps": _process_clock_jumps,
    "key evicted": _key_evicted,
    "trim": _trimmed,
    "deliveries duplicated": _deliveries_duplicated,
    "deliveries reordered": _deliveries_reordered,
    "deliveries dropped": _deliveries_dropped,
    "agent killed": _agent_killed,
    "agent's process killed": _agents_process_killed,
    "gateway's process killed": _gateways_process_killed,
    "agent fenced": _agent_fenced,
    "agents paused, all compared": _all_paused,
}


def faults_of(seed: int) -> list[str]:
    """Name the faults of a schedule, in order: a deck is shuffled and dealt to as many schedules as it takes."""
    deck = list(FAULTS)
    random.Random(seed // SCHEDULES_TO_MEET_ALL).shuffle(deck)
    return deck[seed % SCHEDULES_TO_MEET_ALL :: SCHEDULES_TO_MEET_ALL]


async def _strike(world: World, fault: Coroutine[Any, Any, None]) -> None:
    """Wait for a fault to be over, unless an agent fails first: faults that wait for traffic would wait in vain."""
    async with asyncio.timeout(2 * PATIENCE):
        striking = asyncio.create_task(fault)
        try:
            while not striking.done():
                await asyncio.wait([striking], timeout=0.2)
                for agent in world.agents.values():
                    if agent.failure is not None:
                        raise agent.failure
        finally:
            striking.cancel()
        await striking


async def run_schedule(
    directory: Path, *, seed: int, tally: Tally, faults: Iterable[str], topics: int = 2, readers: int = 2
) -> None:
    """Let faults strike one after another while agents write and readers follow; compare everything at the end.

    Args:
        directory: For the server's data.
        seed: Of all that is drawn but the faults.
        tally: Where it counts.
        faults: Their names, in order; drawn one after another.
        topics: How many, each with an agent.
        readers: How many of each topic; one of them is a stock reader.

    Raises:
        AssertionError: Somebody hangs, or something was lost, doubled, reordered or made up.

    """
    choice = random.Random(seed)
    async with World(directory, seed=seed, tally=tally) as world:
        for number in range(topics):
            topic = f"topic-{number}"
            world.agent(topic)
            for reader in range(readers):
                world.follow(topic, mirror=reader > 0)
        for name in faults:
            await _a_while(choice, 0.1)
            await _strike(world, FAULTS[name](world, choice))
            tally.add(name)
        async with asyncio.timeout(2 * PATIENCE):
            await asyncio.gather(*(agent.stop() for agent in world.agents.values()))
        await world.settled()
        await world.verify(written=True)
