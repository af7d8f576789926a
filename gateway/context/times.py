"""Times of events and messages: aware UTC datetimes, ISO 8601 text with microseconds."""

from datetime import UTC, datetime

__all__ = ["format_time", "now", "parse_time", "to_utc"]


def now() -> datetime:
    """Tell the time."""
    return datetime.now(UTC)


def to_utc(time: datetime) -> datetime:
    """Give the same instant in UTC; a time without a zone is taken to be UTC."""
    if time.tzinfo is UTC:
        return time
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def format_time(time: datetime) -> str:
    """Write a time as ``2024-05-01T10:00:00.000000Z``: one text for one instant, because logs are hashed."""
    return to_utc(time).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_time(text: str) -> datetime:
    """Read ISO 8601 text.

    Raises:
        ValueError: It is none, or lies outside the years 1 to 9999.

    """
    try:
        return to_utc(datetime.fromisoformat(text))
    except OverflowError as error:
        raise ValueError(f"expected a time within the years 1 to 9999, got {text!r}") from error
