"""Tokens that run out, fresh ones, and limits, at a real gateway."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from gateway.admission import Admission, Credentials, lasting
from gateway.auth import Authority
from gateway.broker.redis import RedisBroker
from gateway.errors import CommandError, DisconnectError
from gateway.grants import Identity
from gateway.redaction import Redaction
from gateway.settings import Settings
from gateway.types import Topic
from tests.serving import Gateway, Plain, append, eventually, serve
from tests.signing import API_KEY, SECRET, signer, token

QUICK: dict[str, Any] = {"token_secrets": SECRET, "token_leeway": 0, "user_grants": "chat:{sub} news=read"}
"""Settings of gateways at which a token's end is near."""


# Credentials


class _Connection:
    def __init__(self, client: str = "c") -> None:
        self.client = client
        self.ended: list[Topic | None] = []

    def expired(self, topic: Topic | None) -> None:
        self.ended.append(topic)


def _admission(**settings: Any) -> Admission:
    given = Settings(**{"token_secrets": SECRET, "token_leeway": 0, "token_grace": 0, **settings})
    return Admission(given, Authority(given))


def test_connection_is_told_when_its_token_has_run_out() -> None:
    admission, connection = _admission(token_leeway=100), _Connection()
    credentials = Credentials(admission, connection)
    credentials.connect(token("ann", lasts=-10))
    admission.turn()
    assert connection.ended == [None]
    credentials.refresh(token("ann", lasts=100))
    admission.turn()
    assert connection.ended == [None]
    credentials.refresh(token("ann"))
    assert len(admission._expiries) == 0


def test_grace_puts_the_end_off() -> None:
    admission, connection = _admission(token_leeway=100, token_grace=60), _Connection()
    Credentials(admission, connection).connect(token("ann", lasts=-10))
    admission.turn()
    assert connection.ended == []


def test_subscription_runs_out_by_itself() -> None:
    admission, connection = _admission(token_leeway=100), _Connection()
    credentials = Credentials(admission, connection)
    credentials.connect(token("ann"))
    credentials.subscribe(Topic("a"), token("ann", channel="a", lasts=-10, allow=["pub"]))
    assert credentials.of(Topic("a")).verbs(Topic("a")) == ("publish", "read", "topics")
    assert credentials.whole.may("publish", Topic("a"))
    admission.turn()
    assert connection.ended == ["a"]
    credentials.unsubscribe(Topic("a"))
    assert not credentials.whole.may("publish", Topic("a"))


def test_closed_credentials_hold_nothing() -> None:
    admission, connection = _admission(), _Connection()
    credentials = Credentials(admission, connection)
    credentials.connect(token("ann", lasts=100, channels=["b"]))
    credentials.subscribe(Topic("a"), token("ann", channel="a", lasts=100))
    credentials.subscribe(Topic("b"), None)
    credentials.close()
    credentials.unsubscribe(Topic("b"))
    limits = admission.limits
    assert len(limits.connections_of_user) == len(limits.topics_of_user) == len(admission._expiries) == 0


def test_users_have_limits_of_their_own() -> None:
    admission = _admission(max_connections_per_user=1, max_topics_per_user=2, user_grants="*")
    ann, again, bob = (Credentials(admission, _Connection(client)) for client in "abc")
    ann.connect(token("ann"))
    bob.connect(token("bob"))
    with pytest.raises(DisconnectError) as refused:
        again.connect(token("ann"))
    assert refused.value.code == 3504
    ann.subscribe(Topic("1"), None)
    ann.subscribe(Topic("2"), None)
    with pytest.raises(CommandError) as over:
        ann.subscribe(Topic("3"), None)
    assert over.value.code == 106
    bob.subscribe(Topic("3"), None)
    ann.unsubscribe(Topic("1"))
    ann.subscribe(Topic("3"), None)
    ann.close()
    again.connect(token("ann"))


def test_fresh_token_must_be_the_same_users_and_good() -> None:
    credentials = Credentials(_admission(), _Connection())
    credentials.connect(token("ann", lasts=100))
    for bad in (token("bob"), "nonsense", token("ann", channel="a")):
        with pytest.raises(DisconnectError) as refused:
            credentials.refresh(bad)
        assert refused.value.code == 3500
    with pytest.raises(CommandError) as late:
        credentials.refresh(token("ann", lasts=-10))
    assert (late.value.code, late.value.temporary) == (109, True)
    for nothing in (None, ""):
        with pytest.raises(CommandError, match="107"):
            credentials.refresh(nothing)


