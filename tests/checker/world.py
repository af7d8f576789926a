"""A world: a real server, actors that share topics, faults; one thing happens at a time, chosen by the seed."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gateway.broker.keys import Keys
from gateway.broker.port import Appended, AppendRequest, History, Trimmed
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from gateway.types import START, Topic
from tests.checker.actor import Actor
from tests.checker.faults import Faults, Mishaps
from tests.checker.judge import Judge
from tests.checker.loop import SteppedLoop
from tests.checker.pair import Pair
from tests.checker.road import Call, Road
from tests.checker.truth import Fact, State, Violation

__all__ = ["Acknowledgement", "World"]

_LAPSE_STEPS = 50
"""After so many steps of the end the leases of the dead have lapsed (again)."""

_MAX_STEPS = 4000
"""After so many steps without a fault everything must have come to an end."""


@dataclass
class Acknowledgement:
    """An append that its writer was told is stored."""

    actor: Actor
    topic: Topic
    request: AppendRequest
    answer: Appended


class World:
    """Everything that happens from one seed.

    Args:
        seed: Of all choices.
        kind: ``runs``, real ones; ``authors``, the plain ones of this checker; ``late``, these, and standing still;
            ``erased``, these, and somebody who deletes the topics.
        pair: The servers, just reset.
        loop: The loop that this runs in.

    """

    def __init__(self, seed: int, pair: Pair, loop: SteppedLoop, *, kind: str) -> None:
        self.kind = kind
        self.pair = pair
        self.loop = loop
        self.random = random.Random(seed)
        self.faults = Faults.drawn(self.random, kind=kind)
        self.topics = [Topic(f"t{number}") for number in range(1 if self.random.random() < 0.8 else 2)]
        self.brokers = [RedisBroker(pair.url, key_prefix="w") for _ in range(2)]
        """Of two processes: one of agents, one of a gateway."""
        self.actors: list[Actor] = []
        self.waiting: list[Call] = []
        self.undelivered: list[tuple[Call, Any]] = []
        self.judges = {topic: Judge() for topic in self.topics}
        self.mishaps = Mishaps(self)
        self.rolled_back = False
        self.evicted = False
        self.acknowledged: list[Acknowledgement] = []
        self.calm = False
        self.seen: Counter[str] = Counter()
        """What happened, to see that the worlds reach what they are for."""
        self.story: list[str] = []

    def road(self, actor: Actor, process: int) -> Road:
        return Road(self, actor, self.brokers[process])

    def live_runs(self, topic: Topic) -> set[str]:
        """Give the ids of the runs whose process still works on their topic."""
        return {run for actor in self.actors if not actor.dead for run in actor.runs(topic)}

    def may_trim(self, topic: Topic) -> bool:
        """Say whether nobody tries something again that was begun before the last trim.

        What a second trim forgets could be stored again; the rule is that nobody is so late (STORE.md 4).
        """
        floor = self.judges[topic].state.floor
        busy = [actor for actor in self.actors if actor.once and not actor.dead and not actor.idle]
        return all(actor.since.get(topic) == floor for actor in busy)

    async def play(self, steps: int) -> None:
        """Let things happen, then let everything come to an end."""
        for _ in range(steps):
            await self._settle()
            await self._move()
        await self._end()

    async def close(self) -> None:
        """Drop everybody, wherever they are."""
        while tasks := [actor.task for actor in self.actors if actor.task is not None and not actor.task.done()]:
            for task in tasks:
                task.cancel()
            await self.loop.rest()
            self.loop.advance()
        for actor in self.actors:
            actor.hung_up()
        # Whatever this waits for, a socket or a thread, moves by itself.
        with self.answering():
            for broker in self.brokers:
                await broker.aclose()

    def lost(self, topic: Topic, run: str, data: bytes, answer: Appended) -> None:
        """Note the end that somebody wrote for a run."""
        judge = self.judges[topic]
        judge.lost(run)
        self.inspect(topic)
        judge.truth.stored(
            answer.position.epoch,
            answer.first,
            [Fact(kind="x", type="agent_lost", data=data, message="", request=None, run=run)],
        )

    def note(self, text: str) -> None:
        self.story.append(text)

    # What happens

    async def _settle(self) -> None:
        await self.loop.rest()
        for actor in self.actors:
            if actor.task is not None and actor.task.done() and not actor.task.cancelled():
                error = actor.task.exception()
                if error is not None:
                    raise error

    async def _move(self) -> None:
        weights = {
            self._let_go: 1.5 if self._can_go() else 0.0,
            self._deliver: 0.3 if self._deliverable() else 0.0,
            self._step: 1.0,
            self._pass_time: 0.15,
            self.mishaps.save: 0.05 if self.faults.kill or self.faults.copy_back else 0.0,
            self.mishaps.restart: self.faults.restart,
            self.mishaps.kill: self.faults.kill,
            self.mishaps.copy_back: self.faults.copy_back,
            self.mishaps.fail_over: self.faults.fail_over,
            self.mishaps.evict: self.faults.evict,
            self.mishaps.lapse: self.faults.lapse,
            self.mishaps.pause: self.faults.pause,
            self.mishaps.die: self.faults.death,
        }
        move = self.random.choices(list(weights), list(weights.values()))[0]
        await move()

    async def _step(self) -> None:
        idle = [actor for actor in self.actors if actor.idle and not actor.paused and not actor.dead]
        if idle:
            actor = self.random.choice(idle)
            self.note(f"{actor.name} steps")
            actor.step()

    async def _pass_time(self) -> None:
        self.loop.advance()

    def _can_go(self) -> list[Call]:
        self.waiting = [call for call in self.waiting if not call.answer.done()]
        return [
            call
            for call in self.waiting
            if not call.actor.paused and not call.actor.dead and (call.name != "trim" or self.may_trim(call.topic))
        ]

    def _deliverable(self) -> list[tuple[Call, Any]]:
        self.undelivered = [item for item in self.undelivered if not item[0].answer.done()]
        return [item for item in self.undelivered if not item[0].actor.paused and not item[0].actor.dead]

    async def _deliver(self) -> None:
        item = self.random.choice(self._deliverable())
        self.undelivered.remove(item)
        self._answer(*item)

    async def _let_go(self) -> None:
        call = self.random.choice(self._can_go())
        self.waiting.remove(call)
        faults = self.faults
        fate = "answered"
        if not self.calm:
            weights = (1.0, faults.lost_request, faults.lost_reply, faults.late_reply, faults.twice)
            fates = ("answered", "lost request", "lost reply", "late reply", "twice")
            fate = self.random.choices(fates, weights)[0]
        if fate == "lost request":
            self._answer(call, BrokerUnavailableError("the request was lost"))
            return
        answers = await self._sent(call, 2 if fate == "twice" else 1)
        self.seen[fate] += 1
        if fate == "late reply":
            self.undelivered.append((call, answers[0]))
        elif fate == "lost reply":
            self._answer(call, BrokerUnavailableError("the reply was lost"))
        else:
            self._answer(call, self.random.choice(answers))

    async def _sent(self, call: Call, times: int) -> list[Any]:
        judge = self.judges[call.topic]
        before = judge.state
        self.pair.catch_up()
        with self.answering():
            answers = await asyncio.gather(*(call.send() for _ in range(times)), return_exceptions=True)
        self.inspect(call.topic)
        for answer in answers:
            self.note(f"  {call.told()} -> {_brief(answer)}")
            if isinstance(answer, BaseException):
                if not isinstance(answer, BrokerUnavailableError):
                    raise Violation(f"{call.name} fails: {answer}") from answer
                self.seen["unavailable"] += 1
                continue
            repeated = isinstance(answer, Appended) and answer.repeated
            self.seen[f"{call.name} {type(answer).__name__}{' again' if repeated else ''}"] += 1
            if call.request is not None:
                judge.appended(call, call.request, answer, before)
            elif isinstance(answer, History):
                judge.read(call, answer)
            elif isinstance(answer, Trimmed):
                judge.trimmed(before)
        return answers

    def _answer(self, call: Call, answer: Any) -> None:
        if isinstance(answer, BaseException):
            call.answer.set_exception(answer)
            return
        if call.request is not None and isinstance(answer, Appended):
            self.acknowledged.append(Acknowledgement(call.actor, call.topic, call.request, answer))
        call.answer.set_result(answer)

    # The end

    async def _end(self) -> None:
        self.calm = True
        self.note("CALM")
        for actor in self.actors:
            actor.paused = False
        for number in range(_MAX_STEPS):
            await self._settle()
            for topic, judge in self.judges.items():
                holder = judge.state.holder
                if number % _LAPSE_STEPS == 0 and holder and holder not in self.live_runs(topic):
                    self.mishaps.lapse_of(topic)
            for actor in self.actors:
                if not actor.dead and actor.idle:
                    actor.finish()
            await self._settle()
            if self._deliverable():
                await self._deliver()
            elif self._can_go():
                await self._let_go()
            elif self._at_rest():
                # A server that nobody has asked since it started opens its epochs only now.
                await self._touch()
                if self._at_rest():
                    return
            else:
                self.loop.advance()
        raise Violation("nothing is broken any more, and yet not everything comes to an end")

    def _at_rest(self) -> bool:
        done = all(actor.dead or actor.finished for actor in self.actors)
        return done and not any(judge.state.holder for judge in self.judges.values())

    async def _touch(self) -> None:
        for topic in self.topics:
            with self.answering(), suppress(BrokerUnavailableError):
                await self.brokers[1].read(topic, START, limit=0, seen=True)
            self.inspect(topic)

    @contextmanager
    def answering(self) -> Iterator[None]:
        self.loop.calls += 1
        try:
            yield
        finally:
            self.loop.calls -= 1

    def inspect(self, topic: Topic) -> None:
        """Look how a topic stands now."""
        self.judges[topic].inspected(self._state(topic))

    def _state(self, topic: Topic) -> State:
        """Read a topic's state past the scripts."""
        epoch, lineage, floor, kept, log, lease, gone = self.pair.plain.call(
            "HMGET", Keys("w").of(topic)[0], "epoch", "lineage", "floor", "d", "log", "lease", "gone"
        )
        if epoch is None:
            return State()
        pairs = [part.split(":") for part in lineage.decode().split(",") if part]
        seq, hash_ = log.decode().split(" ")
        return State(
            epoch=epoch.decode(),
            top=int(kept.split(b" ")[0]),
            floor=int(floor),
            lineage=tuple((name, int(last)) for name, last in pairs),
            log=(int(seq), hash_),
            holder=lease.decode().split(" ")[0],
            deadline=int(lease.split(b" ")[2]) if lease else 0,
            gone=frozenset((gone or b"").decode().split()),
        )


def _brief(answer: Any) -> str:
    if isinstance(answer, History):
        return (
            f"History({answer.epoch}:{answer.top} floor {answer.floor} complete={answer.complete} upto {answer.upto})"
        )
    return str(answer)
