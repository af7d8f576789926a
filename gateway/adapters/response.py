"""One provider response on its way into a run: its deltas go out as they come, its whole is the message."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from gateway.context.approval import Decision
from gateway.context.jsonlike import lenient
from gateway.context.messages import Message, ToolCall
from gateway.context.usage import Usage
from gateway.errors import EventRefusedError, ProviderError

__all__ = ["Adapter", "Asking", "Call", "Response", "Sink", "compact", "plain"]

INTERRUPTED_RESULT = "The call was interrupted: the provider's stream ended without its result."


class Sink(Protocol):
    """What an adapter needs of a `Run`."""

    async def delta(self, text: str, *, message: str | None = None) -> None: ...

    async def thinking(self, text: str, *, message: str | None = None) -> None: ...

    async def tool_call_delta(
        self,
        *,
        index: int,
        text: str = "",
        id: str | None = None,
        name: str | None = None,
        message: str | None = None,
    ) -> None: ...

    async def add_message(self, message: Message, *, message_id: str | None = None) -> None: ...

    async def tool_call(self, id: str, name: str, arguments: str, *, server: bool = False) -> None: ...

    async def tool_result(self, tool_call_id: str, name: str, content: str, *, error: bool = False) -> None: ...

    async def usage(self, usage: Usage, *, call: str | None = None) -> None: ...

    async def discard(self, *, reason: str, call: str | None = None) -> None: ...

    async def emit(self, event: Mapping[str, Any]) -> None: ...

    async def log_event(self, type: str, data: Mapping[str, Any] | None = None) -> None: ...

    async def set_context(self, *, agent_name: str) -> None: ...

    def sub_agent(self, agent: str) -> AbstractAsyncContextManager["Sink"]: ...


class Asking(Protocol):
    """What asking people needs of a `Run`."""

    async def approval(self, tool_call: ToolCall) -> Decision: ...


class Call(msgspec.Struct, kw_only=True):
    """A tool call that is being streamed.

    Attributes:
        id, name: "" until the provider has told them.
        pieces: Of the arguments' JSON text.
        server: The provider runs it itself.
        extra: What else the provider said of it, kept in the message.

    """

    id: str = ""
    name: str = ""
    pieces: list[str] = msgspec.field(default_factory=list)
    server: bool = False
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def arguments(self) -> str:
        """The arguments' JSON text; a call that was given none has an empty object."""
        return "".join(self.pieces) or "{}"


class Response:
    """Collects one response of a provider and passes its deltas to the run.

    Args:
        sink: The run.
        call: Id of the model call.
        model: The model's name; "" where it is not known.
        message: Id of the message; None is the run's open one, which is enough where no two are written at once.

    Attributes:
        call: Id of the model call, under which its usage counts.
        calls: The tool calls in the order of their appearance.
        metadata: Goes into the message; the adapter adds to it.
        reasoning: The provider's own reasoning items, needed to continue the conversation.
        message: What it came to; None until it has ended.

    """

    def __init__(self, sink: Sink, *, call: str, model: str = "", message: str | None = None) -> None:
        self.call = call
        self.calls: list[Call] = []
        self.metadata: dict[str, Any] = {"model": model} if model else {}
        self.reasoning: list[dict[str, Any]] = []
        self.message: Message | None = None
        self._sink = sink
        self._message = message
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._results: list[tuple[Call, str, bool]] = []

    async def text(self, piece: str) -> None:
        """Add answer text."""
        if piece:
            self._text.append(piece)
            await self._sink.delta(piece, message=self._message)

    async def thinking(self, piece: str) -> None:
        """Add thinking text."""
        if piece:
            self._thinking.append(piece)
            await self._sink.thinking(piece, message=self._message)

    @property
    def has_text(self) -> bool:
        """Whether any text has come."""
        return bool(self._text)

    @property
    def has_thinking(self) -> bool:
        """Whether any thinking has come."""
        return bool(self._thinking)

    async def open_call(self, call: Call) -> Call:
        """Add a tool call, with what is known of it by now."""
        index = len(self.calls)
        self.calls.append(call)
        await self._sink.tool_call_delta(
            index=index,
            text="".join(call.pieces),
            id=call.id or None,
            name=call.name or None,
            message=self._message,
        )
        return call

    async def grow_call(self, call: Call, piece: str, *, id: str = "", name: str = "") -> None:
        """Add a piece of a call's arguments, its id, its name."""
        new_id, new_name = (id if id != call.id else ""), (name if name != call.name else "")
        if not (piece or new_id or new_name):
            return
        call.id, call.name = new_id or call.id, new_name or call.name
        if piece:
            call.pieces.append(piece)
        await self._sink.tool_call_delta(
            index=self.calls.index(call),
            text=piece,
            id=new_id or None,
            name=new_name or None,
            message=self._message,
        )

    def settle_call(self, call: Call, arguments: str) -> None:
        """Take the provider's final word on a call's arguments, which outranks the pieces."""
        if arguments:
            call.pieces = [arguments]

    def answer(self, call: Call, content: str, *, error: bool = False) -> None:
        """Note the result of a call that the provider ran itself; it is written after the message."""
        self._results.append((call, content, error))

    async def usage(self, usage: Usage) -> None:
        """Say what the call has cost so far."""
        await self._sink.usage(usage, call=self.call)

    async def end(self) -> list[Call]:
        """Write the message, then the calls that the provider ran and their results.

        Returns:
            The provider's own calls that have no result yet.

        """
        calls = tuple(
            ToolCall(
                id=call.id,
                name=call.name,
                arguments=call.arguments,
                extra={**call.extra, "server": True} if call.server else call.extra,
            )
            for call in self.calls
        )
        self.message = Message.assistant(
            "".join(self._text) if self._text or not calls else None,
            tool_calls=calls or None,
            thinking="".join(self._thinking) or None,
            reasoning_details=self.reasoning or None,
            metadata=self.metadata,
        )
        await self._sink.add_message(self.message, message_id=self._message)
        answered = {id(call) for call, _, _ in self._results}
        for call in self.calls:
            if call.server:
                await self._sink.tool_call(call.id, call.name, call.arguments, server=True)
        for call, content, error in self._results:
            await self._sink.tool_result(call.id, call.name, content, error=error)
        return [call for call in self.calls if call.server and id(call) not in answered]


