"""Whoever appends, in few words."""

import hashlib
from collections.abc import Sequence
from typing import Any

from gateway.broker.port import AppendAnswer, Appended, AppendRequest, Broker, Change, Condition, Entry, LogStep
from gateway.types import START, EntryKind, Position, Topic

__all__ = ["Author", "act", "after", "event", "stored"]


def event(text: str, *, kind: EntryKind = "h", message: str = "", type: str = "") -> Entry:
    types = {"d": "agent_delta", "e": "assistant_message", "x": "agent_complete", "h": "log"}
    return Entry(kind=kind, type=type or types[kind], message=message, data=b'{"text":"%s"}' % text.encode())


def after(before: str, text: str) -> str:
    """A chain hash: some text after some other."""
    return hashlib.sha256((before + text).encode()).hexdigest()


class Author:
    """A run that appends to one topic and keeps its position, as a publisher would."""

    def __init__(self, broker: Broker, topic: Topic, *, run: str = "run1") -> None:
        self.broker = broker
        self.topic = topic
        self.run = run
        self.token = f"token-{run}"
        self.position: Position = START
        self.seq = 0

    async def add(
        self,
        *entries: Entry | str,
        seq: int | None = None,
        log: LogStep | None = None,
        lease: int | None = None,
        conditions: Sequence[Condition] = (),
        changes: Sequence[Change] = (),
        position: Position | None = None,
    ) -> AppendAnswer:
        if seq is None:
            self.seq += 1
            seq = self.seq
        answer = await self.broker.append(
            self.topic,
            AppendRequest(
                writer=self.run,
                seq=str(seq),
                run=self.run,
                token=self.token,
                entries=[event(entry) if isinstance(entry, str) else entry for entry in entries],
                log=log,
                lease=lease,
                conditions=conditions,
                changes=changes,
            ),
            position=self.position if position is None else position,
        )
        if isinstance(answer, Appended):
            self.position = answer.position
        return answer

    async def start(self, *, lease: int = 30_000) -> Appended:
        # Who takes a topic has read it.
        history = await self.broker.read(self.topic, START, limit=0)
        self.position = Position(epoch=history.epoch, offset=history.top)
        return stored(await self.add(event("start", type="agent_start"), lease=lease))

    async def delta(self, text: str, message: str = "m1") -> AppendAnswer:
        return await self.add(event(text, kind="d", message=message))

    async def end_message(self, text: str, message: str = "m1") -> AppendAnswer:
        return await self.add(event(text, kind="e", message=message))

    async def end(self) -> AppendAnswer:
        return await self.add(event("end", kind="x"))


def stored(answer: Any) -> Appended:
    assert isinstance(answer, Appended), answer
    return answer


async def act(
    broker: Broker,
    topic: Topic,
    name: str,
    *entries: Entry | str,
    seq: str = "body",
    conditions: Sequence[Condition] = (),
    changes: Sequence[Change] = (),
    position: Position = START,
) -> AppendAnswer:
    """Append a person's action."""
    request = AppendRequest(
        writer=f"u/ann/{name}",
        seq=seq,
        entries=[event(entry) if isinstance(entry, str) else entry for entry in entries or (name,)],
        conditions=conditions,
        changes=changes,
    )
    return await broker.append(topic, request, position=position)
