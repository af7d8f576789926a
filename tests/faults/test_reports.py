"""What users of other systems report that fits none of the other modules; named as in `test_reports_reconnect`."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.broker.port import Appended, AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.codec import encode_event
from gateway.context.approval import Approve
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.errors import CommandError, GatewayError
from gateway.publisher import Publisher
from gateway.types import START, Position, Publication, Topic
from tests.e2e.processes import running_gateway
from tests.faults.proxy import Proxy
from tests.faults.reading import assert_exact, read_to
from tests.faults.store import Archive
from tests.people import act, cancel, decide
from tests.protocol_server import delta, protocol_server
from tests.publishing import until
from tests.serving import Gateway, append, serve

TOPIC = "chat:42"


async def test_3_and_4_stop_is_a_verb_of_the_store(broker: RedisBroker, publisher: Publisher, archive: Archive) -> None:
    """A stored stream cannot be cancelled, on one back-end or the other; here no gateway is needed for it."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("half an ans")
        await run.flush()
        assert (await cancel(broker, TOPIC, run.id))["status"] == "requested"
        async with asyncio.timeout(20):
            await asyncio.Event().wait()
    _, state = await archive.state(TOPIC)
    assert [run["status"] for run in state["runs"]] == ["cancelled"]


async def test_22_tool_call_that_is_told_again_is_one(served: Gateway, publisher: Publisher, archive: Archive) -> None:
    """A replayed start of a tool call duplicates the call."""
    async with (
        publisher.run(TOPIC, agent="a") as run,
        Proxy(served.port) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
    ):
        subscription = client.subscribe(TOPIC)
        for text in ('{"of":', ' "every', 'thing"}'):
            await run.tool_call_delta(index=0, id="c", name="look", text=text)
            await run.flush()
            proxy.reset()
            await read_to(subscription, run.position.offset)
        assert subscription.mirror is not None
        (opened,) = subscription.mirror.open
        assert opened["tool_calls"] == [{"index": 0, "id": "c", "name": "look", "text": '{"of": "everything"}'}]
        await run.add_message(Message.assistant("one moment"))
        await run.tool_call("c", "look", {"of": "everything"})
        await run.flush()
        await read_to(subscription, run.position.offset)
        before = subscription.mirror.state()
        position, events = await archive.whole(TOPIC)
        for offset, event in events.items():
            subscription.mirror.apply(Publication(offset=offset, data=event))
        assert subscription.mirror.state() == before
        assert position == subscription.mirror.position


