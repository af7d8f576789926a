"""How a run begins: it goes on from its topic's context, cleans up behind lost runs, and takes the topic."""

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.approval_state import ApprovalState, approval_field
from gateway.broker.port import Appended, Busy, Change, Conflict, Deleted, Ended, LogStep, Restore, Unmet
from gateway.context.context import Context
from gateway.context.times import now
from gateway.context.usage import Usage
from gateway.ending import seal
from gateway.errors import HistoryConflictError, RunEndedError
from gateway.journal import Journal
from gateway.outbox import Group, Outbox, Outgoing
from gateway.recorder import Recorder, outgoing
from gateway.run_writer import RunWriter
from gateway.sender import Sender, refusal
from gateway.topic_state import TopicState
from gateway.types import Position, Topic
from gateway.unfinished import sealed
from gateway.waiting import SUPERSEDED, WaitingMessage, WaitingMessages, take, withdrawal

if TYPE_CHECKING:
    from gateway.publisher import Publisher

__all__ = ["Begun", "Resumed", "Start"]

_logger = logging.getLogger(__name__)


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that holds its topic.

    Attributes:
        writer: What it writes with.
        token: Its lease's.
        position: Up to where it knows the topic.
        waiting: The messages that wait there.
        resumed: What the run did before its process was restarted; None for a new run.

    """

    writer: RunWriter
    token: str
    position: Position
    waiting: WaitingMessages
    resumed: "Resumed | None" = None


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did before its process was restarted.

    Attributes:
        calls: What each model call had cost.
        last: The message that ended last; None where none did.
        approvals: Its questions, as the mirror has them.
        actions: What people did to it, as events.

    """

    calls: Mapping[str, Usage]
    last: str | None
    approvals: Sequence[Mapping[str, Any]]
    actions: Sequence[Mapping[str, Any]]


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
        superseded: Waiting messages that it answers by the taken one: they are withdrawn.
        state: The topic as somebody has just read it; None reads it.
        policy: What is done about messages that come meanwhile, for readers to know; None: they wait for their turn.
        trace: The `traceparent` that its start carries; None for none.

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
    superseded: Sequence[Mapping[str, Any]] = ()
    state: TopicState | None = None
    policy: str | None = None
    trace: str | None = None

    async def begin(self, publisher: "Publisher") -> Begun:
        """Take the topic and write ``agent_start`` with all that belongs to it, in one append.

        Raises:
            TopicBusyError: Another run holds the topic, and nobody may say yet that it is dead.
            HistoryConflictError: The given context is not the topic's.
            ConditionError: The waiting message is gone or changed.
            RunEndedError: The run has ended before.
            ContextTooLargeError: The topic's history is full.

        """
        state = await publisher.load(self.state or await publisher.read(self.topic))
        taken = None if self.taken is None else WaitingMessage.of(self.taken)
        superseded = {waiting["id"]: WaitingMessage.of(waiting) for waiting in self.superseded}
        while True:
            token = secrets.token_hex(16)
            recorder, group = self._first_group(state, taken, superseded.values(), at=publisher.broker.now())
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
                journal=Journal(
                    run=self.run,
                    token=token,
                    seq=state.seq,
                    hash=state.hash,
                    earlier=state.earlier,
                    values=state.values,
                ),
                position=state.position,
            )
            answer = await sender.begin()
            match answer:
                case Appended():
                    queue = state.mirror.state()["queue"]
                    gone = {*superseded} if taken is None else {*superseded, taken.id}
                    return Begun(
                        writer=RunWriter(
                            run=self.run,
                            clock=publisher.broker.now,
                            outbox=outbox,
                            sender=sender,
                            recorder=recorder,
                            seen=0 if queue else state.position.offset,
                        ),
                        token=token,
                        position=state.position,
                        waiting=WaitingMessages(entry for entry in queue if entry["id"] not in gone),
                    )
                case Busy():
                    await publisher.reclaim(self.topic, answer)
                case Ended(position=position):
                    raise RunEndedError(run=self.run, position=position)
                case Unmet(field=field, value=stored) if field[2:] in superseded:
                    # Withdrawn or edited meanwhile, which makes no difference to the one that is taken.
                    late = superseded.pop(field[2:])
                    if stored:
                        superseded[late.id] = late.edited(stored)
                case Unmet(value=stored) if taken is not None and stored not in {"", taken.stored}:
                    taken = taken.edited(stored)
                case Deleted(position=position) if position.epoch != state.position.epoch:
                    _logger.debug("topic %s was deleted while run %s began; beginning again", self.topic, self.run)
                case Conflict() | Restore():
                    _logger.debug("topic %s changed while run %s began; beginning again", self.topic, self.run)
                case _:
                    raise refusal(answer, topic=self.topic, run=self.run, seq=state.seq)
            state = await publisher.load(await publisher.read(self.topic))
            if any(entry["run"] == self.run and entry["ended_at"] is not None for entry in state.mirror.runs):
                # An earlier try had begun it, and it was given up since; trims may have taken that from the store.
                raise RunEndedError(run=self.run, position=state.position)

    def _first_group(
        self, state: TopicState, taken: WaitingMessage | None, superseded: Iterable[WaitingMessage], *, at: int
    ) -> tuple[Recorder, Group]:
        mirror = state.mirror.state()
        own = state.context()
        context = self._checked(own, state)
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
        settled = _settled(mirror)
        if taken is None:
            return recorder, Group(entries=out, log=_step(recorder, mark), changes=settled)
        out += [withdrawal(waiting, run=self.run, at=at, reason=SUPERSEDED) for waiting in superseded]
        out += take(taken, recorder, run=self.run, at=at)
        ended = (taken, *superseded)
        return recorder, Group(
            entries=out,
            log=_step(recorder, mark),
            conditions=[waiting.condition for waiting in ended],
            changes=[*settled, *(waiting.removal for waiting in ended)],
        )

    def _agent_start(self, at: int) -> Outgoing:
        event = {"type": "agent_start", "at": at, "run": self.run, "agent": self.agent}
        optional = {
            "model": self.model,
            "parent": self.parent,
            "input": self.input,
            "max_iterations": self.max_iterations,
            "policy": self.policy,
            "trace": self.trace,
        }
        return outgoing(event | {name: value for name, value in optional.items() if value is not None})

    def _checked(self, own: Context, state: TopicState) -> Context | None:
        """Give the caller's context, if it may stand for the topic's own."""
        given = self.context
        if given is None or self.adopt:
            return given
        visible = given.log.surface()
        if given.log.next_seq == own.log.next_seq and (
            visible == own.log.surface()
            # As a mirror has it, who knows large values by their beginnings.
            or (state.values and visible == msgspec.structs.replace(state, values={}).context().log.surface())
        ):
            return given
        raise HistoryConflictError(seq=own.log.next_seq, expected=given.log.next_seq)

    def _continued(self, own: Context, given: Context | None) -> Context:
        fields: dict[str, Any] = {"agent_name": self.agent, "iteration": 0}
        if self.max_iterations is not None:
            fields["max_iterations"] = self.max_iterations
        if given is None:
            if own.started_at is None:
                # As `Context.new` begins.
                fields |= {"started_at": now(), "needs_response": True}
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


def _settled(mirror: Mapping[str, Any]) -> list[Change]:
    """Give the state fields of the questions that the last run's loss has left without an answer."""
    own = [run for run in mirror["runs"] if run["topic"] is None]
    if not own or own[-1]["status"] != "lost":
        return []
    return [
        Change(
            field=approval_field(asked["run"], asked["tool_call_id"]),
            value=ApprovalState(deadline=asked["expires_at"] or 0, decision="expired").text,
        )
        for asked in mirror["approvals"]
        if asked["run"] == own[-1]["run"] and asked["decision"] == "expired"
    ]
