"""All that was ever stored on one topic, lost or not: what the history of the end is judged by."""

from dataclasses import dataclass, field

import msgspec

from gateway.broker.port import AppendRequest
from gateway.types import EntryKind, Position

__all__ = ["Branch", "Fact", "State", "Truth", "Violation"]

MAX_LINEAGE = 16
"""Epochs that a state remembers (STORE.md 1)."""


class Violation(AssertionError):  # noqa: N818 - nothing here has gone wrong, it has found something
    """A law is broken."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the state of a topic says, read without the scripts; an epoch "" is a topic that nobody has written."""

    epoch: str = ""
    top: int = 0
    floor: int = 0
    lineage: tuple[tuple[str, int], ...] = ()
    log: tuple[int, str] = (0, "")
    holder: str = ""
    deadline: int = 0
    gone: frozenset[str] = frozenset()


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it was stored."""

    kind: EntryKind
    type: str
    data: bytes
    message: str
    request: AppendRequest | None
    """None for the end that somebody else wrote for a run."""
    run: str


@dataclass
class Branch:
    """One epoch: what was stored in it, from `begin` + 1 on; before that it is its parent."""

    parent: str | None
    begin: int
    facts: dict[int, Fact] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return max(self.facts, default=self.begin)


class Truth:
    """A tree of epochs."""

    def __init__(self) -> None:
        self.branches: dict[str, Branch] = {}
        self.starts: list[str] = []
        """The run of each append that took a lease, in the order of time."""
        self.causes = 1
        """How many epochs may have begun: one, and one for each time the server or the history broke."""

    def learn(self, state: State) -> None:
        """Take in the epochs that a state names."""
        known = [(state.epoch, state.top), *state.lineage]
        for place in range(len(known) - 1, -1, -1):
            name, _ = known[place]
            parent, begin = known[place + 1] if place + 1 < len(known) else (None, 0)
            branch = self.branches.get(name)
            if branch is None:
                if parent is not None and begin > self.branches[parent].end:
                    raise Violation(f"epoch {name} begins at {begin}, above all that was ever in {parent}")
                self.branches[name] = Branch(parent, begin)
            elif (branch.parent, branch.begin) != (parent, begin) and place + 1 < MAX_LINEAGE:
                raise Violation(f"epoch {name} began at {branch.parent}:{branch.begin}, now at {parent}:{begin}")
        if len(self.branches) > self.causes:
            raise Violation(f"{len(self.branches)} epochs, and only {self.causes} reasons for one")

    def stored(self, epoch: str, first: int, facts: list[Fact]) -> None:
        """Take in what an append stored."""
        branch = self.branches[epoch]
        if first != branch.end + 1:
            raise Violation(f"offset {first} of epoch {epoch} is given, after {branch.end}")
        for offset, fact in enumerate(facts, first):
            branch.facts[offset] = fact
            if fact.request is not None and fact.request.lease is not None:
                self.starts.append(fact.run)

    def path(self, epoch: str, top: int) -> dict[int, Fact]:
        """Give the history of an epoch from its beginning up to an offset."""
        parts: list[dict[int, Fact]] = []
        name: str | None = epoch
        while name:
            branch = self.branches[name]
            parts.append({offset: fact for offset, fact in branch.facts.items() if offset <= top})
            name, top = branch.parent, min(branch.begin, top)
        return {offset: fact for part in reversed(parts) for offset, fact in part.items()}

    def continues(self, asked: Position, state: State) -> bool:
        """Say whether a history up to some position is the beginning of the one that a state stands for."""
        if not asked.epoch:
            return asked.offset == 0
        name: str | None = state.epoch
        last = state.top
        for _ in range(MAX_LINEAGE + 1):
            if name == asked.epoch:
                return asked.offset <= last
            if not name:
                break
            branch = self.branches[name]
            name, last = branch.parent, branch.begin
        return False
