"""What befalls a world: how likely it is, and how it is done."""

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.broker.keys import Keys
from gateway.types import Topic

if TYPE_CHECKING:
    from tests.checker.world import World

__all__ = ["LAPSED", "Faults", "Mishaps"]

LAPSED = 1
"""The deadline that the world gives to a lease whose time has passed; no other lapses so soon."""


@dataclass
class Faults:
    """How likely each fault of a world is, next to the step of an actor, which is 1."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    late_reply: float = 0.0
    twice: float = 0.0
    restart: float = 0.0
    kill: float = 0.0
    copy_back: float = 0.0
    fail_over: float = 0.0
    evict: float = 0.0
    lapse: float = 0.0
    pause: float = 0.0
    death: float = 0.0

    @classmethod
    def drawn(cls, random: random.Random, *, kind: str) -> "Faults":
        """Draw some kinds of faults: with all of them at once none would be seen for what it is."""
        if kind == "late":
            # Who stood still, was given up, and is forgotten by two trims.
            return cls(pause=0.15, lapse=0.3, lost_reply=0.1)
        if kind == "erased":
            # Nothing is evicted: what is left of a deleted topic is a key, too.
            return cls(
                lost_request=0.05,
                lost_reply=0.1,
                late_reply=0.1,
                twice=0.05,
                restart=0.01,
                kill=0.03,
                lapse=0.06,
                pause=0.04,
                death=0.01,
            )
        if random.random() < 0.1:
            return cls(evict=0.1, lost_reply=0.1)

        def perhaps(likely: float, weight: float) -> float:
            return weight if random.random() < likely else 0.0

        return cls(
            lost_request=perhaps(0.3, 0.05),
            lost_reply=perhaps(0.5, 0.1),
            late_reply=perhaps(0.3, 0.1),
            twice=perhaps(0.3, 0.05),
            restart=perhaps(0.2, 0.02),
            kill=perhaps(0.4, 0.04),
            copy_back=perhaps(0.2, 0.04),
            fail_over=perhaps(0.25, 0.12),
            evict=perhaps(0.2, 0.03),
            lapse=perhaps(0.4, 0.06),
            pause=perhaps(0.4, 0.04),
            death=perhaps(0.3, 0.015),
        )


class Mishaps:
    """The faults of one world; each does one, if it can."""

    def __init__(self, world: "World") -> None:
        self._world = world

    async def save(self) -> None:
        if self._world.faults.copy_back and self._world.random.random() < 0.4:
            self._world.pair.back_up()
            self._world.note("BACKUP")
        else:
            self._world.pair.save()
            self._world.note("SAVE")

    async def restart(self) -> None:
        self._world.pair.restart()
        await self._disrupted("RESTART")

    async def kill(self) -> None:
        self._world.pair.kill()
        self._world.rolled_back = True
        await self._disrupted("KILL")

    async def copy_back(self) -> None:
        if self._world.pair.backed_up:
            self._world.pair.copy_back()
            self._world.rolled_back = True
            await self._disrupted("COPIED BACK")

    async def fail_over(self) -> None:
        if self._world.pair.cut_off:
            hang_up = self._world.random.random() < 0.5
            self._world.pair.fail_over(hang_up=hang_up)
            self._world.rolled_back = True
            await self._disrupted("FAIL-OVER" if hang_up else "FAIL-OVER without a word", hang_up=hang_up)
        elif self._world.pair.follows:
            self._world.pair.cut()
            self._world.note("CUT")
        else:
            self._world.pair.follow()
            self._world.note("FOLLOW")

    async def evict(self) -> None:
        topic = self._world.random.choice(self._world.topics)
        keys = Keys("w").of(topic)
        lost = keys if self._world.random.random() < 0.1 else [self._world.random.choice(keys[:4])]
        if self._world.pair.plain.call("UNLINK", *lost):
            self._world.evicted = True
            self._world.judges[topic].truth.causes += 1
            self._world.note(f"EVICTED {' '.join(lost)}")
            self._world.seen[f"evicted {lost[0] if len(lost) == 1 else 'all'}"] += 1

    async def lapse(self) -> None:
        self.lapse_of(self._world.random.choice(self._world.topics))

    def lapse_of(self, topic: Topic) -> None:
        """Let a lease's time pass."""
        state = Keys("w").of(topic)[0]
        lease = self._world.pair.plain.call("HGET", state, "lease")
        if lease:
            run, token, _, length = lease.split(b" ")
            # For as long as that took, the links of all have been steady.
            self._world.loop.jump(int(length) / 1000)
            self._world.pair.plain.call("HSET", state, "lease", b" ".join((run, token, b"%d" % LAPSED, length)))
            self._world.inspect(topic)
            self._world.note(f"LAPSED {run.decode()}")

    async def pause(self) -> None:
        actor = self._world.random.choice(self._world.actors)
        actor.paused = not actor.paused
        self._world.note(f"{actor.name} {'pauses' if actor.paused else 'goes on'}")

    async def die(self) -> None:
        actor = self._world.random.choice([actor for actor in self._world.actors if not actor.lasts])
        actor.dead = True
        self._world.note(f"{actor.name} DIES")

    async def _disrupted(self, what: str, *, hang_up: bool = True) -> None:
        self._world.note(what)
        self._world.seen[what] += 1
        for actor in self._world.actors:
            actor.hung_up()
        if hang_up:
            # That the connections have ended is heard before anything else happens, or it could not be played again.
            with self._world.answering():
                while any(broker.server.wires for broker in self._world.brokers):
                    await asyncio.sleep(0)
        for topic in self._world.topics:
            self._world.judges[topic].truth.causes += 1
            self._world.inspect(topic)
