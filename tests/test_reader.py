"""What replies and pushes mean to one subscription."""

import json
from typing import Any

import pytest

from gateway.errors import SnapshotError
from gateway.events import AgentDelta
from gateway.mirror import Mirror
from gateway.reader import Reader, Update
from gateway.types import START, Position, Topic
from tests.protocol_server import delta

T = Topic("t")
EPOCH = "aB3dE6gH"


def snapshot(offset: int = 0, epoch: str = EPOCH) -> dict[str, Any]:
    return {**Mirror("t", epoch, offset).snapshot()}


def live(offset: int = 4, *, mirror: bool = True) -> Reader:
    reader = Reader(T, since=Position(epoch=EPOCH, offset=offset), mirror=mirror)
    reader.request()
    assert reader.replied({"recovered": True, "epoch": EPOCH, "offset": offset}) == []
    return reader


def offsets(updates: list[Update]) -> list[int]:
    return [update.position.offset for update in updates]


# request


def test_request_from_now_wants_a_mirror() -> None:
    assert Reader(T).request() == {"channel": "t", "data": {"mirror": True}}
    assert Reader(T, mirror=False).request() == {"channel": "t"}


def test_request_from_start_names_no_position() -> None:
    assert Reader(T, since="start", mirror=False).request() == {"channel": "t", "recover": True}
    assert Reader(T, since=START).request() == {"channel": "t", "recover": True, "data": {"mirror": True}}


@pytest.mark.parametrize("since", [Position(epoch=EPOCH, offset=4), Mirror("t", EPOCH, 4)])
def test_request_from_a_position_names_it(since: Position | Mirror) -> None:
    request = Reader(T, since=since).request()
    assert request == {"channel": "t", "recover": True, "epoch": EPOCH, "offset": 4, "data": {"mirror": True}}


def test_request_after_events_names_the_last_of_them() -> None:
    reader = live(4)
    reader.pushed(delta(5))
    reader.pushed(delta(8, first=6))
    assert reader.request()["offset"] == 8


def test_request_names_the_types_that_are_wanted() -> None:
    assert Reader(T, types=("chat", "log")).request()["data"] == {"mirror": True, "lens": {"types": ["chat", "log"]}}
    assert Reader(T, mirror=False, types=["log"]).request()["data"] == {"lens": {"types": ["log"]}}


# update


def test_update_gives_its_event_as_a_struct() -> None:
    (update,) = live(4).pushed(delta(5, "ä"))
    assert update.event == AgentDelta(run="r", message="m", text="ä")


def test_update_of_an_event_that_is_none_of_the_gateways_has_no_struct() -> None:
    (update,) = live(4).pushed({"offset": 5, "data": {"type": "weather"}})
    assert update.event is None
    assert Update(topic=T, data=snapshot(), position=START, first=0, snapshot=True).event is None


def test_update_that_stands_for_what_is_not_seen_says_so() -> None:
    hidden, seen = (
        live(4).pushed({"offset": 6, "data": {"type": "hidden"}, "tags": {"from": "5"}}),
        live(4).pushed(delta(5)),
    )
    assert [(update.first, update.hidden) for update in (*hidden, *seen)] == [(5, True), (5, False)]


# replied


def test_reply_with_publications_delivers_them() -> None:
    reader = Reader(T, since="start")
    reader.request()
    reply = {"recovered": True, "epoch": EPOCH, "offset": 3, "publications": [delta(1), delta(3, first=2)]}
    updates = reader.replied(reply)
    assert [(update.first, update.position) for update in updates] == [
        (1, Position(epoch=EPOCH, offset=1)),
        (2, Position(epoch=EPOCH, offset=3)),
    ]
    assert not reader.asks


def test_reply_that_ends_below_its_offset_is_a_hole() -> None:
    reader = Reader(T, since="start")
    reader.request()
    updates = reader.replied({"recovered": True, "epoch": EPOCH, "offset": 3, "publications": [delta(1), delta(2)]})
    assert offsets(updates) == [1, 2]
    assert reader.asks


def test_reply_under_another_epoch_goes_on_with_it() -> None:
    reader = live(4)
    reader.request()
    assert reader.replied({"recovered": True, "epoch": "ZZZZZZZZ", "offset": 4}) == []
    (update,) = reader.pushed(delta(5))
    assert update.position == Position(epoch="ZZZZZZZZ", offset=5)


def test_reply_that_refuses_the_position_makes_a_follower_take_a_snapshot_and_go_on_event_by_event() -> None:
    reader = Reader(T, since="start", mirror=False)
    reader.request()
    assert reader.replied({"recovered": False, "epoch": EPOCH, "offset": 9}) == []
    assert reader.asks
    assert reader.request() == {"channel": "t", "data": {"mirror": True}}
    (update,) = reader.replied({"epoch": EPOCH, "offset": 9, "data": {"snapshot": snapshot(9)}})
    assert update.snapshot
    assert update.data == snapshot(9)
    assert reader.asks
    assert reader.request() == {"channel": "t", "recover": True, "epoch": EPOCH, "offset": 9}


def test_reply_without_position_begins_there() -> None:
    reader = Reader(T, mirror=False)
    reader.request()
    assert reader.replied({"epoch": EPOCH, "offset": 9}) == []
    assert offsets(reader.pushed(delta(10))) == [10]


