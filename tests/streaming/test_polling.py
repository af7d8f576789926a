"""Long polls, and the read side of Durable Streams."""

import asyncio
from typing import Any

import httpx
import pytest

from gateway.broker.redis import RedisBroker
from gateway.types import Topic
from tests.dialects.clients import Node
from tests.serving import PATIENCE, Gateway, append, eventually, serve
from tests.test_hub import deaf

# long polls


async def poll(http: httpx.AsyncClient, query: str = "") -> dict[str, Any]:
    reply = await http.get(f"/topics/t/events?poll=1{query}")
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def place(answer: dict[str, Any]) -> str:
    return f"&from={answer['epoch']}:{answer['offset']}"


async def test_poll_without_a_position_gives_it_at_once(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    at = await append(broker, "t", {"n": 1})
    assert await poll(http) == {"topic": "t", "epoch": at.epoch, "offset": 1, "events": []}


async def test_polls_one_after_the_other_give_everything_once(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    for start in range(0, 200, 50):
        await append(broker, "t", *[{"n": n, "text": "x" * 2000} for n in range(start, start + 50)])
    got: list[int] = []
    query = "&from=start"
    while len(got) < 200:
        answer = await poll(http, query)
        got += [event["data"]["n"] for event in answer["events"]]
        assert sum(len(str(event)) for event in answer["events"]) < 200_000
        query = place(answer)
    assert got == list(range(200))


async def test_who_does_not_wait_sees_what_was_written_before_though_its_publication_is_late(
    served: Gateway, http: httpx.AsyncClient, broker: RedisBroker
) -> None:
    at = await append(broker, "t", {"n": 1})
    async with served.plain() as watch:
        await watch.ask("subscribe", {"channel": "t"})
        with deaf(served.hub):
            await append(broker, "t", {"n": 2})
            assert (await poll(http))["offset"] == 2
            await append(broker, "t", {"n": 3})
            assert len((await poll(http, f"&from={at}&wait=0"))["events"]) == 2
            await append(broker, "t", {"n": 4})
            assert (await http.head("/topics/t/stream")).headers["stream-next-offset"].startswith("0000000000000004_")
            await append(broker, "t", {"n": 5})
            assert (await http.get("/topics/t/stream?offset=-1")).json()[-1] == {"n": 5}
        assert [(await watch.pub())["offset"] for _ in range(4)] == [2, 3, 4, 5]


async def test_poll_waits_for_news(served: Gateway, http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    waiting = asyncio.create_task(poll(http, place(await poll(http))))
    await eventually(lambda: served.hub.clients(Topic("t")))
    await append(broker, "t", {"n": 2})
    assert [event["data"] for event in (await waiting)["events"]] == [{"n": 2}]
    assert not served.hub.clients(Topic("t"))


async def test_poll_that_waited_in_vain_gives_the_same_position(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    first = await poll(http)
    assert await poll(http, f"{place(first)}&wait=0.1") == first


@pytest.mark.parametrize("size", [10, 60])
async def test_poll_of_a_lost_position(http: httpx.AsyncClient, broker: RedisBroker, size: int) -> None:
    for _ in range(size):
        await append(broker, "t", {"type": "log", "level": "info", "message": "x" * 10_000})
    answer = await poll(http, "&from=AAAAAAAA:9")
    assert (answer["gap"], answer["events"], answer["offset"]) == ({"asked": "AAAAAAAA:9"}, [], size)
    answer = await poll(http, "&from=AAAAAAAA:9&mirror=1")
    assert answer["snapshot"] == {"type": "snapshot", **(await http.get("/topics/t")).json()}
    assert "gap" not in answer


async def test_poll_is_answered_at_shutdown(redis_url: str, key_prefix: str, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
        async with serve(redis_url, key_prefix) as gateway:
            http.base_url = httpx.URL(gateway.http)
            waiting = asyncio.create_task(poll(http, place(await poll(http))))
            await eventually(lambda: gateway.hub.clients(Topic("t")))
        assert (await waiting)["events"] == []


async def test_wait_that_is_no_number_of_seconds_is_refused(http: httpx.AsyncClient) -> None:
    for wait in ("soon", "-1", "1e9", "nan"):
        reply = await http.get(f"/topics/t/events?poll=1&wait={wait}")
        assert (reply.status_code, "0 to 60 seconds" in reply.text) == (400, True)


# Durable Streams


async def test_stream_is_read_in_chunks_whose_offsets_sort(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    for start in range(0, 150, 50):
        await append(broker, "t", *[{"n": n, "text": "x" * 2000} for n in range(start, start + 50)])
    got: list[int] = []
    offsets = ["-1"]
    while True:
        reply = await http.get("/topics/t/stream", params={"offset": offsets[-1]})
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
        got += [event["n"] for event in reply.json()]
        offsets.append(reply.headers["stream-next-offset"])
        if reply.headers.get("stream-up-to-date") == "true":
            break
    assert got == list(range(150))
    assert offsets[1:] == sorted(set(offsets[1:]))
    again = await http.get("/topics/t/stream", params={"offset": offsets[-1]})
    assert (again.json(), again.headers["stream-next-offset"]) == ([], offsets[-1])


async def test_stream_that_has_not_changed_is_not_sent_again(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    first = await http.get("/topics/t/stream")
    same = await http.get("/topics/t/stream", headers={"if-none-match": first.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    await append(broker, "t", {"n": 2})
    await eventually_new(http, first.headers["etag"])


async def eventually_new(http: httpx.AsyncClient, etag: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await http.get("/topics/t/stream", headers={"if-none-match": etag})).status_code == 304:
            await asyncio.sleep(0.01)


async def test_stream_now_begins_at_the_top(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    reply = await http.get("/topics/t/stream?offset=now")
    assert (reply.json(), reply.headers["stream-up-to-date"], "etag" in reply.headers) == ([], "true", False)
    head = await http.head("/topics/t/stream")
    assert head.headers["stream-next-offset"] == reply.headers["stream-next-offset"]


async def test_long_poll_of_a_stream(served: Gateway, http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    offset = (await http.head("/topics/t/stream")).headers["stream-next-offset"]
    query = {"offset": offset, "live": "long-poll", "cursor": "99999999"}
    waiting = asyncio.create_task(http.get("/topics/t/stream", params=query))
    await eventually(lambda: served.hub.clients(Topic("t")))
    await append(broker, "t", {"n": 2})
    reply = await waiting
    assert reply.json() == [{"n": 2}]
    assert int(reply.headers["stream-cursor"]) > 99999999


async def test_stream_that_nobody_has_written_is_not_found(http: httpx.AsyncClient) -> None:
    assert (await http.get("/topics/nothing/stream")).status_code == 404
    assert (await http.head("/topics/nothing/stream")).status_code == 404
    # At once, too, where it would wait for news.
    for offset in ("-1", "now"):
        for live in ("long-poll", "sse"):
            reply = await http.get("/topics/nothing/stream", params={"offset": offset, "live": live})
            assert reply.status_code == 404


@pytest.mark.parametrize(
    "query",
    ["offset=7", "offset=", "offset=0,1", "offset=-1&offset=-1", "live=long-poll", "live=sse", "offset=-1&live=x"],
)
async def test_bad_query_of_a_stream_is_refused(http: httpx.AsyncClient, broker: RedisBroker, query: str) -> None:
    await append(broker, "t", {"n": 1})
    assert (await http.get(f"/topics/t/stream?{query}")).status_code == 400


async def test_offset_of_another_history_is_gone(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    await append(broker, "t", {"n": 1})
    for live in ("", "&live=long-poll", "&live=sse"):
        assert (await http.get(f"/topics/t/stream?offset=0000000000000001_AAAAAAAA{live}")).status_code == 410


@pytest.mark.parametrize("mode", ["durable", "durable-long-poll", "durable-sse"])
async def test_durable_streams_client_reads_a_topic(
    node: Node, served: Gateway, broker: RedisBroker, mode: str
) -> None:
    await append(broker, "t", *[{"n": n, "text": "grüße\u2028"} for n in range(30)])
    reading = asyncio.create_task(node.ask(mode, f"{served.http}/topics/t/stream"))
    if mode != "durable":
        await eventually(lambda: served.hub.clients(Topic("t")))
        await append(broker, "t", {"n": 30}, {"n": 31, "last": True})
    items = (await reading)["items"]
    assert [item["n"] for item in items] == list(range(30 if mode == "durable" else 32))
