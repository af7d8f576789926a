"""From changes of a run's context to the events that tell them: the log, with seq and hash, and its other fields."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.blobs import cut
from gateway.broker.port import Entry, LogStep
from gateway.codec import encode_event
from gateway.context.context import Context
from gateway.context.log import chain_hash
from gateway.context.messages import ToolCall
from gateway.context.times import format_time
from gateway.errors import EventRefusedError
from gateway.event_types import LOG_FIELDS
from gateway.outbox import Outgoing
from gateway.types import EntryKind

__all__ = ["Recorder", "lost_event", "outgoing"]

_FIELDS = ("id", "agent_name", "system_prompt", "needs_response", "iteration", "max_iterations")


class Recorder:
    """The context of a run, as its topic knows it.

    Args:
        run: The run's id.
        context: The topic's context.
        published: The same, as the topic's mirror has it (PROTOCOL.md 5.1).
        hash: The log's chain hash.

    """

    def __init__(self, *, run: str, context: Context, published: Mapping[str, Any], hash: str) -> None:
        self._run = run
        self._hash = hash
        self._published = {name: published.get(name) for name in (*_FIELDS, "started_at", "title")}
        self._calls = len(context.tool_calls)
        self.context = context
        self.title: str | None = self._published["title"]

    def undo(self) -> Callable[[], None]:
        """Give what takes back all that is recorded from now on, as if it had never been."""
        kept = dict(self.__dict__)
        return lambda: self.__dict__.update(kept)

    def mark(self) -> tuple[int, str]:
        """Give the log's next seq and chain hash."""
        return self.context.log.next_seq, self._hash

    def step_since(self, mark: tuple[int, str]) -> LogStep | None:
        """Give how the log has moved since a mark; None where it has not."""
        first, before = mark
        if self.context.log.next_seq == first:
            return None
        return LogStep(first=first, before=before, next=self.context.log.next_seq, after=self._hash)

    def record(
        self,
        after: Context,
        *,
        at: int,
        run: str | None = None,
        message: str | None = None,
        title: str | None = None,
    ) -> tuple[list[Outgoing], LogStep | None]:
        """Take a context that continues this one, and give the events that make readers' mirrors follow.

        Args:
            after: The context.
            at: Unix time in ms.
            run: Whose logged events they are; None is this run.
            message: The message that the logged events belong to; None for none.
            title: The topic's title; None leaves it.

        Raises:
            EventRefusedError: It does not continue this one, or an event breaks an entry rule; nothing has changed.

        """
        calls = self.context.tool_calls
        if not after.log.continues(self.context.log) or after.tool_calls[: self._calls] != calls:
            raise EventRefusedError("expected a context that continues the run's own")
        out: list[Outgoing] = []
        mark = self.mark()
        chain = self._hash
        for event in after.log.since(mark[0]):
            raw = event.to_dict()
            data, time = raw["data"], raw["time"]
            forbidden = data.keys() & LOG_FIELDS
            if forbidden:
                raise EventRefusedError(f"{event.type} has fields that an event needs itself: {', '.join(forbidden)}")
            # The run's own context keeps the whole; the log's hash is over what travels.
            small = cut(data)
            common = {"type": event.type, "at": at, "run": run or self._run, "seq": event.seq, "time": time}
            flat = common | small.data
            if message is not None:
                flat["message"] = message
            if small.blobs:
                flat["blobs"] = small.blobs
            ends = message is not None and event.type == "assistant_message"
            out.append(outgoing(flat, kind="e" if ends else "h", values=small.values))
            chain = chain_hash(chain, event.seq, event.type, time, small.data)
        fields = self._changed(after, title)
        added = [cut(_plain(call)) for call in after.tool_calls[self._calls :]]
        if added:
            items = [{**call.data, "blobs": call.blobs} if call.blobs else call.data for call in added]
            fields["tool_calls"] = {"from": self._calls, "items": items}
        if fields:
            values = {name: value for call in added for name, value in call.values.items()}
            out.append(outgoing({"type": "context", "at": at, "run": self._run, **fields}, values=values))
        self.context, self._hash, self._calls = after, chain, len(after.tool_calls)
        self._published = self._published | {name: value for name, value in fields.items() if name != "tool_calls"}
        self.title = self._published["title"]
        return out, self.step_since(mark)

    def _changed(self, after: Context, title: str | None) -> dict[str, Any]:
        now = {name: getattr(after, name) for name in _FIELDS}
        now["started_at"] = None if after.started_at is None else format_time(after.started_at)
        now["title"] = self.title if title is None else title
        return {name: value for name, value in now.items() if value != self._published[name]}


def outgoing(event: Mapping[str, Any], *, kind: EntryKind = "h", values: Mapping[str, str] = {}) -> Outgoing:
    """Encode an event for the outbox.

    Args:
        event: The event.
        kind: How it is stored.
        values: Hash -> large value that it refers to.

    Raises:
        EventRefusedError: It breaks an entry rule.

    """
    # Elsewhere a field of this name is no id: a log line's is its text.
    named = event["message"] if kind == "e" else ""
    entry = Entry(kind=kind, type=str(event.get("type", "")), message=named, data=encode_event(event))
    return Outgoing(entry=entry, event=event, values=values)


def _plain(call: dict[str, Any] | ToolCall) -> dict[str, Any]:
    return call.to_dict() if isinstance(call, ToolCall) else call


def lost_event(run: str, *, at: int) -> bytes:
    """Encode the end of a run whose process has stopped answering.

    Args:
        run: Its id.
        at: Unix time in ms.

    """
    return encode_event({"type": "agent_lost", "at": at, "run": run, "reason": "its process stopped answering"})
