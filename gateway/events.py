"""Every event that the gateway knows: one Struct a fact, tagged with its `type` (PROTOCOL.md 4.1)."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from gateway.errors import EventRefusedError
from gateway.event_types import (
    BOOKKEEPING_TYPES,
    DELTA_TYPES,
    END_TYPES,
    LOG_FIELDS,
    LOGGED_TYPES,
    RESERVED_TYPES,
    SURFACE_TYPES,
    check_publishable,
)

__all__ = [
    "BOOKKEEPING_TYPES",
    "DELTA_TYPES",
    "END_TYPES",
    "LOGGED_TYPES",
    "LOG_FIELDS",
    "RESERVED_TYPES",
    "SURFACE_TYPES",
    "AgentCancelled",
    "AgentComplete",
    "AgentDelta",
    "AgentError",
    "AgentLost",
    "AgentStart",
    "AgentThinking",
    "ApprovalDecided",
    "ApprovalRequired",
    "AssistantMessage",
    "CancelRequested",
    "Cleared",
    "ContextChanged",
    "CustomMessage",
    "Event",
    "LogLine",
    "MessageDiscarded",
    "MessageEdited",
    "MessageQueued",
    "MessageTaken",
    "MessageWithdrawn",
    "Notification",
    "Progress",
    "RequestHeader",
    "StepEnd",
    "StepStart",
    "SystemMessage",
    "ToolCallDelta",
    "ToolCallStarted",
    "ToolResult",
    "TurnEnd",
    "TurnStart",
    "UsageReport",
    "UserMessage",
    "check_publishable",
    "from_dict",
    "to_dict",
]


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Any event.

    Attributes:
        at: The publisher's Unix time in ms.
        run: The run that it belongs to.

    """

    at: int | None = None
    run: str | None = None


class _Logged(_Event, frozen=True, kw_only=True):
    """An event of the session log.

    Attributes:
        seq: Its place in the log: 0, 1, 2, …
        time: The log's own time, ISO 8601 with microseconds.
        message: The message that it is or belongs to.

    """

    seq: int
    time: str
    message: str | None = None


class _Surface(_Logged, frozen=True, kw_only=True):
    """A message of the conversation.

    Attributes:
        content: Text, a list of content parts, or None.
        name: The author's or the tool's.
        metadata: What is no part of the conversation itself.
        tool_calls: Of an assistant: the calls that it asks for, their arguments as JSON text.
        tool_call_id: Of a tool's result: the call that it answers.
        thinking: The reasoning text.
        reasoning_details: The provider's own form of it.
        refs: What the message refers to.
        surface_op: ``["replace", start, stop]``: it takes the place of the messages at these positions.

    """

    content: Any
    metadata: dict[str, Any]
    name: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    thinking: str | None = None
    reasoning_details: Any = None
    refs: dict[str, Any] | None = None
    surface_op: list[Any] | None = None


class _Bookkeeping(_Logged, frozen=True, kw_only=True):
    """How the work went.

    Attributes:
        data: What there is to tell; `to_dict` puts its fields beside the others.

    """

    data: dict[str, Any] = msgspec.field(default_factory=dict)


class AgentStart(_Event, frozen=True, kw_only=True, tag="agent_start"):
    """A run begins.

    Attributes:
        agent: The agent's name.
        model: The model's name.
        parent: The run that started it.
        topic: A sub-agent's own topic, where the event stands on its parent's.
        input: What it is asked to do.
        max_iterations: How many model requests it may make.
        policy: What its worker does about messages that come meanwhile; None: they wait for their turn.
        trace: The W3C `traceparent` of its span, where it is traced.

    """

    agent: str
    model: str | None = None
    parent: str | None = None
    topic: str | None = None
    input: Any = None
    max_iterations: int | None = None
    policy: str | None = None
    trace: str | None = None


class ContextChanged(_Event, frozen=True, kw_only=True, tag="context"):
    """Fields of the context that are no fold of its log have new values; UNSET ones have not changed."""

    id: str | UnsetType = UNSET
    agent_name: str | UnsetType | None = UNSET
    system_prompt: str | UnsetType | None = UNSET
    needs_response: bool | UnsetType = UNSET
    iteration: int | UnsetType = UNSET
    max_iterations: int | UnsetType = UNSET
    started_at: str | UnsetType | None = UNSET
    title: str | UnsetType | None = UNSET
    tool_calls: dict[str, Any] | UnsetType = UNSET


