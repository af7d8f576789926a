"""The last events of a topic, as finished push lines, under one byte budget for the whole process."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from gateway.frames import publication_line, with_tags
from gateway.recovery import Missed

__all__ = ["Ring", "RingBudget"]

_LINE_COST = 200
"""What a kept line costs beside its bytes: the objects around it."""


class RingBudget:
    """The bytes that all rings of a process may hold together; what was used longest ago goes first."""

    def __init__(self, limit: int) -> None:
        """Open an empty budget of ``limit`` bytes."""
        self.limit: int = limit
        self.used: int = 0
        self.rings: OrderedDict[Ring, None] = OrderedDict()  # used longest ago first
        self.gone: int = 0  # lines that were taken in at the end of rings and are in none any more
        self.written: int = 0  # bytes ever taken in, of rings that are forgotten

    def touch(self, ring: "Ring") -> None:
        """Note that a ring was used just now."""
        self.rings[ring] = None
        self.rings.move_to_end(ring)

    def make_room(self) -> None:
        """Have rings lose their oldest lines until the limit holds again."""
        while self.used > self.limit and self.rings:
            oldest = next(iter(self.rings))
            if not oldest.drop_oldest():
                del self.rings[oldest]  # it holds nothing

    def forget(self, ring: "Ring") -> None:
        """Drop a ring and all it holds."""
        ring.clear(ring.end)
        self.rings.pop(ring, None)
        self.written += ring.written


class Ring:
    """The events above `start` up to `end`, without a hole; each stands for `first` … `offset`."""

    def __init__(self, prefix: bytes, budget: RingBudget) -> None:
        """Make an empty ring at offset 0; ``prefix`` is that of the topic's push lines."""
        self.prefix: bytes = prefix
        self.budget: RingBudget = budget
        self.start: int = 0  # a reader at or above it finds all it missed here
        self.end: int = 0
        self.offsets: list[int] = []
        self.firsts: list[int] = []
        self.lines: list[bytes] = []  # tagged where first < offset
        self.marks: list[int] = []  # bytes written before the line, ever
        self.written: int = 0
        self._dropped: int = 0  # lines at the front that are gone and not yet cut off

    def __len__(self) -> int:
        return len(self.offsets) - self._dropped

    @property
    def size(self) -> int:
        """Bytes it counts for in the budget."""
        return self.written - self.marks[self._dropped] if self._dropped < len(self.marks) else 0

    def reaches(self, offset: int) -> bool:
        """Whether everything above an offset is here."""
        return offset >= self.start

    def append(self, offset: int, line: bytes) -> None:
        """Add the event after `end`; its line is untagged, and tagged here where it stands for several offsets."""
        first = self.end + 1
        if first < offset:
            line = with_tags(line, first)
        self.offsets.append(offset)
        self.firsts.append(first)
        self.lines.append(line)
        self.marks.append(self.written)
        self.end = offset
        size = len(line) + _LINE_COST
        self.written += size
        # `_count` written out: every event passes here.
        budget = self.budget
        budget.used += size
        try:
            budget.rings.move_to_end(self)
        except KeyError:
            budget.rings[self] = None
        if budget.used > budget.limit:
            budget.make_room()

    def prepend(self, start: int, missed: Sequence[Missed]) -> None:
        """Extend it backwards to ``start`` by what a read from there found; what it already has is skipped."""
        self._cut()
        old = [event for event in missed if event.offset <= self.start]
        if not old or old[-1].offset != self.start:
            return  # the read was cut before the ring's first event, or what led up to it was compacted meanwhile
        lines = []
        for event in old:
            line = publication_line(self.prefix, event.offset, event.data)
            lines.append(with_tags(line, event.first) if event.first < event.offset else line)
        marks = [0]
        for line in lines:
            marks.append(marks[-1] + len(line) + _LINE_COST)
        added = marks.pop()
        self.budget.gone -= len(old)
        base = self.marks[0] if self.marks else self.written
        self.offsets[:0] = [event.offset for event in old]
        self.firsts[:0] = [event.first for event in old]
        self.lines[:0] = lines
        self.marks[:0] = [base - added + mark for mark in marks]
        self.start = start
        self._count(added)

    def after(self, offset: int) -> int:
        """Give the index of the first event above an offset; ``len(offsets)`` where there is none."""
        return bisect_right(self.offsets, offset, self._dropped)

    def line(self, index: int, cursor: int) -> bytes:
        """Give a push line for a reader at ``cursor``, which may stand inside what the line stands for."""
        if self.firsts[index] > cursor or self.firsts[index] == self.offsets[index]:
            return self.lines[index]
        # Only deltas of an ended message lie between, so the line may say that it begins after the cursor.
        untagged = self.lines[index]
        untagged = untagged[: untagged.rindex(b',"tags":')] + b"}}}"
        return with_tags(untagged, cursor + 1) if cursor + 1 < self.offsets[index] else untagged

    def missed(self, offset: int, size: int) -> list[Missed]:
        """Give the events above an offset apart from their lines: about ``size`` bytes of lines, and at least one."""
        begin, stop = self._reach(offset, size)
        cut = len(self.prefix) + len(b'{"data":')
        found = []
        for index in range(begin, stop):
            own, line = self.offsets[index], self.lines[index]
            end = len(line) - len(b"}}}") if self.firsts[index] == own else line.rindex(b',"tags":')
            data = line[cut : end - len(b',"offset":%d' % own)]
            found.append(Missed(first=offset + 1, offset=own, data=data))
            offset = own
        return found

    def since(self, offset: int, size: int) -> tuple[list[bytes], int]:
        """Give the lines above an offset, about ``size`` bytes of them and at least one, and the last one's offset."""
        begin, stop = self._reach(offset, size)
        if begin == stop:
            return [], offset
        lines = self.lines[begin:stop]
        if self.firsts[begin] <= offset:
            lines[0] = self.line(begin, offset)
        return lines, self.offsets[stop - 1]

    def _reach(self, offset: int, size: int) -> tuple[int, int]:
        """Give the range of indexes of about ``size`` bytes of lines above an offset."""
        begin, end = self.after(offset), len(self.offsets)
        if begin == end:
            return begin, end
        limit = self.marks[begin] + size + _LINE_COST
        if self.written <= limit:
            return begin, end
        return begin, min(max(bisect_right(self.marks, limit, begin) - 1, begin + 1), end)

    def bytes_since(self, offset: int) -> int:
        """Count the bytes of the lines above an offset."""
        index = self.after(offset)
        return self.written - self.marks[index] if index < len(self.marks) else 0

    def clear(self, offset: int) -> None:
        """Drop everything; the ring goes on above ``offset``."""
        self.budget.used -= self.size
        self.budget.gone += len(self.offsets)
        for column in (self.offsets, self.firsts, self.lines, self.marks):
            column.clear()
        self._dropped = 0
        self.start = self.end = offset

    def drop_oldest(self) -> bool:
        """Give up the oldest line; False where there is none."""
        index = self._dropped
        if index == len(self.offsets):
            return False
        self.start = self.offsets[index]
        self.budget.used -= len(self.lines[index]) + _LINE_COST
        self.lines[index] = b""
        self._dropped = index + 1
        if self._dropped > 64 and self._dropped * 2 > len(self.offsets):
            self._cut()
        return True

    def _count(self, size: int) -> None:
        budget = self.budget
        budget.used += size
        budget.touch(self)
        if budget.used > budget.limit:
            budget.make_room()

    def _cut(self) -> None:
        if self._dropped:
            self.budget.gone += self._dropped
            for column in (self.offsets, self.firsts, self.lines, self.marks):
                del column[: self._dropped]
            self._dropped = 0
