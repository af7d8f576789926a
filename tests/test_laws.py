"""The laws of the mirror: seam, split, repeat, total, compaction, twins."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.codec import decode_event, encode_event
from gateway.errors import EventRefusedError, SnapshotError
from gateway.event_types import DELTA_TYPES, SURFACE_TYPES
from gateway.merge import merge
from gateway.mirror import Mirror
from gateway.types import Publication
from tests.event_strategies import JSON, events, numbered, sensible_events
from tests.vectors_reader import canonical

_ROOT = Path(__file__).parent.parent

_Ask = Callable[[dict[str, Any]], dict[str, Any]]

# A law says nothing about how long an example takes, and this machine may be busy.
_law = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _read(publications: list[Publication], mirror: Mirror | None = None) -> Mirror:
    mirror = Mirror() if mirror is None else mirror
    for publication in publications:
        assert mirror.apply(publication) == "applied"
    return mirror


def _state(mirror: Mirror) -> str:
    return canonical(mirror.state())


def _is_delta(event: dict[str, Any]) -> bool:
    return isinstance(event.get("type"), str) and event["type"] in DELTA_TYPES


def _cuts(data: st.DataObject, length: int) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(1, max(1, length - 1)), max_size=3))) if length > 1 else []


# 3 seam


@_law
@given(events(), st.data())
def test_seam(sequence: list[dict[str, Any]], data: st.DataObject) -> None:
    publications = numbered(sequence)
    cut = data.draw(st.integers(0, len(publications)))
    first = _read(publications[:cut])
    stored = json.dumps(first.snapshot())
    later = _read(publications[cut:], Mirror.restore(json.loads(stored)))
    whole = _read(publications)
    assert canonical(later.snapshot()) == canonical(whole.snapshot())
    assert canonical(later.messages()) == canonical(whole.messages())
    assert canonical(json.loads(stored)) == canonical(_read(publications[:cut]).snapshot())


# 4 split


@_law
@given(events(), st.data())
def test_split(sequence: list[dict[str, Any]], data: st.DataObject) -> None:
    pieces: list[dict[str, Any]] = []
    for event in sequence:
        text = event.get("text")
        if not _is_delta(event) or not isinstance(text, str):
            pieces.append(event)
            continue
        places = [0, *_cuts(data, len(text)), len(text)]
        pieces += [{**event, "text": text[start:stop]} for start, stop in pairwise(places)]
    assert _state(_read(numbered(pieces))) == _state(_read(numbered(sequence)))


@_law
@given(events(), st.data())
def test_merge_changes_no_mirror(sequence: list[dict[str, Any]], data: st.DataObject) -> None:
    publications = numbered(sequence)
    cursor = data.draw(st.integers(0, len(publications)))
    mirror, other = _read(publications[:cursor]), _read(publications[:cursor])
    merged = merge(publications[cursor:])
    assert canonical(_read(merged, mirror).snapshot()) == canonical(_read(publications[cursor:], other).snapshot())
    assert merge(merged) == merged
    middle = data.draw(st.integers(cursor, len(publications)))
    again = merge([*merge(publications[cursor:middle]), *merge(publications[middle:])])
    assert canonical(_read(again, _read(publications[:cursor])).state()) == _state(mirror)


@_law
@given(sensible_events(), st.integers(1, 5))
def test_merged_publication_is_refused_by_a_reader_in_its_middle(sequence: list[dict[str, Any]], ahead: int) -> None:
    publications = numbered(sequence)
    for joined in merge(publications):
        first = joined.offset if joined.first is None else joined.first
        inside = min(first - 1 + ahead, joined.offset - 1)
        mirror = _read(publications[:inside])
        before = _state(mirror)
        if inside == first - 1:
            continue
        assert mirror.apply(joined) == "hole"
        assert (_state(mirror), mirror.offset) == (before, inside)


# 5 repeat


@_law
@given(events(), st.data())
def test_repeat(sequence: list[dict[str, Any]], data: st.DataObject) -> None:
    publications = numbered(sequence)
    mirror = Mirror()
    for publication in publications:
        assert mirror.apply(publication) == "applied"
        again = data.draw(st.integers(1, publication.offset))
        assert mirror.apply(publications[again - 1]) == "repeated"
    assert canonical(mirror.snapshot()) == canonical(_read(publications).snapshot())


# 6 total


@_law
@given(events(), st.lists(JSON, max_size=5), events())
def test_total(before: list[dict[str, Any]], junk: list[Any], after: list[dict[str, Any]]) -> None:
    mirror = _read(numbered(before))
    for anything in junk:
        mirror.fold(anything)
    for event in after:
        mirror.fold(event)
    snapshot = mirror.snapshot()
    assert canonical(Mirror.restore(json.loads(json.dumps(snapshot))).snapshot()) == canonical(snapshot)
    state = snapshot["mirror"]
    assert sum(run["status"] not in {"running", "cancelling"} for run in state["runs"]) <= 100
    assert {tuple(item) for item in state["log"]} <= {("at", "run", "level", "message", "logger", "fields")}


@_law
@given(events(), JSON)
def test_restore_of_anything_gives_a_mirror_or_is_refused(sequence: list[dict[str, Any]], anything: Any) -> None:
    snapshot = _read(numbered(sequence)).snapshot()
    for broken in (anything, {**snapshot, "mirror": anything}, {**snapshot, "mirror": {"context": anything}}):
        try:
            mirror = Mirror.restore(broken)
        except SnapshotError:
            continue
        _read(numbered(sequence, after=mirror.offset), mirror)


@_law
@given(events())
def test_what_the_encoder_lets_in_folds_the_same(sequence: list[dict[str, Any]]) -> None:
    one, other = Mirror(), Mirror()
    for event in sequence:
        try:
            data = encode_event(event)
        except EventRefusedError:
            continue
        one.fold(event)
        other.fold(decode_event(data))
    assert _state(one) == _state(other)


# 7 compaction


@_law
@given(events())
def test_compaction(sequence: list[dict[str, Any]]) -> None:
    mirror = Mirror()
    dropped: set[int] = set()
    for place, event in enumerate(sequence):
        before = {message["message"] for message in mirror.state()["open"]}
        mirror.fold(event)
        ended = before - {message["message"] for message in mirror.state()["open"]}
        dropped |= {
            earlier
            for earlier, other in enumerate(sequence[:place])
            if _is_delta(other) and isinstance(other.get("message"), str) and other["message"] in ended
        }
    rest = [event for place, event in enumerate(sequence) if place not in dropped]
    assert _state(_read(numbered(rest))) == _state(mirror)


@_law
@given(sensible_events())
def test_compaction_leaves_no_delta_of_a_sealed_message(sequence: list[dict[str, Any]]) -> None:
    sealed = {event["message"] for event in sequence if event["type"] in SURFACE_TYPES and "message" in event}
    rest = [event for event in sequence if event["type"] not in DELTA_TYPES or event["message"] not in sealed]
    assert _state(_read(numbered(rest))) == _state(_read(numbered(sequence)))


# 9 twins


@pytest.fixture(scope="module")
def browser_mirror() -> Iterator[_Ask]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; `make test` installs it")
    with subprocess.Popen(
        [node, _ROOT / "tests" / "js" / "mirror_stdin.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(question: dict[str, Any]) -> dict[str, Any]:
            stdin.write(json.dumps(question).encode() + b"\n")
            stdin.flush()
            answer: dict[str, Any] = json.loads(stdout.readline())
            return answer

        yield ask
        stdin.close()


@_law
@given(events(), st.data())
def test_twins(browser_mirror: _Ask, sequence: list[dict[str, Any]], data: st.DataObject) -> None:
    publications = numbered(sequence)
    if data.draw(st.booleans()):
        publications = merge(publications)
    cut = data.draw(st.integers(0, len(publications)))
    mirror = _read(publications[:cut], Mirror("t", "abcdefgh"))
    given = mirror.snapshot()
    shuffled = data.draw(st.booleans())
    rest = data.draw(st.permutations(publications)) if shuffled else publications[cut:]
    answer = browser_mirror({"given": given, "publications": [_wire(publication) for publication in rest]})
    results = [mirror.apply(publication) for publication in rest]
    assert answer["results"] == results
    assert canonical(answer["snapshot"]) == canonical(mirror.snapshot())


def _wire(publication: Publication) -> dict[str, Any]:
    wire: dict[str, Any] = {"offset": publication.offset, "data": publication.data}
    if publication.first is not None:
        wire["tags"] = {"from": str(publication.first)}
    return wire
