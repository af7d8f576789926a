"""The last events of a topic, as finished push lines, under one byte budget for the whole process."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from gateway.frames import publication_line, with_tags
from gateway.recovery import Missed

__all__ = ["Ring", "RingBudget"]

_LINE_COST = 200
"""What a kept line costs beside its bytes: the objects around it."""

_SLACK = 32
"""Where room is made, it is made for one part in so many of the limit: each line that goes alone costs more."""

_SHARE = 4
"""A ring that is not idle for good loses one part in so many of its lines at a time, and those after it lose too."""


class RingBudget:
    """The bytes that all rings of a process may hold together; rings that were not used for long lose theirs first.

    Which those are is told by a second chance (the clock algorithm): a use leaves a mark on the ring and moves nothing.
    """

    def __init__(self, limit: int) -> None:
        """Open an empty budget of ``limit`` bytes."""
        self.limit: int = limit
        self.used: int = 0
        self.rings: OrderedDict[Ring, None] = OrderedDict()  # the next to be asked first
        self.gone: int = 0  # lines that were taken in at the end of rings and are in none any more
        self.written: int = 0  # bytes ever taken in, of rings that are forgotten

    def touch(self, ring: "Ring") -> None:
        """Note that a ring was used just now."""
        ring.recent = True
        self.rings[ring] = None

    def make_room(self) -> None:
        """Have rings lose their oldest lines until the limit holds again, and for some time."""
        goal = self.limit - self.limit // _SLACK
        while self.used > goal and self.rings:
            ring = next(iter(self.rings))
            if ring.recent:
                ring.recent = False
            else:
                ring.shed(self.used - goal)
            if len(ring):
                self.rings.move_to_end(ring)
            else:
                self.rings.pop(ring)

    def forget(self, ring: "Ring") -> None:
        """Drop a ring and all it holds."""
        ring.clear(ring.end)
        self.rings.pop(ring, None)
        self.written += ring.written


class Ring:
    """The events above `start` up to `end`, without a hole: each line stands for all offsets since the one before."""

    __slots__ = (
        "_lost",
        "_marks",
        "before",
        "budget",
        "end",
        "lines",
        "offsets",
        "prefix",
        "recent",
        "size",
        "start",
    )

    def __init__(self, prefix: bytes, budget: RingBudget) -> None:
        """Make an empty ring at offset 0; ``prefix`` is that of the topic's push lines."""
        self.prefix: bytes = prefix
        self.budget: RingBudget = budget
        self.start: int = 0  # a reader at or above it finds all it missed here
        self.end: int = 0
        self.before: int = 0  # what the last line follows; `end` where there is none
        self.offsets: list[int] = []
        self.lines: list[bytes] = []  # tagged where they stand for several offsets
        self.size: int = 0  # bytes it counts for in the budget
        self.recent: bool = False  # used since the budget last looked for room here; then it is one of the budget's
        self._marks: list[int] = []  # bytes before each line, and after the last; as far as somebody asked
        self._lost: int = 0  # bytes that were taken in at the end and are not here any more

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def written(self) -> int:
        """Bytes ever taken in at its end."""
        return self.size + self._lost

    def reaches(self, offset: int) -> bool:
        """Whether everything above an offset is here."""
        return offset >= self.start

    def append(self, offset: int, line: bytes) -> None:
        """Add the event after `end`; its line is untagged, and tagged here where it stands for several offsets."""
        before = self.end
        if before + 1 < offset:
            line = with_tags(line, before + 1)
        self.before = before
        self.end = offset
        self.offsets.append(offset)
        self.lines.append(line)
        size = len(line) + _LINE_COST
        self.size += size
        # `_count` written out: every event passes here.
        budget = self.budget
        budget.used += size
        if not self.recent:
            budget.touch(self)
        if budget.used > budget.limit:
            budget.make_room()

    def prepend(self, start: int, missed: Sequence[Missed]) -> None:
        """Extend it backwards to ``start`` by what a read from there found; what it already has is skipped."""
        old = [event for event in missed if event.offset <= self.start]
        if not old or old[-1].offset != self.start:
            return  # the read was cut before the ring's first event, or what led up to it was compacted meanwhile
        lines = []
        for event in old:
            line = publication_line(self.prefix, event.offset, event.data)
            lines.append(with_tags(line, event.first) if event.first < event.offset else line)
        self.budget.gone -= len(old)
        if not self.offsets:
            self.before = old[-1].first - 1
        self.offsets[:0] = [event.offset for event in old]
        self.lines[:0] = lines
        self._marks.clear()
        self.start = start
        added = sum([len(line) + _LINE_COST for line in lines])
        self._lost -= added
        self._count(added)

    def after(self, offset: int) -> int:
        """Give the index of the first event above an offset; ``len(offsets)`` where there is none."""
        return bisect_right(self.offsets, offset)

    def first(self, index: int) -> int:
        """Give the first of the offsets that a line stands for."""
        return (self.offsets[index - 1] if index else self.start) + 1

    def line(self, index: int, cursor: int) -> bytes:
        """Give a push line for a reader at ``cursor``, which may stand inside what the line stands for."""
        first = self.first(index)
        if first > cursor or first == self.offsets[index]:
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
            end = len(line) - len(b"}}}") if self.first(index) == own else line.rindex(b',"tags":')
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
        if self.first(begin) <= offset:
            lines[0] = self.line(begin, offset)
        return lines, self.offsets[stop - 1]

    def _reach(self, offset: int, size: int) -> tuple[int, int]:
        """Give the range of indexes of about ``size`` bytes of lines above an offset."""
        begin, end = self.after(offset), len(self.offsets)
        if begin == end:
            return begin, end
        marks = self._marked()
        limit = marks[begin] + size + _LINE_COST
        if marks[end] <= limit:
            return begin, end
        return begin, min(max(bisect_right(marks, limit, begin) - 1, begin + 1), end)

    def bytes_since(self, offset: int) -> int:
        """Count the bytes of the lines above an offset."""
        index = self.after(offset)
        if index == len(self.offsets):
            return 0
        marks = self._marked()
        return marks[-1] - marks[index]

    def _marked(self) -> list[int]:
        """Give the marks of all lines."""
        marks = self._marks or [0]
        at = marks[-1]
        for line in self.lines[len(marks) - 1 :]:
            at += len(line) + _LINE_COST
            marks.append(at)
        self._marks = marks
        return marks

    def clear(self, offset: int) -> None:
        """Drop everything; the ring goes on above ``offset``."""
        self.budget.used -= self.size
        self.budget.gone += len(self.offsets)
        self._lost += self.size
        self.size = 0
        for column in (self.offsets, self.lines, self._marks):
            column.clear()
        self.start = self.before = self.end = offset

    def shed(self, size: int) -> None:
        """Give up the oldest lines: at least one, about ``size`` bytes or a share of all, whichever is less."""
        shed = count = 0
        for line in self.lines[: len(self.lines) // _SHARE + 1]:
            shed += len(line) + _LINE_COST
            count += 1
            if shed >= size:
                break
        if not count:
            return
        self.start = self.offsets[count - 1]
        self.budget.used -= shed
        self.budget.gone += count
        self.size -= shed
        self._lost += shed
        for column in (self.offsets, self.lines, self._marks):
            del column[:count]

    def _count(self, size: int) -> None:
        self.size += size
        budget = self.budget
        budget.used += size
        budget.touch(self)
        if budget.used > budget.limit:
            budget.make_room()
