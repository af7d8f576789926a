"""The events of any AG-UI source (https://docs.ag-ui.com) into a run."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from gateway.adapters.children import Children
from gateway.adapters.response import Adapter, Call, Response, Sink, compact, plain
from gateway.context.messages import Message
from gateway.context.usage import Usage
from gateway.errors import ProviderError
from gateway.types import new_id

__all__ = ["EVENT_TYPES", "AgUi"]


class AgUi(Adapter):
    """Feeds AG-UI events, as `ag_ui.core` models or as maps, into a run.

    Text, reasoning and calls go into one message until a result, a step or another message begins. State, activities
    and custom events are published as the agent's own (``ag_ui.state_snapshot``, …), as are unknown ones. A sub-agent
    gets a topic of its own.
    """

    kept_as = "ag_ui"

    _calls: dict[str, Call]
    _text_of: str | None = None
    """Id of the text message that is open in the response."""
    _person: list[str] | None = None
    """What of a person's message has come."""

    def __init__(self, run: Sink) -> None:
        super().__init__(run)
        self._calls = {}
        self._children = Children(run, AgUi)

    @property
    def resting(self) -> bool:
        """Whether nothing is half done."""
        return super().resting and not self._calls

    async def feed(self, event: Any) -> None:
        """Take the next event.

        Raises:
            ProviderError: ``RUN_ERROR``.

        """
        raw = _as_sent(event)
        kind = str(raw.get("type") or "")
        child = self._children.find(str(raw.get("subagentRunId") or ""))
        if child is not None and not kind.startswith("SUBAGENT_"):
            await child.feed({key: value for key, value in raw.items() if key != "subagentRunId"})
            return
        handler = self._handlers.get(kind)
        if handler is None:
            await self._keep(kind.lower() or "event", raw)
        else:
            await handler(self, raw)

    async def finish(self) -> None:
        """Take the end of the stream, which may come without a ``RUN_FINISHED``."""
        await self._children.close_all()
        await self._seal()
        await super().finish()

    async def abandon(self, error: BaseException) -> None:
        """End what is still running by an error."""
        await self._children.abandon(error)

    async def _started(self, raw: Mapping[str, Any]) -> None:
        await self._seal()
        self.begun = True

    async def _finished(self, raw: Mapping[str, Any]) -> None:
        await self._seal()
        for number, usage in enumerate(raw.get("usage") or ()):
            await self._sink.usage(_usage(usage), call=f"{raw.get('runId')}:{number}")
        told = {name: raw[name] for name in ("result", "outcome") if raw.get(name) is not None}
        if told:
            await self._keep("run_finished", told)

    async def _failed(self, raw: Mapping[str, Any]) -> None:
        raise ProviderError(str(raw.get("message") or "unknown error"), code=str(raw.get("code") or ""))

    async def _step_started(self, raw: Mapping[str, Any]) -> None:
        await self._seal()
        await self._sink.log_event("step_start", {"name": raw.get("stepName")})

    async def _step_finished(self, raw: Mapping[str, Any]) -> None:
        await self._seal()
        await self._sink.log_event("step_end", {"name": raw.get("stepName")})

    async def _text_started(self, raw: Mapping[str, Any]) -> None:
        if raw.get("role", "assistant") == "user":
            await self._seal()
            self._person = []
            return
        message = str(raw.get("messageId") or "")
        if self._response is not None and (self._response.has_text or self._response.calls):
            await self._seal()
        await self._open(message)
        self._text_of = message

    async def _text(self, raw: Mapping[str, Any]) -> None:
        piece = str(raw.get("delta") or "")
        if self._person is not None:
            self._person.append(piece)
        else:
            await (await self._open(str(raw.get("messageId") or ""))).text(piece)

    async def _text_ended(self, raw: Mapping[str, Any]) -> None:
        if self._person is not None:
            await self._sink.add_message(Message.user("".join(self._person)))
        self._person = self._text_of = None

    async def _text_chunk(self, raw: Mapping[str, Any]) -> None:
        message = raw.get("messageId")
        if message and message != self._text_of:
            await self._text_started(raw)
        await self._text(raw)

    async def _thought(self, raw: Mapping[str, Any]) -> None:
        if self._response is not None and (self._response.has_text or self._response.calls):
            await self._seal()
        await (await self._open("")).thinking(str(raw.get("delta") or ""))

    async def _encrypted(self, raw: Mapping[str, Any]) -> None:
        (await self._open("")).reasoning.append(dict(raw))

    async def _call_started(self, raw: Mapping[str, Any]) -> None:
        opened = Call(id=str(raw.get("toolCallId") or ""), name=str(raw.get("toolCallName") or ""))
        self._calls[opened.id] = await (await self._open("")).open_call(opened)

    async def _call_args(self, raw: Mapping[str, Any]) -> None:
        call = self._calls.get(str(raw.get("toolCallId")))
        if call is not None and self._response is not None:
            await self._response.grow_call(call, str(raw.get("delta") or ""))

    async def _call_chunk(self, raw: Mapping[str, Any]) -> None:
        if raw.get("toolCallId") and str(raw["toolCallId"]) not in self._calls:
            await self._call_started(raw)
        last = next(reversed(self._calls), "")
        await self._call_args({**raw, "toolCallId": raw.get("toolCallId") or last})

    async def _result(self, raw: Mapping[str, Any]) -> None:
        await self._seal()
        call_id = str(raw.get("toolCallId") or "")
        call = self._calls.pop(call_id, None)
        content = raw.get("content")
        if call is not None:
            # That it begins is not told; that it has run is.
            await self._sink.tool_call(call.id, call.name, call.arguments)
        text = content if isinstance(content, str) else compact(content)
        await self._sink.tool_result(call_id, call.name if call else "", text, error=bool(raw.get("error")))

    async def _child_started(self, raw: Mapping[str, Any]) -> None:
        await self._children.open(str(raw.get("subagentRunId") or ""), str(raw.get("name") or "sub-agent"))

    async def _child_finished(self, raw: Mapping[str, Any]) -> None:
        await self._children.close(str(raw.get("subagentRunId") or ""))

    async def _child_failed(self, raw: Mapping[str, Any]) -> None:
        error = ProviderError(str(raw.get("message") or "unknown error"), code=str(raw.get("code") or ""))
        await self._children.close(str(raw.get("subagentRunId") or ""), error)

    async def _nothing(self, raw: Mapping[str, Any]) -> None:
        """Take what only frames others."""

    async def _open(self, message: str) -> Response:
        if self._response is None:
            return await self._begin(call=message or new_id(), model="")
        return self._response

    async def _seal(self) -> None:
        self._text_of = None
        await self._end()

    _handlers: ClassVar[Mapping[str, Callable[["AgUi", Mapping[str, Any]], Awaitable[None]]]] = {
        "RUN_STARTED": _started,
        "RUN_FINISHED": _finished,
        "RUN_ERROR": _failed,
        "STEP_STARTED": _step_started,
        "STEP_FINISHED": _step_finished,
        "TEXT_MESSAGE_START": _text_started,
        "TEXT_MESSAGE_CONTENT": _text,
        "TEXT_MESSAGE_END": _text_ended,
        "TEXT_MESSAGE_CHUNK": _text_chunk,
        "TOOL_CALL_START": _call_started,
        "TOOL_CALL_ARGS": _call_args,
        "TOOL_CALL_END": _nothing,
        "TOOL_CALL_CHUNK": _call_chunk,
        "TOOL_CALL_RESULT": _result,
        "REASONING_ENCRYPTED_VALUE": _encrypted,
        "SUBAGENT_STARTED": _child_started,
        "SUBAGENT_FINISHED": _child_finished,
        "SUBAGENT_ERROR": _child_failed,
        **dict.fromkeys(
            ("REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT"), _thought
        ),
        **dict.fromkeys(
            (
                "REASONING_START",
                "REASONING_MESSAGE_START",
                "REASONING_MESSAGE_END",
                "REASONING_END",
                "THINKING_START",
                "THINKING_TEXT_MESSAGE_START",
                "THINKING_TEXT_MESSAGE_END",
                "THINKING_END",
            ),
            _nothing,
        ),
    }


EVENT_TYPES = frozenset(AgUi._handlers) | {  # noqa: SLF001 - what the class above handles, and what it keeps
    "ACTIVITY_DELTA",
    "ACTIVITY_SNAPSHOT",
    "CUSTOM",
    "MESSAGES_SNAPSHOT",
    "RAW",
    "STATE_DELTA",
    "STATE_SNAPSHOT",
}
"""By which a stream of maps is recognised."""


def _as_sent(event: object) -> Mapping[str, Any]:
    """Give an event as it is on the wire, in camel case; the models' types are defaults, which count as not set."""
    dump = getattr(event, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else plain(event)


def _usage(raw: Mapping[str, Any]) -> Usage:
    sent, written = int(raw.get("inputTokens") or 0), int(raw.get("outputTokens") or 0)
    return Usage(
        requests=1,
        input_tokens=sent,
        output_tokens=written,
        total_tokens=int(raw.get("totalTokens") or sent + written),
        cache_creation_input_tokens=int(raw.get("cacheWriteInputTokens") or 0),
        cache_read_input_tokens=int(raw.get("cachedInputTokens") or 0),
    )
