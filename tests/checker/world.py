"""A world: a real server, actors that share topics, faults; one thing happens at a time, chosen by the seed."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gateway.broker.keys import Keys
from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Broker,
    Busy,
    Ended,
    Fenced,
    History,
    Link,
    Listener,
    Restore,
    Stale,
    Trimmed,
)
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from gateway.types import START, Position, Topic
from tests.checker.loop import SteppedLoop
from tests.checker.pair import Pair
from tests.checker.truth import Fact, State, Truth, Violation

__all__ = ["Actor", "Road", "World"]

_LAPSED = 1
"""The deadline that the world gives to a lease whose time has passed; no other lapses so soon."""
_LAPSE_STEPS = 50
"""After so many steps of the end the leases of the dead have lapsed (again)."""

_MAX_STEPS = 4000
"""After so many steps without a fault everything must have come to an end."""


class Actor:
    """Somebody who does one thing after another when the world says so."""

    once = False
    """Whether what it does carries an id of its own, to be stored once however often it is tried."""

    lasts = False
    """Whether it never dies: with nobody alive nothing comes to an end."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.paused = False
        """Its process stands still; what it has asked for is not answered either."""
        self.dead = False
        self.task: asyncio.Task[None] | None = None
        self.since: dict[Topic, int] = {}
        """The floors when its last step began."""

    @property
    def idle(self) -> bool:
        """Whether it can be told to do something."""
        return self.task is None or self.task.done()

    @property
    def finished(self) -> bool:
        """Whether nothing is left that it should still do."""
        return self.idle

    def step(self) -> None:
        """Begin the next thing."""
        self.since = {topic: state.floor for topic, state in self.world.states.items()}
        self.task = asyncio.ensure_future(self.act())

    def finish(self) -> None:
        """Bring to an end what was begun; called again and again once the world is calm."""

    async def act(self) -> None:
        raise NotImplementedError

    def runs(self, topic: Topic) -> set[str]:
        """Give the ids of its runs that work on a topic."""
        return set()

    def hung_up(self) -> None:
        """Hear that the server has gone."""


@dataclass
class Call:
    """A call that waits until the world lets it go, and then until its answer is delivered."""

    actor: Actor
    topic: Topic
    name: str
    send: Callable[[], Awaitable[Any]]
    request: AppendRequest | None
    position: Position
    answer: asyncio.Future[Any]


class Road:
    """One actor's way to the broker, on which every call waits for the world."""

    def __init__(self, world: "World", actor: Actor, broker: Broker) -> None:
        self._world = world
        self._actor = actor
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    async def append(self, topic: Topic, request: AppendRequest, *, position: Position) -> AppendAnswer:
        answer: AppendAnswer = await self._ask(
            "append", topic, position, lambda: self._broker.append(topic, request, position=position), request
        )
        return answer

    async def read(self, topic: Topic, position: Position, *, limit: int = 1000, seen: bool = False) -> History:
        answer: History = await self._ask(
            "read", topic, position, lambda: self._broker.read(topic, position, limit=limit, seen=seen)
        )
        return answer

    async def trim(self, topic: Topic, snapshot: bytes, *, position: Position, size: int) -> Trimmed | Stale:
        answer: Trimmed | Stale = await self._ask(
            "trim", topic, position, lambda: self._broker.trim(topic, snapshot, position=position, size=size)
        )
        return answer

    async def renew(
        self, topic: Topic, *, run: str, token: str, lease: int, position: Position
    ) -> Appended | Restore | Ended | Fenced:
        answer: Appended | Restore | Ended | Fenced = await self._ask(
            "renew",
            topic,
            position,
            lambda: self._broker.renew(topic, run=run, token=token, lease=lease, position=position),
        )
        return answer

    async def declare_lost(self, topic: Topic, *, run: str, data: bytes, position: Position) -> Appended | Busy | None:
        async def send() -> Appended | Busy | None:
            answer = await self._broker.declare_lost(topic, run=run, data=data, position=position)
            if isinstance(answer, Appended):
                self._world.lost(topic, run, data, answer)
            return answer

        answer: Appended | Busy | None = await self._ask("declare_lost", topic, position, send)
        return answer

    async def set_due(self, topic: Topic, at: int | None) -> None:
        """Lose a hint, which may always happen (STORE.md 6); nobody sweeps here but when the world says so."""

    async def wake(self, topic: Topic) -> None:
        """Lose a hint."""

    def link(self, listener: Listener) -> Link:
        """Lose every wake-up: that costs a renewal at most (STORE.md 7)."""
        return _Silence()

    async def _ask(
        self,
        name: str,
        topic: Topic,
        position: Position,
        send: Callable[[], Awaitable[Any]],
        request: AppendRequest | None = None,
    ) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._world.waiting.append(Call(self._actor, topic, name, send, request, position, answer))
        return await answer


