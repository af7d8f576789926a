"""How a run goes on after its process was restarted: it still holds its topic, all else is read from there."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.blobs import LARGE
from gateway.broker.port import Appended, Deleted, Ended
from gateway.codec import encode_json
from gateway.context.usage import Usage
from gateway.ending import seal
from gateway.errors import FencedError, RunEndedError, TopicDeletedError
from gateway.hearing import actions_of
from gateway.journal import Journal
from gateway.outbox import Group, Outbox
from gateway.recorder import Recorder, outgoing
from gateway.run_writer import RunWriter
from gateway.sender import Sender
from gateway.start import Begun, Resumed
from gateway.types import START, Topic
from gateway.unfinished import sealed
from gateway.waiting import WaitingMessages

if TYPE_CHECKING:
    from gateway.publisher import Publisher

__all__ = ["Resumption"]

_RUN_FIELDS = ("agent", "model", "parent")


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """Which run goes on.

    Attributes:
        topic: Where.
        run: Its id.
        token: Its lease's.

    """

    topic: Topic
    run: str
    token: str

    async def begin(self, publisher: "Publisher") -> Begun:
        """Renew the lease and take up what the topic knows of the run.

        Raises:
            RunEndedError: The run has its end.
            FencedError: It does not hold the topic any more.

        """
        # First: from then on nobody but people writes on the topic.
        held = await publisher.patience.call(
            lambda: publisher.broker.renew(
                self.topic, run=self.run, token=self.token, lease=round(publisher.lease * 1000), position=START
            )
        )
        if isinstance(held, Ended):
            raise RunEndedError(run=self.run, position=held.position)
        if isinstance(held, Deleted):
            raise TopicDeletedError(topic=self.topic, run=self.run)
        if not isinstance(held, Appended):
            raise FencedError(run=self.run, holder=held.holder)
        state = await publisher.load(await publisher.read(self.topic))
        mirror = state.mirror.state()
        entry = next((entry for entry in mirror["runs"] if entry["run"] == self.run), None)
        if entry is None:
            raise FencedError(run=self.run, holder="")
        own = state.context()
        recorder = Recorder(run=self.run, context=own, published=mirror["context"], hash=state.hash)
        outbox = Outbox(
            self.run,
            flush_interval=publisher.flush_interval,
            max_bytes=publisher.max_unsent,
            # Above all marks of the process before, which counted from there or from 1.
            first_mark=publisher.broker.now(),
        )
        sender = Sender(
            publisher.broker,
            publisher.patience,
            topic=self.topic,
            run=self.run,
            token=self.token,
            lease=publisher.lease,
            outbox=outbox,
            journal=Journal(
                run=self.run,
                token=self.token,
                seq=state.seq,
                hash=state.hash,
                earlier=state.earlier,
                values=state.values,
            ),
            position=state.position,
        )
        writer = RunWriter(
            run=self.run, clock=publisher.broker.now, outbox=outbox, sender=sender, recorder=recorder, seen=0
        )
        for event in self._told(entry, mirror["context"]):
            sender.enter(outgoing(event))
        self._seal(writer, mirror)
        sender.go_on()
        return Begun(
            writer=writer,
            token=self.token,
            position=state.position,
            waiting=WaitingMessages(mirror["queue"]),
            resumed=self._resumed(entry, mirror),
        )

    def _told(self, entry: Mapping[str, Any], context: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Tell again what the run said that is no log: lost by the store, it is written again."""
        common = {"run": self.run, "at": entry["started_at"]}
        known = {name: entry[name] for name in _RUN_FIELDS if entry[name] is not None}
        yield {"type": "agent_start", **common, **known}
        names = ("id", "agent_name", "system_prompt", "needs_response", "iteration", "max_iterations", "started_at")
        fields = {name: context[name] for name in (*names, "title") if context[name] is not None}
        yield {"type": "context", **common, **fields}
        for number, items in _pieces(context["tool_calls"]):
            yield {"type": "context", **common, "tool_calls": {"from": number, "items": items}}
        for call, counters in entry["calls"].items():
            yield {"type": "usage", **common, "call": call, **counters}

    def _seal(self, writer: RunWriter, mirror: Mapping[str, Any]) -> None:
        """Seal what the run was writing; calls of a message without an end never run."""
        left = [opened for opened in mirror["open"] if opened["run"] == self.run]
        if not left:
            return
        recorder, at = writer.recorder, writer.now()
        mark = recorder.mark()
        entries = []
        for opened in left:
            message = sealed(
                text=opened["text"],
                thinking=opened["thinking"],
                calls=[(call["id"], call["name"], call["text"]) for call in opened["tool_calls"]],
                interrupted=True,
            )
            entries += seal(recorder, message, at=at, message_id=opened["message"])
        entries += recorder.record(recorder.context.patch_dangling_tool_calls(), at=at)[0]
        # The message's end is no turn of the model: what it was asked is still to be answered.
        again = msgspec.structs.replace(recorder.context, needs_response=True)
        entries += recorder.record(again, at=at)[0]
        writer.add(Group(entries=entries, log=recorder.step_since(mark)))

    def _resumed(self, entry: Mapping[str, Any], mirror: Mapping[str, Any]) -> Resumed:
        ended = [event["message"] for event in mirror["context"]["events"] if event["type"] == "assistant_message"]
        return Resumed(
            calls={call: Usage.from_mapping(counters) for call, counters in entry["calls"].items()},
            last=ended[-1] if ended else None,
            approvals=[approval for approval in mirror["approvals"] if approval["run"] == self.run],
            actions=list(actions_of(mirror, self.run)),
        )


def _pieces(calls: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Cut a context's tool calls into pieces of which each can be an event; gives each with the number of its first."""
    piece: list[Any] = []
    first = size = 0
    for number, call in enumerate(calls):
        added = len(encode_json(call))
        if piece and size + added > LARGE:
            yield first, piece
            piece, first, size = [], number, 0
        piece.append(call)
        size += added
    if piece:
        yield first, piece
