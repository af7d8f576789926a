import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from gateway.adapters import ADAPTERS, AnthropicMessages
from gateway.broker.redis import RedisBroker
from gateway.errors import ProviderError
from gateway.publisher import Publisher
from tests.publishing import mirror

TOPIC = "chat:1"
CHUNK: dict[str, Any] = {"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@pytest_asyncio.fixture
async def publisher(broker: RedisBroker) -> AsyncIterator[Publisher]:
    async with Publisher(broker=broker) as publisher:
        yield publisher


class Source:
    """A stream that says whether it was closed, and may hang after its items."""

    def __init__(self, *items: Any, hangs: bool = False) -> None:
        self._items = items
        self._hangs = hangs
        self.closed = False

    async def events(self) -> AsyncIterator[Any]:
        try:
            for item in self._items:
                yield item
            if self._hangs:
                await asyncio.Event().wait()
        finally:
            self.closed = True

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[AsyncIterator[Any]]:
        yield self.events()
        self.closed = True

    async def awaited(self) -> AsyncIterator[Any]:
        return self.events()


@pytest.mark.parametrize("form", ["events", "entered", "awaited"])
async def test_opens_and_closes_whatever_a_library_gives(publisher: Publisher, broker: RedisBroker, form: str) -> None:
    source = Source(CHUNK)
    async with publisher.run(TOPIC, agent="a") as run:
        message = await run.consume(getattr(source, form)())
    assert message is not None
    assert message.text == "Hi."
    assert source.closed
    assert (await mirror(broker, TOPIC))["context"]["events"][-1]["data"]["content"] == "Hi."


async def test_stopped_run_closes_the_stream_and_keeps_the_text(publisher: Publisher, broker: RedisBroker) -> None:
    half = {"id": "c", "choices": [{"index": 0, "delta": {"content": "Half"}}]}
    source = Source(half, hangs=True)
    async with publisher.run(TOPIC, agent="a") as run:
        asyncio.get_running_loop().call_later(0.05, run.stop, "stopped by ann")
        await run.consume(source.events())
    assert source.closed
    state = await mirror(broker, TOPIC)
    assert state["runs"][0]["status"] == "cancelled"
    data = state["context"]["events"][-1]["data"]
    assert (data["content"], data["metadata"]["interrupted"]) == ("Half", True)


async def test_sub_agents_of_a_stream_that_is_stopped_end_with_it(publisher: Publisher, broker: RedisBroker) -> None:
    source = Source(
        {"type": "RUN_STARTED"}, {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "x"}, hangs=True
    )
    async with publisher.run(TOPIC, agent="a") as run:
        asyncio.get_running_loop().call_later(0.2, run.stop, "stopped by ann")
        await run.consume(source.events())
    runs = (await mirror(broker, TOPIC))["runs"]
    assert [(one["agent"], one["status"]) for one in runs] == [("a", "cancelled"), ("x", "cancelled")]


@pytest.mark.parametrize("adapter", ["anthropic", AnthropicMessages])
async def test_adapter_may_be_named(publisher: Publisher, adapter: Any) -> None:
    start = {"type": "message_start", "message": {"id": "m"}}
    async with publisher.run(TOPIC, agent="a") as run:
        message = await run.consume(Source({"type": "new"}, start, {"type": "message_stop"}).events(), adapter=adapter)
    assert message is not None


async def test_adapter_that_is_none(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(ValueError, match=r"anthropic.*got 'claude'"):
            await run.consume(Source(CHUNK).events(), adapter="claude")


@pytest.mark.parametrize(("stream", "told"), [([CHUNK], "asynchronous stream, got list"), (None, "got NoneType")])
async def test_stream_that_is_none(publisher: Publisher, stream: Any, told: str) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(TypeError, match=told):
            await run.consume(stream)


@pytest.mark.parametrize("item", [{"type": "what"}, {}, 3, "text"])
async def test_stream_that_nobody_knows(publisher: Publisher, item: Any) -> None:
    source = Source(item)
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(TypeError, match="expected a stream of ag-ui"):
            await run.consume(source.events())
    assert source.closed


async def test_stream_without_an_item(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        with pytest.raises(ProviderError, match="without a single item"):
            await run.consume(Source().events())


@pytest.mark.parametrize("name", ADAPTERS)
async def test_junk_is_kept_or_refused_by_name(publisher: Publisher, name: str) -> None:
    junk: Any = {"type": "junk", "event": "junk"}
    async with publisher.run(TOPIC, agent="a") as run:
        if name in {"openai-agents", "pydantic-ai"}:
            junk = type("Junk", (), {"type": "junk", "event_kind": "junk"})()
        await run.consume(Source(junk).events(), adapter=name)
