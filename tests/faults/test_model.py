"""The model agrees with the vectors, which people wrote, and with the mirror on whatever hypothesis finds."""

from typing import Any

import pytest
from hypothesis import given, settings

from gateway.mirror import Mirror
from tests.event_strategies import events
from tests.faults.model import state_of
from tests.vectors_reader import canonical, complete, empty_state, load_vectors, publications

BOUNDED = ("model knows no",)


def from_nothing() -> list[dict[str, Any]]:
    return [
        vector
        for vector in load_vectors(merging=False)
        if "given" not in vector and "snapshot" not in vector and set(vector["then"].get("results", ())) <= {"applied"}
    ]


@pytest.mark.parametrize("vector", from_nothing(), ids=lambda vector: vector["id"])
def test_state_of_vector(vector: dict[str, Any]) -> None:
    history = [publication.data for publication in publications(vector, after=0)]
    try:
        found = state_of(history)
    except AssertionError as error:
        if any(word in str(error) for word in BOUNDED):
            pytest.skip(f"this vector is about a bound: {error}")
        raise
    assert canonical(found) == canonical(complete(vector["then"].get("mirror", {}), empty_state()))


@settings(max_examples=300, deadline=None)
@given(events())
def test_state_of_any_events_is_the_mirrors(history: list[dict[str, Any]]) -> None:
    mirror = Mirror()
    for event in history:
        mirror.fold(event)
    assert canonical(state_of(history)) == canonical(mirror.state())
