"""The UI message stream of Vercel's AI SDK (https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from gateway.dialects.dialect import Dialect
from gateway.dialects.run_feed import (
    ApprovalAsked,
    CallArguments,
    CallOpened,
    CallSealed,
    Ended,
    MessageEnded,
    Moment,
    ResultGiven,
    Started,
    TextAdded,
    ThinkingAdded,
)
from gateway.fields import text

__all__ = ["AiSdk"]

_REASONS: Mapping[str, str] = {
    "content_filter": "content-filter",
    "end_turn": "stop",
    "length": "length",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "refusal": "content-filter",
    "stop": "stop",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
}


class AiSdk(Dialect):
    """One run as one UI message: a step for each model response, tools as dynamic ones."""

    headers: ClassVar[Mapping[str, str]] = {"x-vercel-ai-ui-message-stream": "v1"}
    done: ClassVar[str] = "[DONE]"

    def __init__(self, topic: str) -> None:
        """Begin; ``topic`` is where the run is."""
        super().__init__(topic)
        self._step: str = ""  # the message whose step it is
        self._texts: set[str] = set()
        self._thoughts: set[str] = set()
        self._reason: str = "stop"

    def render(self, moment: Moment) -> list[dict[str, Any]]:
        """Give the events that say this."""
        match moment:
            case Started():
                metadata = {"agent": moment.agent, "model": moment.model}
                return [{"type": "start", "messageId": moment.run, "messageMetadata": metadata}]
            case TextAdded():
                events = [*self._enter(moment.message), *self._end_thinking(moment.message)]
                if moment.message not in self._texts:
                    self._texts.add(moment.message)
                    events.append({"type": "text-start", "id": moment.message})
                return [*events, {"type": "text-delta", "id": moment.message, "delta": moment.text}]
            case ThinkingAdded():
                events = self._enter(moment.message)
                if moment.message not in self._thoughts:
                    self._thoughts.add(moment.message)
                    events.append({"type": "reasoning-start", "id": moment.message})
                return [*events, {"type": "reasoning-delta", "id": moment.message, "delta": moment.text}]
            case CallOpened():
                call = {"toolCallId": moment.id, "toolName": moment.name, "dynamic": True}
                events = [*self._enter(moment.message), *self._end_thinking(moment.message)]
                return [*events, {"type": "tool-input-start", **call}]
            case CallArguments():
                return [{"type": "tool-input-delta", "toolCallId": moment.id, "inputTextDelta": moment.text}]
            case CallSealed():
                return [_input(moment)]
            case MessageEnded():
                events = self._end_thinking(moment.message)
                if moment.message in self._texts:
                    self._texts.discard(moment.message)
                    events.append({"type": "text-end", "id": moment.message})
                self._reason = _REASONS.get(moment.reason, "other") if moment.reason else "stop"
                return events
            case ResultGiven():
                head: dict[str, Any] = {"toolCallId": moment.id, "dynamic": True}
                if moment.server:
                    head["providerExecuted"] = True
                if moment.error:
                    failure = text(moment.content) or msgspec.json.encode(moment.content).decode()
                    return [{"type": "tool-output-error", **head, "errorText": failure}]
                return [{"type": "tool-output-available", **head, "output": moment.content}]
            case ApprovalAsked():
                return [{"type": "tool-approval-request", "approvalId": moment.id, "toolCallId": moment.id}]
            case Ended():
                return self._end(moment)

    def _end(self, ended: Ended) -> list[dict[str, Any]]:
        metadata = {"usage": dict(ended.usage), "status": ended.status}
        events: list[dict[str, Any]] = [{"type": "finish-step"}] if self._step else []
        events.append({"type": "message-metadata", "messageMetadata": metadata})
        match ended.status:
            case "completed":
                return [*events, {"type": "finish", "finishReason": self._reason}]
            case "cancelled":
                return [*events, {"type": "abort", "reason": ended.error or "cancelled"}]
            case _:
                return [*events, {"type": "error", "errorText": ended.error or ended.status}]

    def _enter(self, message: str) -> list[dict[str, Any]]:
        if self._step == message:
            return []
        before: list[dict[str, Any]] = [{"type": "finish-step"}] if self._step else []
        self._step = message
        return [*before, {"type": "start-step"}]

    def _end_thinking(self, message: str) -> list[dict[str, Any]]:
        if message not in self._thoughts:
            return []
        self._thoughts.discard(message)
        return [{"type": "reasoning-end", "id": message}]


def _input(call: CallSealed) -> dict[str, Any]:
    head: dict[str, Any] = {"toolCallId": call.id, "toolName": call.name, "dynamic": True}
    if call.server:
        head["providerExecuted"] = True
    try:
        value = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError as error:
        return {"type": "tool-input-error", **head, "input": call.arguments, "errorText": f"no JSON: {error}"}
    return {"type": "tool-input-available", **head, "input": value}
