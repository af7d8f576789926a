"""What handlers are given, and what they can do with it."""

import asyncio
from typing import Any

import pytest

from gateway.bot_event import BotEvent
from gateway.client import Client
from gateway.events import ApprovalRequired
from gateway.mirror import Mirror
from gateway.reader import Update
from gateway.types import Position, Topic
from tests.protocol_server import protocol_server

T = Topic("t")
ASKED = {"type": "approval_required", "run": "r", "tool_call_id": "c", "name": "rm", "arguments": "{}", "expires_at": 9}


def made(
    client: Client, data: dict[str, Any], *, snapshot: bool = False, offset: int = 4, actor: str = "b"
) -> BotEvent:
    position = Position(epoch="aB3dE6gH", offset=offset)
    update = Update(topic=T, data=data, position=position, first=offset - 1, snapshot=snapshot)
    return BotEvent(update, client, mirror=None, actor=actor)


NOWHERE = Client("http://127.0.0.1:1")


def test_event_tells_what_it_is() -> None:
    event = made(NOWHERE, ASKED)
    assert (event.topic, event.type, event.run, event.data) == (T, "approval_required", "r", ASKED)
    assert (event.first, event.position) == (3, Position(epoch="aB3dE6gH", offset=4))
    assert event.typed == ApprovalRequired(run="r", tool_call_id="c", name="rm", arguments="{}", expires_at=9)
    assert repr(event) == "<approval_required at aB3dE6gH:4 of t>"
    with pytest.raises(LookupError, match="mirror=True"):
        _ = event.mirror


@pytest.mark.parametrize(("data", "kind"), [({}, ""), ({"type": 7}, ""), ({"type": "x", "run": 7}, "x")])
def test_event_of_any_kind_is_one(data: dict[str, Any], kind: str) -> None:
    event = made(NOWHERE, data)
    assert (event.type, event.run, event.typed) == (kind, None, None)


def test_snapshot_has_its_own_type() -> None:
    event = made(NOWHERE, Mirror("t").snapshot(), snapshot=True)
    assert (event.type, event.typed) == ("snapshot", None)


async def test_actions_need_something_to_act_on() -> None:
    event = made(NOWHERE, {"type": "log"})
    with pytest.raises(ValueError, match="approval of a tool call, got <log at"):
        await event.decide("approve")
    with pytest.raises(ValueError, match="an event of a run, got <log at"):
        await event.cancel()


async def test_actions_say_what_they_are_about() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        sent = []
        event = made(client, ASKED)
        other = {"run": "r2", "tool_call_id": "c2"}
        for action in (
            event.decide("edit", arguments='{"a":1}', reason="so"),
            event.decide("approve", approval=other),
            event.cancel(mode="after_step"),
            event.cancel(run="r3"),
            event.send("hi"),
        ):
            acting = asyncio.create_task(action)
            command = await server.command("rpc")
            sent.append((command.body["method"], command.body["data"]))
            await command.reply({"data": {}})
            await acting
    ids = [data.pop("id") for _, data in sent]
    assert len(set(ids)) == 5
    assert sent == [
        (
            "decide",
            {"topic": "t", "run": "r", "tool_call_id": "c", "decision": "edit", "arguments": '{"a":1}', "reason": "so"},
        ),
        ("decide", {"topic": "t", "decision": "approve", **other}),
        ("cancel", {"topic": "t", "mode": "after_step", "run": "r"}),
        ("cancel", {"topic": "t", "mode": "now", "run": "r3"}),
        ("send", {"topic": "t", "content": "hi"}),
    ]


async def test_same_action_of_the_same_event_has_the_same_id() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        ids = []
        for event in (
            made(client, ASKED),
            made(client, ASKED),
            made(client, ASKED, actor="another"),
            made(client, ASKED, offset=5),
        ):
            acting = asyncio.create_task(event.send("hi"))
            command = await server.command("rpc")
            ids.append(command.body["data"]["id"])
            await command.reply({"data": {}})
            await acting
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
