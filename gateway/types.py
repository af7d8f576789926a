"""Names and positions that every other module shares."""

import re
import secrets
import string
from typing import Any, Literal, NewType

import msgspec

__all__ = [
    "EPOCH_PATTERN",
    "START",
    "TOPIC_PATTERN",
    "TYPE_PATTERN",
    "EntryKind",
    "Epoch",
    "MessageId",
    "Position",
    "Publication",
    "RunId",
    "Topic",
    "new_epoch",
    "new_id",
    "parse_position",
    "parse_topic",
]

Topic = NewType("Topic", str)
RunId = NewType("RunId", str)
MessageId = NewType("MessageId", str)
Epoch = NewType("Epoch", str)

TOPIC_PATTERN = re.compile(r"[A-Za-z0-9_.:@/-]{1,200}\Z")
EPOCH_PATTERN = re.compile(r"[A-Za-z0-9]{8}\Z")
TYPE_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")

EntryKind = Literal["d", "e", "x", "h"]
"""Of an appended event: a delta of an open message, the end of a message, the end of the run, anything else."""

_ALPHABET = string.ascii_letters + string.digits
_LETTERS = bytes(ord(_ALPHABET[byte % len(_ALPHABET)]) for byte in range(256))


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a history; ``("", 0)`` is before everything."""

    epoch: str = ""
    offset: int = 0

    def __str__(self) -> str:
        """Give the text form of ``Last-Event-ID`` and of the command line, ``<epoch>:<offset>``."""
        return f"{self.epoch}:{self.offset}"


START = Position()


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """An event as a reader gets it.

    Attributes:
        offset: Its place in the topic; of a merged one, the last it stands for.
        data: The event, decoded.
        first: The first offset it stands for (the protocol's ``tags.from``); None where it stands for one.

    """

    offset: int
    data: dict[str, Any]
    first: int | None = None


def parse_position(text: str) -> Position:
    """Read ``<epoch>:<offset>``.

    Raises:
        ValueError: The text has another form.

    """
    epoch, colon, offset = text.partition(":")
    valid_epoch = not epoch or EPOCH_PATTERN.match(epoch)
    if not colon or not valid_epoch or not (offset.isascii() and offset.isdigit() and len(offset) <= 16):
        raise ValueError(f"expected a position <epoch>:<offset> such as aB3dE6gH:42, got {text!r}")
    return Position(epoch=epoch, offset=int(offset))


def parse_topic(text: str) -> Topic:
    """Check a topic's name.

    Raises:
        ValueError: It is empty, longer than 200 characters, or has a character outside ``A-Za-z0-9_.:@/-``.

    """
    if not TOPIC_PATTERN.match(text):
        raise ValueError(f"expected a topic of 1 to 200 characters of A-Z a-z 0-9 _ . : @ / -, got {text[:210]!r}")
    return Topic(text)


def new_epoch() -> Epoch:
    """Draw the name of a new incarnation of a history: 8 letters or digits."""
    # Drawn for every call of a script; eight `secrets.choice` would take ten times as long.
    return Epoch(secrets.token_bytes(8).translate(_LETTERS).decode())


def new_id() -> str:
    """Draw an id for a run, a message or a model call: 16 hexadecimal digits."""
    return secrets.token_hex(8)
