"""The chunks of OpenAI's chat completions, as OpenAI and the many that speak like it send them, into a run."""

from collections.abc import Mapping
from typing import Any

from gateway.adapters.response import Adapter, Call, Response
from gateway.context.usage import Usage
from gateway.errors import ProviderError

__all__ = ["ChatCompletions"]


class ChatCompletions(Adapter):
    """Feeds ``chat.completion.chunk`` objects into a run.

    A response ends with the stream or with the next response's id: the usage comes in a chunk after the finish reason.
    """

    _slots: dict[int, Call]

    async def feed(self, event: Mapping[str, Any]) -> None:
        """Take the next chunk.

        Raises:
            ProviderError: The chunk carries an ``error``.

        """
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
        usage = event.get("usage")
        if usage:
            await response.usage(_usage(usage, tool_calls=len(response.calls)))

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
        for call in delta.get("tool_calls") or ():
            await self._take_call(response, call)
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


def _usage(raw: Mapping[str, Any], *, tool_calls: int) -> Usage:
    sent, written = int(raw.get("prompt_tokens") or 0), int(raw.get("completion_tokens") or 0)
    details = raw.get("prompt_tokens_details") or {}
    return Usage(
        requests=1,
        tool_calls=tool_calls,
        input_tokens=sent,
        output_tokens=written,
        total_tokens=int(raw.get("total_tokens") or sent + written),
        cache_read_input_tokens=int(details.get("cached_tokens") or 0),
    )