def test_fresh_token_counts_on_topics_with_tokens_of_their_own_too() -> None:
    admission, connection = _admission(), _Connection()
    topic = Topic("a")
    credentials = Credentials(admission, connection)
    caps = [{"channels": ["a"], "allow": ["publish"]}]
    credentials.connect(token("ann", caps=caps))
    credentials.subscribe(topic, token("ann", channel="a", allow=["hst"]))
    assert credentials.of(topic).verbs(topic) == ("history", "publish", "read", "topics")
    hidden = {"drop": ["log"]}
    credentials.refresh(token("ann", caps=[{"channels": ["a"], "allow": ["presence"], "redact": hidden}]))
    assert credentials.of(topic).verbs(topic) == ("history", "presence", "read", "topics")
    assert credentials.of(topic).redaction(topic) == Redaction.read(hidden)
    credentials.unsubscribe(topic)
    assert credentials.of(topic).verbs(topic) == ("presence",)


def test_lasting_says_when_a_fresh_token_is_wanted() -> None:
    assert lasting(Identity()) == {}
    assert lasting(Identity(expires_at=0)) == {"expires": True, "ttl": 1}


# At a gateway


async def _hello(plain: Plain, **claims: Any) -> dict[str, Any]:
    reply: dict[str, Any] = await plain.ask("connect", {"token": token("ann", **claims)})
    return reply


async def test_connection_ends_with_its_token_unless_a_fresh_one_comes(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, token_grace=0.2, **QUICK) as gateway:
        async with gateway.plain(hello=False) as plain:
            reply = await _hello(plain, lasts=2)
            assert reply["expires"] is True
            assert reply["ttl"] in {1, 2}
            assert await plain.closed() == (3005, "the token has expired")
        async with gateway.plain(hello=False) as plain:
            await _hello(plain, lasts=2)
            await plain.ask("publish", {"channel": "chat:ann", "data": {"x": 0}})
            await plain.ask("subscribe", {"channel": "chat:ann"})
            fresh = await plain.ask("refresh", {"token": token("ann", lasts=3600)})
            assert (fresh["expires"], fresh["ttl"] > 3500, fresh["version"]) == (True, True, reply["version"])
            async with gateway.plain(hello=False) as other:
                await _hello(other, lasts=2)
                assert (await other.closed())[0] == 3005  # the first one would have ended before
            await plain.ask("publish", {"channel": "chat:ann", "data": {"x": 1}})
            push = await plain.push()
            assert push["pub"]["data"] == {"x": 1}


async def test_subscription_ends_with_its_token_unless_a_fresh_one_comes(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, token_grace=0.2, **QUICK) as gateway, gateway.plain(hello=False) as plain:
        await _hello(plain)
        for topic in ("a", "b"):
            asked = {"channel": topic, "token": token("ann", channel=topic, lasts=2)}
            reply = await plain.ask("subscribe", asked)
            assert reply["expires"] is True
        fresh = await plain.ask("sub_refresh", {"channel": "b", "token": token("ann", channel="b", lasts=3600)})
        assert fresh["ttl"] > 3500
        push = await plain.push()
        reason = "the subscription's token has expired"
        assert push == {"channel": "a", "unsubscribe": {"code": 2501, "reason": reason}}
        assert (await plain.ask("history", {"channel": "a"}))["code"] == 103
        late = {"channel": "a", "token": token("ann", channel="a", lasts=-10)}
        assert (await plain.ask("subscribe", late))["code"] == 109
        assert "epoch" in await plain.ask("subscribe", {"channel": "a", "token": token("ann", channel="a", lasts=60)})


@pytest.mark.parametrize(
    ("claims", "code"),
    [({"channel": "b"}, 103), ({}, 103), ({"channel": "a", "secret": "another-secret-of-32-characters!"}, 103)],
)
async def test_subscription_token_of_something_else_opens_nothing(
    redis_url: str, key_prefix: str, claims: dict[str, Any], code: int
) -> None:
    async with serve(redis_url, key_prefix, **QUICK) as gateway, gateway.plain(hello=False) as plain:
        await _hello(plain)
        assert (await plain.ask("subscribe", {"channel": "a", "token": token("ann", **claims)}))["code"] == code
        assert (await plain.ask("subscribe", {"channel": "a", "token": "nonsense"}))["code"] == 103


