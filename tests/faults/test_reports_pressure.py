"""What users of other systems report about pressure, sizes and memory; named as in `test_reports_reconnect`."""

import asyncio
import contextlib

from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.connection import Connection
from gateway.context.messages import Message
from gateway.frames import MAX_FRAME
from gateway.publisher import Publisher
from gateway.types import Topic
from tests.faults.proxy import Proxy
from tests.faults.reading import PATIENCE, assert_exact, read_to
from tests.faults.store import Archive
from tests.serving import Gateway, append, eventually

TOPIC = "chat:42"


async def test_82_reader_that_reads_nothing_costs_a_bounded_buffer(
    served: Gateway, broker: RedisBroker, archive: Archive
) -> None:
    """A reader that never reads makes the server grow without end."""
    await append(broker, TOPIC, {"n": 0})
    async with Proxy(served.port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as client:
        subscription = client.subscribe(TOPIC)
        await read_to(subscription, 1)
        with proxy.stall():
            (reader,) = served.hub.clients(Topic(TOPIC))
            assert isinstance(reader, Connection)
            (topic,) = served.hub.topics
            async with asyncio.timeout(PATIENCE):
                # The system takes some megabytes, in pieces, before the reader is behind for good.
                full = 0
                while full < 20:
                    await append(broker, TOPIC, {"text": "z" * 50_000})
                    full = full + 1 if topic.lag["readers"] and reader.buffered else 0
            buffered = reader.buffered
            assert 0 < buffered < 256 * 1024
            for _ in range(60):
                position = await append(broker, TOPIC, {"text": "z" * 50_000})
            await eventually(lambda: topic.position == position)
            assert reader.buffered <= buffered
        await read_to(subscription, position.offset)
        await assert_exact(subscription.mirror, archive, TOPIC)


async def test_84_slow_reader_delays_nobody_else(served: Gateway, broker: RedisBroker) -> None:
    """One slow member affects others that share the queue, and beyond a bound messages are dropped."""
    await append(broker, TOPIC, {"n": 0})
    async with (
        Proxy(served.port) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as slow,
        Client(served.http) as quick,
    ):
        behind = slow.subscribe(TOPIC, since="start", mirror=False)
        ahead = quick.subscribe(TOPIC, since="start", mirror=False)
        await read_to(behind, 1)
        with proxy.stall():
            for number in range(300):
                position = await append(broker, TOPIC, {"n": number, "text": "z" * 5000})
            updates = await read_to(ahead, position.offset)
            assert [update.position.offset for update in updates] == [*range(1, position.offset + 1)]
        updates = await read_to(behind, position.offset)
        assert [update.position.offset for update in updates] == [*range(2, position.offset + 1)]


async def test_85_history_of_a_long_answer_is_of_the_size_of_its_text(
    publisher: Publisher, redis: "Redis", key_prefix: str
) -> None:
    """Entries per token: the largest run took 30 MB of Redis."""
    text = ""
    async with publisher.run(TOPIC, agent="a") as run:
        for number in range(10_000):
            word = f"token{number} "
            text += word
            await run.delta(word)
        await run.add_message(Message.assistant(text))
    keys = [key async for key in redis.scan_iter(match=f"{key_prefix}:*")]
    used = sum([await redis.memory_usage(key, samples=0) or 0 for key in keys])
    assert used < 3 * len(text) + 16 * 1024


async def test_89_follow_up_costs_no_repetition_of_the_conversation(served: Gateway, publisher: Publisher) -> None:
    """The conversation is sent again with each turn until the socket dies."""
    async with publisher.run(TOPIC, agent="a") as run:
        for number in range(20):
            await run.add_message(Message.assistant(f"{number} " + "long " * 2000))
        await run.flush()
        async with served.plain() as plain:
            await plain.ask("subscribe", {"channel": TOPIC})
            sent = len(plain.frames)
            await run.add_message(Message.assistant("short"))
            await run.flush()
            while (await plain.pub())["offset"] < run.position.offset:
                pass
            assert sum(plain.frames[sent:]) < 2000


async def test_90_five_megabytes_of_tool_output_break_no_connection(
    served: Gateway, publisher: Publisher, archive: Archive
) -> None:
    """One big tool output closes the socket with 1009, again and again."""
    async with publisher.run(TOPIC, agent="a") as run, contextlib.AsyncExitStack() as stack:
        plain = await stack.enter_async_context(served.plain())
        await plain.ask("subscribe", {"channel": TOPIC})
        client = await stack.enter_async_context(Client(served.http))
        subscription = client.subscribe(TOPIC)
        await read_to(subscription, run.position.offset)
        await run.tool_call("c", "look", {})
        await run.tool_result("c", "look", "0123456789" * 500_000)
        await run.add_message(Message.assistant("seen"))
        await run.flush()
        await read_to(subscription, run.position.offset)
        await assert_exact(subscription.mirror, archive, TOPIC)
        while (await plain.pub())["offset"] < run.position.offset:
            pass
        assert max(plain.frames) <= MAX_FRAME
        # Nobody had to come back for it.
        assert len(served.hub.clients(Topic(TOPIC))) == 2
