"""Reading fields of another kind as absent."""

from typing import Any

import pytest

from gateway.fields import MAX_INTEGER, identifier, index, integer, mapping, text

_OTHER_KINDS: list[Any] = [None, True, False, [], {}, [1], {"a": 1}]


@pytest.mark.parametrize("value", [*_OTHER_KINDS, 1, 1.5])
def test_text_of_another_kind(value: Any) -> None:
    assert text(value) is None


@pytest.mark.parametrize("value", ["", "a", "__proto__"])
def test_text(value: str) -> None:
    assert text(value) == value


@pytest.mark.parametrize("value", [*_OTHER_KINDS, 1, "", "__proto__"])
def test_identifier_of_another_kind(value: Any) -> None:
    assert identifier(value) is None


@pytest.mark.parametrize("value", ["a", " ", "constructor", "__proto__ "])
def test_identifier(value: str) -> None:
    assert identifier(value) == value


@pytest.mark.parametrize(
    "value", [*_OTHER_KINDS, "1", 1.5, float("nan"), float("inf"), -float("inf"), 2**53, -(2**53), 2.0**53, 1e300]
)
def test_integer_of_another_kind(value: Any) -> None:
    assert integer(value) is None


@pytest.mark.parametrize("value", [0, -1, MAX_INTEGER, -MAX_INTEGER, 3.0, -0.0])
def test_integer(value: float) -> None:
    assert integer(value) == value
    assert isinstance(integer(value), int)


def test_index_is_not_negative() -> None:
    assert (index(-1), index(-0.0), index(0), index(2.0), index(True)) == (None, 0, 0, 2, None)


def test_mapping() -> None:
    assert mapping({"a": 1}) == {"a": 1}
    others: tuple[object, ...] = (None, [], "a", 1)
    assert [mapping(value) for value in others] == [None] * 4
