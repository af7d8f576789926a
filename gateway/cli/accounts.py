"""What the runs of a topic take, as people read it."""

from collections.abc import Mapping
from typing import Any

__all__ = ["Accounts", "seconds"]

_MAX_RUNS = 100
"""Runs whose end has not been seen; the first ones are forgotten first."""


class Accounts:
    """Adds up time and tokens of each run, from its start to its end."""

    def __init__(self) -> None:
        self._started: dict[str, int | float] = {}
        """By run; Unix time, ms."""
        self._tokens: dict[str, dict[str, tuple[int, int]]] = {}
        """By run and model call: those read and those written so far."""

    def start(self, event: Mapping[str, Any]) -> None:
        """Take an ``agent_start``."""
        at = event.get("at")
        if isinstance(at, int | float):
            self._started[str(event.get("run"))] = at
            _bound(self._started)

    def use(self, event: Mapping[str, Any]) -> None:
        """Take a ``usage``: it counts from the beginning of its call."""
        read, wrote = event.get("input_tokens"), event.get("output_tokens")
        if isinstance(read, int) and isinstance(wrote, int):
            self._tokens.setdefault(str(event.get("run")), {})[str(event.get("call"))] = read, wrote
            _bound(self._tokens)

    def end(self, event: Mapping[str, Any]) -> str:
        """Take a run's end; gives what is known of it, as the end of a sentence."""
        run, at = str(event.get("run")), event.get("at")
        started, calls = self._started.pop(run, None), self._tokens.pop(run, {})
        took = f" in {seconds(at - started)}" if started is not None and isinstance(at, int | float) else ""
        read, wrote = (sum(tokens) for tokens in zip(*calls.values(), strict=True)) if calls else (0, 0)
        return took + (f", {read:,} tokens read, {wrote:,} written" if read or wrote else "")


def _bound(runs: dict[str, Any]) -> None:
    if len(runs) > _MAX_RUNS:
        del runs[next(iter(runs))]


def seconds(milliseconds: float) -> str:
    """Give a time as people read it."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, rest = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {rest} s"
