"""Moments between two steps of the hub, held open by a fault."""

import asyncio
from typing import Any

import pytest

from gateway.broker.port import History
from gateway.broker.redis import RedisBroker
from gateway.client import Client
from tests.faults.proxy import Proxy
from tests.faults.reading import read_to
from tests.serving import append, eventually, serve

TOPIC = "chat:42"


class LateAnswers(RedisBroker):
    """Reads whose answers come as late as the test wants."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.answered = asyncio.Event()
        self.allowed = asyncio.Event()

    async def read(self, *arguments: Any, **named: Any) -> History:
        history = await super().read(*arguments, **named)
        self.answered.set()
        await self.allowed.wait()
        return history


@pytest.mark.usefixtures("_quick")
async def test_link_lost_while_a_topic_is_read_for_the_first_time_loses_nothing(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    await append(broker, TOPIC, {"n": 1})
    async with Proxy(int(redis_url.rpartition(":")[2].partition("/")[0])) as proxy:
        late = LateAnswers(proxy.url, key_prefix=key_prefix)
        async with (
            serve("", key_prefix, broker=late, drain=0, audit_interval=3600) as gateway,
            Client(gateway.http) as client,
        ):
            subscription = client.subscribe(TOPIC, mirror=False)
            await late.answered.wait()
            with proxy.cut():
                await eventually(lambda: not gateway.hub.sure)
                await append(broker, TOPIC, {"n": 2})
            await eventually(lambda: gateway.hub._link is not None and gateway.hub._link.up)
            late.allowed.set()
            # Whoever begins now begins at the top, or is sent what was missed: nothing lies between.
            await eventually(lambda: subscription.reader.position is not None)
            assert subscription.reader.position is not None
            if subscription.reader.position.offset < 2:
                (update,) = await read_to(subscription, 2)
                assert update.data["n"] == 2
        await late.aclose()
