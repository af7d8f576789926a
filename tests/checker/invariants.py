"""The laws, checked on what a world has left behind."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.broker.port import Broker
from gateway.codec import decode_event
from gateway.context.log import chain_hash
from gateway.errors import FencedError, HistoryConflictError
from gateway.event_types import END_TYPES, LOG_FIELDS, LOGGED_TYPES
from gateway.run import Run
from gateway.topic_state import read_topic
from gateway.types import Topic
from tests.checker.agent import Agent
from tests.checker.author import Author
from tests.checker.readers import Folded, Reader, mirror_of
from tests.checker.truth import Fact, Violation
from tests.checker.world import World

__all__ = ["check"]


_PEOPLE_TYPES = frozenset(
    {"approval_decided", "cancel_requested", "message_edited", "message_queued", "message_withdrawn"}
)


async def check(world: World) -> None:
    """Judge a world that has come to its end.

    Raises:
        Violation: It breaks a law.

    """
    for topic in world.topics:
        account = await _account(world.brokers[1], topic)
        state = world.judges[topic].state
        path = world.judges[topic].truth.path(state.epoch, state.top) if state.epoch else {}
        _whole(path, account)
        _erased(world.judges[topic].erased, account)
        _log(path, state.log)
        _runs(path)
        _once(path)
        _people(path)
        _acknowledged(world, topic, path, account)
        _readers(world, topic, account)
        await _mirrors(world, topic, account)
        _failures(world, topic)


async def _account(broker: Broker, topic: Topic) -> Folded:
    folded = Folded()
    while True:
        history = await broker.read(topic, folded.position, limit=7, seen=True)
        folded.take(history)
        if history.upto >= history.top:
            return folded


def _whole(path: Mapping[int, Fact], account: Folded) -> None:
    """Law 1, and 7: all that was stored is there, at its place, but for the deltas of ended messages."""
    if list(path) != list(range(1, account.offset + 1)):
        raise Violation(f"the offsets are {list(path)}, the top is {account.offset}")
    expected = _compacted(path)
    if account.events != expected:
        raise Violation(f"the history has {_difference(account.events, expected)}")


def _erased(erased: set[bytes], account: Folded) -> None:
    """Nothing that a run had written when its topic was deleted is there, now that all servers have been asked."""
    back = [data for data in account.events.values() if data in erased]
    if back:
        raise Violation(f"deleted, and there again: {back[:3]}")


def _compacted(path: Mapping[int, Fact]) -> dict[int, bytes]:
    folded = Folded()
    for offset, fact in path.items():
        folded.add(offset, fact.data)
    return folded.events


def _difference(one: Mapping[int, bytes], other: Mapping[int, bytes]) -> str:
    lines = [
        f"{offset}: {one.get(offset)!r} where {other.get(offset)!r} should be"
        for offset in sorted({*one, *other})
        if one.get(offset) != other.get(offset)
    ]
    return "; ".join(lines[:5]) or "another order"


def _log(path: Mapping[int, Fact], log: tuple[int, str]) -> None:
    """The log: seqs without a hole, and the chain hash over them."""
    seq, chain = 0, ""
    for offset, fact in path.items():
        event = decode_event(fact.data)
        if event["type"] not in LOGGED_TYPES:
            continue
        if event["seq"] != seq:
            raise Violation(f"the logged event at {offset} has seq {event['seq']} after {seq - 1}")
        data = {key: value for key, value in event.items() if key not in LOG_FIELDS}
        chain = chain_hash(chain, seq, event["type"], event["time"], data)
        seq += 1
    if (seq, chain) != log:
        raise Violation(f"the log stands at {seq} {chain}, the state says {log}")


def _runs(path: Mapping[int, Fact]) -> None:
    """Law 8, and fencing: one end a run, nothing of it after that, and only the holder of the lease writes."""
    ended: set[str] = set()
    holder = ""
    for offset, fact in path.items():
        if fact.kind == "x":
            if fact.run in ended:
                raise Violation(f"run {fact.run} ends again at {offset}")
            ended.add(fact.run)
            if fact.request is None:
                if holder != fact.run:
                    raise Violation(f"run {fact.run} is declared lost at {offset}, and {holder or 'nobody'} holds")
                holder = ""
                continue
        elif fact.run in ended:
            raise Violation(f"run {fact.run} writes at {offset}, after its end")
        if not fact.run or fact.request is None:
            continue
        if fact.request.lease is not None:
            if holder not in {"", fact.run}:
                raise Violation(f"run {fact.run} takes the lease at {offset} from {holder}")
            holder = fact.run
        if holder != fact.run:
            raise Violation(f"run {fact.run} writes at {offset}, and {holder or 'nobody'} holds the lease")
        if fact.kind == "x":
            holder = ""


def _once(path: Mapping[int, Fact]) -> None:
    """Law 2: no event is there twice."""
    # Not what people did: two actions can say the same, and a run writes again what it acted on when in doubt
    # (STORE.md 3). That each action is there once is seen by its id.
    counts = Counter(fact.data for fact in path.values() if fact.request is not None and fact.type not in _PEOPLE_TYPES)
    twice = [data for data, count in counts.items() if count > 1]
    if twice:
        raise Violation(f"twice in the history: {twice[:3]}")


def _people(path: Mapping[int, Fact]) -> None:
    """Actions at most once, and only where their conditions held."""
    written: dict[str, int] = {}
    waiting: set[str] = set()
    pending: set[tuple[str, str]] = set()
    ended: set[str] = set()
    for offset, fact in path.items():
        request = fact.request
        event = decode_event(fact.data)
        kind = event["type"]
        if fact.kind == "x":
            ended.add(fact.run)
        if request is None:
            continue
        if request.writer.startswith("u/"):
            if request.writer in written:
                raise Violation(f"the action {request.writer} is at {written[request.writer]} and at {offset}")
            written[request.writer] = offset
        conditional = any(condition.op == "=" for condition in request.conditions)
        if kind == "message_queued":
            waiting.add(event["id"])
        elif kind in {"message_withdrawn", "message_taken"}:
            if conditional and event["id"] not in waiting:
                raise Violation(f"{kind} at {offset} of a message that does not wait")
            waiting.discard(event["id"])
        elif kind == "approval_required":
            pending.add((event["run"], event["tool_call_id"]))
        elif kind == "approval_decided" and conditional:
            if event["run"] in ended:
                raise Violation(f"an approval of run {event['run']} is decided at {offset}, after its end")
            if (event["run"], event["tool_call_id"]) not in pending:
                raise Violation(f"the approval {event['tool_call_id']} of {event['run']} is decided again at {offset}")
            pending.discard((event["run"], event["tool_call_id"]))
        elif kind == "cancel_requested" and event["run"] in ended:
            raise Violation(f"run {event['run']} has ended and is cancelled at {offset}")


def _acknowledged(world: World, topic: Topic, path: Mapping[int, Fact], account: Folded) -> None:
    """What was acknowledged is there; or its epoch is gone, and a run that lives has written it again."""
    state, truth = world.judges[topic].state, world.judges[topic].truth
    there = {fact.data for fact in path.values()}
    restored = _restorers(world, topic, path)
    ended = {fact.message for fact in path.values() if fact.kind == "e" and fact.message}
    for item in world.acknowledged:
        if item.topic != topic:
            continue
        request, answer = item.request, item.answer
        if truth.continues(answer.position, state):
            for offset, entry in enumerate(request.entries, answer.first):
                if entry.kind == "d" and entry.message in ended:
                    continue
                fact = path[offset]
                same = fact.request is not None and (fact.request.writer, fact.request.seq) == (
                    request.writer,
                    request.seq,
                )
                # Another try of a person's action was told at another time, and is the same action.
                stored = fact.data if same and request.writer.startswith("u/") else entry.data
                if account.events.get(offset) != stored:
                    raise Violation(f"acknowledged at {offset} and not there: {entry.data!r}")
        elif request.run in restored:
            for entry in request.entries:
                # A later one supersedes these; what is left of them is seen in the mirror.
                passing = entry.type in {"usage", "context"} or (entry.kind == "d" and entry.message in ended)
                if not passing and entry.data not in there:
                    raise Violation(f"lost, and its run lives and has not written it again: {entry.data!r}")


def _restorers(world: World, topic: Topic, path: Mapping[int, Fact]) -> set[str]:
    """Give the runs that lived to write their own end to this history."""
    ended: set[str] = set()
    for actor in world.actors:
        if isinstance(actor, Agent) and actor.topic == topic:
            ended.update(run.id for run in actor.ended)
        elif isinstance(actor, Author) and actor.topic == topic:
            ended.update(actor.ended)
    return {fact.run for fact in path.values() if fact.kind == "x" and fact.request is not None and fact.run in ended}


def _readers(world: World, topic: Topic, account: Folded) -> None:
    """Law 2, and 3: whoever reads has what the history has."""
    for actor in world.actors:
        if isinstance(actor, Reader) and actor.topic == topic and not actor.dead:
            if actor.folded.position != account.position:
                raise Violation(f"{actor.name} stands at {actor.folded.position}, the history at {account.position}")
            if actor.folded.events != account.events:
                raise Violation(f"{actor.name} has {_difference(actor.folded.events, account.events)}")


async def _mirrors(world: World, topic: Topic, account: Folded) -> None:
    """Law 3: the mirror of a snapshot and what follows is the mirror of all; a run's context is the mirror's."""
    mirror = (await read_topic(world.brokers[1], topic)).mirror
    expected = mirror_of(topic, account.position, account.events)
    if _state(mirror.state()) != _state(expected.state()):
        raise Violation(f"the mirror is {mirror.state()}, folded from the start {expected.state()}")
    last = _last_run(world, topic, account)
    if last is not None:
        world.seen["context compared"] += 1
        context = mirror.state()["context"]
        surface = [(event["seq"], event["type"], event["data"]) for event in context["events"]]
        own = [(event.seq, event.type, event.to_dict()["data"]) for event in last.context.log.surface()]
        if [item for item in surface if item[1] != "turn_start"] != own:
            raise Violation(f"run {last.id} has {own}, the mirror {surface}")
        if context["next_seq"] != last.context.log.next_seq:
            raise Violation(f"run {last.id} is at seq {last.context.log.next_seq}, the mirror at {context['next_seq']}")
        starts = world.judges[topic].truth.starts
        # A run that another one overtook after a rollback cannot know what that one told beside the log.
        overtaken = any(run != last.id for run in starts[starts.index(last.id) :])
        if not overtaken and (context["title"], context["system_prompt"]) != (
            last.title,
            last.context.system_prompt,
        ):
            raise Violation(f"run {last.id} has the title {last.title!r}, the mirror {context['title']!r}")


def _state(state: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(state))


def _last_run(world: World, topic: Topic, account: Folded) -> Run | None:
    """Give the run that wrote the last end, if it is one that still is in memory."""
    ends = [data for data in account.events.values() if decode_event(data)["type"] in END_TYPES]
    runs = {
        run.id: run
        for actor in world.actors
        if isinstance(actor, Agent) and actor.topic == topic
        for run in actor.ended
    }
    last = decode_event(ends[-1]) if ends else {}
    return runs.get(last.get("run", "")) if last.get("type") != "agent_lost" else None


def _failures(world: World, topic: Topic) -> None:
    """A run fails only where somebody else took its place, or what it would have to write again is unknown."""
    truth = world.judges[topic].truth
    facts = [fact for branch in truth.branches.values() for fact in branch.facts.values()]
    lost = {fact.run for fact in facts if fact.kind == "x" and fact.request is None}
    takers = {fact.run for fact in facts if fact.request is not None and fact.request.lease is not None}
    for agent in world.actors:
        if not isinstance(agent, Agent) or agent.topic != topic:
            continue
        for run, error in agent.failed:
            replaced = run in lost or takers - {run}
            forgotten = world.seen["trim Trimmed"] and (world.rolled_back or world.evicted)
            if not (isinstance(error, FencedError) and replaced) and not (
                isinstance(error, HistoryConflictError) and (replaced or forgotten)
            ):
                raise Violation(f"run {run} failed without need: {error!r}") from error
