"""What users of other systems report about reconnecting, each on real parts.

The number in a test's name is that of the public report; what it is about stands in the docstring.
"""

import asyncio
import contextlib
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.broker.port import Link, Listener
from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.context.messages import Message
from gateway.errors import FencedError, TopicBusyError
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.types import Position, Publication, Topic
from tests.e2e.processes import running_gateway
from tests.faults.proxy import Proxy
from tests.faults.reading import assert_exact, read_to
from tests.faults.store import Archive
from tests.publishing import SlowBroker
from tests.serving import Gateway, eventually, serve

TOPIC = "chat:42"


async def words(run: Any, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        await run.delta(f"word {number} ")
    await run.flush()


async def test_1_stop_from_a_tab_opened_later_reaches_the_run(
    served: Gateway, publisher: Publisher, archive: Archive
) -> None:
    """The stop button does nothing after a tab was reopened."""
    async with publisher.run(TOPIC, agent="a") as run:
        await words(run, 3)
        async with Client(served.http) as tab:
            await read_to(tab.subscribe(TOPIC), 4)
        async with Client(served.http) as later:
            assert (await later.cancel(TOPIC, run=run.id))["status"] == "requested"
        async with asyncio.timeout(20):
            await asyncio.Event().wait()
    assert run.ended is not None
    _, state = await archive.state(TOPIC)
    assert state["runs"][0]["status"] == "cancelled"
    assert state["context"]["events"][-1]["data"]["content"] == "word 0 word 1 word 2 "


async def test_2_two_resumes_at_once_give_one_stream_each(served: Gateway, publisher: Publisher) -> None:
    """Two overlapping resumes fight over the last message."""
    async with publisher.run(TOPIC, agent="a") as run:
        await words(run, 10)
        top = run.position
        start = Position(epoch=top.epoch, offset=4)
        async with Client(served.http) as one, Client(served.http) as other:
            subscriptions = [client.subscribe(TOPIC, since=start, mirror=False) for client in (one, other)]
            await words(run, 10, 10)
            for subscription in subscriptions:
                updates = await read_to(subscription, run.position.offset)
                assert [update.position.offset for update in updates] == [*range(5, run.position.offset + 1)]


async def test_6_resume_in_the_middle_of_a_block_is_folded(
    served: Gateway, publisher: Publisher, archive: Archive
) -> None:
    """A resume lands after a block's start and the reducer throws."""
    async with publisher.run(TOPIC, agent="a") as run:
        await words(run, 3)
        await run.tool_call_delta(index=0, id="c", name="look", text='{"a":')
        await run.tool_call_delta(index=0, text=" 1}")
        await run.flush()
        top = run.position
        for offset in range(top.offset + 1):
            async with Client(served.http) as client:
                since = Mirror(TOPIC, top.epoch, 0)
                history = await archive.whole(TOPIC)
                for at in range(1, offset + 1):
                    since.apply(Publication(offset=at, data=history[1][at]))
                subscription = client.subscribe(TOPIC, since=since if offset else "start")
                if offset < top.offset:
                    await read_to(subscription, top.offset)
                await assert_exact(subscription.mirror, archive, TOPIC)


async def test_7_subscribing_twice_replays_nothing_twice(served: Gateway, publisher: Publisher) -> None:
    """The resume is offered twice and the buffer is replayed twice."""
    async with publisher.run(TOPIC, agent="a") as run:
        await words(run, 5)
        async with served.plain() as plain:
            first = await plain.ask("subscribe", {"channel": TOPIC, "recover": True})
            again = await plain.ask("subscribe", {"channel": TOPIC, "recover": True})
            assert again["code"] == 105
            await words(run, 1, 5)
            offsets = [pub["offset"] for pub in first["publications"]]
            while not offsets or offsets[-1] < run.position.offset:
                offsets.append((await plain.pub())["offset"])
            assert offsets == [*range(1, run.position.offset + 1)]


async def test_8_final_message_replaces_deltas_lost_in_a_drop(served: Gateway, publisher: Publisher) -> None:
    """After a drop the final message prints everything again."""
    async with Proxy(served.port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as client:
        subscription = client.subscribe(TOPIC)
        async with publisher.run(TOPIC, agent="a") as run:
            await words(run, 3)
            await read_to(subscription, run.position.offset)
            with proxy.cut():
                await words(run, 3, 3)
                await run.add_message(Message.assistant("the whole answer"))
                await run.flush()
            await read_to(subscription, run.position.offset)
            assert subscription.mirror is not None
            assert [message["content"] for message in subscription.mirror.messages()] == ["the whole answer"]
            assert subscription.mirror.open == []


class LateLink:
    """A link whose SUBSCRIBE is acknowledged only when the test says so."""

    def __init__(self, link: Link, allowed: asyncio.Event) -> None:
        self._link = link
        self._allowed = allowed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    async def subscribe(self, channel: str) -> None:
        await self._link.subscribe(channel)
        await self._allowed.wait()


class LateBroker(RedisBroker):
    allowed: asyncio.Event

    def link(self, listener: Listener) -> Any:
        return LateLink(super().link(listener), self.allowed)


async def test_10_events_before_the_subscribe_is_acknowledged_are_not_lost(
    redis_url: str, key_prefix: str, publisher: Publisher
) -> None:
    """The first tokens vanish as SUBSCRIBE was not yet acknowledged."""
    broker = LateBroker(redis_url, key_prefix=key_prefix)
    broker.allowed = asyncio.Event()
    async with serve("", key_prefix, broker=broker) as gateway, Client(gateway.http) as client:
        subscription = client.subscribe(TOPIC, since="start", mirror=False)
        async with publisher.run(TOPIC, agent="a") as run:
            await words(run, 200)
            broker.allowed.set()
            await words(run, 10, 200)
            updates = await read_to(subscription, run.position.offset)
            assert [update.position.offset for update in updates] == [*range(1, run.position.offset + 1)]
    await broker.aclose()


async def test_11_five_reconnects_in_one_run_lose_nothing(served: Gateway, publisher: Publisher) -> None:
    """From the second reconnect on, text is skipped."""
    async with (
        Proxy(served.port) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
        publisher.run(TOPIC, agent="a") as run,
    ):
        subscription = client.subscribe(TOPIC, since="start", mirror=False)
        await words(run, 1)
        updates = await read_to(subscription, run.position.offset)
        for number in range(5):
            with proxy.cut():
                await words(run, 20, 20 * number)
            updates += await read_to(subscription, run.position.offset)
        offsets = [update.position.offset for update in updates if not update.snapshot]
        assert offsets == [*range(offsets[0], run.position.offset + 1)]


async def test_12_topic_reused_after_its_history_was_lost_is_told(
    served: Gateway, broker: RedisBroker, publisher: Publisher, redis: "Redis", archive: Archive
) -> None:
    """A stream's id is reused and every new chunk is dropped as old."""
    async with publisher.run(TOPIC, agent="a") as run:
        await words(run, 30)
    async with Client(served.http) as client:
        subscription = client.subscribe(TOPIC)
        (update,) = await read_to(subscription, run.position.offset)
        keys = [key async for key in redis.scan_iter(match=f"{broker.channel(Topic(TOPIC))}*")]
        await redis.delete(*keys)
        async with publisher.run(TOPIC, agent="b") as run:
            await words(run, 3)
            async with asyncio.timeout(20):
                while update.position != run.position:
                    update = await anext(subscription)
            assert subscription.mirror is not None
            assert subscription.mirror.open[0]["text"] == "word 0 word 1 word 2 "
            await assert_exact(subscription.mirror, archive, TOPIC)


async def test_14_old_producer_that_wakes_up_writes_nothing(redis_url: str, key_prefix: str, archive: Archive) -> None:
    """An old producer goes on writing into the new stream."""
    slow = SlowBroker(RedisBroker(redis_url, key_prefix=key_prefix))
    async with (
        Publisher(broker=slow, lease=0.2, flush_interval=0) as old,
        Publisher(redis_url, key_prefix=key_prefix, lease=0.2) as new,
    ):
        paused = await old.run(TOPIC, agent="old").__aenter__()
        await words(paused, 2)
        slow.hold()
        await paused.delta("too late")
        async with asyncio.timeout(20):
            while True:
                try:
                    heir = await new.run(TOPIC, agent="new").__aenter__()
                    break
                except TopicBusyError:
                    await asyncio.sleep(0.05)
        slow.release()
        await heir.add_message(Message.assistant("mine"))
        await heir.flush()
        with pytest.raises(FencedError):
            await paused.flush()
        with pytest.raises(FencedError):
            await paused.__aexit__(None, None, None)
        await heir.__aexit__(None, None, None)
    await slow.aclose()
    _, state = await archive.state(TOPIC)
    assert [run["status"] for run in state["runs"]] == ["lost", "completed"]
    assert "too late" not in str(state)


async def test_15_reader_back_after_the_end_gets_the_last_events(served: Gateway, publisher: Publisher) -> None:
    """A client returning just after completion loses the last frames."""
    async with Proxy(served.port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as client:
        subscription = client.subscribe(TOPIC, since="start", mirror=False)
        async with publisher.run(TOPIC, agent="a") as run:
            await words(run, 2)
            updates = await read_to(subscription, run.position.offset)
            cut = contextlib.ExitStack()
            cut.enter_context(proxy.cut())
            await words(run, 5, 2)
        with cut:
            pass
        assert run.ended is not None
        updates += await read_to(subscription, run.ended.offset)
        assert updates[-1].data["type"] == "agent_complete"
        assert [update.first for update in updates[1:]] == [update.position.offset + 1 for update in updates[:-1]]


async def test_16_page_opened_in_mid_answer_shows_what_is_there(served: Gateway, publisher: Publisher) -> None:
    """A refresh in mid-answer shows an empty chat until it finishes."""
    async with publisher.run(TOPIC, agent="a") as run, Client(served.http) as client:
        await words(run, 5)
        (update,) = await read_to(client.subscribe(TOPIC), run.position.offset)
        assert update.mirror.open[0]["text"] == "word 0 word 1 word 2 word 3 word 4 "


async def test_18_ten_thousand_events_at_once_have_offsets_of_their_own(broker: RedisBroker, archive: Archive) -> None:
    """Two events in one millisecond share an id."""
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        start = run.position.offset
        for number in range(10_000):
            await run.emit({"type": "app.tick", "n": number, "at": 1})
        await run.flush()
        position, events = await archive.whole(TOPIC)
    ticks = [(offset, event["n"]) for offset, event in events.items() if event["type"] == "app.tick"]
    assert [n for _, n in ticks] == [*range(10_000)]
    assert [offset for offset, _ in ticks] == sorted({offset for offset, _ in ticks})
    assert ticks[0][0] > start
    assert position.offset == ticks[-1][0]


async def test_23_run_outlives_every_reader(served: Gateway, publisher: Publisher, archive: Archive) -> None:
    """A client's disconnect kills the run."""
    async with publisher.run(TOPIC, agent="a") as run:
        async with Client(served.http) as client:
            await words(run, 2)
            await read_to(client.subscribe(TOPIC), run.position.offset)
        await eventually(lambda: not served.hub.clients(Topic(TOPIC)))
        await words(run, 2, 2)
    _, state = await archive.state(TOPIC)
    assert state["runs"][0]["status"] == "completed"


async def test_29_three_subscribers_each_get_everything(served: Gateway, publisher: Publisher) -> None:
    """Is a second subscriber a competitor or a copy? A copy."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(served.http)) for _ in range(3)]
        subscriptions = [client.subscribe(TOPIC, since="start", mirror=False) for client in clients]
        # Whoever came after the end would be given the message without its deltas.
        await eventually(lambda: len(served.hub.clients(Topic(TOPIC))) == len(clients))
        async with publisher.run(TOPIC, agent="a") as run:
            await words(run, 50)
        assert run.ended is not None
        logs = [
            [(update.position.offset, update.data) for update in await read_to(subscription, run.ended.offset)]
            for subscription in subscriptions
        ]
        assert logs[0] == logs[1] == logs[2]
        assert len({offset for offset, _ in logs[0]}) == len(logs[0])


async def test_32_position_of_another_topic_is_a_gap(served: Gateway, publisher: Publisher) -> None:
    """Resuming one stream replays others; an unknown id replays everything."""
    async with publisher.run(TOPIC, agent="a") as run, publisher.run("other", agent="b") as other:
        await words(run, 5)
        await words(other, 5)
        async with served.plain() as plain:
            asked = {"recover": True, "epoch": other.position.epoch, "offset": 2}
            reply = await plain.ask("subscribe", {"channel": TOPIC, **asked})
            assert reply["recovered"] is False
            assert "publications" not in reply
            reply = await plain.ask("subscribe", {"channel": "other", **asked})
            assert reply["recovered"] is True
            assert [pub["offset"] for pub in reply["publications"]] == [*range(3, other.position.offset + 1)]


async def test_33_answer_written_while_nobody_read_is_there(served: Gateway, publisher: Publisher) -> None:
    """The final response is deleted before a reconnecting client could read it."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.assistant("nobody saw this"))
    async with Client(served.http) as client:
        assert run.ended is not None
        (update,) = await read_to(client.subscribe(TOPIC), run.ended.offset)
        assert [message["content"] for message in update.mirror.messages()] == ["nobody saw this"]


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.05])
async def test_36_drop_right_after_the_connect_is_recovered(
    served: Gateway, publisher: Publisher, archive: Archive, delay: float
) -> None:
    """Many very fast reconnects are not recovered."""
    async with (
        publisher.run(TOPIC, agent="a") as run,
        Proxy(served.port) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
    ):
        subscription = client.subscribe(TOPIC)
        for number in range(10):
            await words(run, 1, number)
            await asyncio.sleep(delay)
            proxy.reset()
        await words(run, 1, 10)
        await read_to(subscription, run.position.offset)
        await assert_exact(subscription.mirror, archive, TOPIC)


async def test_38_reconnects_without_news_replay_nothing(served: Gateway, publisher: Publisher) -> None:
    """Each further reconnect replays the same messages again."""
    async with (
        publisher.run(TOPIC, agent="a") as run,
        Proxy(served.port) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
    ):
        subscription = client.subscribe(TOPIC, since="start", mirror=False)
        await words(run, 5)
        updates = await read_to(subscription, run.position.offset)
        for _ in range(5):
            opened = proxy.opened
            proxy.reset()
            while proxy.opened == opened or not served.hub.clients(Topic(TOPIC)):
                await asyncio.sleep(0.01)
        await words(run, 1, 5)
        updates += await read_to(subscription, run.position.offset)
        offsets = [update.position.offset for update in updates]
        assert offsets == sorted(set(offsets))


async def test_40_gateway_killed_in_mid_run_costs_readers_nothing() -> None:
    """No recovery when the server dies."""
    async with running_gateway() as gateway, Client(gateway.url) as client, Redis.from_url(gateway.redis_url) as redis:
        subscription = client.subscribe(TOPIC)
        async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run(TOPIC, agent="a") as run:
            await words(run, 5)
            await read_to(subscription, run.position.offset)
            for number in range(2):
                gateway.kill()
                assert gateway.process is not None
                await gateway.process.end()
                await words(run, 20, 5 + 20 * number)
                await gateway.start()
            await words(run, 1, 45)
            await read_to(subscription, run.position.offset)
            await assert_exact(subscription.mirror, Archive(redis, "gw"), TOPIC)
            assert subscription.mirror is not None
            assert subscription.mirror.open[0]["text"] == "".join(f"word {number} " for number in range(46))


async def test_41_herd_costs_the_store_no_read_per_reader(
    served: Gateway, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every reconnect reads everything sent since, once per client."""
    async with (
        publisher.run(TOPIC, agent="a") as run,
        Proxy(served.port) as proxy,
        contextlib.AsyncExitStack() as stack,
    ):
        url = f"http://127.0.0.1:{proxy.port}"
        clients = [await stack.enter_async_context(Client(url)) for _ in range(50)]
        subscriptions = [client.subscribe(TOPIC, since="start", mirror=False) for client in clients]
        await words(run, 5)
        for subscription in subscriptions:
            await read_to(subscription, run.position.offset)
        reads = 0
        read = served.hub.broker.read

        async def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal reads
            reads += 1
            return await read(*arguments, **named)

        monkeypatch.setattr(served.hub.broker, "read", counted)
        with proxy.cut():
            await words(run, 50, 5)
        for subscription in subscriptions:
            updates = await read_to(subscription, run.position.offset)
            assert updates[-1].position.offset == run.position.offset
        assert reads <= 5


async def test_43_one_lost_topic_resets_no_other(
    served: Gateway, broker: RedisBroker, publisher: Publisher, redis: "Redis", archive: Archive
) -> None:
    """After "state invalidated", subscriptions are resumed from stale positions."""
    async with (
        publisher.run(TOPIC, agent="a") as run,
        publisher.run("other", agent="b") as other,
        Client(served.http) as client,
    ):
        one, two = client.subscribe(TOPIC), client.subscribe("other")
        await words(run, 5)
        await words(other, 5)
        await read_to(one, run.position.offset)
        await read_to(two, other.position.offset)
        await redis.delete(*[key async for key in redis.scan_iter(match=f"{broker.channel(Topic(TOPIC))}*")])
        await words(run, 1, 5)
        await words(other, 1, 5)
        update = await anext(one)
        while update.position != run.position:
            update = await anext(one)
        updates = await read_to(two, other.position.offset)
        assert not any(update.snapshot for update in updates)
        await assert_exact(one.mirror, archive, TOPIC)
        await assert_exact(two.mirror, archive, "other")


async def test_45_recovery_works_while_a_run_goes_on(served: Gateway, publisher: Publisher, archive: Archive) -> None:
    """Recovery is skipped while "processing", so the transcript stays cut."""
    async with (
        publisher.run(TOPIC, agent="a") as run,
        Proxy(served.port) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
    ):
        subscription = client.subscribe(TOPIC)
        writing = asyncio.create_task(words(run, 300))
        while not writing.done():
            await asyncio.sleep(0.02)
            proxy.reset()
        await writing
        await read_to(subscription, run.position.offset)
        await assert_exact(subscription.mirror, archive, TOPIC)


async def test_47_load_is_everything_and_resume_is_the_rest(served: Gateway, publisher: Publisher) -> None:
    """Load advertises a replay and delivers none."""
    async with publisher.run(TOPIC, agent="a") as run:
        await words(run, 5)
        top = run.position
        async with served.plain() as plain:
            reply = await plain.ask("subscribe", {"channel": TOPIC, "recover": True})
            assert [pub["offset"] for pub in reply["publications"]] == [*range(1, top.offset + 1)]
            await plain.ask("unsubscribe", {"channel": TOPIC})
            asked = {"recover": True, "epoch": top.epoch, "offset": top.offset}
            reply = await plain.ask("subscribe", {"channel": TOPIC, **asked})
            assert (reply["recovered"], reply.get("publications", [])) == (True, [])


async def test_48_reading_a_history_writes_nothing(served: Gateway, publisher: Publisher, archive: Archive) -> None:
    """Replayed history is stored again and shown as new."""
    async with publisher.run(TOPIC, agent="a") as run:
        await words(run, 5)
    before = await archive.whole(TOPIC)
    for _ in range(3):
        async with Client(served.http) as client:
            assert run.ended is not None
            await read_to(client.subscribe(TOPIC, since="start", mirror=False), run.ended.offset)
    assert await archive.whole(TOPIC) == before


async def test_50_final_event_never_overtakes_its_deltas(redis_url: str, key_prefix: str) -> None:
    """Deltas and the final event are sent by two tasks, and the final one overtakes."""
    slow = SlowBroker(RedisBroker(redis_url, key_prefix=key_prefix))
    async with Publisher(broker=slow, flush_interval=0.05) as publisher, publisher.run(TOPIC, agent="a") as run:
        slow.hold()
        for number in range(20):
            await run.delta(f"{number} ")
        await run.add_message(Message.assistant("all"))
        await run.delta("of the next one")
        slow.release()
        await run.flush()
    await slow.aclose()
    order = [
        entry.type for append in slow.appends for entry in append.entries if "delta" in entry.type or entry.message
    ]
    assert order == ["agent_delta", "assistant_message", "agent_delta", "assistant_message"]
