"""The HTTP API, by the real client of Centrifugo's and by hand."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from cent import (
    AsyncClient,
    BatchRequest,
    BroadcastRequest,
    CentApiResponseError,
    ChannelsRequest,
    Client,
    Disconnect,
    DisconnectRequest,
    HistoryRemoveRequest,
    HistoryRequest,
    InfoRequest,
    PresenceRequest,
    PresenceStatsRequest,
    PublishRequest,
    RefreshRequest,
    StreamPosition,
    SubscribeRequest,
    UnsubscribeRequest,
)
from cent.exceptions import CentUnauthorizedError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

import gateway as package
from gateway.broker.redis import RedisBroker
from gateway.event_types import RESERVED_TYPES
from gateway.types import START, Topic
from tests.serving import Gateway, eventually, serve

KEY = "a-key-of-sixteen-characters"
NOTE = {"type": "note", "text": "hi", "n": 9007199254740991, "x": 1.5}


@pytest_asyncio.fixture
async def served(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def cent(served: Gateway) -> AsyncIterator[AsyncClient]:
    async with backend(served) as client:
        yield client


@pytest_asyncio.fixture
async def http(served: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{served.http}/api", trust_env=False) as client:
        yield client


@contextlib.asynccontextmanager
async def backend(served: Gateway, key: str = "") -> AsyncIterator[AsyncClient]:
    client = AsyncClient(f"{served.http}/api", key)
    try:
        yield client
    finally:
        await client.close()


async def post(http: httpx.AsyncClient, method: str, body: Any) -> dict[str, Any]:
    reply = await http.post(f"/{method}", json=body)
    assert reply.status_code == 200
    answer: dict[str, Any] = reply.json()
    return answer


async def code(answer: Any) -> int:
    with pytest.raises(CentApiResponseError) as refused:
        await answer
    found: int = refused.value.code
    return found


# publish


async def test_publish_reaches_readers_and_the_history(served: Gateway, cent: AsyncClient) -> None:
    await cent.publish(PublishRequest(channel="t", data={}))
    async with served.plain() as reader:
        await reader.ask("subscribe", {"channel": "t"})
        published = await cent.publish(PublishRequest(channel="t", data=NOTE))
        assert published.offset == 2
        push = await reader.push()
        assert push["pub"] == {"data": NOTE, "offset": 2}
    history = await cent.history(HistoryRequest(channel="t", limit=10))
    assert (history.epoch, history.offset) == (published.epoch, 2)
    assert [publication.data for publication in history.publications] == [{}, NOTE]


def test_the_synchronous_client_works_unchanged(redis_url: str, key_prefix: str) -> None:
    async def run() -> None:
        async with serve(redis_url, key_prefix, api_keys=KEY) as gateway:
            client = Client(f"{gateway.http}/api", KEY)
            published = await asyncio.to_thread(client.publish, PublishRequest(channel="t", data=NOTE))
            assert published.offset == 1
            found = await asyncio.to_thread(client.history, HistoryRequest(channel="t", limit=1))
            assert found.publications[0].data == NOTE
            await asyncio.to_thread(client._session._session.close)

    asyncio.run(run())


async def test_publish_with_an_idempotency_key_is_stored_once(cent: AsyncClient) -> None:
    request = PublishRequest(channel="t", data=NOTE, idempotency_key="a key/of %")
    answers = await asyncio.gather(*(cent.publish(request) for _ in range(20)))
    assert {answer.offset for answer in answers} == {1}
    assert (await cent.history(HistoryRequest(channel="t"))).offset == 1
    other = PublishRequest(channel="t", data={"other": 1}, idempotency_key="a key/of %")
    assert await code(cent.publish(other)) == 409
    assert (await cent.publish(PublishRequest(channel="u", data=NOTE, idempotency_key="a key/of %"))).offset == 1


async def test_many_publications_at_once_are_all_stored_once(cent: AsyncClient) -> None:
    offsets = await asyncio.gather(*(cent.publish(PublishRequest(channel="t", data={"n": n})) for n in range(100)))
    assert sorted(answer.offset for answer in offsets) == list(range(1, 101))
    found = await cent.history(HistoryRequest(channel="t", limit=-1))
    assert sorted(publication.data["n"] for publication in found.publications) == list(range(100))


@pytest.mark.parametrize("kind", sorted(RESERVED_TYPES))
async def test_publish_refuses_the_types_of_runs(cent: AsyncClient, kind: str) -> None:
    assert await code(cent.publish(PublishRequest(channel="t", data={"type": kind}))) == 103


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"channel": "t", "data": [1]}, 107),
        ({"channel": "t", "data": None}, 107),
        ({"channel": "t"}, 107),
        ({"data": {}}, 107),
        ({"channel": 1, "data": {}}, 107),
        ({"channel": "no topic", "data": {}}, 102),
        ({"channel": "t", "data": {"type": "a b"}}, 107),
        ({"channel": "t", "data": {"n": 2**53}}, 107),
        ({"channel": "t", "data": {"__proto__": 1}}, 107),
        ({"channel": "t", "data": {"text": "x" * 130_000}}, 107),
        ({"channel": "t", "b64data": "§"}, 107),
        ({"channel": "t", "b64data": base64.b64encode(b"\x00\xff").decode()}, 107),
        ({"channel": "t", "data": {}, "skip_history": True}, 108),
        ({"channel": "t", "data": {}, "tags": {"a": "b"}}, 108),
        ({"channel": "t", "data": {}, "version": 3}, 108),
        ({"channel": "t", "data": {}, "idempotency_key": "k" * 300}, 107),
    ],
)
async def test_publish_refuses_what_is_no_event(http: httpx.AsyncClient, body: Any, expected: int) -> None:
    answer = await post(http, "publish", body)
    assert answer["error"]["code"] == expected
    assert answer["error"]["message"]
    assert (await post(http, "history", {"channel": "t"}))["result"] == {"publications": [], "offset": 0, "epoch": ""}


async def test_publish_takes_json_in_base64(cent: AsyncClient) -> None:
    await cent.publish(PublishRequest(channel="t", data=None, b64data=base64.b64encode(b'{"a": 1}').decode()))
    assert (await cent.history(HistoryRequest(channel="t", limit=1))).publications[0].data == {"a": 1}


async def test_broadcast_answers_for_each_topic(cent: AsyncClient) -> None:
    request = BroadcastRequest(channels=["a", "no topic", "b", "a"], data=NOTE, idempotency_key="k")
    answers = (await cent.broadcast(request)).responses
    assert [answer.error and answer.error.code for answer in answers] == [None, 102, None, None]
    assert [answer.result and answer.result.offset for answer in answers] == [1, None, 1, 1]


# history


async def test_history_pages_both_ways(cent: AsyncClient) -> None:
    for n in range(5):
        top = await cent.publish(PublishRequest(channel="t", data={"n": n}))
    since = StreamPosition(offset=2, epoch=top.epoch)
    onward = await cent.history(HistoryRequest(channel="t", limit=2, since=since))
    assert [publication.offset for publication in onward.publications] == [3, 4]
    back = await cent.history(HistoryRequest(channel="t", limit=2, reverse=True))
    assert [publication.offset for publication in back.publications] == [5, 4]
    lost = StreamPosition(offset=2, epoch="NoNoNoNo")
    assert await code(cent.history(HistoryRequest(channel="t", limit=2, since=lost))) == 112


async def test_history_remove_deletes_the_topic(served: Gateway, cent: AsyncClient) -> None:
    before = await cent.publish(PublishRequest(channel="t", data=NOTE, idempotency_key="k"))
    async with served.plain() as stock, served.plain() as mirror:
        await stock.ask("subscribe", {"channel": "t"})
        await mirror.ask("subscribe", {"channel": "t", "data": {"mirror": True}})
        await cent.history_remove(HistoryRemoveRequest(channel="t"))
        assert (await stock.push())["unsubscribe"]["code"] == 2500
        snapshot = (await mirror.push())["pub"]["data"]
        assert (snapshot["type"], snapshot["offset"]) == ("snapshot", 0)
        assert snapshot["mirror"]["runs"] == []
    after = await cent.history(HistoryRequest(channel="t", limit=10))
    assert (after.publications, after.offset) == ([], 0)
    assert after.epoch != before.epoch
    assert (await cent.publish(PublishRequest(channel="t", data=NOTE, idempotency_key="k"))).offset == 1


# presence, channels, info


async def test_presence_and_channels_are_of_all_gateways(
    redis_url: str, key_prefix: str, served: Gateway, cent: AsyncClient
) -> None:
    async with serve(redis_url, key_prefix) as other, served.plain() as one, other.plain() as two:
        for reader in (one, two):
            await reader.ask("subscribe", {"channel": "chat:1"})
        await two.ask("subscribe", {"channel": "log"})

        async def both() -> bool:
            stats = await cent.presence_stats(PresenceStatsRequest(channel="chat:1"))
            return bool((stats.num_clients, stats.num_users) == (2, 1))

        while not await both():
            await asyncio.sleep(0.01)
        assert len((await cent.presence(PresenceRequest(channel="chat:1"))).presence) == 2
        await eventually(lambda: other.hub.sure)
        nodes = (await cent.info(InfoRequest())).nodes
        while len(nodes) < 2:
            nodes = (await cent.info(InfoRequest())).nodes
        found = (await cent.channels(ChannelsRequest())).channels
        assert {topic: one.num_clients for topic, one in found.items()} == {"chat:1": 2, "log": 1}
        for pattern, topics in (("chat:*", {"chat:1"}), ("{log,x}", {"log"}), ("l?g", {"log"}), ("[!c]*", {"log"})):
            assert (await cent.channels(ChannelsRequest(pattern=pattern))).channels.keys() == topics
        assert {node.version for node in nodes} == {package.__version__}
        assert served.hub.control.node in {node.uid for node in nodes}
        own = next(node for node in nodes if node.uid == served.hub.control.node)
        assert (own.num_clients, own.num_subs, own.num_channels) == (1, 1, 1)

    while len((await cent.info(InfoRequest())).nodes) > 1:
        await asyncio.sleep(0.01)


async def test_channels_refuses_a_pattern_that_explodes(http: httpx.AsyncClient) -> None:
    assert (await post(http, "channels", {"pattern": "{a,b}" * 50}))["error"]["code"] == 107


# disconnect, unsubscribe


def as_user(served: Gateway, client: str, user: str) -> None:
    """Give a connection a user, as a token would."""
    connection = next(found for found in served.hub.readers if found.client == client)
    connection.user = user


async def test_disconnect_reaches_the_users_connections_on_all_gateways(
    redis_url: str, key_prefix: str, served: Gateway, cent: AsyncClient
) -> None:
    async with serve(redis_url, key_prefix) as other, contextlib.AsyncExitStack() as stack:
        plains, clients = [], []
        for where in (served, served, other, other):
            plain = await stack.enter_async_context(where.plain(hello=False))
            hello = await plain.ask("connect", {})
            plains.append(plain)
            clients.append(hello["client"])
        for index, where in ((0, served), (1, served), (2, other)):
            as_user(where, clients[index], "ann")
        await cent.disconnect(DisconnectRequest(user="ann", whitelist=[clients[1]]))
        for index in (0, 2):
            with pytest.raises(ConnectionClosed) as closed:
                await plains[index].push()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (3503, "force disconnect")
        again = Disconnect(code=4321, reason="go")
        await cent.disconnect(DisconnectRequest(user="ann", client=clients[1], disconnect=again))
        with pytest.raises(ConnectionClosed) as closed:
            await plains[1].push()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4321, "go")
        assert await plains[3].ask("history", {"channel": "t"})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, 107),
        ({"user": ""}, 107),
        ({"user": "a", "session": "s"}, 108),
        ({"user": "a", "disconnect": {"code": 1000, "reason": ""}}, 107),
        ({"user": "a", "disconnect": {"code": "x"}}, 107),
    ],
)
async def test_disconnect_refuses_what_it_cannot_do(http: httpx.AsyncClient, body: Any, expected: int) -> None:
    assert (await post(http, "disconnect", body))["error"]["code"] == expected


async def test_unsubscribe_ends_the_users_subscription(served: Gateway, cent: AsyncClient) -> None:
    async with served.plain(hello=False) as reader, served.plain() as other:
        client = (await reader.ask("connect", {}))["client"]
        as_user(served, client, "ann")
        await cent.publish(PublishRequest(channel="t", data=NOTE))
        for plain in (reader, other):
            await plain.ask("subscribe", {"channel": "t"})
        await cent.unsubscribe(UnsubscribeRequest(user="ann", channel="t"))
        push = await reader.push()
        assert (push["channel"], push["unsubscribe"]["code"]) == ("t", 2000)
        await cent.publish(PublishRequest(channel="t", data=NOTE))
        assert (await other.push())["pub"]["offset"] == 2
        assert (await reader.ask("subscribe", {"channel": "t"}))["offset"] == 2
        assert reader.pushes == []


async def test_what_clients_do_by_themselves_is_not_available(cent: AsyncClient) -> None:
    assert await code(cent.subscribe(SubscribeRequest(user="ann", channel="t"))) == 108
    assert await code(cent.refresh(RefreshRequest(user="ann"))) == 108


# batch


@pytest.mark.parametrize("parallel", [False, True])
async def test_batch_answers_each_command_in_its_place(cent: AsyncClient, *, parallel: bool) -> None:
    requests = [PublishRequest(channel=f"t{n}", data={"n": n}) for n in range(50)]
    replies: list[Any] = (
        await cent.batch(BatchRequest(requests=[*requests, InfoRequest()], parallel=parallel))
    ).replies
    assert [reply.offset for reply in replies[:50]] == [1] * 50
    assert replies[50].nodes


async def test_batch_tells_what_was_refused(http: httpx.AsyncClient) -> None:
    commands = [{"publish": {"channel": "t", "data": {}}}, {"publish": {}}, {"no": {}}, {}, {"a": 1, "b": 2}]
    replies = (await post(http, "batch", {"commands": commands}))["replies"]
    assert replies[0]["publish"]["offset"] == 1
    assert [reply["error"]["code"] for reply in replies[1:]] == [107, 104, 107, 107]
    nested = (await post(http, "batch", {"commands": [{"batch": {"commands": []}}]}))["replies"]
    assert nested[0]["error"]["code"] == 104
    assert (await post(http, "batch", {"commands": 3}))["error"]["code"] == 107


# HTTP


async def test_keys_are_needed_where_some_are_configured(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, api_keys=KEY) as gateway:
        async with backend(gateway, KEY) as client:
            assert (await client.publish(PublishRequest(channel="t", data=NOTE))).offset == 1
        async with backend(gateway, "another-key-of-sixteen") as client:
            with pytest.raises(CentUnauthorizedError):
                await client.publish(PublishRequest(channel="t", data=NOTE))
        async with httpx.AsyncClient(base_url=f"{gateway.http}/api", trust_env=False) as http:
            reply = await http.post("/info", json={})
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, 101)


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"a":1,"a":2}', b"[" * 100_000])
async def test_a_body_that_is_no_object_is_told_so(http: httpx.AsyncClient, body: bytes) -> None:
    reply = await http.post("/publish", content=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == 107


async def test_a_body_that_is_too_large_is_refused(http: httpx.AsyncClient) -> None:
    reply = await http.post("/publish", content=b" " * (5 * 1024 * 1024))
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == 106


async def test_what_is_no_method_is_told_so(http: httpx.AsyncClient) -> None:
    assert (await post(http, "no_such", {}))["error"]["code"] == 104
    assert (await http.get("/publish")).status_code == 405


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "channel",
        "channels",
        "data",
        "b64data",
        "limit",
        "since",
        "reverse",
        "user",
        "client",
        "whitelist",
        "disconnect",
        "pattern",
        "commands",
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(
        [
            "publish",
            "broadcast",
            "history",
            "presence",
            "presence_stats",
            "disconnect",
            "unsubscribe",
            "info",
            "refresh",
            "subscribe",
            "batch",
        ]
    ),
    body=st.dictionaries(FIELDS | st.text(max_size=3), JSON, max_size=4),
)
async def test_any_body_gets_an_answer(http: httpx.AsyncClient, method: str, body: dict[str, Any]) -> None:
    reply = await http.post(f"/{method}", json=body)
    assert reply.status_code in {200, 400}
    answer = reply.json()
    assert answer.keys() <= {"result", "error", "replies"}
    if "error" in answer:
        assert answer["error"]["code"] in {102, 103, 104, 106, 107, 108, 112}
        assert answer["error"]["message"]


async def test_events_of_the_api_lie_in_the_store_as_our_encoder_wrote_them(
    redis_url: str, key_prefix: str, cent: AsyncClient
) -> None:
    await cent.publish(PublishRequest(channel="t", data={"text": "a\nb\u2028 é\ud800"}))
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    (event,) = (await broker.read(Topic("t"), START)).events
    assert event.data == '{"text":"a\\nb\u2028 é\ufffd"}'.encode()
    await broker.aclose()