async def test_fresh_token_that_allows_less_ends_subscriptions(redis_url: str, key_prefix: str) -> None:
    redact = {"channels": ["*"], "match": "wildcard", "allow": ["sub"], "redact": {"drop": ["log"]}}
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway, gateway.plain(hello=False) as plain:
        await _hello(plain, channels=["a", "b"])
        for topic in ("a", "b"):
            await plain.ask("subscribe", {"channel": topic})
        await plain.ask("refresh", {"token": token("ann", channels=["b"])})
        assert await plain.push() == {"channel": "a", "unsubscribe": {"code": 2000, "reason": "permission denied"}}
        assert (await plain.ask("subscribe", {"channel": "a"}))["code"] == 103
        await plain.ask("refresh", {"token": token("ann", caps=[redact])})
        assert (await plain.push())["unsubscribe"]["code"] == 2500
        assert (await plain.ask("subscribe", {"channel": "b"}))["data"]["grants"] == ["read", "topics"]


class _SlowJoin:
    """Holds subscriptions back after their topic was read, until it is told to let go."""

    def __init__(self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read, self.go = asyncio.Event(), asyncio.Event()
        self._join = gateway.hub.join
        monkeypatch.setattr(gateway.hub, "join", self._wait)

    async def _wait(self, *arguments: Any, **named: Any) -> Any:
        joined = await self._join(*arguments, **named)
        self.read.set()
        await self.go.wait()
        return joined


async def test_what_ends_while_a_topic_is_read_is_not_begun(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(redis_url, key_prefix, token_grace=0.1, **QUICK) as gateway, gateway.plain(hello=False) as plain:
        await _hello(plain, channels=["a"])
        slow = _SlowJoin(gateway, monkeypatch)
        less = await plain.command("subscribe", {"channel": "a"})
        await asyncio.wait_for(slow.read.wait(), 20)
        await plain.ask("refresh", {"token": token("ann")})
        slow.go.set()
        assert (await plain.reply(less))["error"]["code"] == 103
        slow.read.clear()
        slow.go.clear()
        late = await plain.command("subscribe", {"channel": "b", "token": token("ann", channel="b", lasts=2)})
        await asyncio.wait_for(slow.read.wait(), 20)
        assert (await plain.push())["unsubscribe"]["code"] == 2501
        slow.go.set()
        assert (await plain.reply(late))["error"]["code"] == 109
        await plain.ask("refresh", {"token": token("ann", channels=["a", "b"])})
        for topic in ("a", "b"):
            assert "epoch" in await plain.ask("subscribe", {"channel": topic})


async def test_redacted_reader_sees_what_is_left(redis_url: str, key_prefix: str) -> None:
    rules = {"drop": ["log"], "mask": ["agent_start.input"]}
    caps = [{"channels": ["t"], "allow": ["sub", "hst"], "redact": rules}]
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(
        broker,
        "t",
        {"type": "agent_start", "run": "r", "agent": "a", "at": 1, "input": "hush"},
        {"type": "log", "message": "hush", "at": 1},
        {"type": "note", "text": "seen"},
    )
    async with serve(redis_url, key_prefix, token_secrets=SECRET) as gateway:
        async with gateway.plain(hello=False) as plain:
            await _hello(plain, caps=caps)
            reply = await plain.ask("subscribe", {"channel": "t", "recover": True})
            told = json.dumps(reply)
            while (await plain.ask("ping", {})) != {}:
                pass
            told += json.dumps(plain.pushes)
            assert "seen" in told
            assert "hush" not in told
            await append(broker, "t", {"type": "log", "message": "hush", "at": 2}, {"type": "note", "text": "later"})
            while "later" not in told:
                told += json.dumps(await plain.push())
            assert "hush" not in told
            pages = json.dumps(await plain.ask("history", {"channel": "t", "limit": 10}))
            assert "later" in pages
            assert "hush" not in pages
        headers = {"authorization": f"Bearer {token('ann', caps=caps)}"}
        async with httpx.AsyncClient(base_url=gateway.http, headers=headers, trust_env=False) as http:
            for address in ("/topics/t", "/topics/t?messages=1", "/topics/t/archive"):
                answer = await http.get(address)
                assert answer.status_code == 200
                assert "hush" not in answer.text
    await broker.aclose()


async def test_presence_tells_what_the_token_tells(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, **QUICK) as gateway, gateway.plain(hello=False) as plain:
        await _hello(plain, info={"name": "Ann"})
        await plain.ask("subscribe", {"channel": "chat:ann", "join_leave": True})
        (entry,) = (await plain.ask("presence", {"channel": "chat:ann"}))["presence"].values()
        assert (entry["user"], entry["conn_info"]) == ("ann", {"name": "Ann"})
        join = await plain.push()
        assert join["join"]["info"]["conn_info"] == {"name": "Ann"}


async def test_key_that_is_new_is_fetched_while_commands_wait(
    redis_url: str, key_prefix: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old, new = tmp_path / "keys.json", signer("ES256", 1).named("old"), signer("ES256", 2).named("new")
    path.write_text(json.dumps({"keys": [old.jwk]}))
    monkeypatch.setattr("gateway.keys.PAUSE", 0.0)
    async with serve(redis_url, key_prefix, token_jwks=str(path), user_grants="*") as gateway:
        path.write_text(json.dumps({"keys": [new.jwk]}))
        async with connect(gateway.url, compression=None, ping_interval=None) as socket:
            lines = [
                {"id": 1, "connect": {"token": new.sign({"sub": "ann"})}},
                {"id": 2, "subscribe": {"channel": "t"}},
            ]
            await socket.send("\n".join(map(json.dumps, lines)))
            replies: list[dict[str, Any]] = []
            while len(replies) < 2:
                replies += [json.loads(line) for line in str(await socket.recv()).split("\n")]
            assert [sorted(reply) for reply in replies] == [["connect", "id"], ["id", "subscribe"]]
        async with gateway.plain(hello=False) as plain:
            await plain.command("connect", {"token": old.sign({"sub": "ann"})})
            assert (await plain.closed())[0] == 3500


# Limits


async def test_user_has_so_many_connections(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, max_connections_per_user=1, **QUICK) as gateway:
        async with gateway.plain(hello=False) as plain:
            await _hello(plain)
            async with gateway.plain(hello=False) as second:
                await second.command("connect", {"token": token("ann")})
                assert (await second.closed())[0] == 3504
        async with asyncio.timeout(20):
            while True:  # until the gateway knows that the first has gone
                async with gateway.plain(hello=False) as third:
                    await third.command("connect", {"token": token("ann")})
                    line = await asyncio.wait_for(third.socket.recv(), 20) if not third.socket.close_code else ""
                    if "client" in str(line):
                        break


async def test_address_has_so_many_connections(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, max_connections_per_address=2, trusted_proxies="127.0.0.1") as gateway:
        async with gateway.plain(), gateway.plain():
            async with httpx.AsyncClient(trust_env=False) as http:
                upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
                upgrade["sec-websocket-key"] = "dGhlIHNhbXBsZSBub25jZQ=="
                refused = await http.get(f"{gateway.http}/connection/websocket", headers=upgrade)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, 111)
            elsewhere = {"x-forwarded-for": "198.51.100.1"}
            async with connect(gateway.url, additional_headers=elsewhere, ping_interval=None) as other:
                await other.send('{"id":1,"connect":{}}')
                assert "client" in str(await other.recv())
        await eventually(lambda: not gateway.hub.readers)
        async with gateway.plain() as plain:
            assert await plain.ask("ping", {}) == {}


async def test_commands_and_publications_have_limits(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, command_rate=1, command_burst=4, max_publish=100) as gateway,
        gateway.plain() as plain,
    ):
        big = await plain.ask("publish", {"channel": "t", "data": {"x": "y" * 100}})
        assert big["code"] == 106
        answers = [await plain.ask("ping", {}) for _ in range(4)]
        assert answers[0] == {}
        assert (answers[-1]["code"], answers[-1]["temporary"]) == (111, True)


# Over HTTP

STREAMS = ["events", "events?format=ndjson", "events?poll=1&from=start", "stream?offset=-1&live=sse"]


def _bearer(user: str, **claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {token(user, **claims)}"}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("limit", ["max_connections_per_user", "max_topics_per_user", "max_connections_per_address"])
async def test_streams_count_as_connections_and_are_given_back(
    redis_url: str, key_prefix: str, stream: str, limit: str
) -> None:
    settings: dict[str, Any] = {limit: 1, "token_secrets": SECRET, "user_grants": "*", "api_keys": API_KEY}
    async with (
        serve(redis_url, key_prefix, **settings) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=20) as http,
    ):
        posted = await http.post(
            "/api/publish", json={"channel": "t", "data": {"x": 1}}, headers={"x-api-key": API_KEY}
        )
        assert posted.json()["result"]["offset"] == 1
        address = f"/topics/t/{stream}"
        for _ in range(2):
            async with http.stream("GET", "/topics/t/events", headers=_bearer("ann")) as first:
                assert first.status_code == 200
                # The address is forged by who is no proxy.
                spoofed = {**_bearer("ann"), "x-forwarded-for": "198.51.100.1"}
                refused = await http.get(address, headers=spoofed)
                assert (refused.status_code, refused.json()["error"]["code"]) == (429, 111)
                assert int(refused.headers["retry-after"]) > 0
            await eventually(lambda: not gateway.hub.readers)
            # A position that cannot be continued, a client that only looks: nothing stays counted.
            headers = {**_bearer("ann"), "last-event-id": "aaaaaaaa:9"}
            assert (await http.get("/topics/t/events?dialect=ag-ui", headers=headers)).status_code == 410
            assert (await http.head("/topics/t/events", headers=_bearer("ann"))).status_code == 200
            async with http.stream("GET", address, headers=_bearer("ann")) as again:
                assert again.status_code == 200
            await eventually(lambda: not gateway.hub.readers)


async def test_requests_have_a_rate_by_user_and_wrong_ones_by_address(redis_url: str, key_prefix: str) -> None:
    settings: dict[str, Any] = {"token_secrets": SECRET, "user_grants": "*", "api_keys": API_KEY}
    async with (
        serve(redis_url, key_prefix, request_rate=1, request_burst=5, **settings) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False) as http,
    ):
        answers = [await http.get("/topics/t", headers=_bearer("ann")) for _ in range(7)]
        assert [answer.status_code for answer in answers[:5]] == [200] * 5
        assert (answers[-1].status_code, answers[-1].json()["error"]["code"]) == (429, 111)
        assert int(answers[-1].headers["retry-after"]) > 0
        assert (await http.get("/topics/t", headers=_bearer("bob"))).status_code == 200
        for number in range(7):
            wrong = {"x-api-key": f"a-guess-of-a-key-{number}", "x-forwarded-for": f"198.51.100.{number}"}
            guess = await http.post("/api/info", json={}, headers=wrong)
        assert guess.status_code == 429
        # Who has a key asks as often as it likes.
        for _ in range(7):
            assert (await http.post("/api/info", json={}, headers={"x-api-key": API_KEY})).status_code == 200


