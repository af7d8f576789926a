"""Harmless tools that really run: arithmetic, statistics of a text, the protocol's documentation, a logged postcard."""

import ast
import logging
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gateway.context.tools import Tool, ToolFailure

__all__ = [
    "CALCULATE",
    "MAX_EXPRESSION_CHARACTERS",
    "SEARCH_DOCUMENTATION",
    "SEND_POSTCARD",
    "TOOLS",
    "WORD_STATISTICS",
    "evaluate",
]

_logger = logging.getLogger(__name__)

MAX_EXPRESSION_CHARACTERS = 200
"""Longer expressions are refused."""

_MAX_BITS = 1024
"""Bits of an integer that may come up: powers of powers must not take a processor for hours."""

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def evaluate(expression: str) -> int | float:
    """Work out an arithmetic expression.

    Args:
        expression: Numbers, ``+ - * / // % **`` and parentheses, at most `MAX_EXPRESSION_CHARACTERS`.

    Raises:
        ValueError: It is another, divides by zero, or its numbers become too large.

    """
    if len(expression) > MAX_EXPRESSION_CHARACTERS:
        raise ValueError(f"expected at most {MAX_EXPRESSION_CHARACTERS} characters, got {len(expression)}")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"expected an arithmetic expression, got {expression!r}") from error
    except ZeroDivisionError as error:
        raise ValueError(f"{expression} divides by zero") from error
    except OverflowError as error:
        raise ValueError(f"the numbers of {expression} become too large") from error


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _bounded(_UNARY[type(op)](_value(operand)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            one, other = _value(left), _value(right)
            if isinstance(op, ast.Pow) and abs(other) * max(_bits(one), 1) > _MAX_BITS:
                raise OverflowError
            return _bounded(_BINARY[type(op)](one, other))
    raise ValueError(f"expected only numbers, + - * / // % ** and parentheses, got {ast.unparse(node)}")


def _bits(value: float) -> int:
    return value.bit_length() if isinstance(value, int) else 64


def _bounded(value: Any) -> int | float:
    if isinstance(value, int) and value.bit_length() <= _MAX_BITS:
        return value
    if isinstance(value, float):
        return value
    raise OverflowError if isinstance(value, int) else ValueError("the result is no real number")


def _calculate(arguments: Mapping[str, Any]) -> dict[str, str] | ToolFailure:
    expression = str(arguments["expression"])
    try:
        value = evaluate(expression)
    except ValueError as error:
        return ToolFailure(reason=str(error))
    return {"expression": expression, "result": f"{value:.12g}" if isinstance(value, float) else str(value)}


def _word_statistics(arguments: Mapping[str, Any]) -> dict[str, Any]:
    text = str(arguments["text"])
    words = re.findall(r"\w+", text)
    common = Counter(word.lower() for word in words).most_common(3)
    return {
        "characters": len(text),
        "words": len(words),
        "distinct_words": len({word.lower() for word in words}),
        "longest_word": max(words, key=len, default=""),
        "most_common": [{"word": word, "count": count} for word, count in common],
    }


def _search_documentation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    wanted = _words(str(arguments["query"]))
    paragraphs = _paragraphs()
    spread = Counter(word for _, _, words in paragraphs for word in words & wanted)
    scored = []
    for section, text, words in paragraphs:
        # A word that few paragraphs have says more.
        score = sum(1 / spread[word] for word in words & wanted)
        if score:
            scored.append((score, {"section": section, "text": text}))
    scored.sort(key=lambda item: -item[0])
    return {"found": len(scored), "passages": [passage for _, passage in scored[:3]]}


def _words(text: str) -> set[str]:
    return {word.lower().rstrip("s") for word in re.findall(r"\w{4,}", text)}


@cache
def _paragraphs() -> tuple[tuple[str, str, set[str]], ...]:
    """Cut the packaged protocol into its paragraphs, each with the heading it stands under and its words."""
    section, found = "", []
    for block in files("gateway").joinpath("PROTOCOL.md").read_text(encoding="utf-8").split("\n\n"):
        if block.startswith("#"):
            section = block.splitlines()[0].lstrip("# ")
        elif block.strip():
            found.append((section, " ".join(block.split())[:600], _words(block)))
    return tuple(found)


def _send_postcard(arguments: Mapping[str, Any]) -> dict[str, str]:
    _logger.info("postcard to %s: %s", arguments["to"], arguments["text"])
    return {"to": str(arguments["to"]), "text": str(arguments["text"]), "sent": "to the agent's log, and nowhere else"}


def _schema(**properties: str) -> dict[str, Any]:
    """Describe an object of texts, none of them empty."""
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": description, "minLength": 1, "maxLength": 4000}
            for name, description in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


CALCULATE = Tool(
    name="calculate",
    function=_calculate,
    description="Works out an arithmetic expression of numbers, + - * / // % ** and parentheses.",
    parameters=_schema(expression="For example (3 + 4) * 12"),
    takes_context=False,
    timeout=5.0,
)
WORD_STATISTICS = Tool(
    name="word_statistics",
    function=_word_statistics,
    description="Counts the characters and words of a text.",
    parameters=_schema(text="The text"),
    takes_context=False,
    timeout=5.0,
)
SEARCH_DOCUMENTATION = Tool(
    name="search_documentation",
    function=_search_documentation,
    description="Searches the documentation of this gateway's protocol.",
    parameters=_schema(query="A few words"),
    takes_context=False,
    timeout=5.0,
)
SEND_POSTCARD = Tool(
    name="send_postcard",
    function=_send_postcard,
    description="Sends a postcard. Somebody has to agree first.",
    parameters=_schema(to="Whom it is for", text="What is written on it"),
    takes_context=False,
    timeout=5.0,
    requires_approval=True,
)
TOOLS = (CALCULATE, WORD_STATISTICS, SEARCH_DOCUMENTATION, SEND_POSTCARD)
