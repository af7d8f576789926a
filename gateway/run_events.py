"""What a run says between its start and its end: each method one kind of event."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.codec import encode_json
from gateway.context.context import Context
from gateway.context.event import BOOKKEEPING_TYPES
from gateway.context.messages import Message
from gateway.context.redaction import redacted, secrets_of
from gateway.context.usage import Usage
from gateway.errors import EventRefusedError
from gateway.event_types import check_publishable
from gateway.fields import index as as_index
from gateway.recorder import outgoing
from gateway.run_writer import RunWriter
from gateway.tracing import RunTrace
from gateway.types import Position, new_id
from gateway.unfinished import UnfinishedMessages, in_text

__all__ = ["RunEvents"]

MAX_NAMES = 16 * 1024
"""Bytes that the id and the name of a tool call have as JSON: they travel in one event with a piece of text."""


class RunEvents:
    """The part of a `Run` that publishes."""

    def __init__(self) -> None:
        self._writer: RunWriter
        self._trace: RunTrace | None = None
        """Its spans, once it is entered."""
        self._messages = UnfinishedMessages()
        self._running: dict[str, float] = {}
        """Of each tool call that runs, when it began."""
        self._calls: dict[str, Usage] = {}
        """What each model call has cost so far."""
        self._secrets: tuple[object, tuple[str, ...]] = (None, ())
        """The context's deps when they were last looked through, and the secrets among them."""

    @property
    def context(self) -> Context:
        """The conversation as the run has it."""
        return self._writer.context

    @property
    def title(self) -> str | None:
        """The topic's title; None where it was given none."""
        return self._writer.recorder.title

    @property
    def position(self) -> Position:
        """Of the last event that the store acknowledged."""
        return self._writer.sender.position

    @property
    def open_message(self) -> str | None:
        """The id of the message that is being written; None where none is."""
        return self._messages.newest

    async def delta(self, text: str, *, message: str | None = None) -> None:
        """Add text to the open message.

        Args:
            text: Any piece; a half of a surrogate pair waits for the other half.
            message: Its id; None is the open one, or a new one.

        """
        await self._writer.ready()
        if text:
            opened = self._messages.opened(message)
            self._writer.put_delta("agent_delta", opened.id, opened.add_text(text, now=self._now()))

    async def thinking(self, text: str, *, message: str | None = None) -> None:
        """Add thinking to the open message; arguments as of `delta`."""
        await self._writer.ready()
        if text:
            opened = self._messages.opened(message)
            self._writer.put_delta("agent_thinking", opened.id, opened.add_thinking(text, now=self._now()))

    async def tool_call_delta(
        self,
        *,
        index: int,
        text: str = "",
        id: str | None = None,
        name: str | None = None,
        message: str | None = None,
    ) -> None:
        """Add a piece of a tool call's arguments to the open message: a preview, nobody runs it.

        Args:
            index: Which call of the message, from 0.
            text: Of the arguments' JSON.
            id: The call's id, once it is known.
            name: The tool's name, once it is known.
            message: As of `delta`.

        Raises:
            EventRefusedError: The index is no integer of 0 or more, or id and name are too long.

        """
        await self._writer.ready()
        # Here, as the delta itself is only encoded when it leaves.
        if as_index(index) is None:
            raise EventRefusedError(f"expected an index of 0 or more, got {index!r:.80}")
        names = {key: value for key, value in (("id", id), ("name", name)) if value}
        if names and len(encode_json(names)) > MAX_NAMES:
            raise EventRefusedError(f"expected an id and a name of at most {MAX_NAMES} bytes")
        if text or names:
            opened = self._messages.opened(message)
            piece = opened.add_call(index, text, names, now=self._now())
            self._writer.put_delta("tool_call_delta", opened.id, piece, index=index, names=names)

    async def add_message(self, message: Message, *, message_id: str | None = None, run: str | None = None) -> None:
        """Log a message; an assistant's ends the open message, whose deltas it replaces.

        Args:
            message: Tool calls' arguments that are values become compact JSON text.
            message_id: Its id; None is the open message's for an assistant, or a new one, and none for other roles.
            run: Whose message it is; None is this run.

        Raises:
            EventRefusedError: It breaks an entry rule, or an assistant's message of this id has ended.

        """
        await self._writer.ready()
        message = in_text(message)
        if message.role != "assistant":
            self._writer.record(self.context.add_message(message), message=message_id, run=run)
            return
        opened = self._messages.opened(message_id)
        if opened.thinking_ms is not None:
            metadata = {"thinking_ms": opened.thinking_ms, **message.metadata}
            message = msgspec.structs.replace(message, metadata=metadata)
        self._writer.record(self.context.add_message(message), message=opened.id, run=run)
        self._messages.close(opened.id)

    async def tool_call(
        self,
        id: str,
        name: str,
        arguments: str | Mapping[str, Any],
        *,
        server: bool = False,
        message: str | None = None,
    ) -> None:
        """Say that a tool starts, and return once that is stored: only then may it start.

        Args:
            id: The call's id.
            name: The tool.
            arguments: JSON text, or values.
            server: The provider runs it itself.
            message: The message that asked for it; None is the last one.

        """
        await self._writer.ready()
        text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
        data: dict[str, Any] = {"id": id, "name": name, "arguments": text}
        if server:
            data["server"] = True
        log = self.context.log.append("tool_call", data)
        after = msgspec.structs.replace(self.context, log=log).add_tool_call(data)
        self._running[id] = self._now()
        if self._trace is not None:
            self._trace.tool_call(id, name)
        self._writer.record(after, message=message or self._messages.last)
        await self._writer.stored()

    async def tool_result(
        self,
        tool_call_id: str,
        name: str | None,
        content: object,
        *,
        error: bool = False,
        duration_ms: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Log what a tool answered.

        Args:
            tool_call_id: The call's id.
            name: The tool.
            content: Text; anything else becomes JSON text. An error's is redacted as a log line is.
            error: It failed.
            duration_ms: How long it took; None is the time since `tool_call`.
            metadata: More about it; None for nothing.

        """
        await self._writer.ready()
        facts = dict(metadata or {})
        if error:
            facts["error"] = True
        started = self._running.get(tool_call_id)
        if duration_ms is None and started is not None:
            duration_ms = round((self._now() - started) * 1000)
        if duration_ms is not None:
            facts["duration_ms"] = duration_ms
        shown = self._redacted(content) if error else content
        message = in_text(Message.tool(tool_call_id, shown, name=name, metadata=facts))
        self._writer.record(self.context.add_message(message))
        self._running.pop(tool_call_id, None)
        if self._trace is not None:
            self._trace.tool_result(tool_call_id, error=error)

    async def usage(self, usage: Usage | Mapping[str, Any], *, call: str | None = None) -> None:
        """Say what a model call has cost so far.

        Args:
            usage: Its counters, cumulative; the last ones count.
            call: The call's id; None is the open message's, or the last message's.

        """
        await self._writer.ready()
        counters = usage if isinstance(usage, Usage) else Usage.from_mapping(usage)
        named = call or self._messages.newest or self._messages.last or new_id()
        self._writer.put(outgoing(self._writer.event("usage", call=named, **counters.to_dict())))
        self._writer.count(self._calls.get(named, Usage()), counters)
        self._calls[named] = counters

    async def log(
        self, level: str, message: str, *, logger: str | None = None, fields: Mapping[str, Any] | None = None
    ) -> None:
        """Publish a log line; what stands under a secret name in the context's deps is redacted in it.

        Args:
            level: ``debug``, ``info``, ``warning`` or ``error``.
            message: The line.
            logger: Whose; None for nobody's.
            fields: More about it; None for nothing.

        """
        await self._writer.ready()
        facts = self._redacted(dict(fields)) if fields else None
        event = self._writer.event("log", level=level, message=self._redacted(message), logger=logger, fields=facts)
        self._writer.put(outgoing(event))

    async def progress(
        self, *, text: str | None = None, fraction: float | None = None, tool_call_id: str | None = None
    ) -> None:
        """Show that something long is alive.

        Args:
            text: How far it is, in words.
            fraction: How far it is, 0 to 1.
            tool_call_id: Which call; None is the run.

        """
        await self._writer.ready()
        event = self._writer.event("progress", tool_call_id=tool_call_id, text=text, fraction=fraction)
        self._writer.put(outgoing(event))

    async def log_event(self, type: str, data: Mapping[str, Any] | None = None) -> None:
        """Log a bookkeeping event: ``turn_start``, ``turn_end``, ``step_start``, ``step_end``, ``request_header``.

        Raises:
            EventRefusedError: The type is another.

        """
        await self._writer.ready()
        if type not in BOOKKEEPING_TYPES or type == "tool_call":
            raise EventRefusedError(f"expected a bookkeeping event, got {type!r:.80}")
        log = self.context.log.append(type, dict(data or {}))
        self._writer.record(msgspec.structs.replace(self.context, log=log))
        if self._trace is not None:
            self._trace.event(type, data or {})

    async def discard(self, *, reason: str, call: str | None = None) -> None:
        """Drop the open message, which a retry replaces, and what its call cost.

        Args:
            reason: For people.
            call: The model call; None keeps its usage.

        """
        await self._writer.ready()
        opened = self._messages.opened(None)
        event = self._writer.event("message_discarded", message=opened.id, call=call, reason=reason)
        self._writer.put(outgoing(event, kind="e"))
        self._messages.close(opened.id)
        if call is not None:
            self._writer.count(self._calls.pop(call, Usage()), Usage())

    async def set_context(self, *, title: str | None = None, **fields: Any) -> None:
        """Change fields of the context that are no fold of its log.

        Args:
            title: The topic's title for people; None leaves it.
            fields: ``agent_name``, ``system_prompt``, ``needs_response``, ``iteration``, ``max_iterations``.

        Raises:
            TypeError: There is no such field.

        """
        await self._writer.ready()
        unknown = fields.keys() - _SETTABLE
        if unknown:
            raise TypeError(f"expected fields among {', '.join(sorted(_SETTABLE))}, got {', '.join(sorted(unknown))}")
        self._writer.record(msgspec.structs.replace(self.context, **fields), title=title)

    async def change_context(self, change: Callable[[Context], Context]) -> None:
        """Change the context by its own methods, such as `replace_message_range` or `clear`; all of it is published.

        Args:
            change: Gives a context that continues the one it gets: a longer log, more tool calls, more usage.

        Raises:
            EventRefusedError: It does not continue it, or an event breaks an entry rule.

        """
        await self._writer.ready()
        before = self.context
        after = change(before)
        added = _added(before.usage, after.usage)
        self._writer.record(msgspec.structs.replace(after, usage=before.usage))
        if added != Usage():
            # Readers know usage as a sum over model calls, and this is one of its own.
            await self.usage(added, call=new_id())

    async def emit(self, event: Mapping[str, Any]) -> None:
        """Publish an event of the agent's own, redacted as a log line is.

        Args:
            event: Any object whose type is none of the protocol's.

        Raises:
            CommandError: Its type is reserved or malformed.
            EventRefusedError: It breaks an entry rule.

        """
        await self._writer.ready()
        check_publishable(event)
        common = self._writer.event("")
        told = {name: value if name == "type" else self._redacted(value) for name, value in event.items()}
        self._writer.put(outgoing({"at": common["at"], **told, "run": common["run"]}))

    async def flush(self) -> Position:
        """Wait until everything so far is stored; returns where it stands."""
        self._writer.check()
        self._writer.outbox.flush()
        self._writer.sender.notify()
        return await self._writer.stored()

    def _redacted(self, value: Any) -> Any:
        """Take the secrets of the context's deps out of texts."""
        deps = self.context.deps
        if self._secrets[0] is not deps:
            self._secrets = (deps, secrets_of(deps))
        return redacted(value, self._secrets[1])

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _added(before: Usage, after: Usage) -> Usage:
    old = before.to_dict()
    added = {name: value - old[name] for name, value in after.to_dict().items()}
    if min(added.values()) < 0:
        raise EventRefusedError("expected a context whose usage has not become less")
    return Usage(**added)


_SETTABLE = frozenset({"agent_name", "system_prompt", "needs_response", "iteration", "max_iterations"})
