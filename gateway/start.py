"""How a run begins: it goes on from its topic's context, cleans up behind lost runs, and takes the topic."""

import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.broker.port import Appended, Busy, Change, Condition, Conflict, Ended, LogStep, Restore, Unmet
from gateway.codec import encode_json
from gateway.context.content import ContentPart
from gateway.context.context import Context
from gateway.context.messages import Message
from gateway.context.times import now
from gateway.ending import seal
from gateway.errors import HistoryConflictError, RunEndedError
from gateway.journal import Journal
from gateway.outbox import Group, Outbox, Outgoing
from gateway.recorder import Recorder, outgoing
from gateway.run_writer import RunWriter
from gateway.sender import Sender, refusal
from gateway.topic_state import TopicState
from gateway.types import Topic
from gateway.unfinished import sealed

if TYPE_CHECKING:
    from gateway.publisher import Publisher

__all__ = ["Start"]

_logger = logging.getLogger(__name__)


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is to begin with.

    Attributes:
        topic: Where.
        run: Its id.
        agent: Who runs.
        model: Of which model; None leaves it open.
        parent: The run that started it; None for none.
        input: What it was asked, as text for people; None for nothing.
        max_iterations: Model requests it may make; None keeps the context's bound.
        context: A conversation to go on with in place of the topic's own; None is the topic's own.
        adopt: Whether that conversation may replace the topic's own.
        taken: The waiting message that it answers, an entry of the mirror's queue; None for none.
        state: The topic as somebody has just read it; None reads it.

    """

    topic: Topic
    run: str
    agent: str
    model: str | None = None
    parent: str | None = None
    input: str | None = None
    max_iterations: int | None = None
    context: Context | None = None
    adopt: bool = False
    taken: Mapping[str, Any] | None = None
    state: TopicState | None = None

    async def begin(self, publisher: "Publisher") -> RunWriter:
        """Take the topic and write ``agent_start`` with all that belongs to it, in one append.

        Raises:
            TopicBusyError: Another run holds the topic, and nobody may say yet that it is dead.
            HistoryConflictError: The given context is not the topic's.
            ConditionError: The waiting message is gone or changed.
            RunEndedError: The run has ended before.
            ContextTooLargeError: The topic's history is full.

        """
        state = self.state or await publisher.read(self.topic)
        taken = None if self.taken is None else _Taken.of(self.taken)
        while True:
            token = secrets.token_hex(16)
            recorder, group = self._first_group(state, taken, at=publisher.broker.now())
            outbox = Outbox(self.run, flush_interval=publisher.flush_interval, max_bytes=publisher.max_unsent)
            outbox.add(group)
            sender = Sender(
                publisher.broker,
                publisher.patience,
                topic=self.topic,
                run=self.run,
                token=token,
                lease=publisher.lease,
                outbox=outbox,
                journal=Journal(run=self.run, token=token, seq=state.seq, hash=state.hash, earlier=state.earlier),
                position=state.position,
            )
            answer = await sender.begin()
            match answer:
                case Appended():
                    seen = 0 if state.mirror.state()["queue"] else state.position.offset
                    return RunWriter(
                        run=self.run,
                        clock=publisher.broker.now,
                        outbox=outbox,
                        sender=sender,
                        recorder=recorder,
                        seen=seen,
                    )
                case Busy():
                    await publisher.reclaim(self.topic, answer)
                case Ended(position=position):
                    raise RunEndedError(run=self.run, position=position)
                case Unmet(value=stored) if taken is not None and stored not in {"", taken.stored}:
                    taken = taken.edited(stored)
                case Conflict() | Restore():
                    _logger.debug("topic %s changed while run %s began; beginning again", self.topic, self.run)
                case _:
                    raise refusal(answer, topic=self.topic, run=self.run, seq=state.seq)
            state = await publisher.read(self.topic)

    def _first_group(self, state: TopicState, taken: "_Taken | None", *, at: int) -> tuple[Recorder, Group]:
        mirror = state.mirror.state()
        own = state.context()
        context = self._checked(own)
        recorder = Recorder(run=self.run, context=own, published=mirror["context"], hash=state.hash)
        mark = recorder.mark()
        out = [self._agent_start(at)]
        # What lost runs left open comes before anything that this one says (STORE.md 7).
        for opened in mirror["open"]:
            message = sealed(
                text=opened["text"],
                thinking=opened["thinking"],
                calls=[(call["id"], call["name"], call["text"]) for call in opened["tool_calls"]],
                interrupted=True,
            )
            out += seal(recorder, message, at=at, message_id=opened["message"], run=opened["run"])
        after = self._continued(recorder.context.patch_dangling_tool_calls(), context)
        out += recorder.record(after, at=at)[0]
        if taken is None:
            return recorder, Group(entries=out, log=_step(recorder, mark))
        event = {"type": "message_taken", "at": at, "run": self.run, "id": taken.id}
        out.append(outgoing(event if taken.by is None else {**event, "by": taken.by}))
        out += recorder.record(recorder.context.add_message(taken.message()), at=at, message=taken.id)[0]
        return recorder, Group(
            entries=out,
            log=_step(recorder, mark),
            conditions=(Condition(field=f"m:{taken.id}", op="=", value=taken.stored),),
            changes=(Change(field=f"m:{taken.id}", value=""),),
        )

    def _agent_start(self, at: int) -> Outgoing:
        event = {"type": "agent_start", "at": at, "run": self.run, "agent": self.agent}
        optional = {
            "model": self.model,
            "parent": self.parent,
            "input": self.input,
            "max_iterations": self.max_iterations,
        }
        return outgoing(event | {name: value for name, value in optional.items() if value is not None})

    def _checked(self, own: Context) -> Context | None:
        """Give the caller's context, if it may stand for the topic's own."""
        given = self.context
        if given is None or self.adopt:
            return given
        if given.log.next_seq != own.log.next_seq or given.log.surface() != own.log.surface():
            raise HistoryConflictError(seq=own.log.next_seq, expected=given.log.next_seq)
        return given

    def _continued(self, own: Context, given: Context | None) -> Context:
        fields: dict[str, Any] = {"agent_name": self.agent, "iteration": 0}
        if self.max_iterations is not None:
            fields["max_iterations"] = self.max_iterations
        if given is None:
            if own.started_at is None:
                fields["started_at"] = now()
            return msgspec.structs.replace(own, **fields)
        log, calls = own.log, own.tool_calls
        if self.adopt:
            log = own.clear().add_messages(given.entries).log
            calls = (*calls, *given.tool_calls)
        # What the runs of the topic have cost is a sum of its own events; no context can say otherwise.
        return msgspec.structs.replace(given, log=log, tool_calls=calls, usage=own.usage, **fields)


def _step(recorder: Recorder, mark: tuple[int, str]) -> LogStep:
    """Give how the log moves; a start that logs nothing must stand on the topic's log all the same."""
    seq, chain = mark
    return recorder.step_since(mark) or LogStep(first=seq, before=chain, next=seq, after=chain)


class _Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting message; ``stored`` is its state field, which must be just that when it is taken."""

    id: str
    content: Any
    by: Any
    stored: str

    @classmethod
    def of(cls, waiting: Mapping[str, Any]) -> "_Taken":
        content = waiting["content"]
        return cls(id=waiting["id"], content=content, by=waiting.get("by"), stored=encode_json(content).decode())

    def edited(self, stored: str) -> "_Taken":
        """Give the message as the store has it: edited since, or written by another encoder."""
        return msgspec.structs.replace(self, stored=stored, content=msgspec.json.decode(stored))

    def message(self) -> Message:
        content = self.content
        parts = tuple(ContentPart.from_raw(part) for part in content) if isinstance(content, list) else str(content)
        return Message.user(parts, metadata={} if self.by is None else {"by": self.by})
