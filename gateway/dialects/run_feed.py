"""What one run does, as additions only: for protocols whose readers cannot take anything back — pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from gateway.counters import no_usage, plus, read_usage
from gateway.event_types import END_TYPES
from gateway.fields import identifier, index, mapping, text

__all__ = [
    "ApprovalAsked",
    "CallArguments",
    "CallOpened",
    "CallSealed",
    "Ended",
    "MessageEnded",
    "Moment",
    "ResultGiven",
    "RunFeed",
    "Started",
    "TextAdded",
    "ThinkingAdded",
]


class Started(msgspec.Struct, frozen=True):
    """The run begins."""

    run: str
    agent: str
    model: str
    at: int


class TextAdded(msgspec.Struct, frozen=True):
    """Text at the end of a message, which the first addition opens."""

    message: str
    text: str


class ThinkingAdded(msgspec.Struct, frozen=True):
    """Reasoning at the end of a message's thinking."""

    message: str
    text: str


class CallOpened(msgspec.Struct, frozen=True):
    """A message asks for a tool; the arguments follow."""

    message: str
    id: str
    name: str


class CallArguments(msgspec.Struct, frozen=True):
    """A piece of a call's arguments, as JSON text."""

    id: str
    text: str


class CallSealed(msgspec.Struct, frozen=True):
    """A call is whole."""

    id: str
    name: str
    arguments: str
    server: bool


class MessageEnded(msgspec.Struct, frozen=True):
    """Nothing more comes of a message."""

    message: str
    reason: str = ""
    discarded: bool = False


class ResultGiven(msgspec.Struct, frozen=True):
    """What a tool gave back."""

    id: str
    name: str
    content: Any
    error: bool
    server: bool


class ApprovalAsked(msgspec.Struct, frozen=True):
    """A sealed call waits for a person's yes."""

    id: str
    name: str
    arguments: str
    expires_at: int | None


class Ended(msgspec.Struct, frozen=True):
    """The run's one end; nothing follows."""

    status: Literal["completed", "failed", "cancelled", "lost"]
    error: str
    usage: Mapping[str, int]
    at: int


Moment: TypeAlias = (
    Started
    | TextAdded
    | ThinkingAdded
    | CallOpened
    | CallArguments
    | CallSealed
    | MessageEnded
    | ResultGiven
    | ApprovalAsked
    | Ended
)

_STATUS: Mapping[str, Literal["completed", "failed", "cancelled", "lost"]] = {
    "agent_complete": "completed",
    "agent_error": "failed",
    "agent_cancelled": "cancelled",
    "agent_lost": "lost",
}


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.waiting = ""  # arguments that came before the id and the name
        self.sent = ""
        self.opened = False


class _Open:
    def __init__(self) -> None:
        self.text = ""
        self.thinking = ""
        self.calls: dict[int, _Call] = {}


