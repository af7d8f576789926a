"""Dialects over HTTP: resuming, ends, and what else their readers meet."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.dialects import DIALECTS
from gateway.publisher import Publisher
from gateway.types import Topic
from tests.dialects.clients import Node, read_ag_ui, read_ai_sdk, read_openai
from tests.serving import PATIENCE, Gateway, append, eventually, serve

ENDS = {"ag-ui": "RUN_FINISHED", "ai-sdk": "finish", "openai-responses": "response.completed"}


async def blocks(
    http: httpx.AsyncClient, dialect: str, *, last: str = "", query: str = "&from=start"
) -> list[tuple[str, str]]:
    """Read a stream to its end: (id, data) of every event."""
    headers = {"last-event-id": last} if last else {}
    reply = await http.get(f"/topics/t/events?dialect={dialect}{query}", headers=headers)
    assert reply.status_code == 200, reply.text
    found = []
    for block in reply.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("id", ""), fields["data"]))
    return found


async def converse(publisher: Publisher) -> None:
    """A run with everything: thinking, text, a call whose arguments grow, its result, more text."""
    async with publisher.run("t", agent="a", model="m") as run:
        for piece in ("Let me ", "see."):
            await run.thinking(piece)
            await run.flush()
        for piece in ("I will ", "look ", "it up."):
            await run.delta(piece)
            await run.flush()
        await run.tool_call_delta(index=0, id="call-1", name="search", text='{"q":')
        await run.flush()
        await run.tool_call_delta(index=0, text='"weather"}')
        await run.flush()
        call = {"id": "call-1", "name": "search", "arguments": '{"q":"weather"}'}
        await run.add_message(Message.assistant("I will look it up.", tool_calls=[call], thinking="Let me see."))
        await run.tool_call("call-1", "search", '{"q":"weather"}')
        await run.tool_result("call-1", "search", "sunny")
        for piece in ("It is ", "sunny."):
            await run.delta(piece)
            await run.flush()
        await run.add_message(Message.assistant("It is sunny."))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_reader_cut_off_anywhere_goes_on_with_the_next_event(
    http: httpx.AsyncClient, publisher: Publisher, dialect: str
) -> None:
    await converse(publisher)
    whole = await blocks(http, dialect)
    ids = [last for last, _ in whole if last]
    assert len(ids) == len(set(ids)) > 10
    for place, (last, _) in enumerate(whole):
        if not last or last == ids[-1]:
            continue
        assert await blocks(http, dialect, last=last) == whole[place + 1 :], last
    ended = await http.get(f"/topics/t/events?dialect={dialect}", headers={"last-event-id": ids[-1]})
    assert ended.status_code == 204


def joined(blocks: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Give the events with neighbouring deltas joined, numbers left out: how a text was cut says nothing."""
    found: list[dict[str, Any]] = []
    for _, data in blocks:
        event = {"type": data} if data == "[DONE]" else json.loads(data)
        event.pop("sequence_number", None)
        name = "inputTextDelta" if "inputTextDelta" in event else "delta"
        last = found[-1] if found else {}
        if name in event and {**last, name: ""} == {**event, name: ""}:
            last[name] += event[name]
        else:
            found.append(event)
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_reader_of_a_live_run_goes_on_after_its_end_wherever_it_was_cut_off(
    served: Gateway, http: httpx.AsyncClient, publisher: Publisher, dialect: str
) -> None:
    reading = asyncio.create_task(blocks(http, dialect))
    await eventually(lambda: served.hub.clients(Topic("t")))
    await converse(publisher)
    whole = await reading
    places = [place for place, (last, _) in enumerate(whole[:-2]) if last]
    assert sum("~" in whole[place][0] for place in places) > 5, "it was cut in the middle of messages too"
    for place in places:
        rest = await blocks(http, dialect, last=whole[place][0])
        assert joined([*whole[: place + 1], *rest]) == joined(whole), whole[place]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_position_of_another_history_is_refused(
    http: httpx.AsyncClient, publisher: Publisher, dialect: str
) -> None:
    await converse(publisher)
    for last in ("AAAAAAAA:3", "AAAAAAAA:3.2", "elsewhere"):
        reply = await http.get(f"/topics/t/events?dialect={dialect}", headers={"last-event-id": last})
        assert (reply.status_code, reply.json()["error"]["code"]) == (410, 112)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_no_live_run_is_no_content(http: httpx.AsyncClient, publisher: Publisher, dialect: str) -> None:
    assert (await http.get(f"/topics/t/events?dialect={dialect}")).status_code == 204
    await converse(publisher)
    assert (await http.get(f"/topics/t/events?dialect={dialect}")).status_code == 204


async def test_unknown_dialect_is_told_which_there_are(http: httpx.AsyncClient) -> None:
    reply = await http.get("/topics/t/events?dialect=morse")
    assert reply.status_code == 400
    assert "ag-ui, ai-sdk, openai-responses" in reply.json()["error"]["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_reader_waits_for_the_run_that_follows_its_position(
    served: Gateway, http: httpx.AsyncClient, publisher: Publisher, dialect: str
) -> None:
    await converse(publisher)
    top = (await http.get("/topics/t")).json()
    query = f"&from={top['epoch']}:{top['offset']}"
    reading = asyncio.create_task(blocks(http, dialect, query=query))
    await eventually(lambda: served.hub.clients(Topic("t")))
    await converse(publisher)
    events = [json.loads(data) for _, data in await reading if data != "[DONE]"]
    assert events[-1]["type"] == ENDS[dialect]


