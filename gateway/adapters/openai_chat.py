"""The chunks of OpenAI's chat completions, as OpenAI and the many that speak like it send them, into a run."""

from collections.abc import Mapping
from typing import Any

from gateway.adapters.openai_usage import openai_usage
from gateway.adapters.response import Adapter, Call, Response, plain
from gateway.errors import ProviderError

__all__ = ["ChatCompletions"]


_SOURCES = frozenset({"citations", "search_results"})
"""Where the likes of xAI and Perplexity tell what an answer rests on, beside the choices."""

_KNOWN = frozenset(
    {
        "annotations",
        "content",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "role",
        "tool_calls",
    }
)


class ChatCompletions(Adapter):
    """Feeds ``chat.completion.chunk`` objects into a run.

    A response ends with the stream or with the next response's id: the usage comes in a chunk after the finish reason.
    """

    kept_as = "openai"

    _slots: dict[int, Call]

    async def feed(self, event: Any) -> None:
        """Take the next chunk.

        Raises:
            ProviderError: The chunk carries an ``error``.

        """
        event = plain(event)
        error = event.get("error")
        if error:
            detail = error if isinstance(error, Mapping) else {"message": error}
            raise ProviderError(str(detail.get("message") or "unknown error"), code=str(detail.get("code") or ""))
        choice = next((one for one in event.get("choices") or () if not one.get("index")), None)
        response = self._response
        call = str(event.get("id") or "")
        if choice is not None and (response is None or (call and call != response.call)):
            await self._end()
            self._slots = {}
            response = await self._begin(call=call, model=str(event.get("model") or ""))
        if response is None:
            return  # a prologue such as Azure's prompt filter results, before any response
        if choice is not None:
            await self._take(response, choice)
        for field in _SOURCES & event.keys():
            # Cumulative where they come more than once.
            response.metadata[field] = event[field] or response.metadata.get(field, [])
        usage = event.get("usage")
        if usage:
            counted = openai_usage(
                usage, sent="prompt_tokens", written="completion_tokens", tool_calls=len(response.calls)
            )
            await response.usage(counted)

    @staticmethod
    def model(event: Mapping[str, Any]) -> str | None:
        """Name the model, where this event tells it."""
        return event.get("model") or None

    async def finish(self) -> None:
        """Take the end of the stream.

        Raises:
            ProviderError: The last response has no finish reason; the run keeps what came as interrupted.

        """
        if self._response is not None and "finish_reason" in self._response.metadata:
            await self._end()
        await super().finish()

    async def _take(self, response: Response, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or {}
        await response.thinking(str(delta.get("reasoning_content") or delta.get("reasoning") or ""))
        response.reasoning.extend(delta.get("reasoning_details") or ())
        content = delta.get("content")
        for part in content if isinstance(content, list) else ():
            await self._take_part(response, part)
        if isinstance(content, str):
            await response.text(content)
        refusal = delta.get("refusal")
        if refusal:
            await response.text(str(refusal))
            response.metadata["refusal"] = response.metadata.get("refusal", "") + str(refusal)
        if delta.get("annotations"):
            response.metadata.setdefault("annotations", []).extend(delta["annotations"])
        calls = list(delta.get("tool_calls") or ())
        if delta.get("function_call"):
            # The form from before parallel calls: one call, without an id.
            calls.append({"index": 0, "function": delta["function_call"]})
        for call in calls:
            await self._take_call(response, call)
        unknown = {key: value for key, value in delta.items() if value and key not in _KNOWN}
        if unknown:
            await self._keep("delta", unknown)
        if choice.get("finish_reason"):
            response.metadata["finish_reason"] = choice["finish_reason"]

    async def _take_part(self, response: Response, part: Mapping[str, Any]) -> None:
        """Take a part of a content list: Mistral's reasoning models stream thinking this way."""
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            pieces = inner if isinstance(inner, list) else [{"text": inner}]
            await response.thinking("".join(str(piece.get("text") or "") for piece in pieces))
        else:
            await response.text(str(part.get("text") or ""))

    async def _take_call(self, response: Response, raw: Mapping[str, Any]) -> None:
        function = raw.get("function") or {}
        call_id, name = str(raw.get("id") or ""), str(function.get("name") or "")
        piece = str(function.get("arguments") or "")
        index = raw.get("index")
        if not isinstance(index, int):
            # Some send no index: a new id begins a call, anything else goes on with the last one.
            index = max(self._slots, default=-1) + (1 if call_id or not self._slots else 0)
        known = self._slots.get(index)
        if known is None or (call_id and known.id and call_id != known.id):
            opened = Call(id=call_id, name=name, pieces=[piece] if piece else [])
            self._slots[index] = await response.open_call(opened)
        else:
            await response.grow_call(known, piece, id=call_id, name=name)