class AgentDelta(_Event, frozen=True, kw_only=True, tag="agent_delta"):
    """Text at the end of an open message."""

    message: str
    text: str


class AgentThinking(_Event, frozen=True, kw_only=True, tag="agent_thinking"):
    """Reasoning text at the end of an open message's thinking."""

    message: str
    text: str


class ToolCallDelta(_Event, frozen=True, kw_only=True, tag="tool_call_delta"):
    """A piece of a tool call's arguments, as JSON text: a preview."""

    message: str
    index: int
    text: str
    id: str | None = None
    name: str | None = None


class SystemMessage(_Surface, frozen=True, kw_only=True, tag="system_message"):
    """Instructions."""


class UserMessage(_Surface, frozen=True, kw_only=True, tag="user_message"):
    """A person's message."""


class AssistantMessage(_Surface, frozen=True, kw_only=True, tag="assistant_message"):
    """A whole answer of the model; it ends `message`, whose deltas it replaces."""


class ToolResult(_Surface, frozen=True, kw_only=True, tag="tool_result"):
    """What a tool gave back; ``metadata.error`` is true where it failed."""


class CustomMessage(_Surface, frozen=True, kw_only=True, tag="custom_message"):
    """A message of a role outside the four."""

    role: str


class Cleared(_Logged, frozen=True, kw_only=True, tag="cleared"):
    """Everything before it is shadowed."""


class ToolCallStarted(_Logged, frozen=True, kw_only=True, tag="tool_call"):
    """A tool begins to run.

    Attributes:
        id: The call's.
        name: The tool's.
        arguments: JSON text.
        server: Whether the provider runs it itself.

    """

    id: str
    name: str
    arguments: str
    server: bool = False


class TurnStart(_Bookkeeping, frozen=True, kw_only=True, tag="turn_start"):
    """An answer to the user begins."""


class TurnEnd(_Bookkeeping, frozen=True, kw_only=True, tag="turn_end"):
    """An answer to the user is complete."""


class StepStart(_Bookkeeping, frozen=True, kw_only=True, tag="step_start"):
    """A model request begins."""


class StepEnd(_Bookkeeping, frozen=True, kw_only=True, tag="step_end"):
    """A model request and its tool calls are done."""


class RequestHeader(_Bookkeeping, frozen=True, kw_only=True, tag="request_header"):
    """What a model request was made with."""


class UsageReport(_Event, frozen=True, kw_only=True, tag="usage"):
    """The counters of one model call so far, all seven; the last ones count."""

    call: str
    requests: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int


class LogLine(_Event, frozen=True, kw_only=True, tag="log"):
    """A line of the agent's log."""

    level: Literal["debug", "info", "warning", "error"]
    message: str
    logger: str | None = None
    fields: dict[str, Any] | None = None


class Progress(_Event, frozen=True, kw_only=True, tag="progress"):
    """A long tool shows life.

    Attributes:
        tool_call_id: The call's; None where it is about the run.
        text: What it is doing.
        fraction: How much is done, 0 to 1.

    """

    tool_call_id: str | None = None
    text: str | None = None
    fraction: float | None = None


class ApprovalRequired(_Event, frozen=True, kw_only=True, tag="approval_required"):
    """May this tool call go on?

    Attributes:
        tool_call_id: The call's.
        name: The tool's.
        arguments: JSON text.
        expires_at: Unix time in ms.

    """

    tool_call_id: str
    name: str
    arguments: str
    expires_at: int


class ApprovalDecided(_Event, frozen=True, kw_only=True, tag="approval_decided"):
    """The answer.

    Attributes:
        tool_call_id: The call's.
        decision: What was decided.
        arguments: With ``edit``, the arguments to use instead, as JSON text.
        by: Who decided; None where the time ran out.
        reason: Why, told to the model.

    """

    tool_call_id: str
    decision: Literal["approve", "reject", "edit", "expired"]
    arguments: str | None = None
    by: Any = None
    reason: str | None = None


