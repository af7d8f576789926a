"""What a run does when the broker goes away, loses data or comes back with older data: real servers, really killed."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.errors import HistoryConflictError
from gateway.publisher import Publisher
from gateway.run import Run
from tests.publishing import SlowBroker, events, mirror, until
from tests.servers import RedisServer

TOPIC = "chat:1"


@pytest.fixture
def server(tmp_path: Path) -> Any:
    """A server that keeps what it was told to save, and loses the rest when it is killed."""
    with RedisServer(tmp_path / "data") as server:
        yield server


@pytest_asyncio.fixture
async def broker(server: RedisServer) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(server.url, timeout=1.0)
    yield broker
    await broker.aclose()


async def save(server: RedisServer) -> None:
    async with Redis.from_url(server.url) as redis:
        await redis.save()


async def said(run: Run, text: str) -> None:
    await run.delta(text)
    await run.add_message(Message.assistant(text))
    await run.flush()


def texts(state: dict[str, Any]) -> list[str]:
    return [event["data"]["content"] for event in state["context"]["events"] if event["type"] != "tool_call"]


async def test_broker_that_comes_back_has_everything_once_and_in_order(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "data", {"appendonly": "yes", "appendfsync": "always"}) as server:
        broker = RedisBroker(server.url, timeout=1.0)
        async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
            await run.delta("0 ")
            await run.flush()
            with server.away():
                for number in range(1, 30):
                    await run.delta(f"{number} ")
                acknowledged = asyncio.create_task(run.flush())
                await until(lambda: asyncio.sleep(0.05, publisher.patience.away))
                assert not acknowledged.done()
            await acknowledged
            (opened,) = (await mirror(broker, TOPIC))["open"]
            assert opened["text"] == "".join(f"{number} " for number in range(30))
        assert [event["type"] for event in await events(broker, TOPIC)][-1] == "agent_complete"
        await broker.aclose()


async def test_lost_replies_double_nothing(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker, flush_interval=0) as publisher, publisher.run(TOPIC, agent="a") as run:
        async with Redis.from_url(server.url) as redis:
            for number in range(60):
                await run.delta(f"{number} ")
                if number % 6 == 0:
                    await redis.client_kill_filter(_type="normal", skipme=True)
                await asyncio.sleep(0.002)
        await run.flush()
        state = await mirror(broker, TOPIC)
        assert state["open"][0]["text"] == "".join(f"{number} " for number in range(60))


async def test_run_writes_again_what_a_rolled_back_broker_lost(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        await said(run, "one")
        await save(server)
        epoch = run.position.epoch
        await said(run, "two")
        await run.usage({"output_tokens": 5}, call="c")
        await run.tool_call("c1", "t", "{}")
        await run.delta("thr")
        await run.flush()
        with server.away():
            pass
        await run.delta("ee")
        await run.flush()
        assert run.position.epoch != epoch
        state = await mirror(broker, TOPIC)
        assert texts(state)[:2] == ["one", "two"]
        assert [opened["text"] for opened in state["open"]] == ["three"]
        assert state["context"]["usage"]["output_tokens"] == 5
        assert [call["id"] for call in state["context"]["tool_calls"]] == ["c1"]
        own = run.context
        stored = await publisher.context(TOPIC)
    surface = [event.to_dict() for event in own.log.surface()]
    assert [event.to_dict() for event in stored.log.surface()] == surface


async def test_run_writes_everything_again_to_an_empty_broker(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as earlier:
            await said(earlier, "of an earlier run")
        async with publisher.run(TOPIC, agent="a") as run:
            await said(run, "one")
            with server.away():
                pass
            await said(run, "two")
            state = await mirror(broker, TOPIC)
            assert texts(state) == ["of an earlier run", "one", "two"]
            assert [entry["status"] for entry in state["runs"]] == ["running"]
        assert (await mirror(broker, TOPIC))["runs"][0]["status"] == "completed"


async def test_silent_run_hears_of_a_loss_by_its_renewal(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.6) as publisher, publisher.run(TOPIC, agent="a") as run:
        await said(run, "one")
        with server.away():
            pass

        async def restored() -> bool:
            return texts(await mirror(broker, TOPIC)) == ["one"]

        await until(restored)


async def test_evicted_keys_are_written_again(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker, lease=0.6) as publisher, publisher.run(TOPIC, agent="a") as run:
        await said(run, "one")
        async with Redis.from_url(server.url) as redis:
            await redis.delete(f"gw:{{{TOPIC}}}:events")

        async def restored() -> bool:
            return texts(await mirror(broker, TOPIC)) == ["one"]

        await until(restored)
        await said(run, "two")
        assert texts(await mirror(broker, TOPIC)) == ["one", "two"]


async def test_two_losses_in_a_row(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher, publisher.run(TOPIC, agent="a") as run:
        for number in range(3):
            await said(run, f"message {number}")
            with server.away():
                pass
        await run.flush()
        await said(run, "last")
        assert texts(await mirror(broker, TOPIC)) == ["message 0", "message 1", "message 2", "last"]


async def test_end_reaches_a_broker_that_lost_the_run(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as run:
            await said(run, "one")
            with server.away():
                pass
        state = await mirror(broker, TOPIC)
        assert (texts(state), state["runs"][0]["status"]) == (["one"], "completed")


async def test_lease_that_came_back_with_older_data_is_outlasted(
    server: RedisServer, broker: RedisBroker, tmp_path: Path
) -> None:
    async with Publisher(broker=broker, lease=1.0) as publisher:
        old = publisher.run(TOPIC, agent="old")
        async with old:
            await said(old, "old")
            await save(server)
            shutil.copy(server.directory / "dump.rdb", tmp_path / "kept.rdb")
        async with publisher.run(TOPIC, agent="new") as run:
            await said(run, "new")
            server.kill()
            shutil.copy(tmp_path / "kept.rdb", server.directory / "dump.rdb")
            server.start()
            # In the older data the old run still holds the topic.
            await said(run, "newer")
            state = await mirror(broker, TOPIC)
        assert texts(state) == ["old", "new", "newer"]
        assert [(entry["agent"], entry["status"]) for entry in state["runs"]] == [("old", "lost"), ("new", "running")]


async def test_another_history_under_the_run_is_a_conflict(server: RedisServer, broker: RedisBroker) -> None:
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="other") as other:
            await said(other, "another history")
        run = publisher.run("chat:2", agent="a")

        async def agent() -> None:
            async with run:
                await said(run, "mine")
                async with Redis.from_url(server.url) as redis:
                    for suffix in ("", ":events"):
                        await redis.copy(f"gw:{{{TOPIC}}}{suffix}", f"gw:{{chat:2}}{suffix}", replace=True)
                await run.add_message(Message.user("next"))
                await run.flush()

        with pytest.raises(HistoryConflictError):
            await agent()
        with pytest.raises(HistoryConflictError):
            await run.delta("x")


async def test_many_runs_share_a_broker_that_blinks(server: RedisServer) -> None:
    broker = RedisBroker(server.url, timeout=1.0)

    async def agent(publisher: Publisher, number: int) -> None:
        async with publisher.run(f"many:{number}", agent="a") as run:
            for word in range(30):
                await run.delta(f"{word} ")
                await asyncio.sleep(0.005)
            await run.flush()
            state = await mirror(broker, f"many:{number}")
            assert state["open"][0]["text"] == "".join(f"{word} " for word in range(30))

    async with Publisher(broker=broker) as publisher, asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(agent(publisher, number))
        await asyncio.sleep(0.05)
        with server.silent():
            await asyncio.sleep(1.2)
    await broker.aclose()


@pytest.mark.parametrize("seed", range(8))
async def test_random_losses_leave_the_conversation_whole(server: RedisServer, broker: RedisBroker, seed: int) -> None:
    random = Random(seed)
    async with Publisher(broker=broker) as publisher:
        async with publisher.run(TOPIC, agent="a") as earlier:
            await said(earlier, "of an earlier run")
        async with publisher.run(TOPIC, agent="a") as run:
            written = ""
            for step in range(40):
                match random.randrange(8):
                    case 0 | 1 | 2:
                        written += f"{step} "
                        await run.delta(f"{step} ")
                    case 3:
                        await run.add_message(Message.assistant(f"message {step}: {written}"))
                        written = ""
                    case 4:
                        await run.usage({"output_tokens": step}, call=f"c{random.randrange(3)}")
                    case 5:
                        await run.tool_call(f"t{step}", "t", "{}")
                        await run.tool_result(f"t{step}", "t", f"result {step}")
                    case 6:
                        await save(server)
                    case 7 if random.random() < 0.6:
                        with server.away():
                            await run.delta("away ")
                            written += "away "
            await run.flush()
            state = await mirror(broker, TOPIC)
            stored = await publisher.context(TOPIC)
            assert [event.to_dict() for event in stored.log.surface()] == [
                event.to_dict() for event in run.context.log.surface()
            ]
            assert [opened["text"] for opened in state["open"]] == ([written] if written else [])
            assert stored.usage == run.context.usage
            assert stored.tool_calls == run.context.tool_calls
            assert state["runs"][-1]["status"] == "running"


async def test_append_is_repeated_as_it_was(broker: RedisBroker, server: RedisServer) -> None:
    slow = SlowBroker(broker)
    async with Publisher(broker=slow) as publisher, publisher.run(TOPIC, agent="a") as run:
        with server.silent():
            await run.delta("text")
            await until(lambda: asyncio.sleep(0.05, len(slow.appends) >= 3))
            await run.delta(" more")
        await run.flush()
        first, *again = [request for request in slow.appends if request.seq == "2"]
        assert again
        assert all(request == first for request in again)
        assert (await mirror(broker, TOPIC))["open"][0]["text"] == "text more"
