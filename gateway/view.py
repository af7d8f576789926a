"""The rules by which a reader sees a topic; readers with equal rules share what is made for them — pure."""

import msgspec

from gateway.lens import Lens

__all__ = ["View", "view_of"]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown, and how often.

    Attributes:
        types: The only types that are shown; None for all.
        hidden: Types that are not shown.
        rate: Flushes a second at most; None for every one.
        summary: The topic's summary is shown, and nothing else.

    """

    types: frozenset[str] | None = None
    hidden: frozenset[str] = frozenset()
    rate: int | None = None
    summary: bool = False

    def shows(self, kind: str) -> bool:
        """Tell whether events of a type are shown."""
        return (self.types is None or kind in self.types) and kind not in self.hidden


def view_of(lens: Lens) -> View | None:
    """Give the view of a reader; None where it sees everything, at once."""
    view = View(types=lens.types, hidden=lens.hidden, rate=lens.rate, summary=lens.summary)
    return None if view == View() else view
