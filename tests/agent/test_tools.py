import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agent.tools import (
    CALCULATE,
    MAX_EXPRESSION_CHARACTERS,
    SEARCH_DOCUMENTATION,
    TOOLS,
    WORD_STATISTICS,
    evaluate,
)
from gateway.context.errors import ToolError
from gateway.context.run_context import RunContext
from gateway.context.tools import execute_tool


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-2 ** 2", -4),
        ("7 // 2 + 7 % 2", 4),
        ("1 / 4", 0.25),
        (" +3 ", 3),
        ("2 ** 100", 2**100),
        ("1_000 * 2", 2000),
    ],
)
def test_evaluate_works_out(expression: str, value: float) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 +",
        "x",
        "__import__('os')",
        "(1).bit_length()",
        "[1]",
        "'a' * 3",
        "True",
        "1 if 1 else 2",
        "1 < 2",
        "1j",
        "(-1) ** 0.5",
        "1 / 0",
        "5 % 0",
        "9 ** 9 ** 9",
        "2 ** 5000",
        "10.0 ** 400",
        "1" * (MAX_EXPRESSION_CHARACTERS + 1),
        "(" * 150 + "1" + ")" * 50,
        "\x00",
    ],
)
def test_evaluate_refuses(expression: str) -> None:
    with pytest.raises(ValueError):
        evaluate(expression)


@given(st.text(alphabet="0123456789+-*/%(). ", max_size=40))
def test_evaluate_gives_a_number_or_refuses(expression: str) -> None:
    try:
        value = evaluate(expression)
    except ValueError:
        return
    assert isinstance(value, int | float)


async def test_calculate() -> None:
    result = await execute_tool(CALCULATE, {"expression": "10 / 4"}, RunContext(deps={}))
    assert result.value == {"expression": "10 / 4", "result": "2.5"}
    with pytest.raises(ToolError, match="divides by zero"):
        await execute_tool(CALCULATE, {"expression": "1 / 0"}, RunContext(deps={}))


async def test_word_statistics() -> None:
    result = await execute_tool(WORD_STATISTICS, {"text": "The cat and the dog"}, RunContext(deps={}))
    assert (result.value["words"], result.value["distinct_words"], result.value["characters"]) == (5, 4, 19)
    assert result.value["most_common"][0] == {"word": "the", "count": 2}


async def test_search_documentation_finds_passages_of_the_protocol() -> None:
    result = await execute_tool(SEARCH_DOCUMENTATION, {"query": "how are offsets and epochs used"}, RunContext(deps={}))
    assert result.value["found"] > 0
    assert "offset" in result.value["passages"][0]["text"].lower()
    nothing = await execute_tool(SEARCH_DOCUMENTATION, {"query": "qqqq zzzz"}, RunContext(deps={}))
    assert nothing.value == {"found": 0, "passages": []}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_tools_refuse_arguments_of_another_form(tool: object) -> None:
    for arguments in ({}, {"expression": 1, "text": 1, "query": 1}, {"other": "x"}):
        with pytest.raises(ToolError):
            await execute_tool(tool, arguments, RunContext(deps={}))  # type: ignore[arg-type]  # of the parameters
