"""Anthropic's messages stream (https://docs.anthropic.com/en/docs/build-with-claude/streaming) into a run."""

from collections.abc import Mapping
from typing import Any

from gateway.adapters.response import Adapter, Call, Response, compact, plain
from gateway.context.usage import Usage
from gateway.errors import ProviderError

__all__ = ["AnthropicMessages"]

_SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_REPEATED = frozenset({"ping", "text", "thinking", "signature", "citation", "input_json", "compaction"})
"""What says nothing, and what the SDK's ``messages.stream`` says once more."""

_CALL_FIELDS = frozenset({"type", "id", "name", "input"})


class AnthropicMessages(Adapter):
    """Feeds the events of ``messages.stream`` (``message_start`` … ``message_stop``) into a run."""

    kept_as = "anthropic"

    _blocks: dict[int, "_Block"]
    _usage: dict[str, Any]

    async def feed(self, event: Any) -> None:
        """Take the next event.

        Raises:
            ProviderError: An ``error`` event.

        """
        event = plain(event)
        match event.get("type"):
            case "message_start":
                await self._start(event.get("message") or {})
            case "content_block_start":
                await self._open(int(event.get("index") or 0), event.get("content_block") or {})
            case "content_block_delta":
                await self._grow(int(event.get("index") or 0), event.get("delta") or {})
            case "content_block_stop":
                self._close(int(event.get("index") or 0))
            case "message_delta":
                self._note_stop(event.get("delta") or {})
                await self._count(event.get("usage") or {})
            case "message_stop":
                for index in list(self._blocks if self._response else ()):
                    self._close(index)
                await self._end()
            case "error":
                error = event.get("error") or {}
                raise ProviderError(str(error.get("message") or "unknown error"), code=str(error.get("type") or ""))
            case kind if kind not in _REPEATED:
                await self._keep(str(kind or "event"), event)

    @staticmethod
    def model(event: Mapping[str, Any]) -> str | None:
        """Name the model, where this event tells it."""
        return (event.get("message") or {}).get("model") or None

    async def _start(self, message: Mapping[str, Any]) -> None:
        self._blocks, self._usage = {}, {}
        await self._begin(call=str(message.get("id") or ""), model=str(message.get("model") or ""))
        # A continued programmatic tool call arrives whole inside the start, without block events.
        for index, block in enumerate(message.get("content") or ()):
            await self._open(index, block)
            self._close(index)
        self._note_stop(message)
        await self._count(message.get("usage") or {})

    def _current(self) -> Response:
        if self._response is None:
            raise ProviderError("expected message_start first", code="unexpected_event")
        return self._response

    async def _open(self, index: int, block: Mapping[str, Any]) -> None:
        response = self._current()
        kind = str(block.get("type") or "")
        state = self._blocks[index] = _Block(kind=kind, raw=dict(block))
        if kind == "text":
            await response.text(str(block.get("text") or ""))
            response.metadata.setdefault("citations", []).extend(block.get("citations") or ())
            if not response.metadata["citations"]:
                del response.metadata["citations"]
        elif kind == "thinking":
            await response.thinking(str(block.get("thinking") or ""))
        elif kind == "tool_use" or kind in _SERVER_CALLS:
            given = block.get("input")
            state.call = await response.open_call(
                Call(
                    id=str(block.get("id") or ""),
                    name=str(block.get("name") or ""),
                    pieces=[compact(given)] if given else [],
                    server=kind in _SERVER_CALLS,
                    extra={key: value for key, value in block.items() if key not in _CALL_FIELDS},
                )
            )
        elif kind.endswith("_tool_result"):
            content = block.get("content")
            failed = isinstance(content, Mapping) and str(content.get("type") or "").endswith("_error")
            await self._answer(
                str(block.get("tool_use_id") or ""),
                _result_text(content),
                error=bool(block.get("is_error")) or failed,
            )
        elif kind != "redacted_thinking":
            response.metadata.setdefault("items", []).append(dict(block))

    async def _grow(self, index: int, delta: Mapping[str, Any]) -> None:
        response, block = self._current(), self._blocks.get(index)
        match delta.get("type"):
            case "text_delta":
                await response.text(str(delta.get("text") or ""))
            case "thinking_delta":
                await response.thinking(str(delta.get("thinking") or ""))
                if block is not None:
                    block.thinking.append(str(delta.get("thinking") or ""))
            case "signature_delta":
                if block is not None:
                    block.raw["signature"] = str(delta.get("signature") or "")
            case "citations_delta":
                response.metadata.setdefault("citations", []).append(delta.get("citation"))
            case "input_json_delta":
                piece = str(delta.get("partial_json") or "")
                if block is not None and block.call is not None and piece:
                    if not block.streamed:
                        # An input given with the block's start is a preview that the pieces replace.
                        block.streamed = True
                        block.call.pieces.clear()
                    await response.grow_call(block.call, piece)

    def _close(self, index: int) -> None:
        block = self._blocks.pop(index, None)
        if block is None or self._response is None:
            return
        if block.kind == "thinking":
            thinking = str(block.raw.get("thinking") or "") + "".join(block.thinking)
            self._response.reasoning.append({**block.raw, "thinking": thinking})
        elif block.kind == "redacted_thinking":
            self._response.reasoning.append(block.raw)

    def _note_stop(self, delta: Mapping[str, Any]) -> None:
        metadata = self._current().metadata
        if delta.get("stop_reason"):
            metadata["finish_reason"] = delta["stop_reason"]
        if delta.get("stop_sequence"):
            metadata["stop_sequence"] = delta["stop_sequence"]
        details = delta.get("stop_details")
        if isinstance(details, Mapping) and delta.get("stop_reason") == "refusal":
            metadata["refusal"] = details.get("explanation") or "refused"

    async def _count(self, usage: Mapping[str, Any]) -> None:
        """Take cumulative counters; a key that does not come again keeps its last value."""
        response = self._current()
        self._usage.update({key: value for key, value in usage.items() if isinstance(value, int)})
        created, read = (self._usage.get(key, 0) for key in ("cache_creation_input_tokens", "cache_read_input_tokens"))
        # Anthropic counts cached input beside input_tokens, our counters inside it.
        sent = self._usage.get("input_tokens", 0) + created + read
        written = self._usage.get("output_tokens", 0)
        await response.usage(
            Usage(
                requests=1,
                tool_calls=len(response.calls),
                input_tokens=sent,
                output_tokens=written,
                total_tokens=sent + written,
                cache_creation_input_tokens=created,
                cache_read_input_tokens=read,
            )
        )


class _Block:
    """A content block that is open."""

    def __init__(self, *, kind: str, raw: dict[str, Any]) -> None:
        self.kind = kind
        self.raw = raw
        self.call: Call | None = None
        self.streamed = False
        self.thinking: list[str] = []


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    ):
        return "".join(part["text"] for part in content)
    return compact(content)