@pytest.mark.parametrize(
    ("reader", "dialect"),
    [(read_ag_ui, "ag-ui"), (read_ai_sdk, "ai-sdk"), (read_openai, "openai-responses")],
    ids=list(DIALECTS),
)
async def test_whole_conversation_is_read_by_the_real_client(
    node: Node, served: Gateway, publisher: Publisher, reader: Any, dialect: str
) -> None:
    await converse(publisher)
    got = await reader(node, f"{served.http}/topics/t/events?dialect={dialect}&from=start")
    assert got.texts == ["I will look it up.", "It is sunny."]
    assert got.thinking == "Let me see."
    assert got.calls == [("call-1", "search", {"q": "weather"})]
    assert got.results == {"call-1": "sunny"}
    assert got.status == "completed"


async def test_ai_sdk_client_finds_nothing_to_resume(node: Node, served: Gateway) -> None:
    assert await node.ask("ai-sdk", f"{served.http}/topics/t/events?dialect=ai-sdk") == {"message": None, "errors": []}


async def test_ag_ui_client_gets_the_conversation_before_the_run(
    node: Node, served: Gateway, publisher: Publisher
) -> None:
    await converse(publisher)
    async with publisher.run("t", agent="a") as run:
        await run.add_message(Message.user("And tomorrow?"))
        await run.delta("Rain")
        await run.flush()
        reading = asyncio.create_task(node.ask("ag-ui", f"{served.http}/topics/t/events?dialect=ag-ui"))
        await eventually(lambda: served.hub.clients(Topic("t")))
        await run.delta(", I fear.")
        await run.add_message(Message.assistant("Rain, I fear."))
    answer = await reading
    assert answer["errors"] == []
    said = [message["content"] for message in answer["messages"] if message["role"] == "assistant"]
    assert said == ["I will look it up.", "It is sunny.", "Rain, I fear."]


@pytest.mark.parametrize(
    ("reader", "dialect", "status"),
    [
        (read_ag_ui, "ag-ui", "cancelled"),
        (read_ai_sdk, "ai-sdk", "cancelled"),
        (read_openai, "openai-responses", "incomplete"),
    ],
    ids=list(DIALECTS),
)
async def test_run_that_was_cancelled_keeps_its_text(
    node: Node, served: Gateway, broker: RedisBroker, *, reader: Any, dialect: str, status: str
) -> None:
    await append(broker, "t", {"type": "agent_start", "run": "r", "agent": "a", "at": 1})
    await append(broker, "t", {"type": "agent_delta", "run": "r", "message": "m", "text": "Half a"}, kind="d")
    await append(broker, "t", {"type": "agent_cancelled", "run": "r", "at": 2})
    got = await reader(node, f"{served.http}/topics/t/events?dialect={dialect}&from=start")
    assert (got.texts, got.status) == (["Half a"], status)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_history_that_is_lost_ends_the_run(
    served: Gateway, http: httpx.AsyncClient, broker: RedisBroker, redis: Redis, dialect: str
) -> None:
    await append(broker, "t", {"type": "agent_start", "run": "r", "agent": "a", "at": 1})
    await append(broker, "t", {"type": "agent_delta", "run": "r", "message": "m", "text": "Half a"}, kind="d")
    reading = asyncio.create_task(blocks(http, dialect))
    await eventually(lambda: served.hub.clients(Topic("t")))
    await redis.delete(*[key async for key in redis.scan_iter(match=f"{broker.channel(Topic('t'))}*")])
    await append(broker, "t", {"n": 1})
    events = [json.loads(data) for _, data in await reading if data != "[DONE]"]
    assert events[-1]["type"] in {"RUN_ERROR", "error", "response.failed"}


async def test_shutdown_and_a_new_gateway_lose_nothing(redis_url: str, key_prefix: str, publisher: Publisher) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http, publisher.run("t", agent="a") as run:
        async with serve(redis_url, key_prefix, drain=0.0) as first:
            await run.delta("one ")
            await run.flush()
            http.base_url = httpx.URL(first.http)
            reading = asyncio.create_task(blocks(http, "ag-ui"))
            await eventually(lambda: first.hub.clients(Topic("t")))
        got = await reading
        await run.delta("two")
        async with serve(redis_url, key_prefix) as second:
            http.base_url = httpx.URL(second.http)
            await run.add_message(Message.assistant("one two"))
            await run.complete()
            got += await blocks(http, "ag-ui", last=[place for place, _ in got if place][-1])
    events = [json.loads(data) for _, data in got]
    assert [event["type"] for event in events].count("RUN_STARTED") == 1
    assert "".join(event.get("delta", "") for event in events) == "one two"
    assert events[-1]["type"] == "RUN_FINISHED"
