from collections.abc import Mapping
from typing import Any

import pytest

from gateway.adapters import Responses
from gateway.errors import ProviderError
from tests.adapters.sink import RecordingSink

CREATED: dict[str, Any] = {"type": "response.created", "response": {"id": "r1", "model": "gpt"}}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": f"{kind}_1", **fields}


def added(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": one}


def done(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": one}


def ended(kind: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"id": "r1", "status": kind, **fields}}


async def feed(*events: Mapping[str, Any]) -> RecordingSink:
    sink = RecordingSink()
    adapter = Responses(sink)
    for event in events:
        await adapter.feed(event)
    await adapter.finish()
    return sink


async def test_sealed_arguments_outrank_the_pieces() -> None:
    call = item("function_call", call_id="c1", name="f", arguments="")
    piece = {"type": "response.function_call_arguments.delta", "item_id": call["id"], "delta": '{"a":'}
    sink = await feed(CREATED, added(call), piece, done({**call, "arguments": '{"a":1}'}), ended())
    assert sink.last()["tool_calls"] == [{"id": "c1", "name": "f", "arguments": '{"a":1}'}]


async def test_call_that_was_never_added_is_kept() -> None:
    sink = await feed(CREATED, done(item("function_call", call_id="c1", name="f", arguments="{}")), ended())
    assert sink.last()["tool_calls"] == [{"id": "c1", "name": "f", "arguments": "{}"}]


async def test_mcp_call_is_shown_with_its_result_and_never_offered() -> None:
    call = item("mcp_call", name="lookup", arguments="{}", server_label="s", output="found")
    sink = await feed(CREATED, added({**call, "output": None}), done(call), ended())
    assert sink.ran == [("mcp_call_1", "lookup", "{}", True)]
    assert sink.results == [("mcp_call_1", "lookup", "found", False)]
    assert sink.last()["tool_calls"][0]["server"] is True


async def test_web_search_without_arguments_tells_its_action() -> None:
    search = item("web_search_call", status="completed", action={"type": "search", "query": "q"})
    sink = await feed(CREATED, done(search), ended())
    assert sink.ran == [("web_search_call_1", "web_search", '{"action":{"type":"search","query":"q"}}', True)]
    assert len(sink.results) == 1


async def test_failed_server_call_is_an_error() -> None:
    sink = await feed(CREATED, done(item("mcp_call", name="f", arguments="{}", error="no route")), ended())
    assert sink.results == [("mcp_call_1", "f", "no route", True)]


async def test_custom_tool_input_becomes_json() -> None:
    sink = await feed(CREATED, done(item("custom_tool_call", call_id="c1", name="sh", input="ls -l")), ended())
    assert sink.last()["tool_calls"][0]["arguments"] == '{"input":"ls -l"}'


async def test_unknown_items_are_kept_in_metadata() -> None:
    question = item("mcp_approval_request", name="f", arguments="{}")
    sink = await feed(CREATED, added(question), done(question), ended())
    assert sink.last()["metadata"]["items"] == [question]


async def test_parts_of_a_summary_are_paragraphs() -> None:
    deltas = [
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs", "summary_index": index, "delta": text}
        for index, text in ((0, "one"), (0, "!"), (1, "two"))
    ]
    sink = await feed(CREATED, *deltas, ended())
    assert sink.last()["thinking"] == "one!\n\ntwo"


async def test_refusal_is_shown_and_marked() -> None:
    sink = await feed(CREATED, {"type": "response.refusal.delta", "delta": "no"}, ended())
    assert sink.last()["content"] == sink.last()["metadata"]["refusal"] == "no"


async def test_annotations_are_kept_in_metadata() -> None:
    part = {"type": "output_text", "text": "x", "annotations": [{"type": "url_citation"}]}
    sink = await feed(CREATED, done(item("message", content=[part])), ended())
    assert sink.last()["metadata"]["annotations"] == [{"type": "url_citation"}]
    assert sink.last()["content"] == "x"  # it has come only whole


async def test_length_completes_the_response() -> None:
    sink = await feed(CREATED, ended("incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert sink.last()["metadata"]["finish_reason"] == "max_output_tokens"


async def test_second_start_discards_the_first() -> None:
    sink = await feed(CREATED, {"type": "response.output_text.delta", "delta": "half"}, CREATED, ended())
    assert len(sink.discarded) == 1
    assert sink.last()["content"] == ""


@pytest.mark.parametrize(
    "failure",
    [
        {"type": "error", "error": {"code": "rate_limit", "message": "slow down"}},
        {"type": "error", "code": "rate_limit", "message": "slow down"},
        ended("failed", error={"code": "rate_limit", "message": "slow down"}),
    ],
)
async def test_every_form_of_failure(failure: Mapping[str, Any]) -> None:
    with pytest.raises(ProviderError, match="rate_limit: slow down"):
        await feed(CREATED, failure)
