"""Merged push lines are the same news."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.codec import encode_json
from gateway.frames import publication_line, push_prefix, with_tags
from gateway.merging import merge_lines, publications_of
from gateway.mirror import Mirror

PREFIX = push_prefix("t")


def lines_of(*events: dict[str, Any]) -> list[bytes]:
    return [publication_line(PREFIX, offset, encode_json(event)) for offset, event in enumerate(events, 1)]


def delta(text: str, message: str = "m") -> dict[str, Any]:
    return {"type": "agent_delta", "run": "r", "message": message, "text": text, "at": 1}


def test_neighbouring_deltas_become_one() -> None:
    lines = merge_lines(PREFIX, lines_of(delta("a"), delta("b"), {"n": 1}, delta("c")))
    found = [(pub.first, pub.offset, pub.data.get("text")) for pub in publications_of(PREFIX, lines)]
    assert found == [(1, 2, "ab"), (None, 3, None), (None, 4, "c")]


def test_lines_without_neighbours_come_back_as_they_are() -> None:
    lines = lines_of(delta("a"), {"n": 1}, delta("b"))
    assert merge_lines(PREFIX, lines) is lines


def test_publications_of_reads_tags() -> None:
    (line,) = lines_of({"n": 1})
    assert publications_of(PREFIX, [with_tags(line.replace(b'"offset":1', b'"offset":9'), 4)])[0].first == 4


EVENTS = st.lists(
    st.one_of(
        st.builds(delta, st.text(min_size=1, max_size=4), st.sampled_from("mn")),
        st.just({"type": "log", "message": '"type":"agent_delta"'}),
        st.just({"type": "message_discarded", "message": "m", "run": "r"}),
    ),
    max_size=20,
)


@settings(deadline=None)  # the machine may be busy
@given(EVENTS)
def test_merged_lines_give_the_same_mirror(events: list[dict[str, Any]]) -> None:
    lines = lines_of(*events)
    plain, merged = Mirror("t", "aaaaaaaa", 0), Mirror("t", "aaaaaaaa", 0)
    for publication in publications_of(PREFIX, lines):
        assert plain.apply(publication) == "applied"
    for publication in publications_of(PREFIX, merge_lines(PREFIX, lines)):
        assert merged.apply(publication) == "applied"
    assert merged.snapshot() == plain.snapshot()
