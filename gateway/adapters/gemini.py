"""Google Gemini's streamed ``generateContent`` responses into a run, as its SDK or its HTTP API gives them."""

from collections.abc import Mapping
from typing import Any

from gateway.adapters.response import Adapter, Call, Response, Sink, compact, plain
from gateway.context.usage import Usage
from gateway.errors import ProviderError
from gateway.types import new_id

__all__ = ["Gemini"]

_SOURCES = ("citation_metadata", "grounding_metadata", "url_context_metadata")
_REFUSED = frozenset({"BLOCKLIST", "IMAGE_SAFETY", "PROHIBITED_CONTENT", "RECITATION", "SAFETY", "SPII"})
"""Finish reasons of an answer that was held back."""


class Gemini(Adapter):
    """Feeds ``GenerateContentResponse`` chunks into a run.

    A response ends with its stream or with the next response's id. Code that the provider runs itself is shown as a
    call of it with its result; where the SDK calls functions by itself, their results are shown, too.
    """

    kept_as = "gemini"

    def __init__(self, run: Sink) -> None:
        super().__init__(run)
        self._code: Call | None = None
        """The code whose result is still to come."""
        self._offered: list[Call] = []
        """The functions that earlier responses called, and nobody has answered."""

    async def feed(self, event: Any) -> None:
        """Take the next chunk.

        Raises:
            ProviderError: The chunk carries an ``error``.

        """
        event = plain(event)
        error = _field(event, "error")
        if error:
            raise ProviderError(str(error.get("message") or "unknown error"), code=str(error.get("status") or ""))
        history = _field(event, "automatic_function_calling_history") or ()
        if history:
            await self._finish_response()
            for part in (part for content in history for part in _field(content, "parts") or ()):
                await self._take_answer(_field(part, "function_response"))
        candidate: Mapping[str, Any] = next(
            (one for one in _field(event, "candidates") or () if not one.get("index")), {}
        )
        feedback = _field(event, "prompt_feedback") or {}
        blocked = _field(feedback, "block_reason")
        call = str(_field(event, "response_id") or "")
        response = self._response
        begins = bool(candidate or blocked) and (response is None or self._is_next(response, call))
        if begins:
            await self._finish_response()
            response = await self._begin(call=call or new_id(), model=str(_field(event, "model_version") or ""))
        if response is None:
            return
        for part in _field(_field(candidate, "content") or {}, "parts") or ():
            await self._take(response, part)
        for field in _SOURCES:
            if _field(candidate, field):
                response.metadata[field] = _field(candidate, field)
        reason = _field(candidate, "finish_reason") or blocked
        if reason:
            response.metadata["finish_reason"] = reason
        if blocked or reason in _REFUSED:
            message = _field(candidate, "finish_message") or _field(feedback, "block_reason_message")
            response.metadata["refusal"] = message or reason
        usage = _field(event, "usage_metadata")
        if usage:
            await response.usage(_usage(usage, tool_calls=len(response.calls)))

    @staticmethod
    def model(event: Mapping[str, Any]) -> str | None:
        """Name the model, where this event tells it."""
        return _field(event, "model_version") or None

    async def finish(self) -> None:
        """Take the end of the stream.

        Raises:
            ProviderError: The last response has no finish reason; the run keeps what came as interrupted.

        """
        await self._finish_response()
        await super().finish()

    async def _finish_response(self) -> None:
        if self._response is not None and "finish_reason" in self._response.metadata:
            self._code = None
            self._offered += [call for call in self._response.calls if not call.server]
            await self._end()

    @staticmethod
    def _is_next(response: Response, call: str) -> bool:
        return "finish_reason" in response.metadata and bool(call) and call != response.call

    async def _take(self, response: Response, part: Mapping[str, Any]) -> None:
        if _field(part, "thought_signature"):
            response.reasoning.append({"type": "thought_signature", "data": _field(part, "thought_signature")})
        text, known = _field(part, "text"), False
        if isinstance(text, str):
            known = True
            await (response.thinking(text) if _field(part, "thought") else response.text(text))
        asked = _field(part, "function_call")
        if asked:
            known = True
            # Some endpoints give no ids, but a result has to name its call.
            call_id = str(asked.get("id") or f"call_{new_id()}")
            arguments = compact(asked.get("args") or {})
            await response.open_call(Call(id=call_id, name=str(asked.get("name") or ""), pieces=[arguments]))
        code = _field(part, "executable_code")
        if code:
            known = True
            opened = Call(
                id=str(code.get("id") or f"code_{new_id()}"), name="code_execution", pieces=[compact(code)], server=True
            )
            self._code = await response.open_call(opened)
        result = _field(part, "code_execution_result")
        if result and self._code is not None:
            known = True
            failed = _field(result, "outcome") not in {None, "OUTCOME_OK"}
            response.answer(self._code, str(result.get("output") or ""), error=failed)
            self._code = None
        if not known and part.keys() - {"thought", "thought_signature", "thoughtSignature"}:
            response.metadata.setdefault("items", []).append(_described(part))

    async def _take_answer(self, answer: Mapping[str, Any] | None) -> None:
        """Tell what a function answered that the SDK has called; the history that tells it begins with old ones."""
        if not answer:
            return
        call_id, name = answer.get("id"), str(answer.get("name") or "")
        call = next((one for one in self._offered if one.id == call_id or (not call_id and one.name == name)), None)
        if call is not None:
            self._offered.remove(call)
            await self._sink.tool_call(call.id, call.name, call.arguments)
            result = answer.get("response") or {}
            await self._sink.tool_result(call.id, call.name, compact(result), error="error" in result)


def _field(raw: Mapping[str, Any], name: str) -> Any:
    """Read a field by the SDK's name of it, or by the HTTP API's, which is in camel case."""
    if name in raw:
        return raw[name]
    head, *rest = name.split("_")
    return raw.get(head + "".join(word.capitalize() for word in rest))


def _described(part: Mapping[str, Any]) -> dict[str, Any]:
    """Leave the bytes of pictures and sounds out: an event has no room for them."""
    blob = _field(part, "inline_data")
    if not isinstance(blob, Mapping):
        return dict(part)
    return {"inline_data": {"mime_type": _field(blob, "mime_type"), "base64_length": len(str(blob.get("data") or ""))}}


def _usage(raw: Mapping[str, Any], *, tool_calls: int) -> Usage:
    sent = int(_field(raw, "prompt_token_count") or 0) + int(_field(raw, "tool_use_prompt_token_count") or 0)
    written = int(_field(raw, "candidates_token_count") or 0) + int(_field(raw, "thoughts_token_count") or 0)
    return Usage(
        requests=1,
        tool_calls=tool_calls,
        input_tokens=sent,
        output_tokens=written,
        total_tokens=int(_field(raw, "total_token_count") or sent + written),
        cache_read_input_tokens=int(_field(raw, "cached_content_token_count") or 0),
    )
