"""AG-UI's events (https://docs.ag-ui.com/concepts/events)."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.codec import encode_json
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

__all__ = ["AgUi"]


class AgUi(Dialect):
    """One run as an AG-UI stream: ``RUN_STARTED`` … ``RUN_FINISHED`` or ``RUN_ERROR``; the topic is the thread."""

    def __init__(self, topic: str) -> None:
        """Begin; ``topic`` is where the run is."""
        super().__init__(topic)
        self._run = self._model = ""
        self._texts: set[str] = set()
        self._thoughts: set[str] = set()

    def render(self, moment: Moment) -> list[dict[str, Any]]:
        """Give the events that say this."""
        match moment:
            case Started():
                self._run, self._model = moment.run, moment.model
                return [{"type": "RUN_STARTED", "threadId": self.topic, "runId": moment.run}]
            case TextAdded():
                events = self._end_thinking(moment.message)
                if moment.message not in self._texts:
                    self._texts.add(moment.message)
                    events.append({"type": "TEXT_MESSAGE_START", "messageId": moment.message, "role": "assistant"})
                events.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": moment.message, "delta": moment.text})
                return events
            case ThinkingAdded():
                thought = _thought(moment.message)
                events = []
                if moment.message not in self._thoughts:
                    self._thoughts.add(moment.message)
                    events.append({"type": "REASONING_START", "messageId": thought})
                    events.append({"type": "REASONING_MESSAGE_START", "messageId": thought, "role": "reasoning"})
                return [*events, {"type": "REASONING_MESSAGE_CONTENT", "messageId": thought, "delta": moment.text}]
            case CallOpened():
                call = {"toolCallId": moment.id, "toolCallName": moment.name}
                if moment.message:
                    call["parentMessageId"] = moment.message
                return [*self._end_thinking(moment.message), {"type": "TOOL_CALL_START", **call}]
            case CallArguments():
                return [{"type": "TOOL_CALL_ARGS", "toolCallId": moment.id, "delta": moment.text}]
            case CallSealed():
                return [{"type": "TOOL_CALL_END", "toolCallId": moment.id}]
            case MessageEnded():
                events = self._end_thinking(moment.message)
                if moment.message in self._texts:
                    self._texts.discard(moment.message)
                    events.append({"type": "TEXT_MESSAGE_END", "messageId": moment.message})
                return events
            case ResultGiven():
                return [
                    {
                        "type": "TOOL_CALL_RESULT",
                        "messageId": f"{moment.id}-result",
                        "toolCallId": moment.id,
                        "content": _text(moment.content),
                        "role": "tool",
                    }
                ]
            case ApprovalAsked():
                value = {
                    "toolCallId": moment.id,
                    "toolCallName": moment.name,
                    "arguments": moment.arguments,
                    "expiresAt": moment.expires_at,
                }
                return [{"type": "CUSTOM", "name": "approval_required", "value": value}]
            case Ended():
                return [self._end(moment)]

    def _end(self, ended: Ended) -> dict[str, Any]:
        counted = ended.usage
        usage = {
            "inputTokens": counted["input_tokens"],
            "outputTokens": counted["output_tokens"],
            "totalTokens": counted["total_tokens"],
            "cachedInputTokens": counted["cache_read_input_tokens"],
            "cacheWriteInputTokens": counted["cache_creation_input_tokens"],
            **({"model": self._model} if self._model else {}),
        }
        if ended.status in {"failed", "lost"}:
            error = {"message": ended.error or ended.status, "code": ended.status}
            return {"type": "RUN_ERROR", **error, "usage": [usage]}
        outcome = {"type": "success" if ended.status == "completed" else "cancelled"}
        run = {"threadId": self.topic, "runId": self._run}
        return {"type": "RUN_FINISHED", **run, "outcome": outcome, "usage": [usage]}

    def preface(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Give the conversation before the run, which replaces what the client has."""
        shown = [message for number, one in enumerate(messages) if (message := _message(one, number)) is not None]
        return [{"type": "MESSAGES_SNAPSHOT", "messages": shown}]

    def _end_thinking(self, message: str) -> list[dict[str, Any]]:
        if message not in self._thoughts:
            return []
        self._thoughts.discard(message)
        thought = {"messageId": _thought(message)}
        return [{"type": "REASONING_MESSAGE_END", **thought}, {"type": "REASONING_END", **thought}]


def _thought(message: str) -> str:
    return f"{message}-reasoning"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else encode_json(content).decode()


def _message(message: Mapping[str, Any], number: int) -> dict[str, Any] | None:
    role, content = message["role"], message["content"]
    head = {"id": message["message"] or f"seq-{message.get('seq', number)}", "role": role}
    if role == "tool":
        if not message["tool_call_id"]:
            return None
        return {**head, "toolCallId": message["tool_call_id"], "content": _text(content)}
    shown = {**head, "content": "" if content is None else _text(content)}
    if role == "assistant":
        calls = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in message["tool_calls"] or ()
        ]
        return shown | ({"toolCalls": calls} if calls else {})
    return shown if role in {"system", "user"} else None
