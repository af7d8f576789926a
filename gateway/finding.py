"""What an examination has found, and what to do about it."""

from typing import Literal

import msgspec

__all__ = ["Finding"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at.

    Attributes:
        level: ``ok``; ``note``, to be known; ``warning``; ``error``: it will not work, or not keep what is promised.
        about: What was looked at.
        found: What it is.
        advice: What to do; "" for nothing.

    """

    level: Literal["ok", "note", "warning", "error"]
    about: str
    found: str
    advice: str = ""
