import json
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.jsonlike import MAX_DEPTH, brief, compact_json, lenient, native

from .strategies import JSON


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Odd(Enum):
    FUNCTION = print


class Point(msgspec.Struct):
    x: Any
    inner: "Point | None" = None


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def nested(levels: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@given(JSON)
def test_native_copies_json(value: Any) -> None:
    copy = native(value)
    assert copy == value
    assert json.loads(json.dumps(copy)) == value
    assert lenient(value) == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2,)), [1, [2]]),
        (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T00:00:00.000000Z"),
        (date(2024, 5, 1), "2024-05-01"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        ({Colour.RED: Level.LOW}, {"red": 1}),
        (Point(x=1, inner=Point(x=2)), {"x": 1, "inner": {"x": 2, "inner": None}}),
        (OrderedDict(a=1), {"a": 1}),
    ],
)
def test_native_writes_values_with_one_json_form(value: Any, plain: Any) -> None:
    copy = native(value)
    assert copy == plain
    assert json.loads(json.dumps(copy)) == plain


@pytest.mark.parametrize(
    "value",
    [print, object(), {1}, b"x", float("nan"), float("-inf"), {1: 2}, Odd.FUNCTION, Point(x=print), 1j, [Broken()]],
)
def test_native_refuses_the_rest(value: Any) -> None:
    with pytest.raises(ValueError):
        native(value)


def test_native_stops_at_the_depth() -> None:
    assert native(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(ValueError):
        native(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"status": "ok", "n": (1, None)}, '{"status":"ok","n":[1,null]}'),
        ({3, 1, 2}, "[1,2,3]"),
        ({1: Colour.RED}, '{"1":"red"}'),
        ("ü", '"ü"'),
        (Broken(), '"<Broken>"'),
        (float("nan"), '"nan"'),
        (Point(x=1), '{"x":1,"inner":null}'),
        (None, "null"),
    ],
)
def test_compact_json(value: Any, text: Any) -> None:
    assert compact_json(value) == text


def test_compact_json_of_what_holds_itself_or_is_bottomless() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert json.loads(compact_json(loop))
    assert json.loads(compact_json(nested(100_000)))


@given(st.integers(0, 200_000))
def test_brief_is_short(levels: Any) -> None:
    assert len(brief(nested(levels))) < 100
    assert len(brief("x" * levels)) < 100
