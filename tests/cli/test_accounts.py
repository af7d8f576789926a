"""Time and tokens of runs, as people read them."""

from typing import Any

import pytest

from gateway.cli import accounts as module
from gateway.cli.accounts import Accounts, seconds


def usage(run: str, call: str, read: int, wrote: int) -> dict[str, Any]:
    return {"type": "usage", "run": run, "call": call, "input_tokens": read, "output_tokens": wrote}


def test_last_value_of_each_call_counts_and_runs_are_apart() -> None:
    accounts = Accounts()
    accounts.start({"run": "r", "at": 0})
    for event in (usage("r", "a", 1, 1), usage("r", "a", 1000, 2), usage("r", "b", 30, 4), usage("s", "a", 7, 7)):
        accounts.use(event)
    assert accounts.end({"run": "r", "at": 61_000}) == " in 1 min 1 s, 1,030 tokens read, 6 written"
    assert accounts.end({"run": "r", "at": 61_000}) == ""
    assert accounts.end({"run": "s", "at": 61_000}) == ", 7 tokens read, 7 written"


@pytest.mark.parametrize("junk", [None, "x", [], {}])
def test_fields_of_another_kind_count_for_nothing(junk: object) -> None:
    accounts = Accounts()
    accounts.start({"run": junk, "at": junk})
    accounts.use({"run": junk, "call": junk, "input_tokens": junk, "output_tokens": 1})
    assert accounts.end({"run": junk, "at": junk}) == ""


def test_runs_whose_end_is_not_seen_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_RUNS", 2)
    accounts = Accounts()
    for run in "abc":
        accounts.start({"run": run, "at": 0})
        accounts.use(usage(run, "c", 1, 1))
    assert [accounts.end({"run": run, "at": 1}) for run in "ac"] == ["", " in 1 ms, 1 tokens read, 1 written"]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1500, "1.5 s"), (60_000, "1 min 0 s"), (3_725_000, "62 min 5 s")],
)
def test_seconds(milliseconds: float, text: str) -> None:
    assert seconds(milliseconds) == text