class RunFeed:
    """Follows one run of a topic, the first that it hears of."""

    def __init__(self) -> None:
        """Begin with no run."""
        self.run: str = ""
        self.ended: bool = False
        self._open: dict[str, _Open] = {}
        self._closed: set[str] = set()  # messages that have ended
        self._calls: dict[str, _Call] = {}  # those that were opened, by id
        self._sealed: dict[str, bool] = {}  # calls by id: whether the provider runs them itself
        self._answered: set[str] = set()
        self._usage: dict[str, Any] = {}

    def join(self, state: Mapping[str, Any]) -> list[Moment]:
        """Begin in the middle: tell all that the live run of a mirror's state (PROTOCOL.md 5.1) has done so far."""
        live = [run for run in state["runs"] if run["status"] in {"running", "cancelling"} and run["parent"] is None]
        if not live:
            return []
        run = live[-1]
        moments: list[Moment] = [self._start(run["run"], run["agent"], run["model"], run["started_at"])]
        self._usage = dict(run["calls"])
        for entry in state["context"]["events"]:
            if entry["run"] == self.run:
                moments += self._tell({**entry["data"], "type": entry["type"], "message": entry["message"]})
        for message in state["open"]:
            if message["run"] == self.run:
                moments += self._add_open(message)
        for approval in state["approvals"]:
            if approval["run"] == self.run and approval["decision"] is None:
                moments += self._tell({**approval, "type": "approval_required"})
        return moments

    def take(self, event: Mapping[str, Any]) -> list[Moment]:
        """Tell what an event of the topic adds; nothing where it is about another run, or told already."""
        run = identifier(event.get("run"))
        kind = text(event.get("type")) or ""
        if self.ended or run is None:
            return []
        if not self.run:
            if kind != "agent_start" or event.get("parent") is not None:
                return []
            return [self._start(run, event.get("agent"), event.get("model"), event.get("at"))]
        if run != self.run:
            return []
        return list(self._end(event)) if kind in END_TYPES else list(self._tell(event))

    @property
    def told(self) -> str:
        """How much of the message that is open has been told: code points of its text, its thinking, its calls.

        The deltas of a message that ends are soon dropped from the history (DESIGN.md, law 7); this is what a reader
        must know then to go on in its middle. "" where no message is open, or more than one is.
        """
        if len(self._open) != 1:
            return ""
        (opened,) = self._open.values()
        calls = [len(call.sent) for _, call in sorted(opened.calls.items()) if call.opened]
        return ",".join(str(length) for length in (len(opened.text), len(opened.thinking), *calls))

    def restore(self, ended: Mapping[str, Any], told: str) -> list[Moment] | None:
        """Tell of a message's whole as much as `told` said; None where it cannot be a part of it.

        Args:
            ended: The `assistant_message`.
            told: What `told` was.

        """
        message = identifier(ended.get("message"))
        if message is None or message in self._closed:
            return None
        self._open.pop(message, None)
        lengths = [int(length) for length in told.split(",")]
        written, thinking = _written(ended.get("content")), text(ended.get("thinking")) or ""
        listed = ended.get("tool_calls")
        calls = [call for call in listed if mapping(call) is not None] if isinstance(listed, (list, tuple)) else []
        wholes = [written, thinking, *[text(call.get("arguments")) or "" for call in calls]]
        if len(lengths) > len(wholes) or any(size > len(whole) for size, whole in zip(lengths, wholes, strict=False)):
            return None
        moments = [
            *self._add_thinking(message, thinking[: lengths[1]]),
            *self._add_text(message, written[: lengths[0]]),
        ]
        for place, (call, size) in enumerate(zip(calls, lengths[2:], strict=False)):
            piece = (text(call.get("arguments")) or "")[:size]
            moments += self._add_to_call(message, place, call.get("id"), call.get("name"), piece)
        return moments

    def lose(self) -> list[Moment]:
        """End it: the history in which it ran is gone."""
        return [] if self.ended or not self.run else list(self._end({"type": "agent_lost", "reason": "history lost"}))

    def _start(self, run: str, agent: object, model: object, at: object) -> Moment:
        self.run = run
        return Started(run=run, agent=text(agent) or "", model=text(model) or "", at=index(at) or 0)

    def _tell(self, event: Mapping[str, Any]) -> Iterator[Moment]:
        message = identifier(event.get("message")) or ""
        match event.get("type"):
            case "agent_delta" if message not in self._closed:
                yield from self._add_text(message, text(event.get("text")) or "")
            case "agent_thinking" if message not in self._closed:
                yield from self._add_thinking(message, text(event.get("text")) or "")
            case "tool_call_delta" if message not in self._closed:
                place = index(event.get("index"))
                if place is not None:
                    yield from self._add_to_call(message, place, event.get("id"), event.get("name"), event.get("text"))
            case "assistant_message":
                yield from self._seal(message, event)
            case "tool_call":
                yield from self._seal_call(message, event, server=event.get("server") is True)
            case "tool_result":
                yield from self._answer(event)
            case "approval_required":
                call = identifier(event.get("tool_call_id"))
                if call is not None and call not in self._answered:
                    yield from self._seal_call("", {**event, "id": call}, server=False)
                    yield ApprovalAsked(
                        id=call,
                        name=text(event.get("name")) or "",
                        arguments=text(event.get("arguments")) or "",
                        expires_at=index(event.get("expires_at")),
                    )
            case "usage":
                call = identifier(event.get("call"))
                if call is not None:
                    self._usage[call] = read_usage(event)
            case "message_discarded":
                self._usage.pop(identifier(event.get("call")) or "", None)
                if message in self._open:
                    yield from self._close(message, discarded=True)

    def _add_open(self, message: Mapping[str, Any]) -> Iterator[Moment]:
        name = message["message"]
        yield from self._add_thinking(name, message["thinking"])
        yield from self._add_text(name, message["text"])
        for call in message["tool_calls"]:
            yield from self._add_to_call(name, call["index"], call["id"], call["name"], call["text"])

    def _add_text(self, message: str, added: str) -> Iterator[Moment]:
        if added:
            self._opened(message).text += added
            yield TextAdded(message=message, text=added)

    def _add_thinking(self, message: str, added: str) -> Iterator[Moment]:
        if added:
            self._opened(message).thinking += added
            yield ThinkingAdded(message=message, text=added)

    def _add_to_call(self, message: str, place: int, id: object, name: object, added: object) -> Iterator[Moment]:
        call = self._opened(message).calls.setdefault(place, _Call())
        call.id = call.id or text(id) or ""
        call.name = call.name or text(name) or ""
        call.waiting += text(added) or ""
        if not (call.id and call.name) or call.id in self._sealed:
            return
        if self._calls.setdefault(call.id, call) is not call:
            return  # another call has this id
        if not call.opened:
            call.opened = True
            yield CallOpened(message=message, id=call.id, name=call.name)
        if call.waiting:
            yield CallArguments(id=call.id, text=call.waiting)
            call.sent, call.waiting = call.sent + call.waiting, ""

    def _seal(self, message: str, event: Mapping[str, Any]) -> Iterator[Moment]:
        """End a message with its whole, of which what was not told yet follows."""
        message = message or f"seq-{event.get('seq')}"
        if message in self._closed:
            return
        opened = self._opened(message)
        yield from self._add_thinking(message, _rest(text(event.get("thinking")) or "", opened.thinking))
        yield from self._add_text(message, _rest(_written(event.get("content")), opened.text))
        calls = event.get("tool_calls")
        for call in calls if isinstance(calls, (list, tuple)) else ():
            if mapping(call) is not None:
                extra = mapping(call.get("extra")) or {}
                yield from self._seal_call(message, call, server=call.get("server", extra.get("server")) is True)
        reason = (mapping(event.get("metadata")) or {}).get("finish_reason")
        yield from self._close(message, reason=text(reason) or "")

    def _seal_call(self, message: str, call: Mapping[str, Any], *, server: bool) -> Iterator[Moment]:
        name, arguments = text(call.get("name")) or "", text(call.get("arguments")) or ""
        call_id = identifier(call.get("id"))
        if call_id is None or call_id in self._sealed:
            return
        self._sealed[call_id] = server
        known = self._calls.get(call_id)
        if known is None:
            yield CallOpened(message=message, id=call_id, name=name)
        told = known.sent if known is not None else ""
        arguments = arguments or told or "{}"
        rest = _rest(arguments, told)
        if rest:
            yield CallArguments(id=call_id, text=rest)
        elif told.startswith(arguments):
            arguments = told  # a large one: the whole is stored apart, and this is its beginning (PROTOCOL.md 4.6)
        yield CallSealed(id=call_id, name=name, arguments=arguments, server=server)

    def _answer(self, event: Mapping[str, Any]) -> Iterator[Moment]:
        call = identifier(event.get("tool_call_id"))
        if call is None or call in self._answered:
            return
        self._answered.add(call)
        yield from self._seal_call("", {"id": call, "name": event.get("name")}, server=False)
        yield ResultGiven(
            id=call,
            name=text(event.get("name")) or "",
            content=event.get("content"),
            error=(mapping(event.get("metadata")) or {}).get("error") is True,
            server=self._sealed.get(call, False),
        )

    def _close(self, message: str, *, reason: str = "", discarded: bool = False) -> Iterator[Moment]:
        opened = self._open.pop(message)
        self._closed.add(message)
        for call in opened.calls.values():
            if call.opened and call.id not in self._sealed:  # the whole does not know it: what was told is all there is
                self._sealed[call.id] = False
                yield CallSealed(id=call.id, name=call.name, arguments=call.sent, server=False)
        yield MessageEnded(message=message, reason=reason, discarded=discarded)

    def _end(self, event: Mapping[str, Any]) -> Iterator[Moment]:
        for message in list(self._open):
            yield from self._close(message)
        self.ended = True
        kind = event["type"]
        usage = no_usage()
        for counters in self._usage.values():
            usage = plus(usage, counters, less=no_usage())
        error = text(event.get("error" if kind == "agent_error" else "reason")) or ""
        yield Ended(status=_STATUS[kind], error=error, usage=usage, at=index(event.get("at")) or 0)

    def _opened(self, message: str) -> _Open:
        return self._open.setdefault(message, _Open())


def _rest(whole: str, told: str) -> str:
    """Give what is missing to a text; what was told otherwise cannot be taken back."""
    return whole[len(told) :] if whole.startswith(told) else ""


def _written(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, (list, tuple)) else ()
    return "".join(text(part.get("text")) or "" for part in parts if mapping(part) is not None)
