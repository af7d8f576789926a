from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.usage import Usage

USAGES = st.builds(Usage, **{name: st.integers(0, 10**6) for name in Usage.__struct_fields__})


@given(USAGES, USAGES, USAGES)
def test_add_is_commutative_associative_and_has_a_zero(a: Any, b: Any, c: Any) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Usage() == a


@given(USAGES)
def test_from_mapping_reads_what_to_dict_wrote(usage: Any) -> None:
    assert Usage.from_mapping(usage.to_dict()) == usage


def test_add_never_derives_the_total() -> None:
    assert (Usage(input_tokens=10, output_tokens=5) + Usage(total_tokens=2)).total_tokens == 2
    with pytest.raises(TypeError):
        Usage() + 1  # type: ignore[operator]


def test_from_mapping_takes_missing_and_null_for_zero_and_ignores_the_rest() -> None:
    assert Usage.from_mapping({"requests": None, "tool_calls": 2, "x": "y"}) == Usage(tool_calls=2)


@pytest.mark.parametrize("value", ["5", 1.5, True, []])
def test_from_mapping_refuses_other_counters(value: Any) -> None:
    with pytest.raises(TypeError):
        Usage.from_mapping({"requests": value})


def test_from_openai_reads_both_forms_as_map_and_object() -> None:
    chat = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    expected = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15, cache_read_input_tokens=4)
    assert Usage.from_openai(chat) == expected
    responses = SimpleNamespace(
        input_tokens=10, output_tokens=5, total_tokens=15, input_tokens_details=SimpleNamespace(cached_tokens=4)
    )
    assert Usage.from_openai(responses) == expected
    assert Usage.from_openai({"prompt_tokens": 1, "completion_tokens": 2}).total_tokens == 3
    assert Usage.from_openai(None) == Usage(requests=1)


def test_counting_up() -> None:
    usage = Usage().inc_requests().inc_tool_calls(2).add_tokens(input=3, output=4)
    assert usage == Usage(requests=1, tool_calls=2, input_tokens=3, output_tokens=4, total_tokens=7)
