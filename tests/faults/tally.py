"""Counts of what a schedule did and what it made happen."""

from collections import Counter

__all__ = ["HAPPENED", "Tally"]

HAPPENED = ("recovery", "snapshot", "epoch change", "merge", "fence", "restore", "lost run")
"""What faults must have made happen, beside the faults themselves."""


class Tally:
    """Counts by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, name: str, number: int = 1) -> None:
        self.counts[name] += number

    def missing(self, names: tuple[str, ...]) -> list[str]:
        """Name what never occurred."""
        return [name for name in names if not self.counts[name]]

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
