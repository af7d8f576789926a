"""How a run ends: what it left open is sealed, calls without a result are answered, then comes the one end."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.broker.port import Change
from gateway.context.messages import Message
from gateway.errors import EventRefusedError
from gateway.outbox import Group, Outgoing
from gateway.recorder import Recorder, outgoing
from gateway.types import EntryKind
from gateway.unfinished import UnfinishedMessage

__all__ = ["MAX_CUT_CHARACTERS", "last_group", "seal", "told"]

_logger = logging.getLogger(__name__)

MAX_CUT_CHARACTERS = 8 * 1024
"""Code points that stay of a part that is too large to be sealed whole."""

_TOLD_IN = {"agent_complete": "result", "agent_error": "error", "agent_cancelled": "reason"}
"""The field of each end that the caller fills."""


def last_group(
    recorder: Recorder,
    event: Mapping[str, Any],
    left: Iterable[UnfinishedMessage],
    *,
    patched: bool,
    changes: Sequence[Change] = (),
) -> Group:
    """Put together the last append of a run.

    Args:
        recorder: Its context.
        event: The end.
        left: Messages that are still open; they are interrupted unless the run completes.
        patched: Whether tool calls without a result get one.
        changes: State fields that end with the run.

    """
    at = event["at"]
    mark = recorder.mark()
    out: list[Outgoing] = []
    for opened in left:
        message = opened.seal(interrupted=event["type"] != "agent_complete")
        out += seal(recorder, message, at=at, message_id=opened.id)
    if patched:
        out += recorder.record(recorder.context.patch_dangling_tool_calls(), at=at)[0]
    out.append(told(event, kind="x"))
    return Group(entries=out, log=recorder.step_since(mark), changes=changes)


def seal(recorder: Recorder, message: Message, *, at: int, message_id: str, run: str | None = None) -> list[Outgoing]:
    """Log an open message as it was left; one that is too large for an event is cut.

    Args:
        recorder: The context that it enters.
        message: What there is of it.
        at: Unix time in ms.
        message_id: Its id.
        run: Whose it is; None is the recorder's run.

    """
    try:
        return recorder.record(recorder.context.add_message(message), at=at, message=message_id, run=run)[0]
    except EventRefusedError as error:
        _logger.warning("the open message %s is cut: %s", message_id, error)
        content = message.content if isinstance(message.content, str) else ""
        cut = Message.assistant(
            content[:MAX_CUT_CHARACTERS],
            thinking=(message.thinking or "")[:MAX_CUT_CHARACTERS] or None,
            metadata={"interrupted": True, "truncated": True},
        )
        return recorder.record(recorder.context.add_message(cut), at=at, message=message_id, run=run)[0]


def told(event: Mapping[str, Any], *, kind: EntryKind) -> Outgoing:
    """Encode a run's end; one that cannot be told as it is must still be an end.

    Args:
        event: The end.
        kind: ``x`` on the run's own topic, ``h`` on that of the run that started it.

    """
    try:
        return outgoing(event, kind=kind)
    except EventRefusedError as error:
        return outgoing({**event, _TOLD_IN[event["type"]]: f"not published: {error}"}, kind=kind)
