"""The store and its clients against the laws, in random worlds on real servers (STORE.md).

The short form plays some hundred worlds; ``GATEWAY_CHECKER_WORLDS=1000`` plays that many of each kind, and
``GATEWAY_CHECKER_SEED=runs:86`` the one world that a failure names.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.checker.pair import Pair
from tests.checker.play import play
from tests.checker.rules import RULES, Rule, without
from tests.checker.truth import Violation

LONG = "GATEWAY_CHECKER_WORLDS" in os.environ
"""Whether this is `make soak`, which takes every rule out; the short form takes every fourth."""
WORLDS = int(os.environ.get("GATEWAY_CHECKER_WORLDS", "100"))
"""Of each kind."""
SEED = os.environ.get("GATEWAY_CHECKER_SEED", "")
pytestmark = [pytest.mark.timeout(0)] if LONG else []
ENOUGH = 400
"""Worlds in which a missing rule must be missed."""

EXPECTED = {
    "runs": {
        "append Appended",
        "append Appended again",
        "append Restore",
        "append Busy",
        "append Unmet",
        "renew Appended",
        "renew Restore",
        "trim Trimmed",
        "trim Stale",
        "declare_lost Appended",
        "declare_lost Busy",
        "lost reply",
        "late reply",
        "twice",
        "RESTART",
        "KILL",
        "context compared",
    },
    "authors": {
        "append Appended",
        "append Appended again",
        "append Restore",
        "append Ended",
        "append Busy",
        "append Conflict",
        "append Unmet",
        "COPIED BACK",
        "FAIL-OVER",
        "FAIL-OVER without a word",
        "KILL",
        "unavailable",
        "evicted w:{t0}",
        "evicted w:{t0}:events",
        "evicted w:{t0}:open",
        "evicted w:{t0}:snap",
        "evicted all",
    },
    "erased": {
        "append Deleted",
        "append Restore",
        "append Appended again",
        "delete Deletion",
        "KILL",
        "lost reply",
        "late reply",
    },
    "late": {"append Ended", "append Fenced", "declare_lost Appended"},
}
"""What must have happened at least once in the worlds of a kind, or they would prove nothing."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Pair(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


@pytest.fixture(autouse=True)
def _in_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    # So that even the little that these worlds say is written again in several appends.
    monkeypatch.setattr("gateway.journal.MAX_APPEND_ENTRIES", 1)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    # What the gateway warns of is what these worlds are made of.
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _play_many(pair: Pair, kind: str, worlds: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(worlds):
        seen += play(seed, pair, kind=kind)
    return seen


@pytest.mark.parametrize("kind", EXPECTED)
def test_worlds_keep_the_laws(pair: Pair, kind: str) -> None:
    seen = _play_many(pair, kind, WORLDS)
    assert EXPECTED[kind] - seen.keys() == set()


@pytest.mark.parametrize("rule", RULES if LONG else RULES[::4], ids=lambda rule: rule.name.replace(" ", "-"))
def test_a_rule_taken_out_is_missed(pair: Pair, rule: Rule) -> None:
    with without(rule), pytest.raises(Violation):
        _play_many(pair, rule.kind, ENOUGH)


def test_a_world_is_played_again_as_it_was(pair: Pair) -> None:
    assert play(3, pair, kind="runs") == play(3, pair, kind="runs")


@pytest.mark.skipif(not SEED, reason="names no world: GATEWAY_CHECKER_SEED is not set")
def test_the_world_of_a_seed(pair: Pair) -> None:
    kind, _, seed = SEED.partition(":")
    play(int(seed), pair, kind=kind)