async def test_stream_that_waits_for_the_store_is_not_opened_to_who_was_revoked(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"token_secrets": SECRET, "user_grants": "*"}
    async with (
        serve(redis_url, key_prefix, **settings) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=20) as http,
    ):
        joining, go = asyncio.Event(), asyncio.Event()
        join = gateway.hub.join

        async def slow(*arguments: Any, **more: Any) -> Any:
            joined = await join(*arguments, **more)
            joining.set()
            await go.wait()
            return joined

        monkeypatch.setattr(gateway.hub, "join", slow)
        for address in ("/topics/t/events", "/topics/t/events?poll=1&from=start&wait=0"):
            joining.clear()
            go.clear()
            asked = asyncio.create_task(http.get(address, headers=_bearer("ann", iat=1)))
            await joining.wait()
            await gateway.hub.control.disconnect("ann", code=3503, reason="go")
            go.set()
            answer = await asked
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, 101)
            gateway.hub.control._revoked.clear()


async def test_poll_ends_at_once_with_its_users_connections(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, token_secrets=SECRET, user_grants="*") as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=20) as http,
    ):
        address = "/topics/t/events?poll=1&from=start&wait=60"
        asked = asyncio.create_task(http.get(address, headers=_bearer("ann", iat=1)))
        await eventually(lambda: gateway.hub.readers)
        await gateway.hub.control.disconnect("ann", code=3503, reason="go")
        assert (await asked).status_code == 401


