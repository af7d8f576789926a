"""Who may do what, verb by verb, over every transport; and that a refusal tells nothing of the topic."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from websockets.asyncio.client import connect

from gateway.broker.redis import RedisBroker
from gateway.grants import VERBS
from gateway.types import START, Topic
from tests.serving import Gateway, Plain, append, serve
from tests.signing import API_KEY, SECRET, token

THEIRS = "chat:ann"
NOBODYS = "chat:none"
BLOB = "0" * 64

COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("subscribe", {"channel": "TOPIC"}),
    "read mirror": ("subscribe", {"channel": "TOPIC", "data": {"mirror": True}}),
    "read summary": ("subscribe", {"channel": "TOPIC", "data": {"lens": "summary"}}),
    "read recover": ("subscribe", {"channel": "TOPIC", "recover": True}),
    "history": ("history", {"channel": "TOPIC", "limit": 1}),
    "presence": ("presence", {"channel": "TOPIC"}),
    "presence stats": ("presence_stats", {"channel": "TOPIC"}),
    "presence join": ("subscribe", {"channel": "TOPIC", "join_leave": True}),
    "publish": ("publish", {"channel": "TOPIC", "data": {"x": 1}}),
    "send": ("rpc", {"method": "send", "data": {"topic": "TOPIC", "content": "hello", "id": "1"}}),
    "edit": ("rpc", {"method": "edit", "data": {"topic": "TOPIC", "message": "m", "content": "x", "id": "2"}}),
    "withdraw": ("rpc", {"method": "withdraw", "data": {"topic": "TOPIC", "message": "m", "id": "3"}}),
    "cancel": ("rpc", {"method": "cancel", "data": {"topic": "TOPIC", "run": "r", "id": "4"}}),
    "decide": (
        "rpc",
        {
            "method": "decide",
            "data": {"topic": "TOPIC", "run": "r", "tool_call_id": "c", "decision": "approve", "id": "5"},
        },
    ),
}
"""What is asked over a websocket, by the verb that it needs."""

ADDRESSES = {
    "read": ("GET", "/topics/TOPIC"),
    "read messages": ("GET", "/topics/TOPIC?messages=1"),
    "read events": ("GET", "/topics/TOPIC/events?from=start"),
    "read lines": ("GET", "/topics/TOPIC/events?from=start&format=ndjson"),
    "read mirror": ("GET", "/topics/TOPIC/events?mirror=1"),
    "read poll": ("GET", "/topics/TOPIC/events?poll=1&from=start"),
    "read ag-ui": ("GET", "/topics/TOPIC/events?dialect=ag-ui"),
    "read ai-sdk": ("GET", "/topics/TOPIC/events?dialect=ai-sdk&from=start"),
    "read openai": ("GET", "/topics/TOPIC/events?dialect=openai-responses&from=start"),
    "read durable": ("GET", "/topics/TOPIC/stream"),
    "read durable poll": ("GET", "/topics/TOPIC/stream?offset=-1&live=long-poll"),
    "read durable sse": ("GET", "/topics/TOPIC/stream?offset=-1&live=sse"),
    "read blob": ("GET", f"/topics/TOPIC/blobs/{BLOB}"),
    "history": ("GET", "/topics/TOPIC/archive"),
    "export": ("GET", "/topics/TOPIC/export"),
    "delete": ("DELETE", "/topics/TOPIC"),
}
"""What is asked over HTTP."""

NOTHING_THERE = {"read blob": 404, "read ag-ui": 204}
"""Answers to who may ask, where there is nothing."""

METHODS: dict[str, dict[str, Any]] = {
    "publish": {"channel": "TOPIC", "data": {"x": 1}},
    "broadcast": {"channels": ["TOPIC"], "data": {"x": 1}},
    "history": {"channel": "TOPIC", "limit": 1},
    "presence": {"channel": "TOPIC"},
    "presence_stats": {"channel": "TOPIC"},
    "unsubscribe": {"channel": "TOPIC", "user": "eve"},
    "disconnect": {"user": "eve"},
    "channels": {},
    "info": {},
    "batch": {"commands": [{"publish": {"channel": "TOPIC", "data": {"x": 1}}}]},
    "history_remove": {"channel": "TOPIC"},
}
"""What is asked of the API, which is for API keys alone."""

PEOPLE = frozenset(VERBS) - {"write", "export", "delete"}
MAY: dict[str, frozenset[str]] = {
    "owner": PEOPLE,
    "reader": frozenset({"read", "history"}),
    "stranger": frozenset(),
    "anonymous": frozenset(),
    "api key": frozenset(VERBS),
}
"""What each role may do on `THEIRS`."""

TOKENS = {
    "owner": token("ann", lasts=3600),
    "reader": token("reader", lasts=3600, caps=[{"channels": [THEIRS], "allow": ["sub", "hst"]}]),
    "stranger": token("bob", lasts=3600),
    "expired": token("ann", lasts=-3600),
}


@pytest_asyncio.fixture
async def gateway(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(
        redis_url,
        key_prefix,
        token_secrets=SECRET,
        api_keys=API_KEY,
        user_grants="chat:{sub}",
        anonymous_grants="news",
    ) as running:
        yield running


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(broker, THEIRS, {"type": "note", "text": "a secret"})
    yield broker
    await broker.aclose()


@contextlib.asynccontextmanager
async def connected(gateway: Gateway, role: str) -> AsyncIterator[Plain]:
    headers = {"x-api-key": API_KEY} if role == "api key" else {}
    async with connect(gateway.url, additional_headers=headers, compression=None, ping_interval=None) as socket:
        plain = Plain(socket)
        reply = await plain.ask("connect", {"token": TOKENS[role]} if role in TOKENS else {})
        assert "client" in reply, reply
        yield plain


def about(request: Any, topic: str) -> Any:
    return json.loads(json.dumps(request).replace("TOPIC", topic))


def refused(answer: dict[str, Any]) -> bool:
    return answer.get("code") == 103


@pytest.mark.parametrize("role", MAY)
async def test_command_needs_its_verb(gateway: Gateway, broker: RedisBroker, role: str) -> None:
    for ask, (method, request) in COMMANDS.items():
        async with connected(gateway, role) as plain:
            answer = await plain.ask(method, about(request, THEIRS))
        assert refused(answer) is (ask.partition(" ")[0] not in MAY[role]), (ask, answer)
    assert [topic for topic, _ in await broker.topics()] == [THEIRS]


@pytest.mark.parametrize("role", MAY)
async def test_delete_command_needs_its_verb(gateway: Gateway, broker: RedisBroker, role: str) -> None:
    async with connected(gateway, role) as plain:
        answer = await plain.ask("rpc", {"method": "delete", "data": {"topic": THEIRS}})
    assert refused(answer) is ("delete" not in MAY[role])
    assert [topic for topic, _ in await broker.topics()] == ([] if role == "api key" else [THEIRS])


@pytest.mark.parametrize("role", [*MAY, "expired"])
async def test_api_needs_a_key(gateway: Gateway, broker: RedisBroker, role: str) -> None:
    async with http(gateway, role) as client:
        for method, body in METHODS.items():
            answers = [await client.post(f"/api/{method}", json=about(body, topic)) for topic in (THEIRS, NOBODYS)]
            if role == "api key":
                assert [answer.status_code for answer in answers] == [200, 200]
                assert all("error" not in answer.json() for answer in answers)
            else:
                assert [answer.status_code for answer in answers] == [401, 401]
                assert answers[0].content == answers[1].content
    assert [topic for topic, _ in await broker.topics()] == ([] if role == "api key" else [THEIRS])


@pytest.mark.parametrize("role", MAY)
@pytest.mark.usefixtures("broker")
async def test_address_needs_its_verb(gateway: Gateway, role: str) -> None:
    for ask, (method, address) in ADDRESSES.items():
        async with http(gateway, role) as client, client.stream(method, address.replace("TOPIC", THEIRS)) as answer:
            status = answer.status_code
        allowed = NOTHING_THERE.get(ask, 200)
        assert (ask, status) == (ask, allowed if ask.partition(" ")[0] in MAY[role] else 403)


@contextlib.asynccontextmanager
async def http(gateway: Gateway, role: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {TOKENS[role]}"} if role in TOKENS else {}
    if role == "api key":
        headers = {"x-api-key": API_KEY}
    async with httpx.AsyncClient(base_url=gateway.http, headers=headers, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("role", ["stranger", "anonymous"])
async def test_refusal_is_the_same_whether_there_is_such_a_topic(
    gateway: Gateway, broker: RedisBroker, redis_url: str, key_prefix: str, role: str
) -> None:
    said: set[str] = set()
    for topic in (THEIRS, NOBODYS):
        async with connect(gateway.url, compression=None, ping_interval=None) as socket:
            await socket.send(json.dumps({"id": 1, "connect": {"token": TOKENS[role]} if role in TOKENS else {}}))
            await socket.recv()
            gone = {"method": "delete", "data": {"topic": "TOPIC"}}
            for method, request in (*COMMANDS.values(), ("rpc", gone)):
                await socket.send(json.dumps({"id": 7, method: about(request, topic)}))
                said.add(str(await socket.recv()))
    assert said == {'{"id":7,"error":{"code":103,"message":"permission denied"}}'}
    answers = set()
    async with http(gateway, role) as client:
        for method, address in ADDRESSES.values():
            for topic in (THEIRS, NOBODYS):
                answer = await client.request(method, address.replace("TOPIC", topic))
                headers = {name: value for name, value in answer.headers.items() if name != "date"}
                answers.add((answer.status_code, answer.content, json.dumps(headers, sort_keys=True)))
    assert len(answers) == 1
    assert [topic for topic, _ in await broker.topics()] == [THEIRS]
    async with Redis.from_url(redis_url) as redis:
        assert [key async for key in redis.scan_iter(f"{key_prefix}*{NOBODYS}*")] == []


@pytest.mark.usefixtures("broker")
async def test_expired_token_opens_nothing(gateway: Gateway) -> None:
    async with gateway.plain(hello=False) as plain:
        assert (await plain.ask("connect", {"token": TOKENS["expired"]}))["code"] == 109
        # Another one may follow on the same connection, nothing else.
        assert "client" in await plain.ask("connect", {"token": TOKENS["owner"]})
    async with gateway.plain(hello=False) as plain:
        await plain.ask("connect", {"token": TOKENS["expired"]})
        await plain.command("subscribe", {"channel": THEIRS})
        assert (await plain.closed())[0] == 3501
    async with http(gateway, "expired") as client:
        for method, address in ADDRESSES.values():
            answer = await client.request(method, address.replace("TOPIC", THEIRS))
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, 109)


async def test_topics_lists_what_the_caller_may_read(gateway: Gateway, broker: RedisBroker) -> None:
    await append(broker, "chat:bob", {"type": "note"})
    await append(broker, "news", {"type": "note"})
    listed = {}
    for role in MAY:
        async with connected(gateway, role) as plain:
            answer = (await plain.ask("rpc", {"method": "topics", "data": {}}))["data"]["topics"]
            listed[role] = sorted(topic["topic"] for topic in answer)
    assert listed == {
        "owner": [THEIRS],
        "reader": [THEIRS],
        "stranger": ["chat:bob"],
        "anonymous": ["news"],
        "api key": ["chat:ann", "chat:bob", "news"],
    }


async def test_commands_that_come_with_a_refused_connect_do_nothing(gateway: Gateway, broker: RedisBroker) -> None:
    for bad in ("nonsense", TOKENS["expired"], token("ann", secret="another-secret-of-32-characters!")):
        async with connect(gateway.url, compression=None, ping_interval=None) as socket:
            lines = [
                {"id": 1, "connect": {"token": bad}},
                {"id": 2, "subscribe": {"channel": THEIRS}},
                {"id": 3, "publish": {"channel": THEIRS, "data": {"x": 1}}},
            ]
            await socket.send("\n".join(map(json.dumps, lines)))
            if bad is TOKENS["expired"]:
                assert json.loads(await socket.recv())["error"]["code"] == 109
                await socket.send("{}")
            else:
                await socket.wait_closed()
                assert socket.close_code == 3500
    assert len((await broker.read(Topic(THEIRS), START)).events) == 1


async def test_nobody_comes_in_without_a_token_where_nothing_is_for_everybody(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway:
        async with gateway.plain(hello=False) as plain:
            assert (await plain.ask("connect", {}))["code"] == 101
        async with http(gateway, "anonymous") as client:
            for method, address in ADDRESSES.values():
                assert (await client.request(method, address.replace("TOPIC", THEIRS))).status_code == 401
            assert (await client.get("/healthz")).status_code == 200


@pytest.mark.usefixtures("broker")
async def test_reply_says_what_may_be_done(gateway: Gateway) -> None:
    async with connected(gateway, "owner") as plain:
        assert set((await plain.ask("subscribe", {"channel": THEIRS}))["data"]["grants"]) == PEOPLE
    async with connected(gateway, "reader") as plain:
        assert (await plain.ask("subscribe", {"channel": THEIRS}))["data"]["grants"] == ["history", "read", "topics"]
