"""Everything that a topic holds, as lines of JSON in its order, a page at a time (PROTOCOL.md 11)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from gateway.blobs import hashes
from gateway.broker.port import Broker, History
from gateway.codec import decode_event, encode_json
from gateway.errors import BrokerUnavailableError, ErrorCode
from gateway.event_types import LOGGED_TYPES
from gateway.fields import index
from gateway.recovery import missed_after
from gateway.session_log import entry_of
from gateway.types import START, Position, Topic

__all__ = ["Export"]

PAGE = 256
"""Events of one read, and archived entries."""

RETRY = 0.1
"""Seconds between two reads while the broker is away."""

_Answer = TypeVar("_Answer")


class Export:
    """One export: up to where the topic stands when it begins.

    Args:
        broker: Where the topic is.
        topic: The topic.
        values: Whether large values are written, too.
        patience: Seconds that the broker may be away.

    """

    def __init__(self, broker: Broker, topic: Topic, *, values: bool, patience: float) -> None:
        self._broker = broker
        self._topic = topic
        self._values = values
        self._patience = patience
        self._told: set[str] = set()
        """Hashes of the values that were written."""
        self._logged = 0
        """The log's seq after the last entry that was written."""

    async def first(self) -> History:
        """Read the first page; give it to `lines`.

        Raises:
            BrokerUnavailableError: The broker is away.

        """
        return await self._broker.read(self._topic, START, limit=PAGE)

    async def lines(self, history: History) -> AsyncIterator[bytes]:
        """Give the lines, each with its newline; the last one is the end, or the error that broke it off.

        Args:
            history: What `first` gave.

        """
        begun = {"topic": self._topic, "epoch": history.epoch, "offset": history.top, "values": self._values}
        yield _line({"export": begun})
        try:
            async for line in self._body(history):
                yield line
        except BrokerUnavailableError:
            yield _error(ErrorCode.INTERNAL, "the broker is away")

    async def _body(self, history: History) -> AsyncIterator[bytes]:
        top, cursor = history.top, 0
        while True:
            if not history.complete:
                async for line in self._snapshot(history):
                    yield line
                cursor = history.floor if history.snapshot_position is None else history.snapshot_position.offset
            for event in missed_after(cursor, history.events):
                # Past the top only where it was a delta whose message has ended since: that end stands for it.
                if cursor >= top:
                    break
                cursor = event.offset
                data = decode_event(event.data)
                yield _line(self._placed(history.epoch, event.first, cursor, data))
                self._note(data)
                async for line in self._large(data.get("blobs"), *_calls(data)):
                    yield line
            if cursor >= top or history.upto >= history.top:
                yield _line({"end": {"epoch": history.epoch, "offset": cursor}})
                return
            position = Position(epoch=history.epoch, offset=max(cursor, history.upto))
            history = await self._insist(partial(self._broker.read, self._topic, position, limit=PAGE, seen=True))
            if not history.complete and history.epoch != position.epoch:
                yield _error(ErrorCode.UNRECOVERABLE_POSITION, "the history was replaced while it was exported")
                return

    async def _snapshot(self, history: History) -> AsyncIterator[bytes]:
        """Give what was trimmed: what only the archive has, then the state."""
        if history.snapshot is None or history.snapshot_position is None:
            return
        snapshot = decode_event(history.snapshot)
        context = snapshot["mirror"]["context"]
        known = {entry["seq"] for entry in context["events"]}
        missing = [seq for seq in range(self._logged, context["next_seq"]) if seq not in known]
        for start in range(0, len(missing), PAGE):
            part = missing[start : start + PAGE]
            found = await self._insist(partial(self._broker.archived, self._topic, part))
            for seq in part:
                entry = entry_of(decode_event(found[seq])) if seq in found else None
                if entry is not None:
                    yield _line({"archived": entry})
                    async for line in self._large(entry.get("blobs")):
                        yield line
        offset = history.snapshot_position.offset
        data = {"type": "snapshot", **snapshot, "epoch": history.epoch}
        yield _line(self._placed(history.epoch, offset, offset, data))
        self._logged = max(self._logged, context["next_seq"])
        async for line in self._large(*(entry.get("blobs") for entry in context["events"]), *_calls(context)):
            yield line

    async def _large(self, *references: object) -> AsyncIterator[bytes]:
        """Give the values that are referred to, each once; one that is gone is passed over."""
        if not self._values:
            return
        for name in [name for blobs in references for name in hashes(blobs)]:
            if name in self._told:
                continue
            self._told.add(name)
            found = await self._insist(partial(self._broker.blobs, self._topic, [name]))
            if name in found:
                yield _line({"value": {"hash": name, "bytes": len(found[name]), "text": found[name].decode()}})

    def _placed(self, epoch: str, first: int, offset: int, data: dict[str, Any]) -> dict[str, Any]:
        """Make the line of an event, as ``gateway tail --json`` prints it."""
        line: dict[str, Any] = {"topic": self._topic, "epoch": epoch, "offset": offset, "data": data}
        return line if first == offset else {**line, "from": first}

    def _note(self, data: dict[str, Any]) -> None:
        seq = index(data.get("seq")) if data.get("type") in LOGGED_TYPES else None
        if seq is not None:
            self._logged = max(self._logged, seq + 1)

    async def _insist(self, call: Callable[[], Awaitable[_Answer]]) -> _Answer:
        deadline = asyncio.get_running_loop().time() + self._patience
        while True:
            try:
                return await call()
            except BrokerUnavailableError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(RETRY)


def _calls(owner: dict[str, Any]) -> Iterable[object]:
    """Give the references of the tool calls of a context, or of a `context` event."""
    calls = owner.get("tool_calls")
    items = calls.get("items") if isinstance(calls, dict) else calls
    return [item.get("blobs") for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _line(value: dict[str, Any]) -> bytes:
    return encode_json(value) + b"\n"


def _error(code: ErrorCode, message: str) -> bytes:
    return _line({"error": {"code": int(code), "message": message}})
