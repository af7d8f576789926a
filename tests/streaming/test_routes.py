"""Server-sent events and lines of JSON, over real sockets."""

import httpx

from gateway.broker.redis import RedisBroker
from tests.serving import append
from tests.streaming.eventsource import listen


async def test_stream_begins_now_and_tells_its_position(http: httpx.AsyncClient, broker: RedisBroker) -> None:
    before = await append(broker, "t", {"type": "x", "n": 1})
    async with listen(http, "/topics/t/events") as stream:
        after = await append(broker, "t", {"type": "x", "n": 2, "text": "grüße\n😀"})
        event = await stream.next()
        assert (event.name, event.id, event.data) == ("message", str(after), {"type": "x", "n": 2, "text": "grüße\n😀"})
        assert after.offset == before.offset + 1
