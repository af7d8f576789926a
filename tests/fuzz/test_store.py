"""Fuzzing the scripts' arguments: an answer of the port's or a ValueError, and a history that is still whole."""

import asyncio
import contextlib
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import pytest
from hypothesis import strategies as st

from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Bound,
    Change,
    Condition,
    Deletion,
    Entry,
    LogStep,
    Stale,
    Trimmed,
)
from gateway.broker.redis import RedisBroker
from gateway.types import START, Position, Topic
from tests.fuzz.ground import fuzz
from tests.fuzz.hostile import TEXTS

MAX_BYTES = 200_000


def mostly(right: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw what has the right form seven times in eight."""
    return st.integers(0, 7).flatmap(lambda number: other if number == 7 else right)


_PLACES = st.one_of(
    st.integers(0, 30),
    st.sampled_from([-1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**30]),
)
_EPOCHS = mostly(st.sampled_from(["", "now", "now", "now", "aaaaaaaa", "before"]), TEXTS)
_WHO = mostly(st.sampled_from(["r1", "r2", "u/ann/1", "p-1", "a:b", "%", "-" * 1000]), TEXTS)
_MESSAGES = mostly(st.sampled_from(["", "m1", "m2", "m 1", "m1 m2", " ", "%20", "m" * 500]), TEXTS)
_BODIES = mostly(
    st.builds(
        lambda size, repeat: b'{"text":"' + b"x" * size * repeat + b'"}',
        st.sampled_from([0, 1, 100, 3000]),
        st.integers(0, 40),
    ),
    st.one_of(
        st.sampled_from(
            [
                b"{}",
                b'{"text":"x"}',
                b'{"text":"' + b"x" * 5000 + b'"}',
                b"",
                b"\x00",
                b"}}}",
                b'","offset":9',
                b"\xff\xfe",
                b"%d %s",
            ]
        ),
        st.binary(max_size=40),
        st.builds(lambda size: b'"' + b"x" * size + b'"', st.integers(0, 120_000)),
    ),
)
_FIELDS = mostly(
    st.builds(
        lambda kind, name: kind + name,
        st.sampled_from(["w:", "r:", "a:", "m:"]),
        st.sampled_from(["r1", "r1/t1", "1", "x y"]),
    ),
    st.sampled_from(["epoch", "d", "c", "lease", "floor", "w:", "o:x", "latest", "a:r1/t1", "m:1"]) | TEXTS,
)
_VALUES = (
    st.sampled_from(
        [
            "",
            "pending 0",
            "pending 99999999999999",
            f"pending {10**18}",
            "pending -1",
            "pending x",
            "queued",
            "end x 1 1",
            "x\ny",
        ]
    )
    | TEXTS
)
_ENTRIES = st.builds(
    lambda kind, name, message, data: Entry(kind=kind, type=name, message=message, data=data),
    st.sampled_from(["d", "d", "d", "h", "h", "h", "h", "e", "e", "x"]),
    mostly(st.sampled_from(["log", "agent_delta", ""]), TEXTS | st.just("a,b")),
    _MESSAGES,
    _BODIES,
)
_LOGS = (
    st.none()
    | st.none()
    | st.builds(
        lambda first, before, then, after: LogStep(first=first, before=before, next=then, after=after),
        _PLACES,
        st.sampled_from(["", "0" * 64]) | TEXTS,
        _PLACES,
        st.just("f" * 64) | TEXTS,
    )
)
_APPENDS = st.fixed_dictionaries(
    {
        "do": st.just("append"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "writer": _WHO,
        "seq": mostly(st.integers(0, 99).map(str), TEXTS),
        "run": mostly(st.sampled_from(["", "", "r1", "r2"]), _WHO),
        "token": mostly(st.sampled_from(["t", "t", "u"]), TEXTS),
        "entries": st.lists(_ENTRIES, min_size=1, max_size=4)
        | st.builds(
            lambda one, count: [one] * count,
            _ENTRIES.filter(lambda one: len(one.data) < 100),
            st.sampled_from([999, 1000, 1001]),
        ),
        "log": _LOGS,
        "lease": st.none()
        | st.just(30_000)
        | st.sampled_from([1, 30_000, 0, -1, 30 * 24 * 3600 * 1000, 2**53, 10**18]),
        "conditions": st.lists(
            st.builds(
                lambda field, op, value: Condition(field=field, op=op, value=value),
                _FIELDS,
                mostly(st.sampled_from(["=", "!", ">", "<"]), st.sampled_from(["?", ""])),
                _VALUES,
            ),
            max_size=3,
        ),
        "changes": st.lists(
            st.builds(lambda field, value: Change(field=field, value=value), _FIELDS, _VALUES), max_size=3
        ),
        "epoch": _EPOCHS,
        "offset": _PLACES,
    }
)
# As a run writes most: the short way of `advance`.
_DELTAS = st.fixed_dictionaries(
    {
        "do": st.just("deltas"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "message": _MESSAGES,
        "bodies": st.lists(_BODIES, min_size=1, max_size=4),
        "type": st.sampled_from(["agent_delta", "log", "x" * 64]),
        "kind": st.sampled_from(["d", "h"]),
    }
)
_READS = st.fixed_dictionaries(
    {
        "do": st.just("read"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "epoch": _EPOCHS,
        "offset": _PLACES,
        "limit": st.sampled_from([0, 1, 7, 1000, -1, 2**40]),
        "seen": st.booleans(),
    }
)
_TRIMS = st.fixed_dictionaries(
    {
        "do": st.just("trim"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "epoch": _EPOCHS,
        "offset": _PLACES,
        "snapshot": _BODIES,
        "size": _PLACES,
    }
)
_ARCHIVES = st.fixed_dictionaries(
    {
        "do": st.just("archive"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "epoch": _EPOCHS,
        "offset": _PLACES,
        "events": st.dictionaries(_PLACES, _BODIES, max_size=4),
    }
)
_RENEWALS = st.fixed_dictionaries(
    {
        "do": st.just("renew"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "epoch": _EPOCHS,
        "offset": _PLACES,
        "run": mostly(st.just("r1"), _WHO),
        "token": mostly(st.just("t"), _WHO),
        "lease": st.sampled_from([1, 30_000, 0, -5, 2**60]),
    }
)
_LOSSES = st.fixed_dictionaries(
    {
        "do": st.just("lost"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "epoch": _EPOCHS,
        "offset": _PLACES,
        "run": mostly(st.just("r1"), _WHO),
        "data": _BODIES,
    }
)
_DELETIONS = st.fixed_dictionaries(
    {
        "do": st.just("delete"),
        "topic": st.integers(0, 1),
        "here": mostly(st.just(True), st.just(False)),
        "epochs": st.lists(_EPOCHS, max_size=3),
    }
)
_STEPS = st.lists(
    st.one_of(
        _APPENDS, _APPENDS, _APPENDS, _DELTAS, _DELTAS, _READS, _TRIMS, _ARCHIVES, _RENEWALS, _LOSSES, _DELETIONS
    ),
    min_size=1,
    max_size=10,
)


class Histories:
    """Two topics, and what was stored on them."""

    def __init__(self, broker: RedisBroker) -> None:
        self.broker = broker
        self.topics = [Topic(f"t{token_hex(4)}"), Topic(f"t{token_hex(4)}/a:b@c")]
        self.epoch = ["", ""]
        self.before = [[""], [""]]
        self.stored: list[dict[int, bytes]] = [{}, {}]
        self.seq = 0

    async def play(self, step: dict[str, Any]) -> None:
        number: int = step["topic"]
        topic = self.topics[number]
        epoch = {"now": self.epoch[number], "before": self.before[number][-1]}
        at = Position(epoch=epoch.get(step.get("epoch", ""), step.get("epoch", "")), offset=step.get("offset", 0))
        if step["here"]:
            at = await self.top(number)
        match step["do"]:
            case "append":
                names = ("writer", "seq", "run", "token", "entries", "log", "lease", "conditions", "changes")
                await self.append(number, AppendRequest(**{name: step[name] for name in names}), at)
            case "deltas":
                entries = [
                    Entry(kind=step["kind"], type=step["type"], message=step["message"], data=data)
                    for data in step["bodies"]
                ]
                for lease in (30_000, None):
                    self.seq += 1
                    request = AppendRequest(
                        writer="r1", seq=f"d{self.seq}", run="r1", token="t", lease=lease, entries=entries
                    )
                    await self.append(number, request, await self.top(number))
            case "read":
                await self.broker.read(topic, at, limit=step["limit"], seen=step["seen"])
            case "trim":
                trimmed = await self.broker.trim(topic, step["snapshot"], position=at, size=step["size"])
                assert isinstance(trimmed, Trimmed | Stale)
            case "archive":
                await self.broker.archive(topic, step["events"], position=at)
            case "renew":
                await self.broker.renew(topic, run=step["run"], token=step["token"], lease=step["lease"], position=at)
            case "lost":
                await self.broker.declare_lost(topic, run=step["run"], data=step["data"], position=at)
            case "delete":
                epochs = " ".join(epoch.get(one, one) for one in step["epochs"])
                deletion = await self.broker.delete(topic, epochs=epochs)
                assert deletion is None or isinstance(deletion, Deletion)

    async def append(self, number: int, request: AppendRequest, at: Position) -> None:
        answer = await self.broker.append(self.topics[number], request, position=at)
        assert isinstance(answer, AppendAnswer)
        if isinstance(answer, Appended) and not answer.repeated:
            await self.note(number)
            for offset, entry in enumerate(request.entries, answer.first):
                self.stored[number][offset] = entry.data
        elif isinstance(answer, Bound):
            assert answer.size + sum(len(entry.data) for entry in request.entries) > MAX_BYTES

    async def top(self, number: int) -> Position:
        found = await self.broker.read(self.topics[number], START, limit=0)
        return Position(epoch=found.epoch, offset=found.top)

    async def note(self, number: int) -> None:
        """Follow the topic into another epoch; a new history begins with nothing stored."""
        top = await self.top(number)
        if top.epoch != self.epoch[number]:
            self.before[number].append(self.epoch[number])
            self.epoch[number] = top.epoch

    async def check(self, number: int) -> None:
        """See that the topic still reads as one history, each event as it was stored."""
        await self.note(number)
        found = await self.broker.read(self.topics[number], START, limit=100_000)
        assert found.upto == found.top
        offsets = [event.offset for event in found.events]
        assert offsets == sorted(set(offsets))
        assert not offsets or (found.floor < offsets[0] and offsets[-1] == found.top)
        weight = await self.broker.weigh(self.topics[number])
        assert 0 <= weight.size <= 3 * MAX_BYTES + 400_000
        standing = await self.broker.standing(self.topics[number])
        assert standing.deadline >= 0
        for event in found.events:
            assert self.stored[number].get(event.offset, event.data) == event.data
        self.stored[number] = {event.offset: event.data for event in found.events}


class Store:
    """The broker on a loop of its own."""

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.broker = self.loop.run_until_complete(self._made(url))

    async def _made(self, url: str) -> RedisBroker:
        return RedisBroker(url, key_prefix=f"t{token_hex(6)}", max_bytes=MAX_BYTES, ttl=3600)

    def close(self) -> None:
        self.loop.run_until_complete(self.broker.aclose())
        self.loop.close()


@pytest.fixture
def store(redis_url: str) -> Iterator[Store]:
    made = Store(redis_url)
    yield made
    made.close()


def test_store(store: Store) -> None:
    async def throw(steps: list[dict[str, Any]]) -> None:
        histories = Histories(store.broker)
        for step in steps:
            with contextlib.suppress(ValueError):
                await asyncio.wait_for(histories.play(step), 20)
            for number in (0, 1):
                await histories.check(number)

    fuzz("store", _STEPS, lambda steps: store.loop.run_until_complete(throw(steps)), examples=150)