class Adapter(ABC):
    """Feeds the items of one provider's or framework's stream into a run.

    Args:
        run: Where the events go.

    """

    kept_as = ""
    """What the types of the events begin with by which items without a place of their own are kept."""

    def __init__(self, run: Sink) -> None:
        self.begun = False
        """Whether anything was understood as the beginning of a response."""
        self.last: Message | None = None
        """The message that was written last."""
        self._sink = run
        self._response: Response | None = None
        self._unanswered: dict[str, Call] = {}

    @property
    def resting(self) -> bool:
        """Whether nothing is half done: the run may stop here after a step."""
        return self.begun and self._response is None

    @abstractmethod
    async def feed(self, event: Any) -> None:
        """Take the next item of the stream.

        Args:
            event: As the library gives it, or as the provider sent it: a map.

        Raises:
            ProviderError: The provider reports an error.

        """

    @staticmethod
    def model(event: Mapping[str, Any]) -> str | None:  # noqa: ARG004 - those that know override it
        """Name the model, where this event tells it."""
        return None

    async def finish(self) -> None:
        """Take the end of the stream.

        Raises:
            ProviderError: A response has begun and not ended; the run keeps what came as interrupted.

        """
        if self._response is not None:
            self._response = None
            raise ProviderError("the stream ended in the middle of a response", code="incomplete_stream")
        await self._close_unanswered()

    async def abandon(self, error: BaseException) -> None:
        """End what else is running on behalf of a stream that broke off.

        Args:
            error: What broke it off; a cancellation, too.

        """
        self._response = None

    async def _close_unanswered(self) -> None:
        # What the provider ran is never offered for execution, so nobody else would answer it.
        for call in self._unanswered.values():
            await self._sink.tool_result(call.id, call.name, INTERRUPTED_RESULT, error=True)
        self._unanswered.clear()

    async def _begin(self, *, call: str, model: str) -> Response:
        if self._response is not None:
            await self._sink.discard(reason="the provider started the response again", call=self._response.call)
        self.begun = True
        self._response = Response(self._sink, call=call, model=model)
        return self._response

    async def _end(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            await self._write(response)

    async def _write(self, response: Response) -> None:
        for call in await response.end():
            self._unanswered[call.id] = call
        self.last = response.message

    async def _answer(self, call_id: str, content: str, *, error: bool) -> None:
        """Pass on the result of a call that the provider ran, of this response or an earlier one."""
        here = self._response.calls if self._response is not None else ()
        own = next((call for call in here if call.id == call_id), None)
        if own is not None and self._response is not None:
            self._response.answer(own, content, error=error)
            return
        earlier = self._unanswered.pop(call_id, None)
        await self._sink.tool_result(call_id, earlier.name if earlier else "", content, error=error)

    async def _keep(self, kind: str, item: object) -> None:
        """Publish an item that has no place of its own as an event of the agent's; never fails for what it is."""
        type_ = f"{self.kept_as}.{_UNFIT.sub('_', kind)}"[:64]
        try:
            await self._sink.emit({"type": type_, "item": lenient(item)})
        except EventRefusedError as error:
            await self._sink.emit({"type": type_, "left_out": str(error)})


_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
"""What no event's type has."""


def plain(item: object) -> Mapping[str, Any]:
    """Give an item of a stream as the map that the provider sent.

    Raises:
        TypeError: It is neither a map nor one of an SDK's models.

    """
    if isinstance(item, Mapping):
        return item
    dump = getattr(item, "model_dump", None)
    dumped = dump(mode="json", exclude_unset=True, warnings=False) if callable(dump) else None
    if not isinstance(dumped, Mapping):
        raise TypeError(f"expected a map or a model of the provider's SDK, got {type(item).__qualname__}")
    return dumped


def compact(value: object) -> str:
    """Write a value as one line of JSON."""
    return msgspec.json.encode(value).decode()
