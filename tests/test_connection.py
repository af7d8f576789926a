"""One websocket at a real gateway, spoken by hand, over our transport and over uvicorn's own."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from gateway.broker.redis import RedisBroker
from gateway.types import Topic
from tests.serving import Gateway, Plain, append, serve

TRANSPORTS = ["gateway.transport:GatewayProtocol", "websockets-sansio"]


@pytest_asyncio.fixture(params=TRANSPORTS, ids=["direct", "asgi"])
async def served(request: pytest.FixtureRequest, redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix, ws=request.param, max_topics=3) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


# connect


async def test_connect_answers_with_who_and_what(served: Gateway) -> None:
    async with served.plain(hello=False) as plain:
        reply = await plain.ask("connect", {"token": "anything", "name": "js", "data": {"a": 1}})
    assert reply["ping"] == 25
    assert reply["pong"] is True
    assert "publish" in reply["data"]["grants"]
    assert len(reply["client"]) == 16


async def test_connect_twice_closes(served: Gateway) -> None:
    async with served.plain() as plain:
        await plain.command("connect", {})
        assert (await plain.closed())[0] == 3501


@pytest.mark.parametrize("method", ["subscribe", "publish", "ping", "rpc", "unsubscribe", "history"])
async def test_command_before_connect_closes(served: Gateway, method: str) -> None:
    async with served.plain(hello=False) as plain:
        await plain.command(method, {"channel": "t", "method": "topics"})
        assert (await plain.closed())[0] == 3501


async def test_close_with_a_long_reason_is_still_a_close(served: Gateway) -> None:
    async with served.plain(hello=False) as plain:
        await plain.socket.send(json.dumps({"id": 1, "😀" * 60: {}}))
        code, reason = await plain.closed()
        assert code == 3501
        assert 0 < len(reason.encode()) <= 123


async def test_connect_missing_closes(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, connect_timeout=0.2) as gateway, gateway.plain(hello=False) as plain:
        assert await plain.closed() == (3502, "no connect in time")


# Bad input


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", 3501),
        ("hello", 3501),
        ("[]", 3501),
        ("5", 3501),
        ('{"id":2,"subscribe":{"channel":"t"}}\n[1]', 3501),
        (b'{"id":2,"ping":{}}', 3501),
        ('{"subscribe":{"channel":"t"}}', 3501),
        ('{"id":-1,"ping":{}}', 3501),
        ('{"id":"7","ping":{}}', 3501),
        ("[" * 30000, 3501),
        ('{"id":2,"rpc":{"method":"x","data":"' + "y" * 140000 + '"}}', 1009),
    ],
)
async def test_frame_that_breaks_the_rules_closes_only_its_connection(
    served: Gateway, frame: str | bytes, code: int
) -> None:
    async with served.plain() as other, served.plain() as plain:
        await other.ask("subscribe", {"channel": "bad-input"})
        await plain.socket.send(frame)
        assert (await plain.closed())[0] == code
        assert await other.ask("ping", {}) == {}
        assert await other.ask("publish", {"channel": "bad-input", "data": {"a": 1}}) == {}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"subscribe": {"channel": "no blanks"}}, 102),
        ({"subscribe": {"channel": ""}}, 102),
        ({"subscribe": {"channel": "x" * 201}}, 102),
        ({"publish": {"channel": "ü", "data": {}}}, 102),
        ({"history": {"channel": "a\nb"}}, 102),
        ({"presence": {"channel": "*"}}, 102),
        ({"subscribe": {"channel": 5}}, 107),
        ({"subscribe": {}}, 107),
        ({"subscribe": "t"}, 107),
        ({"subscribe": {"channel": "t", "recover": True, "offset": -1}}, 107),
        ({"subscribe": {"channel": "t", "recover": True, "offset": "4"}}, 107),
        ({"subscribe": {"channel": "t", "recover": "yes"}}, 107),
        ({"ping": {}, "presence": {"channel": "t"}}, 107),
        ({"publish": {"channel": "t"}}, 107),
        ({"publish": {"channel": "t", "data": "text"}}, 107),
        ({"publish": {"channel": "t", "data": [1]}}, 107),
        ({"publish": {"channel": "t", "data": {"type": "bad type"}}}, 107),
        ({"publish": {"channel": "t", "data": {"type": 5}}}, 107),
        ({"publish": {"channel": "t", "data": {"__proto__": 1}}}, 107),
        ({"publish": {"channel": "t", "data": {"n": 2**60}}}, 107),
        ({"publish": {"channel": "t", "data": {"type": "agent_delta", "message": "m", "text": "x"}}}, 103),
        ({"publish": {"channel": "t", "data": {"type": "snapshot"}}}, 103),
        ({"publish": {"channel": "t", "data": {"type": "broker"}}}, 103),
        ({"dance": {}}, 104),
        ({"dance": 1}, 104),
        ({}, 104),
        ({"rpc": {"method": "dance", "data": {}}}, 104),
        ({"rpc": {"method": "send", "data": {"topic": "t", "content": "x"}}}, 107),
        ({"rpc": {"method": "send", "data": {"topic": "t", "content": "", "id": "a"}}}, 107),
        ({"rpc": {"method": "send", "data": {"topic": "t", "content": 5, "id": "a"}}}, 107),
        ({"rpc": {"method": "send", "data": {"topic": "t", "content": "x", "id": "no blanks"}}}, 107),
        ({"rpc": {"method": "send", "data": {"topic": "no blanks", "content": "x", "id": "a"}}}, 102),
        ({"rpc": {"method": "send", "data": [1]}}, 107),
        ({"refresh": {"token": "x"}}, 108),
        ({"sub_refresh": {"channel": "t", "token": "x"}}, 108),
        ({"history": {"channel": "t", "since": {"epoch": "aaaaaaaa", "offset": 1}}}, 112),
    ],
)
async def test_bad_command_gets_its_error_and_the_connection_lives(
    served: Gateway, command: dict[str, Any], code: int
) -> None:
    async with served.plain() as plain:
        await plain.socket.send(json.dumps({"id": 77, **command}))
        reply = await plain.reply(77)
        assert reply["error"]["code"] == code, reply
        assert reply["error"]["message"]
        assert "temporary" not in reply["error"]
        assert await plain.ask("ping", {}) == {}


async def test_event_with_a_key_twice_is_refused(served: Gateway) -> None:
    async with served.plain() as plain:
        await plain.socket.send('{"id":9,"publish":{"channel":"t","data":{"a":1,"a":2}}}')
        assert (await plain.reply(9))["error"]["code"] == 107


async def test_half_a_character_becomes_the_replacement(served: Gateway) -> None:
    async with served.plain() as plain:
        await plain.ask("publish", {"channel": "half", "data": {"a": 0}})
        await plain.ask("subscribe", {"channel": "half"})
        await plain.socket.send(
            '{"id":9,"publish":{"channel":"half","data":{"a":"x\\ud83d","b":"\\ud83d\\ude00\\\\ud83d"}}}'
        )
        assert "error" not in await plain.reply(9)
        assert (await plain.pub())["data"] == {"a": "x\ufffd", "b": "\U0001f600\\ud83d"}


async def test_newline_inside_data_never_reaches_a_frame(served: Gateway) -> None:
    async with served.plain() as plain:
        await plain.ask("publish", {"channel": "line", "data": {"a": 0}})
        await plain.ask("subscribe", {"channel": "line"})
        assert await plain.ask("publish", {"channel": "line", "data": {"a": "x\ny\r\u2028"}}) == {}
        assert (await plain.pub())["data"] == {"a": "x\ny\r\u2028"}


async def test_many_commands_in_one_frame_are_answered_in_order(served: Gateway) -> None:
    async with served.plain() as plain:
        lines = [{"id": n, "publish": {"channel": "many", "data": {"n": n}}} for n in range(10, 210)]
        await plain.socket.send("\n".join(json.dumps(line) for line in lines) + "\n")
        for line in lines:
            assert "error" not in await plain.reply(line["id"])  # type: ignore[arg-type]
        history = await plain.ask("history", {"channel": "many", "limit": 1000})
    assert [pub["data"]["n"] for pub in history["publications"]] == list(range(10, 210))


async def test_send_has_no_reply(served: Gateway) -> None:
    async with served.plain() as plain:
        await plain.socket.send('{"send":{"data":{"a":1}}}\n{"id":50,"ping":{}}')
        assert await plain.line() == {"id": 50, "ping": {}}


# subscribe, unsubscribe


async def test_subscribe_creates_nothing(served: Gateway, broker: RedisBroker) -> None:
    async with served.plain() as plain:
        reply = await plain.ask("subscribe", {"channel": "nobody"})
    assert (reply["epoch"], reply["offset"]) == ("", 0)
    assert await broker.topics() == []


async def test_subscribe_twice_is_refused_and_unsubscribe_frees(served: Gateway) -> None:
    async with served.plain() as plain:
        assert "error" not in await plain.ask("subscribe", {"channel": "a"})
        assert (await plain.ask("subscribe", {"channel": "a"}))["code"] == 105
        assert await plain.ask("unsubscribe", {"channel": "a"}) == {}
        assert (await plain.ask("subscribe", {"channel": "a"}))["recoverable"] is True
        assert await plain.ask("unsubscribe", {"channel": "never"}) == {}


async def test_subscribe_to_too_many_is_refused(served: Gateway) -> None:
    async with served.plain() as plain:
        for name in "abc":
            await plain.ask("subscribe", {"channel": name})
        assert (await plain.ask("subscribe", {"channel": "d"}))["code"] == 106
        await plain.ask("unsubscribe", {"channel": "a"})
        assert "code" not in await plain.ask("subscribe", {"channel": "d"})


async def test_unsubscribed_hears_nothing_more(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "u", {"n": 1})
    async with served.plain() as plain:
        await plain.ask("subscribe", {"channel": "u"})
        await plain.ask("subscribe", {"channel": "v"})
        await plain.ask("unsubscribe", {"channel": "u"})
        await append(broker, "u", {"n": 2})
        await append(broker, "v", {"n": 3})
        push = await plain.push()
        assert push["channel"] == "v"


async def test_subscribe_and_unsubscribe_in_one_frame_keep_their_order(served: Gateway) -> None:
    async with served.plain() as plain:
        await plain.socket.send(
            '{"id":5,"subscribe":{"channel":"o"}}\n{"id":6,"unsubscribe":{"channel":"o"}}\n{"id":7,"subscribe":{"channel":"o"}}'
        )
        for number in (5, 6, 7):
            assert "error" not in await plain.reply(number)


async def test_recover_gives_what_was_missed_then_goes_live(served: Gateway, broker: RedisBroker) -> None:
    position = await append(broker, "r", {"n": 1}, {"n": 2})
    async with served.plain() as plain:
        reply = await plain.ask(
            "subscribe", {"channel": "r", "recover": True, "epoch": position.epoch, "offset": 1, "recoverable": True}
        )
        assert (reply["was_recovering"], reply["recovered"], reply["offset"]) == (True, True, 2)
        assert [pub["offset"] for pub in reply["publications"]] == [2]
        await append(broker, "r", {"n": 3})
        assert await plain.pub() == {"data": {"n": 3}, "offset": 3}


@pytest.mark.parametrize(("epoch", "offset"), [("aaaaaaaa", 1), (None, 7), ("same", 99)])
async def test_recover_from_elsewhere_is_told_so(
    served: Gateway, broker: RedisBroker, epoch: str | None, offset: int
) -> None:
    position = await append(broker, "r", {"n": 1}, {"n": 2})
    asked = {"recover": True, "offset": offset, "epoch": position.epoch if epoch == "same" else epoch}
    async with served.plain() as plain:
        reply = await plain.ask("subscribe", {"channel": "r", **asked})
        assert (reply["was_recovering"], reply["recovered"]) == (True, False)
        assert (reply["epoch"], reply["offset"]) == (position.epoch, 2)
        assert "publications" not in reply
        await plain.ask("unsubscribe", {"channel": "r"})
        assert (await plain.ask("subscribe", {"channel": "r", "flag": 3, **asked}))["code"] == 112
        mirror = await plain.ask("subscribe", {"channel": "r", "data": {"mirror": True}, **asked})
        assert mirror["recovered"] is False
        assert mirror["data"]["snapshot"]["offset"] == mirror["offset"] == 2


async def test_subscribe_data_of_any_kind_is_taken(served: Gateway) -> None:
    async with served.plain() as plain:
        for data in ["text", 5, None, [1], {"mirror": "yes"}]:
            reply = await plain.ask("subscribe", {"channel": "d", "data": data})
            assert "snapshot" not in reply["data"]
            await plain.ask("unsubscribe", {"channel": "d"})


async def test_long_recovery_comes_in_bounded_frames(served: Gateway, broker: RedisBroker) -> None:
    for _ in range(12):
        await append(broker, "long", *[{"text": "ü" * 10_000} for _ in range(4)])
    async with served.plain() as plain:
        reply = await plain.ask("subscribe", {"channel": "long", "recover": True})
        offsets = [pub["offset"] for pub in reply["publications"]]
        assert 0 < len(offsets) < 48
        assert reply["offset"] == offsets[-1]
        while offsets[-1] < 48:
            offsets.append((await plain.pub())["offset"])
        assert offsets == list(range(1, 49))
        assert max(plain.frames) <= 128 * 1024


async def test_largest_event_fits_a_frame(served: Gateway, broker: RedisBroker) -> None:
    text = "x" * (120 * 1024 - 20)
    position = await append(broker, "large", {"text": text})
    async with served.plain() as plain:
        reply = await plain.ask("subscribe", {"channel": "large", "recover": True})
        assert reply["publications"][0]["data"]["text"] == text
        await append(broker, "large", {"text": text})
        assert (await plain.pub())["offset"] == position.offset + 1
        assert max(plain.frames) <= 128 * 1024


async def test_deep_snapshot_comes_in_parts(served: Gateway, broker: RedisBroker) -> None:
    start = {"type": "agent_start", "run": "r1", "agent": 'quote"s \\ and ümläute 😀', "at": 1}
    await append(broker, "parts", start)
    for number in range(20):
        delta = {"type": "agent_delta", "run": "r1", "message": f"m{number}", "text": '"\\😀ü' * 4000, "at": 1}
        await append(broker, "parts", delta, kind="d")
    async with served.plain() as plain:
        reply = await plain.ask("subscribe", {"channel": "parts", "data": {"mirror": True}})
        parts = reply["data"]["snapshot"]["parts"]
        assert parts > 1
        await append(broker, "parts", {"n": 1})
        texts = []
        for part in range(1, parts + 1):
            pub = await plain.pub()
            assert "offset" not in pub
            assert (pub["data"]["part"], pub["data"]["parts"]) == (part, parts)
            assert (pub["data"]["epoch"], pub["data"]["offset"]) == (reply["epoch"], reply["offset"])
            texts.append(pub["data"]["text"])
        snapshot = json.loads("".join(texts))
        assert snapshot["offset"] == reply["offset"] == 21
        assert snapshot["mirror"]["open"][19]["text"] == '"\\😀ü' * 4000
        assert (await plain.pub())["offset"] == 22
        assert max(plain.frames) <= 128 * 1024


# history, presence, rpc


async def test_history_pages(served: Gateway, broker: RedisBroker) -> None:
    position = await append(broker, "h", *[{"n": n} for n in range(1, 8)])
    async with served.plain() as plain:
        only = await plain.ask("history", {"channel": "h"})
        assert only == {"publications": [], "epoch": position.epoch, "offset": 7}
        since = {"epoch": position.epoch, "offset": 2}
        page = await plain.ask("history", {"channel": "h", "limit": 3, "since": since})
        assert [pub["offset"] for pub in page["publications"]] == [3, 4, 5]
        back = await plain.ask("history", {"channel": "h", "limit": 3, "reverse": True})
        assert [pub["offset"] for pub in back["publications"]] == [7, 6, 5]
        since["offset"] = 5
        back = await plain.ask("history", {"channel": "h", "limit": 3, "reverse": True, "since": since})
        assert [pub["offset"] for pub in back["publications"]] == [4, 3, 2]
        everything = await plain.ask("history", {"channel": "h", "limit": -1})
        assert [pub["offset"] for pub in everything["publications"]] == list(range(1, 8))


async def test_history_reply_is_bounded(served: Gateway, broker: RedisBroker) -> None:
    for _ in range(5):
        await append(broker, "h", {"text": "x" * 50_000})
    async with served.plain() as plain:
        page = await plain.ask("history", {"channel": "h", "limit": 5})
        assert [pub["offset"] for pub in page["publications"]] == [1, 2]
        assert page["offset"] == 5
        assert max(plain.frames) <= 128 * 1024


async def test_history_over_compacted_deltas(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "c", {"n": 1})
    for _ in range(3):
        await append(broker, "c", {"type": "agent_delta", "run": "r", "message": "m", "text": "x"}, kind="d")
    await append(broker, "c", {"type": "message_discarded", "run": "r", "message": "m"}, kind="e")
    async with served.plain() as plain:
        page = await plain.ask("history", {"channel": "c", "limit": 10})
        assert [(pub["offset"], pub.get("tags")) for pub in page["publications"]] == [(1, None), (5, {"from": "2"})]


async def test_presence_lists_who_reads(served: Gateway) -> None:
    async with served.plain() as one, served.plain() as two:
        await one.ask("subscribe", {"channel": "p"})
        await two.ask("subscribe", {"channel": "p"})
        presence = (await one.ask("presence", {"channel": "p"}))["presence"]
        assert len(presence) == 2
        assert all(info == {"client": client, "user": ""} for client, info in presence.items())
        assert await one.ask("presence_stats", {"channel": "p"}) == {"num_clients": 2, "num_users": 1}
        assert await one.ask("presence_stats", {"channel": "q"}) == {"num_clients": 0, "num_users": 0}


async def test_rpc_send_is_stored_once(served: Gateway, broker: RedisBroker) -> None:
    data = {"topic": "s", "content": "hello", "id": "a.1"}
    async with served.plain() as plain:
        first, again = await asyncio.gather(
            asyncio.create_task(plain.command("rpc", {"method": "send", "data": data})),
            asyncio.create_task(plain.command("rpc", {"method": "send", "data": data})),
        )
        replies = [(await plain.reply(number))["rpc"]["data"] for number in (first, again)]
        assert replies[0] == replies[1]
        other = await plain.ask("rpc", {"method": "send", "data": {**data, "content": "other"}})
        assert other["code"] == 409
        parts = {"topic": "s", "content": [{"type": "text", "text": "x"}], "id": "a.2"}
        second = (await plain.ask("rpc", {"method": "send", "data": parts}))["data"]
        assert second["offset"] == replies[0]["offset"] + 1
        snapshot = (await plain.ask("subscribe", {"channel": "s", "data": {"mirror": True}}))["data"]["snapshot"]
    queue = snapshot["mirror"]["queue"]
    assert [entry["content"] for entry in queue] == ["hello", [{"type": "text", "text": "x"}]]
    assert queue[0]["id"] == replies[0]["message"]
    assert Topic("s") in await broker.due(until=broker.now() + 1000)


async def test_rpc_topics_lists_newest_first(served: Gateway, broker: RedisBroker) -> None:
    await append(broker, "t1", {"n": 1})
    async with served.plain() as plain:
        topics = (await plain.ask("rpc", {"method": "topics"}))["data"]["topics"]
        assert [entry["topic"] for entry in topics] == ["t1"]
        assert topics[0]["at"] > 1_600_000_000_000


# Pings and slow readers


async def test_ping_comes_and_silence_closes(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, ping_interval=0.4, pong_timeout=0.2) as gateway:
        async with gateway.plain() as plain:
            assert await plain.socket.recv() == "{}"
            assert (await plain.closed(silently=True))[0] == 3012
        async with gateway.plain() as plain:
            for _ in range(4):
                assert await plain.socket.recv() == "{}"
                await plain.socket.send("{}")
            assert await plain.ask("ping", {}) == {}


async def test_client_that_vanishes_is_forgotten(served: Gateway) -> None:
    async with connect(served.url, compression=None) as socket_:
        plain = Plain(socket_)
        await plain.ask("connect", {})
        await plain.ask("subscribe", {"channel": "gone"})
        assert len(served.hub.clients(Topic("gone"))) == 1
        socket_.transport.abort()
        async with asyncio.timeout(20):
            while served.hub.clients(Topic("gone")):
                await asyncio.sleep(0.01)
    assert not served.hub.readers