class MessageQueued(_Event, frozen=True, kw_only=True, tag="message_queued"):
    """A person's message waits for the agent."""

    id: str
    content: Any
    by: Any


class MessageEdited(_Event, frozen=True, kw_only=True, tag="message_edited"):
    """A waiting message has another content."""

    id: str
    content: Any
    by: Any


class MessageWithdrawn(_Event, frozen=True, kw_only=True, tag="message_withdrawn"):
    """A waiting message was taken back."""

    id: str
    by: Any = None
    reason: str | None = None


class MessageTaken(_Event, frozen=True, kw_only=True, tag="message_taken"):
    """A waiting message went into the context."""

    id: str
    by: Any = None


class MessageDiscarded(_Event, frozen=True, kw_only=True, tag="message_discarded"):
    """An open message is dropped.

    Attributes:
        message: The open message.
        call: The model call whose usage goes with it.
        reason: Why.

    """

    message: str
    call: str | None = None
    reason: str | None = None


class CancelRequested(_Event, frozen=True, kw_only=True, tag="cancel_requested"):
    """Somebody asks the run to stop."""

    by: Any
    mode: Literal["now", "after_step"]


class AgentComplete(_Event, frozen=True, kw_only=True, tag="agent_complete"):
    """The run did what it was asked to."""

    result: Any = None
    usage: dict[str, int] | None = None


class AgentError(_Event, frozen=True, kw_only=True, tag="agent_error"):
    """The run failed."""

    error: str
    usage: dict[str, int] | None = None


class AgentCancelled(_Event, frozen=True, kw_only=True, tag="agent_cancelled"):
    """The run was stopped."""

    reason: str | None = None
    usage: dict[str, int] | None = None


class AgentLost(_Event, frozen=True, kw_only=True, tag="agent_lost"):
    """The run's process is gone."""

    reason: str | None = None
    usage: dict[str, int] | None = None


class Notification(_Event, frozen=True, kw_only=True, tag="notification"):
    """A callback of a context that is bound to the topic without a `Run`."""

    name: str
    payload: Any


Event = (
    AgentStart
    | ContextChanged
    | AgentDelta
    | AgentThinking
    | ToolCallDelta
    | SystemMessage
    | UserMessage
    | AssistantMessage
    | ToolResult
    | CustomMessage
    | Cleared
    | ToolCallStarted
    | TurnStart
    | TurnEnd
    | StepStart
    | StepEnd
    | RequestHeader
    | UsageReport
    | LogLine
    | Progress
    | ApprovalRequired
    | ApprovalDecided
    | MessageQueued
    | MessageEdited
    | MessageWithdrawn
    | MessageTaken
    | MessageDiscarded
    | CancelRequested
    | AgentComplete
    | AgentError
    | AgentCancelled
    | AgentLost
    | Notification
)


def to_dict(event: Event) -> dict[str, Any]:
    """Give an event as it goes onto a topic: absent fields left out, bookkeeping data beside the other fields.

    Raises:
        EventRefusedError: A bookkeeping event's data has a field that the log keeps for itself.

    """
    fields: dict[str, Any] = msgspec.to_builtins(event)
    if not isinstance(event, _Bookkeeping):
        return fields
    data = fields.pop("data", {})
    taken = data.keys() & LOG_FIELDS
    if taken:
        raise EventRefusedError(f"data of a {fields['type']} event must not have the field {min(taken)!r}")
    return {**fields, **data}


_BOOKKEEPING_FIELDS = LOG_FIELDS - {"blobs"}
_BOOKKEEPING_TAGS = BOOKKEEPING_TYPES - {"tool_call"}


def from_dict(data: Mapping[str, Any]) -> Event | None:
    """Read an event as it lies on a topic; None where its type is none of these, or it has not the fields of its type.

    What it has beyond them is left out, but for bookkeeping events, whose ``data`` it is.
    """
    if data.get("type") in _BOOKKEEPING_TAGS:
        rest = {name: value for name, value in data.items() if name not in LOG_FIELDS}
        data = {name: data[name] for name in _BOOKKEEPING_FIELDS & data.keys()} | {"data": rest}
    try:
        event: Event = msgspec.convert(data, Event)
    except msgspec.ValidationError:
        return None
    return event
