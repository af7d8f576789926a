"""Those who write: runs, raw authors, people, publishers beside runs, and sweepers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from gateway.actions import Actions, Caller
from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Busy,
    Change,
    Conflict,
    Ended,
    Entry,
    Fenced,
    LogStep,
    Restore,
)
from gateway.codec import encode_event, encode_json
from gateway.context.log import chain_hash
from gateway.context.messages import Message, ToolCall
from gateway.errors import BrokerUnavailableError, CommandError, ConditionError, PublishError, TopicBusyError
from gateway.publisher import Publisher
from gateway.recorder import lost_event
from gateway.run import Run
from gateway.topic_state import read_topic
from gateway.types import START, Position, Topic
from tests.checker.truth import Violation
from tests.checker.world import Actor, World

__all__ = ["Agent", "Author", "Person", "Sweeper", "Talker"]

_LEASE = 30.0
"""Seconds; it lapses when the world says so, long before."""


class Agent(Actor):
    """A process with a publisher that runs one run after another on a topic; the real `Run`."""

    def __init__(self, world: World, name: str, topic: Topic, *, most: int) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._publisher = Publisher(broker=world.road(self, 0), flush_interval=0, lease=_LEASE)
        self._most = most
        """Runs that it begins at most."""
        self._begun = 0
        self._said = 0
        self._wanted: asyncio.Future[Callable[[Run], Awaitable[Any]] | None] = world.loop.create_future()
        """What it is to do next; None = to end the run."""
        self._asking: list[asyncio.Task[Any]] = []
        self._run: Run | None = None
        self._busy = False
        """Whether it does what it was told last."""
        self.ended: list[Run] = []
        """The runs that wrote their end themselves."""
        self.failed: list[tuple[str, Exception]] = []
        """The others, and why."""

    @property
    def idle(self) -> bool:
        return not self._busy and not self._wanted.done()

    @property
    def finished(self) -> bool:
        return self.task is None or self.task.done()

    def runs(self, topic: Topic) -> set[str]:
        return {self._run.id} if self._run is not None and topic == self.topic else set()

    def step(self) -> None:
        if self.task is None or self.task.done():
            if self._begun < self._most:
                self._busy = True
                super().step()
            return
        self._busy = True
        self._wanted.set_result(self._chosen())

    def finish(self) -> None:
        if not self.finished:
            self._busy = True
            self._wanted.set_result(None)

    async def act(self) -> None:
        self._begun += 1
        run: Run | None = None
        try:
            run = await self._opened()
            self._run = run
            async with run:
                while True:
                    self._wanted = self.world.loop.create_future()
                    self._busy = False
                    order = await self._wanted
                    if order is not None:
                        await order(run)
                    if order is None or run.ended is not None:
                        break
            if run.ended is not None:
                self.ended.append(run)
        except (TopicBusyError, ConditionError):
            pass
        except PublishError as error:
            if run is not None:
                self.failed.append((run.id, error))
        finally:
            for asking in self._asking:
                asking.cancel()
            self._asking.clear()
            self._run = None
            self._busy = False

    async def _opened(self) -> Run:
        if self.world.random.random() < 0.5:
            state = await self._publisher.read(self.topic)
            run = self._publisher.take(state, agent=self.name)
            if run is not None:
                return run
        return self._publisher.run(self.topic, agent=self.name)

    def _chosen(self) -> Callable[[Run], Awaitable[Any]] | None:
        self._said += 1
        said = f"{self.name}.{self._begun}.{self._said}"
        random = self.world.random

        async def answer(run: Run) -> None:
            await run.add_message(Message.assistant(said))

        async def tool(run: Run) -> None:
            await run.tool_call(said, "look", {"at": said})
            await run.tool_result(said, "look", said)

        async def ask(run: Run) -> None:
            call = ToolCall(id=said, name="look", arguments="{}")
            self._asking.append(asyncio.ensure_future(run.approval(call, timeout=None)))

        async def fail(run: Run) -> None:
            await run.fail(said)

        async def clear(run: Run) -> None:
            await run.change_context(lambda context: context.clear())

        async def discard(run: Run) -> None:
            if run.open_message is not None:
                await run.discard(reason=said)

        orders: list[tuple[float, Callable[[Run], Awaitable[Any]] | None]] = [
            (4, lambda run: run.delta(said)),
            (1, lambda run: run.delta(said, message=random.choice((run.open_message, f"{run.id}-{said}")))),
            (1, lambda run: run.thinking(said)),
            (1, lambda run: run.tool_call_delta(index=0, text=said)),
            (3, answer),
            (1, lambda run: run.add_message(Message.user(said))),
            (1, tool),
            (1, lambda run: run.usage({"input_tokens": self._said}, call=f"{run.id}-{random.randrange(2)}")),
            (1, lambda run: run.log("info", said)),
            (1, lambda run: run.emit({"type": "own", "text": said})),
            (1, lambda run: run.set_context(title=said, system_prompt=said)),
            (1, lambda run: run.log_event("turn_start", {"turn": said})),
            (1, ask),
            (0.3, clear),
            (0.5, discard),
            (1, lambda run: run.flush()),
            (0.3, fail),
            (0.7, None),
        ]
        return random.choices([order for _, order in orders], [weight for weight, _ in orders])[0]


class Author(Actor):
    """A run that keeps the rules of STORE.md 3 in the plainest way: it keeps all, and writes all again."""

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._road = world.road(self, 0)
        self._lives = 0
        self._said = 0
        self.ended: dict[str, list[AppendRequest]] = {}
        """What the runs wrote that wrote their end themselves."""
        self._reset()

    def _reset(self) -> None:
        self._lives += 1
        self.run = f"{self.name}-{self._lives}"
        self._token = f"token-{self.run}"
        self._position = START
        self._kept: list[AppendRequest] = []
        self._first = (0, "")
        self._open: list[str] = []
        self._calls = 0
        self._messages = 0
        self._started = False

    @property
    def finished(self) -> bool:
        return self.idle and not self._started

    def runs(self, topic: Topic) -> set[str]:
        return {self.run} if self._started and topic == self.topic else set()

    def finish(self) -> None:
        if not self.finished:
            self.step()

    async def act(self) -> None:
        if not self._started:
            await self._start()
            return
        entries, log, changes = self._chosen()
        await self._deliver(self._request(entries, log=log, changes=changes))

    async def _start(self) -> None:
        try:
            history = await self._road.read(self.topic, START, limit=0)
        except BrokerUnavailableError:
            return
        self._position = Position(epoch=history.epoch, offset=history.top)
        self._first = (history.seq, history.hash)
        # Now and then with a log of as many events that is another one, which must be told apart.
        chain = history.hash if self.world.random.random() > 0.1 else "0" * 64
        step = LogStep(first=history.seq, before=chain, next=history.seq, after=chain)
        request = self._request([self._entry("agent_start", agent=self.name)], log=step, lease=True)
        answer = await self._append(request)
        if isinstance(answer, Appended):
            self._started = True
            self._stored(request, answer)
            return
        if isinstance(answer, Busy):
            await self._bury(answer.holder)
        self._reset()

    async def _deliver(self, request: AppendRequest) -> None:
        answer = await self._append(request)
        while isinstance(answer, Restore):
            if not await self._restore(answer):
                return
            answer = await self._append(request)
        if isinstance(answer, Appended):
            self._stored(request, answer)
            if request.entries[-1].kind == "x":
                self.ended[self.run] = self._kept
                self._reset()
        else:
            self._refused(answer)

    async def _restore(self, answer: Restore) -> bool:
        hashes = {self._first[0]: self._first[1]}
        hashes.update((kept.log.next, kept.log.after) for kept in self._kept if kept.log is not None)
        while True:
            if hashes.get(answer.seq) != answer.hash:
                self._reset()
                return False
            self._position = answer.position
            known = int(answer.append_seq or 0)
            takes = answer.holder != self.run
            for kept in self._kept:
                if int(kept.seq) <= known:
                    continue
                again = msgspec.structs.replace(kept, conditions=(), lease=round(_LEASE * 1000) if takes else None)
                outcome = await self._append(again)
                while isinstance(outcome, Busy):
                    await self._bury(outcome.holder)
                    outcome = await self._append(again)
                if isinstance(outcome, Restore):
                    answer = outcome
                    break
                if not isinstance(outcome, Appended):
                    self._refused(outcome)
                    return False
                self._position, takes = outcome.position, False
            else:
                return True

    async def _bury(self, holder: str) -> None:
        try:
            await self._road.declare_lost(
                self.topic, run=holder, data=lost_event(holder, at=self._road.now()), position=self._position
            )
        except BrokerUnavailableError:
            return

    def _refused(self, answer: AppendAnswer) -> None:
        if not isinstance(answer, Ended | Fenced | Conflict):
            raise Violation(f"run {self.run} is answered {answer}")
        self._reset()

    def _stored(self, request: AppendRequest, answer: Appended) -> None:
        self._position = answer.position
        self._kept.append(request)

    async def _append(self, request: AppendRequest) -> AppendAnswer:
        while True:
            try:
                return await self._road.append(self.topic, request, position=self._position)
            except BrokerUnavailableError:
                continue

    def _request(
        self, entries: list[Entry], *, log: LogStep | None, changes: tuple[Change, ...] = (), lease: bool = False
    ) -> AppendRequest:
        return AppendRequest(
            writer=self.run,
            seq=str(len(self._kept) + 1),
            entries=entries,
            run=self.run,
            token=self._token,
            log=log,
            lease=round(_LEASE * 1000) if lease else None,
            changes=changes,
        )

    def _entry(self, type: str, *, kind: Any = "h", **fields: Any) -> Entry:
        self._said += 1
        event = {"type": type, "run": self.run, "said": f"{self.name}.{self._said}", **fields}
        message = fields.get("message", "") if kind in "de" else ""
        return Entry(kind=kind, type=type, message=message, data=encode_event(event))

    def _chosen(self) -> tuple[list[Entry], LogStep | None, tuple[Change, ...]]:
        random = self.world.random
        first, before = next((k.log.next, k.log.after) for k in reversed(self._kept) if k.log is not None)
        seq, chain = first, before
        entries: list[Entry] = []
        changes: tuple[Change, ...] = ()

        def log(type: str, *, kind: str = "h", **fields: Any) -> None:
            nonlocal seq, chain
            data = {"content": f"{self.name}.{self._said + 1}"}
            time = "2030-01-01T00:00:00.000000Z"
            entry = self._entry(type, kind=kind, seq=seq, time=time, **data, **fields)
            entries.append(entry)
            hashed = {"said": f"{self.name}.{self._said}", **data}
            chain = chain_hash(chain, seq, type, time, hashed)
            seq += 1

        for _ in range(random.choice((1, 1, 2, 4))):
            what = random.choices(("delta", "open", "end", "log", "own", "ask"), (4, 2, 3, 1, 2, 1))[0]
            if what == "open" or (what in {"delta", "end"} and not self._open):
                self._messages += 1
                self._open.append(f"{self.run}-{self._messages}")
                what = "delta"
            if what == "delta":
                message = random.choice(self._open)
                entries.append(self._entry("agent_delta", kind="d", message=message, text=f"{self._said}"))
            elif what == "end":
                message = self._open.pop(random.randrange(len(self._open)))
                if random.random() < 0.2:
                    entries.append(self._entry("message_discarded", kind="e", message=message))
                else:
                    log("assistant_message", kind="e", message=message)
            elif what == "log":
                log("user_message")
            elif what == "own":
                entries.append(self._entry("own"))
            elif not changes:
                self._calls += 1
                call = f"call{self._calls}"
                entries.append(self._entry("approval_required", tool_call_id=call, name="look", arguments="{}"))
                changes = (Change(field=f"a:{self.run}/{call}", value="pending 0 null"),)
        if self.world.calm or random.random() < 0.1:
            while self._open:
                log("assistant_message", kind="e", message=self._open.pop())
            entries.append(self._entry("agent_complete", kind="x"))
        if not entries:
            entries.append(self._entry("own"))
        moved = None if seq == first else LogStep(first=first, before=before, next=seq, after=chain)
        return entries, moved, changes


class Person(Actor):
    """A user at a gateway, on several pages at once: says things, tries again, takes back, stops, decides."""

    once = True

    def __init__(self, world: World, name: str, topic: Topic, *, user: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._user = user
        self._road = world.road(self, 1)
        self._actions = Actions(self._road)
        self._acted = 0

    async def act(self) -> None:
        what = self.world.random.choices(
            (self._say, self._edit, self._withdraw, self._cancel, self._decide), (4, 1, 1, 1, 3)
        )[0]
        await what()

    async def _say(self) -> None:
        random = self.world.random
        # Nobody tries again after two trims: what a trim forgets could be stored again (STORE.md 4).
        name = f"{random.randrange(4)}.{self.since[self.topic]}"
        content = f"{self._user}/{name}/{random.choices('ab', (4, 1))[0]}"
        await self._call("send", name, content=content)

    async def _withdraw(self) -> None:
        if waiting := await self._found("queue"):
            await self._call("withdraw", self._name(), message=waiting["id"])

    async def _edit(self) -> None:
        if waiting := await self._found("queue"):
            name = self._name()
            await self._call("edit", name, message=waiting["id"], content=f"{self._user}/{name}")

    async def _cancel(self) -> None:
        if run := await self._found("runs"):
            mode = self.world.random.choice(("now", "after_step"))
            await self._call("cancel", self._name(), run=run["run"], mode=mode)

    async def _decide(self) -> None:
        if asked := await self._found("approvals"):
            decision = self.world.random.choice(("approve", "reject"))
            facts = {"run": asked["run"], "tool_call_id": asked["tool_call_id"]}
            await self._call("decide", self._name(), decision=decision, reason=f"{self.name}.{self._acted}", **facts)

    async def _found(self, part: str) -> dict[str, Any] | None:
        try:
            found = (await read_topic(self._road, self.topic)).mirror.state()[part]
        except BrokerUnavailableError:
            return None
        # What is decided or ended is acted on, too: a page may be late.
        chosen: dict[str, Any] | None = self.world.random.choice(found[-3:]) if found else None
        return chosen

    def _name(self) -> str:
        self._acted += 1
        return f"{self.name.partition('@')[0]}.{self._acted}"

    async def _call(self, method: str, name: str, **data: Any) -> None:
        body = encode_json({"topic": self.topic, "id": name, **data})
        try:
            await self._actions.rpc(Caller(client=self.name, user=self._user), method, msgspec.Raw(body))
        except CommandError as error:
            self.world.seen[f"{method} refused {error.code}"] += 1


class Talker(Actor):
    """Somebody who publishes beside the runs, by the real `Publisher.publish`."""

    once = True

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._publisher = Publisher(broker=world.road(self, 0))
        self._said = 0

    async def act(self) -> None:
        self._said += 1
        await self._publisher.publish(self.topic, {"type": "own", "text": f"{self.name}.{self._said}"})


class Sweeper(Actor):
    """A worker that declares lost who has not renewed."""

    lasts = True

    def __init__(self, world: World, name: str, topic: Topic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._road = world.road(self, 1)

    @property
    def finished(self) -> bool:
        holder = self.world.states[self.topic].holder
        return self.idle and (not holder or holder in self.world.live_runs(self.topic))

    def finish(self) -> None:
        if not self.finished:
            self.step()

    async def act(self) -> None:
        run = self.world.states[self.topic].holder
        if run:
            try:
                await self._road.declare_lost(
                    self.topic, run=run, data=lost_event(run, at=self._road.now()), position=START
                )
            except BrokerUnavailableError:
                return
