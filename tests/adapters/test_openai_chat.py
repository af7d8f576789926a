from collections.abc import Mapping
from typing import Any

import pytest

from gateway.adapters import ChatCompletions
from gateway.errors import ProviderError
from tests.adapters.sink import RecordingSink


def chunk(delta: Mapping[str, Any], *, id: str = "c1", finish: str | None = None, **rest: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": id, "model": "gpt", "choices": [choice], **rest}


def call(text: str = "", *, index: int | None = 0, id: str = "", name: str = "") -> dict[str, Any]:
    piece: dict[str, Any] = {"id": id, "function": {"name": name, "arguments": text}}
    return {"tool_calls": [piece if index is None else {"index": index, **piece}]}


DONE = chunk({}, finish="stop")


async def feed(*chunks: Mapping[str, Any]) -> RecordingSink:
    sink = RecordingSink()
    adapter = ChatCompletions(sink)
    for one in chunks:
        await adapter.feed(one)
    await adapter.finish()
    return sink


def arguments(sink: RecordingSink) -> list[tuple[str, str, str]]:
    return [(one["id"], one["name"], one["arguments"]) for one in sink.last()["tool_calls"]]


async def test_parallel_calls_interleave() -> None:
    sink = await feed(
        chunk(call(id="a", name="f")),
        chunk(call(id="b", name="g", index=1)),
        chunk(call("{}", index=1)),
        chunk(call('{"x":1}')),
        DONE,
    )
    assert arguments(sink) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


async def test_calls_without_index_go_by_their_ids() -> None:
    sink = await feed(
        chunk(call('{"x"', index=None, id="a", name="f")),
        chunk(call(":1}", index=None)),
        chunk(call("{}", index=None, id="b", name="g")),
        DONE,
    )
    assert arguments(sink) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


async def test_another_id_under_one_index_is_another_call() -> None:
    sink = await feed(chunk(call("{}", id="a", name="f")), chunk(call("{}", id="b", name="g")), DONE)
    assert arguments(sink) == [("a", "f", "{}"), ("b", "g", "{}")]


async def test_call_without_arguments_has_an_empty_object() -> None:
    sink = await feed(chunk(call(id="a", name="f")), DONE)
    assert arguments(sink) == [("a", "f", "{}")]


async def test_content_parts_carry_thinking_and_text() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    sink = await feed(chunk({"content": [thinking, {"type": "text", "text": "yes"}]}), DONE)
    assert (sink.last()["thinking"], sink.last()["content"]) == ("hm", "yes")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_both_names_of_reasoning(field: str) -> None:
    sink = await feed(chunk({field: "hm"}), DONE)
    assert sink.last()["thinking"] == "hm"


async def test_refusal_is_shown_and_marked() -> None:
    sink = await feed(chunk({"refusal": "I "}), chunk({"refusal": "cannot"}), DONE)
    assert sink.last()["content"] == "I cannot"
    assert sink.last()["metadata"]["refusal"] == "I cannot"


async def test_other_choices_are_left_out() -> None:
    other = {"id": "c1", "choices": [{"index": 1, "delta": {"content": "no"}}]}
    sink = await feed(chunk({"content": "yes"}), other, DONE)
    assert sink.last()["content"] == "yes"


async def test_next_id_is_the_next_response() -> None:
    sink = await feed(
        chunk({"content": "one"}), DONE, chunk({"content": "two"}, id="c2"), chunk({}, id="c2", finish="x")
    )
    assert [message.content for message, *_ in sink.messages] == ["one", "two"]


async def test_usage_repeated_counts_once() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "prompt_tokens_details": None}
    sink = await feed(chunk({"content": "x"}, usage=usage), DONE, {"id": "c1", "choices": [], "usage": usage})
    assert {call: usage.total_tokens for call, usage in sink.usages.items()} == {"c1": 7}


@pytest.mark.parametrize("error", [{"message": "bad key", "code": 401}, "bad key"])
async def test_error_in_a_chunk(error: object) -> None:
    with pytest.raises(ProviderError, match="bad key"):
        await feed({"error": error})


async def test_stream_without_finish_reason_is_incomplete() -> None:
    with pytest.raises(ProviderError, match="middle of a response"):
        await feed(chunk({"content": "half"}))


async def test_stream_without_any_response_is_empty() -> None:
    sink = await feed({"id": "", "choices": [], "prompt_filter_results": []})
    assert sink.messages == []
