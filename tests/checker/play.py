"""Makes worlds and plays them."""

import asyncio
import random
from collections import Counter

from tests.checker.agent import Agent
from tests.checker.author import Author
from tests.checker.invariants import check
from tests.checker.loop import SteppedLoop
from tests.checker.pair import Pair
from tests.checker.people import Eraser, Person, Sweeper, Talker
from tests.checker.readers import Folder, Hub, Reader
from tests.checker.world import World

__all__ = ["play"]


def play(seed: int, pair: Pair, *, kind: str = "runs") -> Counter[str]:
    """Play one world; gives what happened in it.

    Args:
        seed: Of everything.
        pair: The servers.
        kind: As of `World`.

    Raises:
        Violation: A law was broken; the world's story is in its notes.

    """
    pair.reset()
    random.seed(seed)  # of the delays between tries, too
    world: World | None = None

    async def main() -> None:
        nonlocal world
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        world = World(seed, pair, loop, kind=kind)
        _populate(world)
        try:
            await world.play(world.random.choice((30, 60, 100)))
            with world.answering():
                await check(world)
        finally:
            await world.close()

    try:
        with asyncio.Runner(loop_factory=SteppedLoop) as runner:
            runner.run(main())
    except Exception as error:
        story = "" if world is None else "\n".join(world.story[-200:])
        error.add_note(f"{story}\n{kind} world of seed {seed}; to see it again: GATEWAY_CHECKER_SEED={kind}:{seed}")
        raise
    assert world is not None
    return world.seen


def _populate(world: World) -> None:
    choice = world.random.choice
    for topic in world.topics:
        writers = choice((1, 1, 2, 3))
        if world.kind == "runs":
            world.actors += [
                Agent(world, f"agent{number}@{topic}", topic, most=choice((1, 3))) for number in range(writers)
            ]
        else:
            world.actors += [Author(world, f"author{number}@{topic}", topic) for number in range(writers)]
        world.actors += [
            Person(world, f"page{number}@{topic}", topic, user="ann") for number in range(choice((0, 1, 2)))
        ]
        world.actors += [Folder(world, f"folder{number}@{topic}", topic) for number in range(choice((0, 1, 2, 4)))]
        world.actors += [Talker(world, f"talker@{topic}", topic) for _ in range(choice((0, 1)))]
        world.actors += [Reader(world, f"reader@{topic}", topic), Hub(world, f"hub@{topic}", topic)]
        if world.kind == "erased":
            world.actors.append(Eraser(world, f"eraser@{topic}", topic))
        world.actors.append(Sweeper(world, f"sweeper@{topic}", topic))
