"""A model of rules for when no other is there: it thinks, calls tools that really run, and writes Markdown."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.codec import encode_json
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.context.usage import Usage
from gateway.run import Run
from gateway.types import new_id

__all__ = ["DemoModel"]

_EXPRESSION = re.compile(r"[-+]?[\d(][\d\s.()]*(?:(?:\*\*|//|[-+*/%])[\d\s.()+-]*\d[\d\s.()]*)+")

_WORDS = {
    "divided by": "/",
    "minus": "-",
    "multiplied by": "*",
    "plus": "+",
    "times": "*",
    "x": "*",
    "×": "*",
    "÷": "/",
}
"""Operators that people write otherwise, between two numbers."""

_WORD = re.compile(rf"(?<=[\d)])\s*({'|'.join(map(re.escape, _WORDS))})\s*(?=[(\d.+-])", re.IGNORECASE)

_ADDRESSEE = re.compile(r"\bto ((?:my|the|our|your) \w+|[^\W\d_]+)", re.IGNORECASE)

_LOOKED_AT = 500
"""Characters in which an expression is looked for: the search's cost grows with their square."""

_COUNTED = 4000
"""Characters that are counted."""


class DemoModel:
    """Answers what was typed, by rules.

    Args:
        rate: Words a second that it writes; 0 = at once.

    """

    name = "demo"

    def __init__(self, *, rate: float = 40.0) -> None:
        self._pause = 1 / rate if rate else 0.0

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        """Continue the conversation by one message; see `Model.respond`."""
        asked = next((message.text for message in reversed(run.context.entries) if message.role == "user"), "")
        results = _results(run)
        if not results:
            return await self._ask(run, asked, {tool.name for tool in tools})
        return await self._write(run, asked, results)

    async def _ask(self, run: Run, asked: str, tools: set[str]) -> Message:
        """Think, then call tools with arguments taken from the message; without tools write at once."""
        calls = [call for call in _calls(asked) if call.name in tools]
        if not calls:
            return await self._write(run, asked, {})
        thought = _thought(calls)
        async for word in self._words(thought):
            await run.thinking(word)
        for index, call in enumerate(calls):
            await run.tool_call_delta(index=index, id=call.id, name=call.name)
            async for piece in self._words(str(call.arguments)):
                await run.tool_call_delta(index=index, text=piece)
        message = Message.assistant(
            None, thinking=thought, tool_calls=tuple(calls), metadata={"finish_reason": "tool_calls"}
        )
        return await self._end(run, message, written=thought)

    async def _write(self, run: Run, asked: str, results: Mapping[str, Any]) -> Message:
        text = _markdown(asked, results)
        async for word in self._words(text):
            await run.delta(word)
        return await self._end(run, Message.assistant(text, metadata={"finish_reason": "stop"}), written=text)

    async def _end(self, run: Run, message: Message, *, written: str) -> Message:
        """End the message; its words pass for tokens."""
        read = sum(len(entry.text.split()) for entry in run.context.entries)
        wrote = len(written.split())
        await run.add_message(message)
        await run.usage(
            Usage(
                requests=1,
                tool_calls=len(message.tool_calls or ()),
                input_tokens=read,
                output_tokens=wrote,
                total_tokens=read + wrote,
            )
        )
        return message

    async def _words(self, text: str) -> AsyncIterator[str]:
        # Against the clock: what a write takes must not slow the next one down.
        clock = asyncio.get_running_loop().time
        due = clock()
        for match in re.finditer(r"\s*\S+\s*$|\s*\S+", text):
            yield match.group()
            due += self._pause
            await asyncio.sleep(max(0.0, due - clock()))