async def test_24_transcript_of_a_client_never_enters_the_log(
    served: Gateway, publisher: Publisher, archive: Archive
) -> None:
    """A resume stores the interrupted turn twice as the client sends its transcript along."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("count"))
        await run.delta("one two")
        await run.cancel("enough")
    async with Client(served.http) as client:
        assert run.ended is not None
        (update,) = await read_to(client.subscribe(TOPIC), run.ended.offset)
        transcript = Context.deserialize(update.mirror.context)
        refused = publisher.run(TOPIC, agent="a", context=transcript.add_message(Message.user("go on")))
        with pytest.raises(GatewayError):
            await refused.__aenter__()
        await client.send(TOPIC, "go on")
    taken = publisher.take(await publisher.read(Topic(TOPIC)), agent="a")
    assert taken is not None
    async with taken as again:
        assert [message.text for message in again.context.entries] == ["count", "one two", "go on"]
    _, state = await archive.state(TOPIC)
    contents = [event["data"]["content"] for event in state["context"]["events"] if "content" in event["data"]]
    assert contents == ["count", "one two", "go on"]


async def test_28_topics_of_one_connection_are_numbered_and_continued_each_by_itself(
    served: Gateway, broker: RedisBroker
) -> None:
    """No order number, no cursor, and nobody knows what several streams on one connection mean."""
    for number in range(6):
        await append(broker, f"t{number % 2}", {"n": number})
    async with served.plain() as plain:
        replies = [await plain.ask("subscribe", {"channel": f"t{n}", "recover": True}) for n in range(2)]
        assert [[pub["offset"] for pub in reply["publications"]] for reply in replies] == [[1, 2, 3]] * 2
        await plain.ask("unsubscribe", {"channel": "t0"})
        for number in range(4):
            await append(broker, f"t{number % 2}", {"n": 6 + number})
        assert [(await plain.pub())["offset"] for _ in range(2)] == [4, 5]
        asked = {"channel": "t0", "recover": True, "epoch": replies[0]["epoch"], "offset": 3}
        reply = await plain.ask("subscribe", asked)
        assert [pub["offset"] for pub in reply["publications"]] == [4, 5]


async def test_34_resume_reads_what_was_missed_and_no_more(redis_url: str, key_prefix: str) -> None:
    """A resume scans the whole buffer."""
    length, missed = 100_000, 10
    read: list[int] = []

    class Counting(RedisBroker):
        async def read(self, *arguments: Any, **named: Any) -> Any:
            history = await super().read(*arguments, **named)
            read.append(len(history.events))
            return history

    broker = Counting(redis_url, key_prefix=key_prefix, max_history_events=2 * length, max_history_bytes=1 << 30)
    data = encode_event({"type": "app.note", "n": 1})
    entries = [Entry(kind="h", type="app.note", data=data)] * 1000
    top = START
    for number in range(length // len(entries)):
        request = AppendRequest(writer=f"w{number}", seq="1", entries=entries)
        answer = await broker.append(Topic(TOPIC), request, position=START)
        assert isinstance(answer, Appended)
        top = answer.position
    async with serve("", key_prefix, broker=broker, drain=0) as gateway, Client(gateway.http) as client:
        since = Position(epoch=top.epoch, offset=top.offset - missed)
        updates = await read_to(client.subscribe(TOPIC, since=since, mirror=False), top.offset)
        assert [update.position.offset for update in updates] == [*range(since.offset + 1, top.offset + 1)]
    assert top.offset == length
    assert sum(read) <= 1000, "a page for all that come back at about the same place"
    await broker.aclose()


@pytest.mark.usefixtures("_quick")
async def test_35_client_sends_its_position_at_every_reconnect() -> None:
    """A client never sends its cursor."""
    async with protocol_server() as server, Client(server.url) as client:
        subscription = client.subscribe("t", since="start", mirror=False)
        command = await server.command("subscribe")
        assert command.body == {"channel": "t", "recover": True}
        for offset in range(1, 4):
            known = {"epoch": "AAAAAAAA", "offset": offset}
            await command.reply({"recovered": True, **known, "publications": [delta(offset)]})
            await read_to(subscription, offset)
            await command.close(3001)
            command = await server.command("subscribe")
            assert command.body == {"channel": "t", "recover": True, **known}


async def test_46_result_of_work_that_ended_while_the_gateway_was_away_waits_in_the_log() -> None:
    """Work ends while the socket is down, and the client is never told."""
    async with running_gateway() as gateway, Client(gateway.url) as client, Redis.from_url(gateway.redis_url) as redis:
        subscription = client.subscribe(TOPIC)
        async with Publisher(gateway.redis_url, flush_interval=0) as publisher, publisher.run(TOPIC, agent="a") as run:
            await run.delta("working")
            await run.flush()
            await read_to(subscription, run.position.offset)
            await gateway.stop()
            await run.add_message(Message.assistant("the result"))
            await run.complete({"answer": 42})
        await gateway.start()
        assert run.ended is not None
        await read_to(subscription, run.ended.offset)
        assert subscription.mirror is not None
        assert [message["content"] for message in subscription.mirror.messages()] == ["the result"]
        assert [run["status"] for run in subscription.mirror.runs] == ["completed"]
        await assert_exact(subscription.mirror, Archive(redis, "gw"), TOPIC)


async def test_86_one_bound_holds_whoever_writes(
    redis_url: str, key_prefix: str, redis: "Redis", archive: Archive
) -> None:
    """Redis fills up as two producers have different caps."""
    bound = 64 * 1024
    brokers = [RedisBroker(redis_url, key_prefix=key_prefix, max_history_bytes=bound) for _ in range(2)]

    async def held() -> int:
        keys = [key async for key in redis.scan_iter(match=f"{key_prefix}:{{{TOPIC}}}*")]
        return sum([await redis.memory_usage(key, samples=0) or 0 for key in keys])

    most = 0
    for number in range(400):
        await append(brokers[number % 2], TOPIC, {"type": "app.note", "n": number, "text": "x" * 5000})
        most = max(most, await held())
    assert most < 10 * bound, "40 times as much as was to be kept was written"

    async def trimmed() -> bool:
        return await held() < 2 * bound

    await until(trimmed)
    top = (await archive.stored(TOPIC)).position
    assert top.offset == 400
    for broker in brokers:
        await broker.aclose()


async def test_run_on_a_full_topic_can_still_be_stopped_and_answered(redis_url: str, key_prefix: str) -> None:
    """Not reported: what stops a run is small, and refused it would leave the run for ever."""
    broker = RedisBroker(redis_url, key_prefix=key_prefix, max_bytes=20_000, max_history_bytes=1 << 20)
    async with Publisher(broker=broker, flush_interval=0) as publisher, publisher.run(TOPIC, agent="a") as run:
        asking = asyncio.create_task(run.approval(ToolCall(id="c", name="look", arguments="{}")))
        await until(lambda: _asked(broker, run.id))
        for _ in range(3):
            await act(broker, "send", topic=TOPIC, content="x" * 5000)
        with pytest.raises(CommandError, match="full"):
            await act(broker, "send", topic=TOPIC, content="x" * 5000)
        assert (await decide(broker, TOPIC, run.id, "c", "approve"))["decision"] == "approve"
        assert isinstance(await asking, Approve)
        assert (await cancel(broker, TOPIC, run.id))["status"] == "requested"
        async with asyncio.timeout(20):
            await asyncio.Event().wait()
    assert run.ended is not None
    await broker.aclose()


async def _asked(broker: RedisBroker, run: str) -> bool:
    return f"a:{run}/c" in (await broker.standing(Topic(TOPIC))).approvals
