import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.adapters import AnthropicMessages
from gateway.errors import ProviderError
from tests.adapters.sink import RecordingSink

START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "m1", "model": "claude", "content": [], "usage": {"input_tokens": 10, "output_tokens": 1}},
}
STOP: dict[str, Any] = {"type": "message_stop"}


def block(index: int, content: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def stop(reason: str, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


async def feed(*events: Mapping[str, Any]) -> RecordingSink:
    sink = RecordingSink()
    adapter = AnthropicMessages(sink)
    for event in events:
        await adapter.feed(event)
    await adapter.finish()
    return sink


async def test_server_call_of_one_response_is_answered_by_a_later_one() -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {"code": "1"}}
    result = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {"stdout": "1"}}
    sink = await feed(
        START, *block(0, call), stop("pause_turn"), STOP, START, *block(0, result), stop("end_turn"), STOP
    )
    assert sink.ran == [("s1", "code_execution", '{"code":"1"}', True)]
    assert sink.results == [("s1", "code_execution", '{"stdout":"1"}', False)]
    assert sink.order == ["message", "call", "result", "message"]


async def test_server_call_without_result_is_answered_at_the_end() -> None:
    sink = await feed(START, *block(0, {"type": "mcp_tool_use", "id": "s1", "name": "echo", "input": {}}), STOP)
    assert [(call, error) for call, _, _, error in sink.results] == [("s1", True)]
    assert "interrupted" in sink.results[0][2]


async def test_server_result_of_an_unknown_call_is_kept() -> None:
    result = {"type": "mcp_tool_result", "tool_use_id": "old", "is_error": True, "content": "no"}
    sink = await feed(START, *block(0, result), STOP)
    assert sink.results == [("old", "", "no", True)]


async def test_error_content_of_a_server_tool_is_an_error() -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    content = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": content}
    sink = await feed(START, *block(0, call), *block(1, result), STOP)
    assert sink.results[0][3] is True


async def test_client_call_is_offered_and_not_run() -> None:
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"a"', ":1}")]
    sink = await feed(START, *block(0, {"type": "tool_use", "id": "t1", "name": "f", "input": {}}, *pieces), STOP)
    assert sink.ran == sink.results == []
    assert sink.last()["tool_calls"] == [{"id": "t1", "name": "f", "arguments": '{"a":1}'}]


async def test_pieces_replace_an_input_given_at_the_start() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 0}}
    sink = await feed(START, *block(0, call, {"type": "input_json_delta", "partial_json": '{"a":1}'}), STOP)
    assert sink.last()["tool_calls"][0]["arguments"] == '{"a":1}'


async def test_thinking_keeps_its_signature_for_the_next_request() -> None:
    deltas = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "sig"}]
    thinking = block(0, {"type": "thinking", "thinking": ""}, *deltas)
    redacted = block(1, {"type": "redacted_thinking", "data": "xx"})
    sink = await feed(START, *thinking, *redacted, STOP)
    assert sink.last()["reasoning_details"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xx"},
    ]
    assert sink.last()["thinking"] == "hm"


async def test_citations_and_unknown_blocks_are_kept_in_metadata() -> None:
    text = block(0, {"type": "text", "text": ""}, {"type": "citations_delta", "citation": {"cited_text": "c"}})
    sink = await feed(START, *text, *block(1, {"type": "container_upload", "file_id": "f"}), STOP)
    metadata = sink.last()["metadata"]
    assert metadata["citations"] == [{"cited_text": "c"}]
    assert metadata["items"] == [{"type": "container_upload", "file_id": "f"}]


async def test_cached_input_counts_as_input() -> None:
    usage = {"output_tokens": 7, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 4}
    sink = await feed(START, stop("end_turn", **usage), STOP)
    assert sink.usages["m1"].to_dict() == {
        "requests": 1,
        "tool_calls": 0,
        "input_tokens": 17,
        "output_tokens": 7,
        "total_tokens": 24,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
    }


async def test_second_start_discards_the_first() -> None:
    text = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "half"})
    sink = await feed(START, *text, START, stop("end_turn"), STOP)
    assert len(sink.discarded) == 1
    assert sink.last()["content"] == ""


async def test_provider_error_names_its_kind() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ProviderError, match="overloaded_error: Overloaded"):
        await feed(START, error)


async def test_events_before_a_start_are_a_clear_error() -> None:
    with pytest.raises(ProviderError, match="message_start first"):
        await feed(*block(0, {"type": "text", "text": "x"}))


@pytest.mark.parametrize("kind", ["ping", "a_new_event"])
async def test_unknown_events_are_skipped(kind: str) -> None:
    sink = await feed({"type": kind}, START, {"type": kind}, STOP)
    assert len(sink.messages) == 1


async def test_refusal_completes_with_its_explanation() -> None:
    delta = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "no"}}
    sink = await feed(START, {"type": "message_delta", "delta": delta}, STOP)
    assert sink.last()["metadata"] == {"model": "claude", "finish_reason": "refusal", "refusal": "no"}
    assert json.dumps(sink.last()["content"]) == '""'
