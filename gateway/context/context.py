"""The conversation of one agent: a log of events, and what a run knows beside it."""

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from gateway.context import inspection, request, saved
from gateway.context.event import BOOKKEEPING_TYPES
from gateway.context.jsonlike import Live, brief
from gateway.context.log import EventLog
from gateway.context.messages import Content, ContentPart, Message, ToolCall
from gateway.context.pubsub import Notification, PubSub, default_pubsub
from gateway.context.run_context import RunContext, SandboxPolicy
from gateway.context.times import now
from gateway.context.usage import Usage
from gateway.context.view import MessageView

if TYPE_CHECKING:  # only names: their modules wait, and this one must not load what waits
    from gateway.context.approval import ApprovalHandler
    from gateway.context.hooks import HookRegistry
    from gateway.context.skills import Skill

__all__ = ["Context"]

_logger = logging.getLogger(__package__)

_INTERRUPTED = "The tool call was interrupted before it gave a result."


class Context(Live, msgspec.Struct, frozen=True, kw_only=True):
    """The conversation of one agent; a value: every change gives a new context.

    Make one with `new`; fields without a method of their own are changed with `msgspec.structs.replace`.

    Attributes:
        id: Its name.
        log: The truth: everything that happened, oldest first.
        tool_calls: The calls that were executed, in order; apart from the log.
        system_prompt: Put in front of a request, never a message of the transcript.
        system_prompt_overlay: Added to the leading system message of every view; neither logged nor saved.
        deps: What tools need. Saved as far as it is JSON and no secret by its name.
        usage: Model requests and tokens so far.
        needs_response: Whether it is the model's turn.
        iteration: Model requests of this run so far.
        max_iterations: How many there may be.
        callbacks: Event name → function of (event, payload).
        notify: Called with every notification.
        started_at: When; UTC.
        agent_name: Who.
        cancellation_check: Asked before every iteration; see `check_cancellation`.
        approval_handler: Asked before a tool that requires approval.
        pubsub: Where notifications are published.
        pubsub_topic: Under which topic.
        hook_registry: The hooks of the run.
        active_skills: The skills in use.
        stream: Whether the model is streamed.
        tool_schema_cache: One (key, schemas) of the last request.

    """

    id: str
    log: EventLog = msgspec.field(default_factory=EventLog)
    tool_calls: tuple[dict[str, Any] | ToolCall, ...] = ()
    system_prompt: str | None = None
    system_prompt_overlay: str | None = None
    deps: dict[str, Any] = {}
    usage: Usage = msgspec.field(default_factory=Usage)
    needs_response: bool = True
    iteration: int = 0
    max_iterations: int = 10
    callbacks: dict[str, Callable[[str, Any], Any]] = {}
    notify: Callable[[Notification], object] | None = None
    started_at: datetime | None = None
    agent_name: str | None = None
    cancellation_check: Callable[[], object] | None = None
    approval_handler: "ApprovalHandler | None" = None
    pubsub: PubSub | None = None
    pubsub_topic: str | None = None
    hook_registry: "HookRegistry | None" = None
    active_skills: "tuple[Skill, ...]" = ()
    stream: bool = False
    tool_schema_cache: tuple[Any, Any] | None = None

    @classmethod
    def new(
        cls,
        *,
        id: str | None = None,
        messages: Iterable[Message] = (),
        system_prompt: str | None = None,
        deps: dict[str, Any] | None = None,
        usage: Usage | None = None,
        needs_response: bool = True,
        iteration: int = 0,
        max_iterations: int = 10,
        callbacks: Mapping[str, Callable[[str, Any], Any]] | None = None,
        notify: Callable[[Notification], object] | None = None,
        agent_name: str | None = None,
        cancellation_check: Callable[[], object] | None = None,
        approval_handler: "ApprovalHandler | None" = None,
        pubsub: PubSub | None = None,
        pubsub_topic: str | None = None,
        stream: bool = False,
    ) -> "Context":
        """Start a conversation now.

        Args:
            id: None draws 16 hexadecimal digits.
            messages: The first messages of the log; ``needs_response`` does not follow from them.
            system_prompt: None for none.
            deps: What tools need; None is an empty map.
            usage: None is zero.
            needs_response: Whether it is the model's turn.
            iteration: Model requests so far.
            max_iterations: How many there may be.
            callbacks: Event name → function of (event, payload).
            notify: Called with every notification, such as a queue's ``put_nowait``.
            agent_name: Who.
            cancellation_check: Asked before every iteration.
            approval_handler: Asked before a tool that requires approval.
            pubsub: None is the default of `configure`.
            pubsub_topic: Where notifications are published; None publishes none.
            stream: Whether the model is streamed.

        """
        return cls(
            id=_new_id() if id is None else id,
            log=EventLog.seed(messages),
            system_prompt=system_prompt,
            deps={} if deps is None else deps,
            usage=Usage() if usage is None else usage,
            needs_response=needs_response,
            iteration=iteration,
            max_iterations=max_iterations,
            callbacks=dict(callbacks or {}),
            notify=notify,
            started_at=now(),
            agent_name=agent_name,
            cancellation_check=cancellation_check,
            approval_handler=approval_handler,
            pubsub=default_pubsub() if pubsub is None else pubsub,
            pubsub_topic=pubsub_topic,
            stream=stream,
        )

    @classmethod
    def deserialize(cls, data: object) -> "Context":
        """Read saved data of version 1 or 2, or the ``context`` of a mirror.

        Raises:
            ContextDecodeError: It is no context; no other exception leaves.

        """
        return cls(**{"id": _new_id(), **saved.load(data)})

    @classmethod
    def from_run_context(cls, run: RunContext, **options: Any) -> "Context":
        """Start a conversation with the deps and usage of a tool's context.

        Args:
            run: The tool's context.
            options: As of `new`; deps and usage among them give way.

        """
        return cls.new(**{**options, "deps": run.deps, "usage": run.usage})

    def serialize(self) -> dict[str, Any]:
        """Give the context as plain JSON, version 2; the map is the caller's own."""
        return saved.save(self)

    def to_run_context(self, *, sandbox: SandboxPolicy | None = None, approval_gated: bool = True) -> RunContext:
        """Give what tools see.

        Args:
            sandbox: The session's policy; None leaves it to deps and defaults.
            approval_gated: Whether approval was asked already, so that `execute_tool` does not.

        """
        return RunContext(
            deps=self.deps,
            usage=self.usage,
            approval_handler=self.approval_handler,
            approval_gated=approval_gated,
            sandbox=sandbox,
        )

    @property
    def entries(self) -> MessageView:
        """The transcript as the log has it."""
        return self.log.messages()

    @property
    def messages(self) -> MessageView:
        """The transcript under the system-prompt overlay; taking it costs nothing."""
        fold = self.log.fold()
        if not self.system_prompt_overlay:
            return fold.messages
        entries = fold.messages
        first = entries[0] if entries else None
        head, replaces = request.overlay_message(first, self.system_prompt_overlay, self.started_at)
        return entries.headed(head, replaces=replaces)

    def add_message(self, message: Message, *, source: str | None = None) -> "Context":
        """Log a message; its role decides whether it is the model's turn.

        Args:
            message: The message; without a time it gets the time of now.
            source: Who put it in, for readers of the log; never part of the message.

        Raises:
            InvalidEventError: It cannot be logged even without its metadata.

        """
        log = self.log.append_message(message, source=source)
        return msgspec.structs.replace(self, log=log, needs_response=_needs_response(message, self.needs_response))

    def add_messages(self, messages: Iterable[Message]) -> "Context":
        """Log messages in order.

        Raises:
            InvalidEventError: One cannot be logged even without its metadata; none is.

        """
        log, needs_response = self.log, self.needs_response
        for message in messages:
            log = log.append_message(message)
            needs_response = _needs_response(message, needs_response)
        if log is self.log:
            return self
        return msgspec.structs.replace(self, log=log, needs_response=needs_response)

    def append(self, message: Message) -> "Context":
        """Log a message; the same as `add_message`."""
        return self.add_message(message)

    def append_user(self, content: str | Sequence[ContentPart], *, refs: dict[str, Any] | None = None) -> "Context":
        """Log a person's message.

        Raises:
            TypeError: The content is neither text nor parts.

        """
        return self.add_message(Message.user(_text_or_parts(content), refs=refs))

    def append_assistant(
        self,
        content: str | Sequence[ContentPart] | None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        *,
        thinking: str | None = None,
        reasoning_details: list[Any] | None = None,
        refs: dict[str, Any] | None = None,
    ) -> "Context":
        """Log a model's message.

        Raises:
            TypeError: The content is neither text, parts nor None, or a call is no map.

        """
        return self.add_message(
            Message.assistant(
                None if content is None else _text_or_parts(content),
                tool_calls=None if tool_calls is None else tuple(ToolCall.from_raw(call) for call in tool_calls),
                thinking=thinking,
                reasoning_details=reasoning_details,
                refs=refs,
            )
        )

    def append_tool_result(
        self,
        tool_call_id: str,
        name: str | None,
        content: str | Sequence[ContentPart],
        *,
        refs: dict[str, Any] | None = None,
    ) -> "Context":
        """Log a tool's result.

        Raises:
            TypeError: The content is neither text nor parts.

        """
        message = Message(
            role="tool",
            content=_text_or_parts(content),
            tool_call_id=tool_call_id,
            name=name,
            refs=refs,
            created_at=now(),
        )
        return self.add_message(message)

    def append_messages(self, raw_messages: Iterable[Message | Mapping[str, Any]]) -> "Context":
        """Import a conversation from elsewhere, all of it or nothing.

        Raises:
            ValueError: A message has no role.
            InvalidEventError: A message cannot be logged.

        """
        return self.add_messages([Message.from_raw(raw) for raw in raw_messages])

    def replace_message(self, index: int, message: Message) -> "Context":
        """Put a message in the place of the one at an index of `messages`; see `replace_message_range`."""
        return self.replace_message_range(index, index, message)

    def replace_message_range(self, first: int, last: int, message: Message) -> "Context":
        """Put one message in the place of several; the log keeps those it hides.

        The replacement has the time of the first hidden message, so that times stay in order. A range that reaches
        beyond the transcript changes nothing, with a warning, and gives this same context.

        Args:
            first: Index in `messages`.
            last: Index in `messages`, included.
            message: The replacement.

        Raises:
            TypeError: An index is no whole number.
            ValueError: Not 0 ≤ first ≤ last.
            InvalidEventError: The message cannot be logged.

        """
        if type(first) is not int or type(last) is not int:
            raise TypeError(f"expected whole numbers as indices, got {brief(first)} and {brief(last)}")
        if not 0 <= first <= last:
            raise ValueError(f"expected indices with 0 <= first <= last, got {first} and {last}")
        fold = self.log.fold()
        invented = len(self.messages) - len(fold)
        start, stop = first - invented, last - invented
        if start < 0 or stop >= len(fold):
            _logger.warning("messages %d to %d are not replaced: the log has %d", first, last, len(fold))
            return self
        shadowed = fold.event(start)
        op = ("replace", shadowed.position, fold.event(stop).position)
        log = self.log.append_message(message, surface_op=op, time=shadowed.time)
        return msgspec.structs.replace(self, log=log)

    def clear(self) -> "Context":
        """Empty the transcript; the log keeps what it hides, everything else stays."""
        if self.is_empty():
            return self
        return msgspec.structs.replace(self, log=self.log.append("cleared", {}))

    def log_event(self, type: str, data: Mapping[str, Any]) -> "Context":
        """Log a bookkeeping event, or warn and give this same context if it breaks a rule; never raises."""
        if not isinstance(type, str) or type not in BOOKKEEPING_TYPES:
            _logger.warning("event dropped: expected one of the bookkeeping types, got %s", brief(type))
            return self
        log = self.log.try_append(type, data)
        return self if log is self.log else msgspec.structs.replace(self, log=log)

    def patch_dangling_tool_calls(self) -> "Context":
        """Log a result that says "interrupted" for every visible call without one."""
        answered: set[str] = set()
        open_calls: dict[str, str | None] = {}
        for message in self.messages:
            if message.role == "assistant":
                calls = message.tool_calls or ()
                open_calls.update({call.id: call.name for call in calls if isinstance(call.id, str)})
            elif message.role == "tool" and isinstance(message.tool_call_id, str):
                answered.add(message.tool_call_id)
        log = self.log
        for call_id, name in open_calls.items():
            if call_id not in answered:
                log = log.append_message(Message.tool(call_id, _INTERRUPTED, name=name))
        return self if log is self.log else msgspec.structs.replace(self, log=log)

    def put_system_prompt_overlay(self, text: str | None) -> "Context":
        """Set the text that every view adds to the system message; None and "" clear it."""
        return msgspec.structs.replace(self, system_prompt_overlay=text or None)

    def add_tool_call(self, call: Mapping[str, Any] | ToolCall) -> "Context":
        """Note an executed call; neither an event nor a message.

        Raises:
            TypeError: It is no map.

        """
        if not isinstance(call, Mapping | ToolCall):
            raise TypeError(f"expected a tool call or a map, got {type(call).__name__}")
        kept = call if isinstance(call, ToolCall) else dict(call)
        return msgspec.structs.replace(self, tool_calls=(*self.tool_calls, kept))

    def add_usage(self, usage: Usage | Mapping[str, Any]) -> "Context":
        """Add to the counters; missing and null ones of a map are 0, unknown ones ignored.

        Raises:
            TypeError: It is neither usage nor a map, or a counter is no whole number.

        """
        if not isinstance(usage, Usage | Mapping):
            raise TypeError(f"expected usage or a map, got {type(usage).__name__}")
        more = usage if isinstance(usage, Usage) else Usage.from_mapping(usage)
        return msgspec.structs.replace(self, usage=self.usage + more)

    def merge_deps(self, deps: Mapping[str, Any]) -> "Context":
        """Set dependencies; nested maps are replaced, not merged."""
        return msgspec.structs.replace(self, deps={**(self.deps or {}), **deps})

    def increment_iteration(self) -> "Context":
        """Count one model request."""
        return msgspec.structs.replace(self, iteration=self.iteration + 1)

    def max_iterations_reached(self) -> bool:
        """Tell whether no model request is left."""
        return self.iteration >= self.max_iterations

    def set_needs_response(self, value: bool) -> "Context":  # noqa: FBT001 - the value itself
        """Say whether it is the model's turn.

        Raises:
            TypeError: It is no bool.

        """
        if not isinstance(value, bool):
            raise TypeError(f"expected a bool, got {type(value).__name__}")
        return msgspec.structs.replace(self, needs_response=value)

    def last_message(self) -> Message | None:
        """Give the last of `messages`; None where there is none."""
        messages = self.messages
        return messages[-1] if messages else None

    def assistant_messages(self) -> list[Message]:
        """Give the model's messages of `messages`, in order."""
        return [message for message in self.messages if message.role == "assistant"]

    def last_entry(self) -> Message | None:
        """Give the last of `entries`; None where there is none."""
        entries = self.entries
        return entries[-1] if entries else None

    def last_assistant_content(self) -> Content:
        """Give the content of the model's last message, "" and None too; None where there is none."""
        return next((entry.content for entry in reversed(self.entries) if entry.role == "assistant"), None)

    def is_empty(self) -> bool:
        """Tell whether the transcript has no entry; the system prompt does not count."""
        return len(self.log.fold()) == 0

    def to_messages(self, *, limit: int | None = None) -> list[dict[str, Any]]:
        """Give what a model is sent: system prompt and entries as plain maps.

        Args:
            limit: How many entries, the last ones; the system prompt is not counted. None, negative and not a whole
                number give all, 0 none.

        """
        return request.request_messages(
            self.entries, system_prompt=self.system_prompt, overlay=self.system_prompt_overlay, limit=limit
        )

    def debug_view(self, *, last: int | None = None, truncate: int = 200) -> dict[str, Any]:
        """Give a small map for debugging.

        Args:
            last: How many entries, the last ones; None, 0, negative and not a whole number give all.
            truncate: Characters of text to show.

        """
        return inspection.debug_view(
            self.entries, id=self.id, system_prompt=self.system_prompt, last=last, truncate=truncate
        )

    def format_lines(self) -> list[str]:
        """Give the lines that `pp` prints."""
        return inspection.format_lines(self.entries, system_prompt=self.system_prompt)

    def pp(self, file: TextIO | None = None) -> None:
        """Print one line per message.

        Args:
            file: None is standard output.

        """
        for line in self.format_lines():
            print(line, file=file)

    def __len__(self) -> int:
        return len(self.log.fold())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        entries = self.entries
        last = ", ".join(str(entry.role) for entry in entries[-2:])
        return f"<Context {self.id} of {len(entries)} messages{', last ' + last if last else ''}>"


def _new_id() -> str:
    return secrets.token_hex(8)


def _needs_response(message: Message, before: bool) -> bool:  # noqa: FBT001 - the value itself
    if message.role in {"user", "tool"}:
        return True
    return message.has_tool_calls if message.role == "assistant" else before


def _text_or_parts(content: object) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise TypeError(f"expected text or content parts, got {type(content).__name__}")
    return tuple(ContentPart.from_raw(part) for part in content)
