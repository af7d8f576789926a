"""The stored form of a mirror."""

from typing import Any

import pytest

from gateway.counters import no_usage
from gateway.errors import SnapshotError
from gateway.mirror import Mirror
from gateway.state import RunState, read_snapshot


def test_read_snapshot_fills_in_what_is_absent() -> None:
    snapshot = read_snapshot({"offset": 3, "mirror": {"runs": [{"run": "r", "calls": {"k": {"requests": 1}}}]}})
    assert (snapshot.topic, snapshot.epoch, snapshot.offset) == ("", "", 3)
    assert snapshot.mirror.context.usage == no_usage()
    (run,) = snapshot.mirror.runs
    assert run.usage == no_usage()
    assert run.calls == {"k": {**no_usage(), "requests": 1}}


def test_read_snapshot_of_an_empty_mirror() -> None:
    assert read_snapshot(Mirror("t").snapshot()).mirror == read_snapshot({"offset": 0, "mirror": {}}).mirror


@pytest.mark.parametrize("snapshot", [None, 5, "{}", [], {}, {"mirror": {}}, {"offset": True, "mirror": {}}])
def test_read_snapshot_of_what_is_none(snapshot: Any) -> None:
    with pytest.raises(SnapshotError):
        read_snapshot(snapshot)


def test_absent_lists_are_not_shared() -> None:
    one, other = (read_snapshot({"offset": 0, "mirror": {"runs": [{"run": "r"}]}}) for _ in range(2))
    one.mirror.runs[0].calls["k"] = no_usage()
    one.mirror.context.tool_calls.append(1)
    assert other.mirror.runs[0].calls == {}
    assert other.mirror.context.tool_calls == []


@pytest.mark.parametrize(
    ("status", "live"),
    [
        ("running", True),
        ("cancelling", True),
        ("completed", False),
        ("failed", False),
        ("cancelled", False),
        ("lost", False),
    ],
)
def test_live(status: Any, *, live: bool) -> None:
    assert RunState(run="r", status=status).live is live
