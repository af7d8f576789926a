"""One reader against the history and the model's state of it."""

from typing import Any

from gateway.mirror import Mirror
from tests.faults.followers import Follower
from tests.faults.model import state_of
from tests.vectors_reader import canonical

__all__ = ["check"]

DELTAS = {"agent_delta", "agent_thinking", "tool_call_delta"}


def check(follower: Follower, events: dict[int, dict[str, Any]], expected: str) -> None:
    """Compare one reader with the history and with the model's state of it."""
    if follower.mirror:
        found = canonical(follower.state())
        assert found == expected, f"{follower.topic}: a mirror differs\n{found}\n{expected}"
        return
    for offset, (first, event) in follower.events.items():
        # A delta that is no longer stored, or was merged, has no other to be compared with; the state tells.
        if offset in events and (first == offset or event["type"] not in DELTAS):
            assert canonical(event) == canonical(events[offset]), f"{follower.topic}: {offset} is another event"
        else:
            assert event["type"] in DELTAS, f"{follower.topic}: {offset} was made up"
    given = [event for _, event in follower.events.values()]
    if follower.base is None:
        assert canonical(state_of(given)) == expected, f"{follower.topic}: a stock reader was given another history"
        return
    # From a snapshot on only a mirror can go; the model knows whole histories.
    mirror = Mirror.restore({"topic": follower.topic, "epoch": "", "offset": 0, "mirror": follower.base[1]})
    for event in given:
        mirror.fold(event)
    assert canonical(mirror.state()) == expected, f"{follower.topic}: a stock reader's history differs"
