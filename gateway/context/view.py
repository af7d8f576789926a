"""The transcript as a sequence that costs nothing to take."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, overload

from gateway.context.event import Event
from gateway.context.messages import Message

__all__ = ["MessageView"]


class MessageView(Sequence[Message]):
    """An immutable sequence of messages over a log's shared list; taking one copies nothing.

    It compares equal to any list, tuple or view of the same messages; a slice is a tuple.
    """

    __slots__ = ("_count", "_head", "_lines", "_skip")

    def __init__(
        self, lines: Sequence[tuple[Event, Message]], count: int, *, head: Message | None = None, skip: int = 0
    ) -> None:
        self._lines = lines
        """Shared, only ever appended to."""
        self._count = count
        """How many of the lines belong to this view."""
        self._head = head
        """A message in front of them; None for none."""
        self._skip = skip
        """How many lines the head stands for: 0 or 1."""

    def headed(self, head: Message, *, replaces: bool) -> "MessageView":
        """Give this view with another first message.

        Args:
            head: The message.
            replaces: Whether it stands for the first one, instead of in front of it.

        """
        return MessageView(self._lines, self._count, head=head, skip=int(replaces))

    def __len__(self) -> int:
        return self._count - self._skip + (self._head is not None)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        size = len(self)
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(size)))
        place = index + size if index < 0 else index
        if not 0 <= place < size:
            raise IndexError(f"expected an index within {size} messages, got {index}")
        if self._head is None:
            return self._lines[place][1]
        return self._head if place == 0 else self._lines[place - 1 + self._skip][1]

    def __iter__(self) -> Iterator[Message]:
        if self._head is not None:
            yield self._head
        for line in islice(self._lines, self._skip, self._count):
            yield line[1]

    def __reversed__(self) -> Iterator[Message]:
        for index in range(self._count - 1, self._skip - 1, -1):
            yield self._lines[index][1]
        if self._head is not None:
            yield self._head

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageView | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sequence[Message]) -> tuple[Message, ...]:
        return (*self, *other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)
