"""The client, against a server whose every answer the test gives."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from gateway import client as client_module
from gateway.client import Client
from gateway.errors import CommandError, DisconnectError, ErrorCode, UnreachableError
from gateway.mirror import Mirror
from gateway.subscription import Subscription
from gateway.types import Position
from tests.protocol_server import Command, ProtocolServer, delta, no_waiting, protocol_server, push

EPOCH = "aB3dE6gH"
TOKEN = "t" * 20


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", no_waiting)


def snapshot(offset: int = 0) -> dict[str, Any]:
    return {**Mirror("t", EPOCH, offset).snapshot()}


async def joined(server: ProtocolServer, *, offset: int = 4) -> Command:
    """Answer a subscribe command with a snapshot."""
    command = await server.command("subscribe")
    await command.reply({"epoch": EPOCH, "offset": offset, "data": {"snapshot": snapshot(offset)}})
    return command


async def take(subscription: Subscription) -> tuple[int, str]:
    """Give the next update's offset and the mirror's open text with it."""
    async with asyncio.timeout(20):
        update = await anext(subscription)
    opened = update.mirror.snapshot()["mirror"]["open"]
    assert update.mirror.position == update.position
    return update.position.offset, opened[0]["text"] if opened else ""


# entering and leaving


async def test_enter_introduces_itself_with_the_token() -> None:
    async with protocol_server() as server:
        async with Client(server.url, token=TOKEN):
            pass
        async with Client(server.url):
            pass
        assert server.connected == [{"token": TOKEN}, {}]


async def test_each_connection_shows_a_token_of_its_own() -> None:
    made = iter(("first", "second"))

    async def make() -> str:
        return next(made)

    async with protocol_server() as server, Client(server.url, token=make) as client:
        client.subscribe("t")
        await (await server.command("subscribe")).close(3005, "expired")
        await server.command("subscribe")
        assert server.connected == [{"token": "first"}, {"token": "second"}]


async def test_enter_where_nobody_listens_is_unreachable() -> None:
    async with protocol_server() as server:
        pass
    with pytest.raises(UnreachableError, match="nobody listens there") as caught:
        await Client(server.url).__aenter__()
    assert caught.value.temporary


async def test_enter_where_no_gateway_answers_is_unreachable() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UnreachableError, match="HTTP status 404") as caught:
            await Client(f"http://127.0.0.1:{port}").__aenter__()
        assert not caught.value.temporary


async def test_enter_with_a_refused_token_is_told() -> None:
    async with protocol_server() as server:
        server.refuse_connect = {"code": 101, "message": "unauthorized"}
        with pytest.raises(CommandError) as caught:
            await Client(server.url).__aenter__()
        assert caught.value.code == ErrorCode.UNAUTHORIZED


async def test_leaving_ends_iterations_and_waiting_commands() -> None:
    async with protocol_server() as server:
        async with Client(server.url) as client:
            subscription = client.subscribe("t")
            waiting = asyncio.create_task(client.rpc("x", {}))
            await joined(server)
            assert await take(subscription) == (4, "")
            await server.command("rpc")
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)
        with pytest.raises(DisconnectError):
            await waiting


def test_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a gateway's address"):
        Client("127.0.0.1:8000")


# commands


async def test_commands_are_multiplexed_over_one_connection() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        rpc = asyncio.create_task(client.rpc("first", {"a": 1}))
        first = await server.command("rpc")
        topics = asyncio.create_task(client.topics())
        second = await server.command("rpc")
        await second.reply({"data": {"topics": [{"topic": "t", "at": 1}]}})
        await first.reply({"data": {"b": 2}})
        assert await topics == [{"topic": "t", "at": 1}]
        assert await rpc == {"b": 2}
        assert first.body == {"method": "first", "data": {"a": 1}}
        assert len(server.connected) == 1


async def test_publish_sends_the_event() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        publishing = asyncio.create_task(client.publish("t", {"type": "note"}))
        command = await server.command("publish")
        assert command.body == {"channel": "t", "data": {"type": "note"}}
        await command.reply({})
        await publishing


async def test_publish_refused_is_told() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        publishing = asyncio.create_task(client.publish("t", {"type": "agent_start"}))
        await (await server.command("publish")).refuse(103)
        with pytest.raises(CommandError) as caught:
            await publishing
        assert caught.value.code == ErrorCode.PERMISSION_DENIED


async def test_publish_whose_answer_was_lost_is_not_repeated() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        publishing = asyncio.create_task(client.publish("t", {"type": "note"}))
        await (await server.command("publish")).close(3001)
        with pytest.raises(DisconnectError):
            await publishing
        topics = asyncio.create_task(client.topics())
        await (await server.command("rpc")).reply({"data": {"topics": []}})
        assert await topics == []


async def test_send_whose_answer_was_lost_is_repeated_under_its_id() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        sending = asyncio.create_task(client.send("t", "hello"))
        first = await server.command("rpc")
        await first.close(3001)
        second = await server.command("rpc")
        assert second.body == first.body
        assert second.body["data"]["content"] == "hello"
        assert second.body["data"]["id"]
        await second.refuse(100, temporary=True)
        await (await server.command("rpc")).reply({"data": {"message": "m", "offset": 1, "epoch": EPOCH}})
        assert (await sending)["message"] == "m"


async def test_top_asks_for_the_position_alone() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        asking = asyncio.create_task(client.top("t"))
        command = await server.command("history")
        assert command.body == {"channel": "t"}
        await command.reply({"publications": [], "epoch": EPOCH, "offset": 7})
        assert await asking == Position(epoch=EPOCH, offset=7)


# subscriptions


async def test_mirror_is_exact_at_each_update() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server, offset=4)
        await command.push(delta(5, "a"), delta(6, "b"), delta(8, "cd", first=7))
        assert [await take(subscription) for _ in range(4)] == [(4, ""), (5, "a"), (6, "ab"), (8, "abcd")]


async def test_pushes_in_the_frame_of_the_reply_count() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t", since="start")
        command = await server.command("subscribe")
        await command.reply({"recovered": True, "epoch": EPOCH, "offset": 0}, push("t", delta(1, "a")))
        assert await take(subscription) == (1, "a")


async def test_since_a_mirror_carries_it_on() -> None:
    mirror = Mirror("t", EPOCH, 4)
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t", since=mirror)
        command = await server.command("subscribe")
        assert command.body["offset"] == 4
        await command.reply({"recovered": True, "epoch": EPOCH, "offset": 5, "publications": [delta(5, "a")]})
        assert await take(subscription) == (5, "a")
        assert subscription.mirror is mirror


async def test_since_a_position_has_no_mirror_before_a_snapshot() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t", since=Position(epoch=EPOCH, offset=4))
        command = await server.command("subscribe")
        await command.reply({"recovered": True, "epoch": EPOCH, "offset": 5, "publications": [delta(5, "a")]})
        update = await anext(subscription)
        with pytest.raises(LookupError):
            _ = update.mirror
        await command.push({"data": {"type": "snapshot", **snapshot(9)}})
        assert await take(subscription) == (9, "")


async def test_types_are_asked_for_again_after_a_reconnect() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        client.subscribe("t", mirror=False, types=["log"])
        command = await server.command("subscribe")
        assert command.body == {"channel": "t", "data": {"lens": {"types": ["log"]}}}
        await command.reply({"epoch": EPOCH, "offset": 4})
        await command.close(3001)
        assert (await server.command("subscribe")).body["data"] == {"lens": {"types": ["log"]}}


@pytest.mark.parametrize("types", ["log", []])
async def test_types_that_are_no_list_of_some_are_refused(types: Any) -> None:
    async with protocol_server() as server, Client(server.url) as client:
        with pytest.raises(ValueError, match="expected types to be a list"):
            client.subscribe("t", types=types)


async def test_two_topics_share_the_connection() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        one, two = client.subscribe("one", mirror=False), client.subscribe("two", mirror=False)
        commands = {command.body["channel"]: command for command in [await server.command("subscribe") for _ in "12"]}
        for command in commands.values():
            await command.reply({"epoch": EPOCH, "offset": 0})
        await commands["two"].push(delta(1, "2"))
        await commands["one"].push(delta(1, "1"))
        assert (await anext(one)).data["text"] == "1"
        assert (await anext(two)).data["text"] == "2"
        with pytest.raises(CommandError, match="already"):
            client.subscribe("one")


async def test_epoch_renamed_is_carried_into_the_mirror() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        await (await joined(server, offset=4)).close(3001)
        assert await take(subscription) == (4, "")
        command = await server.command("subscribe")
        await command.reply({"recovered": True, "epoch": "ZZZZZZZZ", "offset": 5, "publications": [delta(5, "a")]})
        assert await take(subscription) == (5, "a")
        assert subscription.mirror is not None
        assert subscription.mirror.epoch == "ZZZZZZZZ"


async def test_hole_leaves_and_asks_again() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server, offset=4)
        await command.push(delta(6, "b"))
        await (await server.command("unsubscribe")).reply({})
        again = await server.command("subscribe")
        assert (again.body["recover"], again.body["epoch"], again.body["offset"]) == (True, EPOCH, 4)
        reply = {"recovered": True, "epoch": EPOCH, "offset": 6, "publications": [delta(5, "a"), delta(6, "b")]}
        await again.reply(reply)
        assert [await take(subscription) for _ in range(3)] == [(4, ""), (5, "a"), (6, "ab")]


async def test_unsubscribe_push_of_the_server_asks_again() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        client.subscribe("t")
        command = await joined(server, offset=4)
        await command.send({"push": {"channel": "t", "unsubscribe": {"code": 2500, "reason": "insufficient state"}}})
        await server.command("unsubscribe")
        assert (await server.command("subscribe")).body["offset"] == 4


async def test_unsubscribe_push_for_good_ends_the_iteration_with_its_reason() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server, offset=4)
        await command.send({"push": {"channel": "t", "unsubscribe": {"code": 2000, "reason": "gone"}}})
        assert await take(subscription) == (4, "")
        with pytest.raises(CommandError, match="2000: unsubscribed by the gateway: gone"):
            await anext(subscription)


async def test_temporary_refusal_is_tried_again() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        for _ in range(6):
            command = await server.command("subscribe")
            await command.refuse(100, temporary=True)
            await server.command("unsubscribe")
        await joined(server, offset=4)
        assert await take(subscription) == (4, "")


async def test_refusal_for_good_is_raised() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        await (await server.command("subscribe")).refuse(103)
        with pytest.raises(CommandError) as caught:
            await anext(subscription)
        assert caught.value.code == ErrorCode.PERMISSION_DENIED
        client.subscribe("t")
        await server.command("unsubscribe")
        await joined(server)


async def test_unrecoverable_refusal_takes_a_snapshot() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t", since=Mirror("t", "ZZZZZZZZ", 4))
        await (await server.command("subscribe")).refuse(112)
        await server.command("unsubscribe")
        command = await server.command("subscribe")
        assert "recover" not in command.body
        await command.reply({"epoch": EPOCH, "offset": 9, "data": {"snapshot": snapshot(9)}})
        assert await take(subscription) == (9, "")


async def test_snapshot_that_is_none_is_raised() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        await (await server.command("subscribe")).reply({"epoch": EPOCH, "offset": 4})
        with pytest.raises(ValueError, match="expected a snapshot"):
            await anext(subscription)


async def test_closing_a_subscription_leaves_the_topic() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        async with client.subscribe("t") as subscription:
            await joined(server)
            assert await take(subscription) == (4, "")
        assert (await server.command("unsubscribe")).body == {"channel": "t"}
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)
        client.subscribe("t")
        await joined(server)


async def test_slow_taker_leaves_the_topic_and_joins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.subscription.MAX_QUEUED", 2000)
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t", since="start")
        command = await server.command("subscribe")
        await command.reply({"recovered": True, "epoch": EPOCH, "offset": 0})
        await command.push(*(delta(offset) for offset in range(1, 100)))
        await server.command("unsubscribe")
        taken = (await take(subscription))[0]
        while True:
            taking = asyncio.create_task(take(subscription))
            await asyncio.wait({taking}, timeout=0.2)
            if not taking.done():
                break
            taken = taking.result()[0]
        assert 1 < taken < 99
        again = await server.command("subscribe")
        assert again.body["offset"] == taken
        missed = delta(99, "y" * (99 - taken), first=taken + 1)
        await again.reply({"recovered": True, "epoch": EPOCH, "offset": 99, "publications": [missed]})
        assert await taking == (99, "x" * taken + "y" * (99 - taken))


# the connection


@pytest.mark.parametrize("code", [3001, 3012, 4001, 1011, 1001])
async def test_lost_connection_resumes_every_subscription_where_it_was(code: int) -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription, follower = client.subscribe("t"), client.subscribe("u", mirror=False)
        command = await joined(server, offset=4)
        await (await server.command("subscribe")).reply({"epoch": EPOCH, "offset": 2})
        await command.push(delta(5, "a"))
        await command.send({"push": {"channel": "u", "pub": delta(3)}})
        assert (await anext(follower)).position.offset == 3
        await command.close(code)
        again = [await server.command("subscribe") for _ in range(2)]
        assert [(one.body["channel"], one.body["offset"], "data" in one.body) for one in again] == [
            ("t", 5, True),
            ("u", 3, False),
        ]
        await again[0].reply({"recovered": True, "epoch": EPOCH, "offset": 6, "publications": [delta(6, "b")]})
        assert [await take(subscription) for _ in range(3)] == [(4, ""), (5, "a"), (6, "ab")]


async def test_every_reconnect_goes_on_from_the_last_event() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server, offset=0)
        assert (await take(subscription))[0] == 0
        for offset in range(1, 6):
            await command.close(3001)
            command = await server.command("subscribe")
            assert command.body["offset"] == offset - 1
            publications = [delta(offset, str(offset))]
            await command.reply({"recovered": True, "epoch": EPOCH, "offset": offset, "publications": publications})
            assert (await take(subscription))[0] == offset
        assert subscription.mirror is not None
        assert subscription.mirror.snapshot()["mirror"]["open"][0]["text"] == "12345"


@pytest.mark.parametrize("code", [3500, 3507, 4500, 1009])
async def test_close_that_forbids_to_return_is_raised(code: int) -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        await (await joined(server)).close(code, "no")
        assert await take(subscription) == (4, "")
        with pytest.raises(DisconnectError) as caught:
            await anext(subscription)
        assert (caught.value.code, caught.value.reason) == (code, "no")
        with pytest.raises(DisconnectError):
            await client.topics()
        with pytest.raises(DisconnectError):
            await anext(client.subscribe("u"))


async def test_disconnect_push_counts_as_a_close() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        await (await joined(server)).send({"push": {"disconnect": {"code": 3500, "reason": "no"}}})
        assert await take(subscription) == (4, "")
        with pytest.raises(DisconnectError, match="3500: no"):
            await anext(subscription)


async def test_token_refused_on_return_is_raised() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server)
        server.refuse_connect = {"code": 109, "message": "token expired"}
        await command.close(3005)
        assert await take(subscription) == (4, "")
        with pytest.raises(CommandError) as caught:
            await anext(subscription)
        assert caught.value.code == ErrorCode.TOKEN_EXPIRED


async def test_temporary_refusal_on_return_is_tried_again() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        client.subscribe("t")
        command = await joined(server)
        server.refuse_connect = {"code": 100, "message": "internal", "temporary": True}
        await command.close(3001)
        await server.command("subscribe")
        assert len(server.connected) == 3


async def test_gateway_started_again_is_found_again() -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with protocol_server() as server:
            client = await stack.enter_async_context(Client(server.url))
            client.subscribe("t")
            await joined(server, offset=4)
        async with protocol_server(server.port) as server:
            assert (await server.command("subscribe")).body["offset"] == 4


async def test_pings_are_answered() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        client.subscribe("t")
        command = await joined(server)
        await command.send("{}")
        await command.send("{}\n{}")
        async with asyncio.timeout(20):
            for _ in range(3):
                await server.pongs.acquire()


async def test_silent_gateway_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.client_socket.PING_PATIENCE", 0.1)
    async with protocol_server() as server:
        server.ping = {"ping": 0.1, "pong": True}
        async with Client(server.url) as client:
            client.subscribe("t")
            await joined(server, offset=4)
            assert (await server.command("subscribe")).body["offset"] == 4
            assert len(server.connected) == 2


@pytest.mark.parametrize(
    "frame", ["nonsense", "[]", "1", '{"id": 99, "rpc": {}}', '{"push": 1}', '{"id": 1, "error": 5}']
)
async def test_frame_that_is_none_is_survived(frame: str) -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server, offset=4)
        await command.send(frame)
        again = await server.command("subscribe")
        await again.reply({"recovered": True, "epoch": EPOCH, "offset": 5, "publications": [delta(5, "a")]})
        assert [await take(subscription) for _ in range(2)] == [(4, ""), (5, "a")]


@pytest.mark.parametrize("line", [{"push": {}}, {"push": {"channel": "?", "pub": delta(1)}}, {"push": {"refresh": {}}}])
async def test_push_of_no_concern_is_ignored(line: dict[str, Any]) -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server, offset=4)
        await command.send(line)
        await command.push(delta(5, "a"))
        assert [await take(subscription) for _ in range(2)] == [(4, ""), (5, "a")]


async def test_sure_follows_the_brokers_state() -> None:
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t")
        command = await joined(server, offset=4)
        assert client.sure
        await command.send({"push": {"message": {"data": {"type": "broker", "sure": False}}}})
        await command.push(delta(5, "a"))
        assert [await take(subscription) for _ in range(2)] == [(4, ""), (5, "a")]
        assert not client.sure
        await command.send({"push": {"message": {"data": {"type": "broker", "sure": True}}}})
        await command.push(delta(6, "b"))
        assert await take(subscription) == (6, "ab")
        assert client.sure


def test_backoff_is_full_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = []
    monkeypatch.setattr("random.uniform", lambda low, high: ranges.append((low, high)))
    for failures in (0, 1, 2, 100):
        client_module.backoff(failures)
    assert ranges == [(0, 0.5), (0, 1.0), (0, 2.0), (0, 20.0)]


# subscribe


async def test_sure_is_heard_together_with_the_connect_reply() -> None:
    async with protocol_server() as server:
        server.beside_connect = {"push": {"message": {"data": {"type": "broker", "sure": False}}}}
        async with Client(server.url) as client:
            subscription = client.subscribe("t")
            await joined(server)
            await take(subscription)
            assert not client.sure


async def test_command_without_an_answer_is_given_up() -> None:
    async with protocol_server() as server, Client(server.url, patience=0.2) as client:
        with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
            await client.topics()


async def test_command_that_is_only_refused_is_given_up_with_the_refusal() -> None:
    async with protocol_server() as server, Client(server.url, patience=1) as client:
        asking = asyncio.create_task(client.topics())
        await (await server.command("rpc")).refuse(100, temporary=True)
        with pytest.raises(CommandError, match="100: no"):
            await asking


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Give what the client logged, without what the websocket library has to say where an earlier test let it."""
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [record.getMessage() for record in warnings if record.name.startswith("gateway.")]


async def test_loss_and_return_of_the_gateway_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with protocol_server() as server:
        port = server.port
        client = Client(f"http://me:secret@127.0.0.1:{port}/?token=secret")
        await client.__aenter__()
        subscription = client.subscribe("t")
        await joined(server)
        await take(subscription)
    async with protocol_server(port) as server:
        await joined(server, offset=5)
        await take(subscription)
        await client.__aexit__()
    url = f"ws://127.0.0.1:{port}/connection/websocket"
    gone, back = told(caplog)
    assert gone.startswith(f"the connection to {url} has ended (")
    assert back == f"{url} is back"