class _Silence:
    """A link that carries nothing."""

    up = True

    async def subscribe(self, channel: str) -> None:
        pass

    async def unsubscribe(self, channel: str) -> None:
        pass

    async def aclose(self) -> None:
        pass


@dataclass
class Acknowledgement:
    """An append that its writer was told is stored."""

    actor: Actor
    topic: Topic
    request: AppendRequest
    answer: Appended


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
            fail_over=perhaps(0.2, 0.06),
            evict=perhaps(0.2, 0.03),
            lapse=perhaps(0.4, 0.06),
            pause=perhaps(0.4, 0.04),
            death=perhaps(0.3, 0.015),
        )


class World:
    """Everything that happens from one seed.

    Args:
        seed: Of all choices.
        kind: ``runs``, real ones; ``authors``, the plain ones of this checker; ``late``, these, and standing still.
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
        self.truths = {topic: Truth() for topic in self.topics}
        self.states = {topic: State() for topic in self.topics}
        self.forgotten_below = dict.fromkeys(self.topics, 0)
        """Up to here a trim may have dropped what an append was answered."""
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
        floor = self.states[topic].floor
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
        for broker in self.brokers:
            await broker.aclose()

    def lost(self, topic: Topic, run: str, data: bytes, answer: Appended) -> None:
        """Note the end that somebody wrote for a run."""
        if self.states[topic].deadline > _LAPSED:
            raise Violation(f"run {run} is declared lost, and its lease has not lapsed")
        self._inspect(topic)
        self.truths[topic].stored(
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
            self._save: 0.05 if self.faults.kill or self.faults.copy_back else 0.0,
            self._restart: self.faults.restart,
            self._kill: self.faults.kill,
            self._copy_back: self.faults.copy_back,
            self._fail_over: self.faults.fail_over,
            self._evict: self.faults.evict,
            self._lapse: self.faults.lapse,
            self._pause: self.faults.pause,
            self._die: self.faults.death,
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
        before = self.states[call.topic]
        self.pair.catch_up()
        with self._answering():
            answers = await asyncio.gather(*(call.send() for _ in range(times)), return_exceptions=True)
        self._inspect(call.topic)
        for answer in answers:
            self.note(f"  {call.actor.name} {call.name} {_told(call)} -> {_brief(answer)}")
            if isinstance(answer, BaseException):
                if not isinstance(answer, BrokerUnavailableError):
                    raise Violation(f"{call.name} fails: {answer}") from answer
                self.seen["unavailable"] += 1
                continue
            repeated = isinstance(answer, Appended) and answer.repeated
            self.seen[f"{call.name} {type(answer).__name__}{' again' if repeated else ''}"] += 1
            if call.request is not None:
                self._appended(call, call.request, answer, before)
            elif isinstance(answer, History):
                self._read(call, answer)
            elif isinstance(answer, Trimmed):
                self.forgotten_below[call.topic] = max(self.forgotten_below[call.topic], before.floor)
        return answers

    def _answer(self, call: Call, answer: Any) -> None:
        if isinstance(answer, BaseException):
            call.answer.set_exception(answer)
            return
        if call.request is not None and isinstance(answer, Appended):
            self.acknowledged.append(Acknowledgement(call.actor, call.topic, call.request, answer))
        call.answer.set_result(answer)

    # The laws that each answer must keep

    def _appended(self, call: Call, request: AppendRequest, answer: Any, before: State) -> None:
        truth = self.truths[call.topic]
        if isinstance(answer, Appended) and not answer.repeated:
            facts = [
                Fact(
                    kind=entry.kind,
                    type=entry.type,
                    data=entry.data,
                    message=entry.message,
                    request=request,
                    run=request.run,
                )
                for entry in request.entries
            ]
            if request.lease is not None and before.holder != request.run:
                self._took(call, answer)
            truth.stored(answer.position.epoch, answer.first, facts)
        elif isinstance(answer, Appended):
            fact = truth.path(answer.position.epoch, answer.position.offset).get(answer.first)
            if fact is None or fact.request is None or fact.request.writer != request.writer:
                raise Violation(f"{request.writer} is told that its append is at {answer.position}, where it is not")
        after = self.states[call.topic]
        if request.run and before.epoch and all(truth.continues(call.position, state) for state in (before, after)):
            self._final(call, request, answer, before)

    def _took(self, call: Call, answer: Appended) -> None:
        """Whoever takes a topic knows what the run before left open: it has read that run's end."""
        path = self.truths[call.topic].path(answer.position.epoch, answer.first - 1)
        end = max((offset for offset, fact in path.items() if fact.kind == "x"), default=0)
        if call.position.offset < end:
            raise Violation(f"{call.actor.name} takes a topic at {call.position}, whose last run ended at {end}")

    def _final(self, call: Call, request: AppendRequest, answer: Any, before: State) -> None:
        """Law 8: whoever comes after a run's end is told of it."""
        path = self.truths[call.topic].path(before.epoch, before.top)
        ends = [offset for offset, fact in path.items() if fact.kind == "x" and fact.run == request.run]
        if not ends or ends[0] <= self.forgotten_below[call.topic]:
            return
        if isinstance(answer, Appended) and answer.repeated:
            return
        if not isinstance(answer, Ended) or answer.position.offset != ends[0]:
            raise Violation(f"run {request.run} ended at {ends[0]}, and then was answered {answer}")

    def _read(self, call: Call, answer: History) -> None:
        state, truth = self.states[call.topic], self.truths[call.topic]
        goes_on = truth.continues(call.position, state) and call.position.offset >= state.floor
        if answer.complete and not goes_on:
            raise Violation(f"who stood at {call.position} goes on in {state}")
        if goes_on and not answer.complete:
            raise Violation(f"who stood at {call.position} may not go on in {state}")
        if state.epoch:
            self._all_there(answer, state, truth, after=call.position.offset if answer.complete else answer.floor)

    def _all_there(self, answer: History, state: State, truth: Truth, *, after: int) -> None:
        """Law 1, and 7: a reader gets all that was stored, but for deltas of ended messages."""
        path = truth.path(state.epoch, state.top)
        ended = {fact.message for fact in path.values() if fact.kind == "e"}
        given = {stored.offset: stored.data for stored in answer.events}
        for offset in range(after + 1, answer.upto + 1):
            fact = path[offset]
            if given.pop(offset, None) != fact.data and not (fact.kind == "d" and fact.message in ended):
                raise Violation(f"a reader of {after + 1} to {answer.upto} is not given {offset}: {fact.data!r}")
        if given:
            raise Violation(f"a reader of {after + 1} to {answer.upto} is given {given}")

    # Faults

    async def _save(self) -> None:
        if self.faults.copy_back and self.random.random() < 0.4:
            self.pair.back_up()
            self.note("BACKUP")
        else:
            self.pair.save()
            self.note("SAVE")

    async def _restart(self) -> None:
        self.pair.restart()
        await self._disrupted("RESTART")

    async def _kill(self) -> None:
        self.pair.kill()
        self.rolled_back = True
        await self._disrupted("KILL")

    async def _copy_back(self) -> None:
        if self.pair.backed_up:
            self.pair.copy_back()
            self.rolled_back = True
            await self._disrupted("COPIED BACK")

    async def _fail_over(self) -> None:
        if self.pair.cut_off:
            hang_up = self.random.random() < 0.5
            self.pair.fail_over(hang_up=hang_up)
            self.rolled_back = True
            await self._disrupted("FAIL-OVER" if hang_up else "FAIL-OVER without a word", hang_up=hang_up)
        elif self.pair.follows:
            self.pair.cut()
            self.note("CUT")
        else:
            self.pair.follow()
            self.note("FOLLOW")

    async def _evict(self) -> None:
        topic = self.random.choice(self.topics)
        keys = Keys("w").of(topic)
        lost = keys if self.random.random() < 0.1 else [self.random.choice(keys[:4])]
        if self.pair.plain.call("UNLINK", *lost):
            self.evicted = True
            self.truths[topic].causes += 1
            self.note(f"EVICTED {' '.join(lost)}")
            self.seen[f"evicted {lost[0] if len(lost) == 1 else 'all'}"] += 1

    async def _lapse(self) -> None:
        self.lapse(self.random.choice(self.topics))

    def lapse(self, topic: Topic) -> None:
        """Let a lease's time pass."""
        state = Keys("w").of(topic)[0]
        lease = self.pair.plain.call("HGET", state, "lease")
        if lease:
            run, token, _, length = lease.split(b" ")
            # For as long as that took, the links of all have been steady.
            self.loop.jump(int(length) / 1000)
            self.pair.plain.call("HSET", state, "lease", b" ".join((run, token, b"%d" % _LAPSED, length)))
            self._inspect(topic)
            self.note(f"LAPSED {run.decode()}")

    async def _pause(self) -> None:
        actor = self.random.choice(self.actors)
        actor.paused = not actor.paused
        self.note(f"{actor.name} {'pauses' if actor.paused else 'goes on'}")

    async def _die(self) -> None:
        actor = self.random.choice([actor for actor in self.actors if not actor.lasts])
        actor.dead = True
        self.note(f"{actor.name} DIES")

    async def _disrupted(self, what: str, *, hang_up: bool = True) -> None:
        self.note(what)
        self.seen[what] += 1
        for actor in self.actors:
            actor.hung_up()
        if hang_up:
            # That the connections have ended is heard before anything else happens, or it could not be played again.
            with self._answering():
                while any(keeper._server.wires for broker in self.brokers for keeper in (broker._steps, broker._pages)):
                    await asyncio.sleep(0)
        for topic in self.topics:
            self.truths[topic].causes += 1
            self._inspect(topic)

    # The end

    async def _end(self) -> None:
        self.calm = True
        self.note("CALM")
        for actor in self.actors:
            actor.paused = False
        for number in range(_MAX_STEPS):
            await self._settle()
            for topic, state in self.states.items():
                if number % _LAPSE_STEPS == 0 and state.holder and state.holder not in self.live_runs(topic):
                    self.lapse(topic)
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
        return done and not any(state.holder for state in self.states.values())

    async def _touch(self) -> None:
        for topic in self.topics:
            with self._answering(), suppress(BrokerUnavailableError):
                await self.brokers[1].read(topic, START, limit=0, seen=True)
            self._inspect(topic)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        self.loop.calls += 1
        try:
            yield
        finally:
            self.loop.calls -= 1

    def _inspect(self, topic: Topic) -> None:
        state = self.inspected(topic)
        self.states[topic] = state
        if state.epoch:
            self.truths[topic].learn(state)

    def inspected(self, topic: Topic) -> State:
        """Read a topic's state past the scripts."""
        epoch, lineage, floor, kept, log, lease = self.pair.plain.call(
            "HMGET", Keys("w").of(topic)[0], "epoch", "lineage", "floor", "d", "log", "lease"
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
        )


def _told(call: Call) -> str:
    if call.request is None:
        return str(call.position)
    request = call.request
    parts = [f"{call.position} {request.writer[-20:]}#{request.seq[:8]}"]
    if request.lease is not None:
        parts.append("LEASE")
    if request.log is not None:
        parts.append(f"log {request.log.first}-{request.log.next}")
    parts.extend(f"{entry.kind}:{entry.type}" for entry in request.entries)
    return " ".join(parts)


def _brief(answer: Any) -> str:
    if isinstance(answer, History):
        return (
            f"History({answer.epoch}:{answer.top} floor {answer.floor} complete={answer.complete} upto {answer.upto})"
        )
    return str(answer)
