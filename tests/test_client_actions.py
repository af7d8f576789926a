"""What a client's actions put on the wire."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.client import Client
from tests.protocol_server import protocol_server

CALLS: list[tuple[Callable[[Client], Awaitable[dict[str, Any]]], dict[str, Any]]] = [
    (lambda client: client.send("t", "hi", "mine"), {"method": "send", "data": {"content": "hi"}}),
    (
        lambda client: client.edit("t", "m", [{"type": "text", "text": "x"}], id="mine"),
        {"method": "edit", "data": {"message": "m", "content": [{"type": "text", "text": "x"}]}},
    ),
    (lambda client: client.withdraw("t", "m", id="mine"), {"method": "withdraw", "data": {"message": "m"}}),
    (
        lambda client: client.cancel("t", run="r", id="mine"),
        {"method": "cancel", "data": {"run": "r", "mode": "now"}},
    ),
    (
        lambda client: client.cancel("t", message="m", mode="after_step", id="mine"),
        {"method": "cancel", "data": {"message": "m", "mode": "after_step"}},
    ),
    (
        lambda client: client.decide("t", "r", "c", "edit", arguments="{}", reason="why", id="mine"),
        {
            "method": "decide",
            "data": {"run": "r", "tool_call_id": "c", "decision": "edit", "arguments": "{}", "reason": "why"},
        },
    ),
    (
        lambda client: client.decide("t", "r", "c", "reject", id="mine"),
        {"method": "decide", "data": {"run": "r", "tool_call_id": "c", "decision": "reject"}},
    ),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
async def test_action_is_one_rpc(call: Callable[[Client], Any], expected: dict[str, Any]) -> None:
    async with protocol_server() as server, Client(server.url) as client:
        acting = asyncio.create_task(call(client))
        command = await server.command("rpc")
        assert command.body["method"] == expected["method"]
        assert command.body["data"] == {"topic": "t", "id": "mine", **expected["data"]}
        await command.reply({"data": {"status": "x"}})
        assert await acting == {"status": "x"}


async def test_topic_that_is_none_is_refused_before_it_is_sent() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        with pytest.raises(ValueError, match="expected a topic"):
            await client.withdraw("no blanks", "m")