def test_reply_without_the_snapshot_due_is_an_error() -> None:
    reader = Reader(T)
    reader.request()
    with pytest.raises(SnapshotError, match="expected a snapshot"):
        reader.replied({"epoch": EPOCH, "offset": 9})


@pytest.mark.parametrize("broken", [{}, {"epoch": EPOCH}, {"epoch": 1, "offset": 1}])
def test_reply_with_a_broken_snapshot_is_an_error(broken: dict[str, Any]) -> None:
    reader = Reader(T)
    reader.request()
    with pytest.raises(SnapshotError):
        reader.replied({"epoch": EPOCH, "offset": 9, "data": {"snapshot": broken}})


# pushed


def test_push_before_the_reply_is_ignored() -> None:
    reader = live(4)
    reader.request()
    assert reader.pushed(delta(5)) == []
    assert reader.position == Position(epoch=EPOCH, offset=4)


def test_push_repeated_is_ignored() -> None:
    reader = live(4)
    assert offsets(reader.pushed(delta(5))) == [5]
    assert reader.pushed(delta(5)) == []
    assert reader.pushed(delta(3)) == []
    assert not reader.asks


@pytest.mark.parametrize("publication", [delta(6), delta(7, first=6), delta(6, first=4)])
def test_push_with_a_hole_asks_again_from_where_it_was(publication: dict[str, Any]) -> None:
    reader = live(4)
    assert reader.pushed(publication) == []
    assert reader.asks
    assert reader.pushed(delta(5)) == []
    assert reader.request()["offset"] == 4


def test_second_hole_at_the_same_place_takes_a_snapshot() -> None:
    reader = live(4)
    reader.pushed(delta(6))
    reader.request()
    reader.replied({"recovered": True, "epoch": EPOCH, "offset": 4})
    reader.pushed(delta(7))
    assert reader.request() == {"channel": "t", "data": {"mirror": True}}


def test_hole_elsewhere_asks_for_the_events_again() -> None:
    reader = live(4)
    reader.pushed(delta(6))
    reader.request()
    reader.replied({"recovered": True, "epoch": EPOCH, "offset": 5, "publications": [delta(5)]})
    reader.pushed(delta(7))
    assert reader.request()["offset"] == 5


def test_push_on_a_topic_without_a_name_asks_for_its_name() -> None:
    reader = Reader(T, since="start")
    reader.request()
    reader.replied({"recovered": True, "epoch": "", "offset": 0})
    assert reader.pushed(delta(1)) == []
    assert reader.asks
    assert reader.request()["recover"]
    updates = reader.replied({"recovered": True, "epoch": EPOCH, "offset": 1, "publications": [delta(1)]})
    assert [update.position for update in updates] == [Position(epoch=EPOCH, offset=1)]


def test_pushed_snapshot_replaces_the_position() -> None:
    reader = live(4)
    (update,) = reader.pushed({"data": {"type": "snapshot", **snapshot(2, "ZZZZZZZZ")}})
    assert update.snapshot
    assert offsets(reader.pushed(delta(3))) == [3]


def parts(of: dict[str, Any], count: int) -> list[dict[str, Any]]:
    text = json.dumps(of)
    size = -(-len(text) // count)
    head = {"type": "snapshot", "epoch": of["epoch"], "offset": of["offset"], "parts": count}
    return [{"data": {**head, "part": n + 1, "text": text[n * size : (n + 1) * size]}} for n in range(count)]


def test_snapshot_in_parts_counts_when_the_last_has_come() -> None:
    reader = Reader(T)
    reader.request()
    assert reader.replied({"epoch": EPOCH, "offset": 9, "data": {"snapshot": {"parts": 3}}}) == []
    first, second, third = parts(snapshot(9), 3)
    assert reader.pushed(first) == []
    assert reader.pushed(second) == []
    (update,) = reader.pushed(third)
    assert update.data == snapshot(9)
    assert offsets(reader.pushed(delta(10))) == [10]


def test_newer_snapshot_in_parts_replaces_the_older() -> None:
    reader = live(4)
    reader.pushed(parts(snapshot(7), 2)[0])
    first, second = parts(snapshot(9), 2)
    assert reader.pushed(first) == []
    (update,) = reader.pushed(second)
    assert update.position.offset == 9


@pytest.mark.parametrize("order", [(1, 3), (2,), (1, 1, 3)])
def test_snapshot_with_a_part_missing_is_asked_for_again(order: tuple[int, ...]) -> None:
    reader = live(4)
    pieces = parts(snapshot(9), 3)
    for number in order:
        assert reader.pushed(pieces[number - 1]) == []
    assert reader.asks
    assert reader.request() == {"channel": "t", "data": {"mirror": True}}


def test_snapshot_in_parts_that_are_no_json_is_an_error() -> None:
    reader = live(4)
    with pytest.raises(SnapshotError, match="JSON"):
        reader.pushed({"data": {"type": "snapshot", "epoch": EPOCH, "offset": 1, "part": 1, "parts": 1, "text": "{"}})


def test_unrecoverable_takes_a_snapshot() -> None:
    reader = live(4)
    reader.unrecoverable()
    assert reader.asks
    assert reader.request() == {"channel": "t", "data": {"mirror": True}}
