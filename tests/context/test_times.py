from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from gateway.context.times import format_time, now, parse_time, to_utc

from .strategies import TIMES


@given(TIMES)
def test_parse_reads_what_format_wrote(time: Any) -> None:
    assert parse_time(format_time(time)) == time


def test_format_gives_one_text_for_one_instant() -> None:
    east = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(east) == format_time(east.astimezone(UTC)) == "2024-05-01T10:00:00.000000Z"


@pytest.mark.parametrize("text", ["", "tomorrow", "2024-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
def test_parse_refuses(text: Any) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


def test_times_are_utc() -> None:
    assert now().tzinfo is UTC
    assert to_utc(datetime(2024, 5, 1)) == datetime(2024, 5, 1, tzinfo=UTC)  # noqa: DTZ001 - what is tested