async def test_stream_ends_where_a_backend_unsubscribes_its_user(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, token_secrets=SECRET, user_grants="*") as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, timeout=20) as http,
        http.stream("GET", "/topics/t/events", headers=_bearer("ann")) as stream,
    ):
        await eventually(lambda: gateway.hub.readers)
        await gateway.hub.control.unsubscribe("ann", Topic("t"))
        text = "".join([piece async for piece in stream.aiter_text()])
        assert '"code":2000' in text
        assert not gateway.hub.readers


# By an API key


async def test_websocket_with_an_api_key_may_do_everything(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, token_secrets=SECRET, api_keys=API_KEY) as gateway:
        headers = {"x-api-key": API_KEY}
        async with connect(gateway.url, additional_headers=headers, ping_interval=None) as socket:
            plain = Plain(socket)
            assert "delete" in (await plain.ask("connect", {}))["data"]["grants"]
            assert await plain.ask("publish", {"channel": "t", "data": {"x": 1}}) == {}
        async with connect(gateway.url, additional_headers=headers, ping_interval=None) as socket:
            plain = Plain(socket)
            # A token that is shown all the same is what counts.
            assert (await plain.ask("connect", {"token": token("ann")}))["data"]["grants"] == []
        upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        upgrade |= {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "x-api-key": "a-guess-of-a-key"}
        async with httpx.AsyncClient(trust_env=False) as http:
            refused = await http.get(f"{gateway.http}/connection/websocket", headers=upgrade)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, 101)
