"""A run by the letter of STORE.md, without any of the gateway's code."""

from typing import Any

import msgspec

from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Busy,
    Change,
    Conflict,
    Deleted,
    Ended,
    Entry,
    Fenced,
    LogStep,
    Restore,
)
from gateway.codec import encode_event
from gateway.context.log import chain_hash
from gateway.errors import BrokerUnavailableError
from gateway.recorder import lost_event
from gateway.types import START, Position, Topic
from tests.checker.actor import Actor
from tests.checker.agent import LEASE
from tests.checker.truth import Violation
from tests.checker.world import World

__all__ = ["Author"]


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
                again = msgspec.structs.replace(kept, conditions=(), lease=round(LEASE * 1000) if takes else None)
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
        if isinstance(answer, Deleted) and not self.world.judges[self.topic].deletions:
            raise Violation(f"run {self.run} is told of a deletion that nobody asked for")
        if not isinstance(answer, Deleted | Ended | Fenced | Conflict):
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
            lease=round(LEASE * 1000) if lease else None,
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
