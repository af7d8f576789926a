"""Bugs planted in the product on purpose: the schedules find each of them, so they would find it in earnest."""

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.broker.port import AppendAnswer, Appended, AppendRequest, Ended, Fenced, History
from gateway.broker.redis import RedisBroker
from gateway.hub import Hub
from gateway.journal import Journal
from gateway.mirror import Mirror
from gateway.recovery import Missed, missed_after
from gateway.ring import Ring
from gateway.topic import HubTopic
from gateway.types import Position, Publication, Topic
from tests.faults import hurry, world
from tests.faults.schedules import run_schedule
from tests.faults.tally import Tally

Plant = Callable[[pytest.MonkeyPatch], None]

TRIES = 20
"""Schedules within which a bug must be found: what they meet depends on the moment."""


def hub_drops_a_publication(patch: pytest.MonkeyPatch) -> None:
    append = Ring.append

    def forgetful(self: Ring, offset: int, line: bytes) -> None:
        if offset % 7:
            append(self, offset, line)
        else:
            self.end = offset

    patch.setattr(Ring, "append", forgetful)


def merge_forgets_what_it_stands_for(patch: pytest.MonkeyPatch) -> None:
    from gateway import merging  # noqa: PLC0415 - the module whose function is replaced

    encode = merging._encode

    def untagged(publication: Publication) -> bytes:
        return encode(Publication(offset=publication.offset, data=publication.data))

    patch.setattr(merging, "_encode", untagged)


def recovery_starts_one_too_late(patch: pytest.MonkeyPatch) -> None:
    since = Ring.since
    patch.setattr(Ring, "since", lambda self, offset, size: since(self, offset + (offset < self.end - 1), size))


def mirror_applies_twice(patch: pytest.MonkeyPatch) -> None:
    apply = Mirror.apply

    def eager(self: Mirror, publication: Publication) -> str:
        if publication.data.get("type") == "agent_delta" and publication.offset % 5 == 0:
            self.fold(publication.data)
        return apply(self, publication)

    patch.setattr(Mirror, "apply", eager)


def epoch_change_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def unmoved(self: HubTopic, epoch: str, _top: int, **_: float) -> None:
        self.epoch, self._epoch_bytes = epoch, epoch.encode()

    patch.setattr(HubTopic, "replace", unmoved)


def unknown_positions_go_on(patch: pytest.MonkeyPatch) -> None:
    def lenient(asked: Position, history: History) -> list[Missed]:
        return missed_after(asked.offset, history.events)

    patch.setattr("gateway.histories.judge", lenient)
    patch.setattr("gateway.hub.judge", lenient)


def retries_are_stored_again(patch: pytest.MonkeyPatch) -> None:
    append, marks = RedisBroker.append, count(10**6)

    async def forgetful(self: RedisBroker, topic: Topic, request: AppendRequest, *, position: Position) -> AppendAnswer:
        request = msgspec.structs.replace(request, seq=str(next(marks)))
        return await append(self, topic, request, position=position)

    patch.setattr(RedisBroker, "append", forgetful)


def nothing_is_restored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "requests", lambda *_, **__: [])


def journal_forgets_an_append(patch: pytest.MonkeyPatch) -> None:
    requests = Journal.requests
    patch.setattr(Journal, "requests", lambda self, *args, **named: requests(self, *args, **named)[:-1])


def hub_sees_no_gap(patch: pytest.MonkeyPatch) -> None:
    hear = HubTopic.hear

    def trusting(self: HubTopic, payload: bytes) -> Any:
        epoch, first, *_ = payload.split(b" ", 2)
        if self._held is None and epoch == self._epoch_bytes and int(first) > self.ring.end:
            self.ring.end = int(first) - 1
        return hear(self, payload)

    patch.setattr(HubTopic, "hear", trusting)


def snapshot_claims_to_be_newer(patch: pytest.MonkeyPatch) -> None:
    snapshot = Mirror.snapshot

    def hasty(self: Mirror) -> dict[str, Any]:
        given = snapshot(self)
        return {**given, "offset": given["offset"] + 1}

    patch.setattr(Mirror, "snapshot", hasty)


def stored_snapshot_is_not_read(patch: pytest.MonkeyPatch) -> None:
    def empty(topic: Topic, history: History) -> Mirror:
        return Mirror(topic, history.epoch, history.floor)

    patch.setattr("gateway.folds._first_mirror", empty)


def fenced_run_goes_on(patch: pytest.MonkeyPatch) -> None:
    for method in ("append", "renew"):
        call = getattr(RedisBroker, method)

        async def lenient(*args: Any, call: Any = call, **named: Any) -> Any:
            answer = await call(*args, **named)
            return Appended(position=answer.position, first=0) if isinstance(answer, Fenced | Ended) else answer

        patch.setattr(RedisBroker, method, lenient)


def missed_while_away_is_not_read(patch: pytest.MonkeyPatch) -> None:
    def careless(self: Hub) -> None:
        self._missing = False
        self._tell()

    patch.setattr(Hub, "restored", careless)
    patch.setattr(Hub, "_audit", _no_audit)


async def _no_audit(_hub: Hub) -> None:
    pass


PAUSE = "agents paused, all compared"

PLANTED: list[tuple[Plant, list[str]]] = [
    (hub_drops_a_publication, ["late reader"]),
    (merge_forgets_what_it_stands_for, ["stall before readers"] * 4),
    (recovery_starts_one_too_late, ["reader away", "reader away", "cut before readers"]),
    (mirror_applies_twice, [PAUSE, "late reader", PAUSE, "reader away", PAUSE]),
    (epoch_change_is_ignored, ["store rolled back", "store emptied"]),
    (unknown_positions_go_on, ["store rolled back", "reader away", "store emptied"]),
    (retries_are_stored_again, ["answer cut off before agents", PAUSE] * 4),
    (nothing_is_restored, ["store rolled back", "store emptied", "store rolled back"]),
    (journal_forgets_an_append, ["store emptied", PAUSE, "store rolled back", PAUSE] * 3),
    (hub_sees_no_gap, ["deliveries dropped", "deliveries reordered"]),
    (snapshot_claims_to_be_newer, ["late reader"] * 4),
    (stored_snapshot_is_not_read, ["trim", "trim", "trim", "gateway restarted", "late reader", "late reader"]),
    (fenced_run_goes_on, ["agent fenced"]),
    (missed_while_away_is_not_read, ["cut before the gateway"] * 4),
]


@pytest.mark.timeout(600)  # several schedules may be needed, and on a busy machine each takes long
@pytest.mark.parametrize(("plant", "faults"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
async def test_planted_bug_is_found(
    plant: Plant, faults: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hurry.in_a_hurry(monkeypatch)
    monkeypatch.setattr(world, "PATIENCE", 6.0)
    plant(monkeypatch)
    for seed in random.sample(range(10**6), TRIES):
        tally = Tally()
        with monkeypatch.context() as patch:
            hurry.counted(patch, tally)
            try:
                await run_schedule(tmp_path / str(seed), seed=seed, tally=tally, faults=faults, topics=2)
            except (AssertionError, TimeoutError):
                return
    raise AssertionError(f"{plant.__name__} was not found by {TRIES} schedules of {faults}")
