"""The events of OpenAI's Responses stream (``response.created`` … ``response.completed``) into a run."""

from collections.abc import Mapping
from typing import Any

from gateway.adapters.openai_usage import openai_usage
from gateway.adapters.response import Adapter, Call, Response, compact, plain
from gateway.errors import ProviderError

__all__ = ["Responses"]

_SERVER_CALLS = frozenset(
    {"code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call", "web_search_call"}
)
_CALLS = frozenset({"custom_tool_call", "function_call"})
_RESULT_FIELDS = ("output", "outputs", "results", "result", "error")
_ITEM_FIELDS = frozenset({"type", "id", "call_id", "status", "name", "arguments", "input", *_RESULT_FIELDS})


class Responses(Adapter):
    """Feeds the stream events of one or more responses into a run."""

    kept_as = "openai"

    _calls: dict[str, Call]
    _summaries: dict[str, int]
    _streamed: set[str]
    """Items whose text has come in pieces."""

    async def feed(self, event: Any) -> None:
        """Take the next event; unknown items are kept in the message's metadata.

        Raises:
            ProviderError: An ``error`` event or ``response.failed``.

        """
        event = plain(event)
        kind = str(event.get("type") or "")
        if kind == "error":
            raise _error(event.get("error") or event)
        if kind == "response.created":
            head = event.get("response") or {}
            self._calls, self._summaries, self._streamed = {}, {}, set()
            await self._begin(call=str(head.get("id") or ""), model=str(head.get("model") or ""))
            return
        if not kind.startswith("response."):
            # Within a response all that an unknown event brings comes again with its item's end.
            await self._keep(kind or "event", event)
        response = self._response
        if response is None:
            return
        match kind:
            case "response.output_item.added":
                await self._open(response, event.get("item") or {})
            case "response.output_text.delta":
                self._streamed.add(str(event.get("item_id") or ""))
                await response.text(str(event.get("delta") or ""))
            case "response.refusal.delta":
                await response.text(str(event.get("delta") or ""))
                response.metadata["refusal"] = response.metadata.get("refusal", "") + str(event.get("delta") or "")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                await self._think(response, event)
            case (
                "response.function_call_arguments.delta"
                | "response.mcp_call_arguments.delta"
                | "response.custom_tool_call_input.delta"
            ):
                call = self._calls.get(str(event.get("item_id")))
                if call is not None:
                    await response.grow_call(call, str(event.get("delta") or ""))
            case "response.output_item.done":
                await self._close(response, event.get("item") or {})
            case "response.completed" | "response.incomplete" | "response.failed":
                await self._complete(response, event.get("response") or {})

    @staticmethod
    def model(event: Mapping[str, Any]) -> str | None:
        """Name the model, where this event tells it."""
        return (event.get("response") or {}).get("model") or None

    async def _open(self, response: Response, item: Mapping[str, Any]) -> None:
        kind, item_id = str(item.get("type") or ""), str(item.get("id") or "")
        if kind in _CALLS or kind in _SERVER_CALLS:
            self._calls[item_id] = await response.open_call(
                Call(
                    id=str(item.get("call_id") or item_id),
                    name=str(item.get("name") or kind.removesuffix("_call")),
                    server=kind in _SERVER_CALLS,
                )
            )

    async def _think(self, response: Response, event: Mapping[str, Any]) -> None:
        # The parts of a summary are paragraphs that the stream does not separate.
        item_id, part = str(event.get("item_id")), int(event.get("summary_index") or 0)
        if response.has_thinking and self._summaries.get(item_id) != part:
            await response.thinking("\n\n")
        self._summaries[item_id] = part
        await response.thinking(str(event.get("delta") or ""))

    async def _close(self, response: Response, item: Mapping[str, Any]) -> None:
        kind, item_id = str(item.get("type") or ""), str(item.get("id") or "")
        if kind == "message":
            if not self._streamed & {item_id, ""}:
                # Models that stand in for OpenAI's may give a message only whole.
                await response.text("".join(str(part.get("text") or "") for part in item.get("content") or ()))
            annotations = [note for part in item.get("content") or () for note in part.get("annotations") or ()]
            if annotations:
                response.metadata.setdefault("annotations", []).extend(annotations)
        elif kind == "reasoning":
            response.reasoning.append(dict(item))
        elif item_id not in self._calls and (kind in _CALLS or kind in _SERVER_CALLS):
            await self._open(response, item)
            self._settle(response, self._calls[item_id], item)
        elif item_id in self._calls:
            self._settle(response, self._calls[item_id], item)
        else:
            response.metadata.setdefault("items", []).append(dict(item))

    def _settle(self, response: Response, call: Call, item: Mapping[str, Any]) -> None:
        kind = str(item.get("type") or "")
        if kind == "custom_tool_call":
            # Its input is free text; arguments are JSON everywhere else.
            arguments = compact({"input": item.get("input") or ""})
        elif kind in _SERVER_CALLS and not item.get("arguments"):
            arguments = compact({key: value for key, value in item.items() if key not in _ITEM_FIELDS})
        else:
            arguments = str(item.get("arguments") or "")
        response.settle_call(call, arguments)
        if call.server:
            content = next((item[field] for field in _RESULT_FIELDS if item.get(field) is not None), None)
            shown = content if isinstance(content, str) else compact(content if content is not None else item)
            failed = item.get("status") == "failed" or bool(item.get("error"))
            response.answer(call, shown, error=failed)

    async def _complete(self, response: Response, final: Mapping[str, Any]) -> None:
        usage = final.get("usage")
        if usage:
            counted = openai_usage(usage, sent="input_tokens", written="output_tokens", tool_calls=len(response.calls))
            await response.usage(counted)
        if final.get("status") == "failed" or final.get("error"):
            raise _error(final.get("error") or {})
        reason = (final.get("incomplete_details") or {}).get("reason")
        response.metadata["finish_reason"] = reason or final.get("status") or "completed"
        await self._end()


def _error(raw: Mapping[str, Any]) -> ProviderError:
    code = str(raw.get("code") or raw.get("type") or "")
    return ProviderError(str(raw.get("message") or "unknown error"), code=code)
