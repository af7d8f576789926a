"""Merging on every vector."""

import copy
from typing import Any

import pytest

from gateway.merge import MAX_MERGED_TEXT, merge
from gateway.mirror import Mirror
from gateway.types import Publication
from tests.vectors_reader import load_vectors, publication


def _cursor(publications: list[Publication]) -> int:
    first = publications[0] if publications else None
    return 0 if first is None else (first.offset if first.first is None else first.first) - 1


@pytest.mark.parametrize("vector", load_vectors(merging=True), ids=lambda vector: vector["id"])
def test_merge_vector(vector: dict[str, Any]) -> None:
    given = [publication(item) for item in vector["publications"]]
    untouched = copy.deepcopy(given)
    merged = merge(given)
    assert merged == [publication(item) for item in vector["merged"]]
    assert given == untouched
    one, other = Mirror(offset=_cursor(given)), Mirror(offset=_cursor(given))
    for single in given:
        one.apply(single)
    for joined in merged:
        other.apply(joined)
    assert one.snapshot() == other.snapshot()


def test_merge_leaves_the_unmerged_as_they_are() -> None:
    lone = Publication(offset=1, data={"type": "log"})
    assert merge([lone])[0] is lone


def test_merge_is_bounded() -> None:
    data = {"type": "agent_delta", "message": "m", "text": "x" * 1000}
    merged = merge([Publication(offset=offset, data=data) for offset in range(1, 101)])
    assert max(len(joined.data["text"]) for joined in merged) <= MAX_MERGED_TEXT
    assert len(merged) == 7
    assert "".join(joined.data["text"] for joined in merged) == "x" * 100_000
