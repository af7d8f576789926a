"""The stream events of OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses-streaming)."""

from typing import Any, ClassVar

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

__all__ = ["OpenAiResponses"]

_PLACES = 14
"""Bits of a sequence number below the topic's offset; a message may become many events."""

_EVENTS = {"completed": "response.completed", "cancelled": "response.incomplete"}
_STATUS = {"completed": "completed", "cancelled": "incomplete"}


class OpenAiResponses(Dialect):
    """One run as one response, its messages, reasoning, calls and results as output items."""

    names: ClassVar[bool] = True

    def __init__(self, topic: str) -> None:
        """Begin; ``topic`` is where the run is."""
        super().__init__(topic)
        self._response: dict[str, Any] = {}
        self._items: list[dict[str, Any]] = []
        self._texts: dict[str, int] = {}  # by message: the index of the item that is open
        self._thoughts: dict[str, int] = {}
        self._calls: dict[str, int] = {}  # by call
        self._dropped: set[int] = set()

    def render(self, moment: Moment) -> list[dict[str, Any]]:
        """Give the events that say this."""
        match moment:
            case Started():
                return self._start(moment)
            case TextAdded():
                return [*self._end_thinking(moment.message), *self._add_text(moment)]
            case ThinkingAdded():
                return self._add_thinking(moment)
            case CallOpened():
                item = {"type": "function_call", "id": f"fc_{moment.id}", "call_id": moment.id, "name": moment.name}
                self._calls[moment.id] = len(self._items)
                events = self._end_thinking(moment.message)
                return [*events, self._add({**item, "arguments": "", "status": "in_progress"})]
            case CallArguments():
                at = self._calls[moment.id]
                self._items[at]["arguments"] += moment.text
                return [self._about(at, "response.function_call_arguments.delta", delta=moment.text)]
            case CallSealed():
                at = self._calls[moment.id]
                item = self._items[at]
                item.update(arguments=moment.arguments, status="completed")
                done = {"name": moment.name, "arguments": moment.arguments}
                return [self._about(at, "response.function_call_arguments.done", **done), self._done(at)]
            case MessageEnded():
                return [*self._end_thinking(moment.message), *self._end_text(moment)]
            case ResultGiven():
                output = moment.content if isinstance(moment.content, str) else encode_json(moment.content).decode()
                status = "incomplete" if moment.error else "completed"
                item = {"type": "function_call_output", "id": f"fco_{moment.id}", "call_id": moment.id}
                return [self._add({**item, "output": output, "status": status}), self._done(len(self._items) - 1)]
            case ApprovalAsked():
                return []  # it has words only for approvals of the provider's own tools
            case Ended():
                return [self._end(moment)]

    def numbered(self, events: list[dict[str, Any]], *, first: int, last: int) -> list[dict[str, Any]]:
        """Number them by the topic's offsets, so that a number is the same in every stream of the run."""
        for place, event in enumerate(events[:-1]):
            event["sequence_number"] = (first << _PLACES) + place
        if events:
            events[-1]["sequence_number"] = (last << _PLACES) + len(events) - 1
        return events

    def _start(self, started: Started) -> list[dict[str, Any]]:
        self._response = {
            "id": f"resp_{started.run}",
            "object": "response",
            "created_at": started.at // 1000,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {"topic": self.topic, "agent": started.agent},
            "model": started.model,
            "output": [],
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
        }
        return [
            {"type": "response.created", "response": dict(self._response)},
            {"type": "response.in_progress", "response": dict(self._response)},
        ]

    def _add_text(self, added: TextAdded) -> list[dict[str, Any]]:
        events = []
        if added.message not in self._texts:
            at = self._texts[added.message] = len(self._items)
            item = {"type": "message", "id": added.message, "role": "assistant", "status": "in_progress"}
            events.append(self._add({**item, "content": []}))
            self._items[at]["content"] = [{"type": "output_text", "text": "", "annotations": []}]
            part = dict(self._items[at]["content"][0])
            events.append(self._about(at, "response.content_part.added", content_index=0, part=part))
        at = self._texts[added.message]
        self._items[at]["content"][0]["text"] += added.text
        delta = {"content_index": 0, "delta": added.text, "logprobs": []}
        return [*events, self._about(at, "response.output_text.delta", **delta)]

    def _end_text(self, ended: MessageEnded) -> list[dict[str, Any]]:
        at = self._texts.pop(ended.message, None)
        if at is None:
            return []
        item = self._items[at]
        item["status"] = "incomplete" if ended.discarded else "completed"
        if ended.discarded:
            self._dropped.add(at)
        part = dict(item["content"][0])
        return [
            self._about(at, "response.output_text.done", content_index=0, text=part["text"], logprobs=[]),
            self._about(at, "response.content_part.done", content_index=0, part=part),
            self._done(at),
        ]

    def _add_thinking(self, added: ThinkingAdded) -> list[dict[str, Any]]:
        events = []
        if added.message not in self._thoughts:
            at = self._thoughts[added.message] = len(self._items)
            events.append(self._add({"type": "reasoning", "id": f"rs_{added.message}_{at}", "summary": []}))
            self._items[at]["summary"] = [{"type": "summary_text", "text": ""}]
            part = dict(self._items[at]["summary"][0])
            events.append(self._about(at, "response.reasoning_summary_part.added", summary_index=0, part=part))
        at = self._thoughts[added.message]
        self._items[at]["summary"][0]["text"] += added.text
        delta = {"summary_index": 0, "delta": added.text}
        return [*events, self._about(at, "response.reasoning_summary_text.delta", **delta)]

    def _end_thinking(self, message: str) -> list[dict[str, Any]]:
        at = self._thoughts.pop(message, None)
        if at is None:
            return []
        part = dict(self._items[at]["summary"][0])
        return [
            self._about(at, "response.reasoning_summary_text.done", summary_index=0, text=part["text"]),
            self._about(at, "response.reasoning_summary_part.done", summary_index=0, part=part),
            self._done(at),
        ]

    def _end(self, ended: Ended) -> dict[str, Any]:
        usage = ended.usage
        cached = usage["cache_read_input_tokens"]
        response = {
            **self._response,
            "status": _STATUS.get(ended.status, "failed"),
            "completed_at": ended.at // 1000,
            "output": [item for at, item in enumerate(self._items) if at not in self._dropped],
            "usage": {
                "input_tokens": usage["input_tokens"],
                "input_tokens_details": {
                    "cached_tokens": cached,
                    "cache_write_tokens": usage["cache_creation_input_tokens"],
                },
                "output_tokens": usage["output_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage["total_tokens"],
            },
        }
        if ended.status in {"failed", "lost"}:
            response["error"] = {"code": "server_error", "message": ended.error or ended.status}
        return {"type": _EVENTS.get(ended.status, "response.failed"), "response": response}

    def _add(self, item: dict[str, Any]) -> dict[str, Any]:
        self._items.append(dict(item))
        at = len(self._items) - 1
        return {"type": "response.output_item.added", "output_index": at, "item": item}

    def _done(self, at: int) -> dict[str, Any]:
        return {"type": "response.output_item.done", "output_index": at, "item": dict(self._items[at])}

    def _about(self, at: int, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "item_id": self._items[at]["id"], "output_index": at, **fields}