def _calls(asked: str) -> list[ToolCall]:
    expression = _EXPRESSION.search(_in_signs(asked[:_LOOKED_AT]))
    words = len(asked.split())
    if re.search(r"\bpostcard", asked, re.IGNORECASE):
        addressee = _ADDRESSEE.search(asked[:_LOOKED_AT])
        first = ("send_postcard", {"to": addressee[1] if addressee else "a friend", "text": asked[:_LOOKED_AT]})
    elif expression is not None:
        first = ("calculate", {"expression": expression.group().strip()})
    elif len(asked) % 2 and re.search(r"\w{3}", asked):
        first = ("search_documentation", {"query": asked[:200]})
    else:
        first = ("calculate", {"expression": f"{len(asked)} / {max(words, 1)}"})
    calls = [first, ("word_statistics", {"text": asked[:_COUNTED] or "(nothing)"})]
    return [
        ToolCall(id=f"call_{new_id()}", name=name, arguments=encode_json(values).decode()) for name, values in calls
    ]


def _in_signs(text: str) -> str:
    """Write operators that are words between numbers as signs."""
    return _WORD.sub(lambda found: f" {_WORDS[found[0].strip().lower()]} ", text)


def _thought(calls: Sequence[ToolCall]) -> str:
    names = " and ".join(str(call.name) for call in calls)
    asks = any(call.name == "send_postcard" for call in calls)
    return (
        f"I answer by rules, so facts have to come from tools: {names} fit. "
        "I take their arguments from the message, and write when both results are there."
        + (" A postcard cannot be called back, so somebody has to agree to it first." if asks else "")
    )


def _results(run: Run) -> dict[str, Any]:
    """Collect what the tools answered since the last message of a person, by tool."""
    results: dict[str, Any] = {}
    for message in reversed(run.context.entries):
        if message.role == "user":
            break
        if message.role == "tool" and message.name:
            results[message.name] = _decoded(message)
    return results


def _decoded(message: Message) -> Any:
    if message.metadata.get("error"):
        return {"error": message.text}
    try:
        return msgspec.json.decode(message.text)
    except msgspec.DecodeError:
        return message.text


def _markdown(asked: str, results: Mapping[str, Any]) -> str:
    quoted = " ".join(asked.split())[:200] or "(nothing)"
    parts = ["## What I found", f"You wrote:\n\n> {quoted}"]
    for name, write in _WRITERS.items():
        result = results.get(name)
        if isinstance(result, Mapping):
            parts.append(f"**{name}** did not work: {result['error']}" if "error" in result else write(result))
    parts.append(
        "I am a demo of rules and not a language model. Start the agent with `--model` and an `OPENAI_API_KEY`, and a "
        "real one answers here, through the same loop."
    )
    return "\n\n".join(parts)


def _calculated(result: Mapping[str, Any]) -> str:
    return f"### The calculation\n\n```python\n>>> {result['expression']}\n{result['result']}\n```"


def _counted(result: Mapping[str, Any]) -> str:
    common = ", ".join(f"*{item['word']}* ({item['count']}×)" for item in result["most_common"]) or "none"
    return (
        "### Your message in numbers\n\n"
        "| measure | value |\n| --- | ---: |\n"
        f"| characters | {result['characters']} |\n"
        f"| words | {result['words']} |\n"
        f"| distinct words | {result['distinct_words']} |\n\n"
        f"- longest word: *{result['longest_word'] or 'none'}*\n"
        f"- most common: {common}"
    )


def _searched(result: Mapping[str, Any]) -> str:
    if not result["passages"]:
        return "### From the documentation\n\nNothing in the protocol's documentation has these words."
    lines = [f"1. **{passage['section']}**: {_first_words(passage['text'])}" for passage in result["passages"]]
    return "### From the documentation\n\n" + "\n".join(lines)


def _first_words(text: str) -> str:
    plain = re.sub(r"[*|`]", "", text)
    return plain if len(plain) <= 140 else plain[:140].rsplit(" ", 1)[0] + " …"


def _posted(result: Mapping[str, Any]) -> str:
    text = _first_words(result["text"])
    return f"### The postcard\n\nIt went to *{result['to']}*, that is {result['sent']}:\n\n> {text}"


_WRITERS = {
    "calculate": _calculated,
    "search_documentation": _searched,
    "send_postcard": _posted,
    "word_statistics": _counted,
}
