"""The state of a mirror in its stored form, typed: what a snapshot must look like (PROTOCOL.md 5.1)."""

from typing import Annotated, Any, Literal

import msgspec

from gateway.counters import COUNTERS, Counters
from gateway.errors import SnapshotError
from gateway.fields import mapping

__all__ = [
    "Approval",
    "ContextState",
    "LogLineState",
    "LoggedEntry",
    "MirrorState",
    "OpenCall",
    "OpenMessage",
    "QueuedMessage",
    "RunState",
    "SnapshotState",
    "read_snapshot",
]

_Offset = Annotated[int, msgspec.Meta(ge=0)]


class LoggedEntry(msgspec.Struct, kw_only=True):
    """An event of the session log."""

    seq: _Offset
    type: str
    time: str | None = None
    data: dict[str, Any] = {}
    run: str | None = None
    message: str | None = None
    blobs: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    def entry(self) -> dict[str, Any]:
        """Give it as a mirror keeps it."""
        entry = msgspec.structs.asdict(self)
        if self.blobs is msgspec.UNSET:
            del entry["blobs"]
        return entry


class ContextState(msgspec.Struct, kw_only=True):
    """The context of the topic's agent; the fields of the `context` event hold whatever it had."""

    version: Literal[2] = 2
    events: list[LoggedEntry] = []
    archived_to: int | None = None
    next_seq: _Offset = 0
    id: Any = None
    agent_name: Any = None
    system_prompt: Any = None
    needs_response: Any = None
    iteration: Any = None
    max_iterations: Any = None
    started_at: Any = None
    title: Any = None
    tool_calls: list[Any] = []
    usage: Counters = {}


class OpenCall(msgspec.Struct, kw_only=True):
    """A tool call of an unfinished message."""

    index: _Offset
    id: str | None = None
    name: str | None = None
    text: str = ""


class OpenMessage(msgspec.Struct, kw_only=True):
    """An unfinished message."""

    message: str
    run: str | None = None
    text: str = ""
    thinking: str = ""
    interrupted: bool = False
    tool_calls: list[OpenCall] = []


class RunState(msgspec.Struct, kw_only=True):
    """A run."""

    run: str
    agent: str | None = None
    model: str | None = None
    parent: str | None = None
    topic: str | None = None
    status: Literal["running", "cancelling", "completed", "failed", "cancelled", "lost"] = "running"
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None
    calls: dict[str, Counters] = {}
    usage: Counters = {}
    iteration: int = 0
    cancel: dict[str, Any] | None = None
    policy: str | None = None

    @property
    def live(self) -> bool:
        """Whether it has no end yet."""
        return self.status in {"running", "cancelling"}


class Approval(msgspec.Struct, kw_only=True):
    """The question whether a tool call may go on."""

    tool_call_id: str
    run: str | None = None
    name: str | None = None
    arguments: str | None = None
    requested_at: int | None = None
    expires_at: int | None = None
    decision: Literal["approve", "reject", "edit", "expired"] | None = None
    by: Any = None
    edited: str | None = None
    reason: str | None = None


class QueuedMessage(msgspec.Struct, kw_only=True):
    """A person's message that waits for the agent."""

    id: str
    content: Any = None
    by: Any = None
    at: int | None = None


class LogLineState(msgspec.Struct, kw_only=True):
    """A line of the agents' log."""

    at: int | None = None
    run: str | None = None
    level: str = "info"
    message: str = ""
    logger: str | None = None
    fields: dict[str, Any] | None = None


class MirrorState(msgspec.Struct, kw_only=True):
    """The state."""

    context: ContextState = msgspec.field(default_factory=ContextState)
    open: list[OpenMessage] = []
    runs: list[RunState] = []
    approvals: list[Approval] = []
    queue: list[QueuedMessage] = []
    log: list[LogLineState] = []


class SnapshotState(msgspec.Struct, kw_only=True):
    """The state at a position."""

    mirror: MirrorState
    offset: _Offset
    topic: str = ""
    epoch: str = ""


def read_snapshot(snapshot: object) -> SnapshotState:
    """Read a snapshot from outside; keys that are not named here are ignored, absent ones have their default.

    Raises:
        SnapshotError: It is none.

    """
    if mapping(snapshot) is None:
        raise SnapshotError(f"expected a snapshot to be an object, got {type(snapshot).__name__}")
    try:
        state = msgspec.convert(snapshot, SnapshotState)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"expected a snapshot of the form of PROTOCOL.md 5.1: {error}") from error
    for run in state.mirror.runs:
        run.usage = _complete(run.usage)
        run.calls = {call: _complete(counters) for call, counters in run.calls.items()}
    state.mirror.context.usage = _complete(state.mirror.context.usage)
    return state


def _complete(counters: Counters) -> Counters:
    return {name: counters.get(name, 0) for name in COUNTERS}
