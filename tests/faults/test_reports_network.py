"""What users of other systems report about Redis, networks and deploys; named as in `test_reports_reconnect`."""

import asyncio
import contextlib
import itertools
from pathlib import Path

import pytest

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.hub import Hub
from gateway.publisher import Publisher
from gateway.types import Topic
from tests.faults.hurry import counted, in_a_hurry
from tests.faults.proxy import Proxy
from tests.faults.reading import PATIENCE, assert_exact, read_to
from tests.faults.store import Archive
from tests.faults.tally import Tally
from tests.faults.world import World
from tests.serving import Gateway, append, eventually, serve

TOPIC = "chat:42"


@pytest.mark.parametrize("fault", ["restart", "cut", "silence"])
async def test_93_link_that_was_lost_hears_everything_again(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart of Redis, or a network that went silent, the subscriber never subscribes again."""
    tally = Tally()
    in_a_hurry(monkeypatch)
    counted(monkeypatch, tally)
    # Without the audit, which would hide a link that hears nothing.
    monkeypatch.setattr(Hub, "_audit", unaudited)
    async with World(tmp_path, seed=93, tally=tally) as world:
        follower = world.follow(TOPIC, mirror=True)
        await append(world.admin, TOPIC, {"n": 0})
        await world.settled()
        for _ in range(3):
            if fault == "restart":
                async with world.store_away():
                    await asyncio.sleep(0.05)
            else:
                with world.to_hub.cut() if fault == "cut" else world.to_hub.half_open():
                    for number in range(20):
                        await append(world.admin, TOPIC, {"n": number})
            await append_again(world.admin)
            await world.settled()
            # What came so far may all have been read when the link was made anew; this has to be heard on it.
            await eventually(lambda: world.gateway.hub.sure)
            await append_again(world.admin)
            await world.settled()
            await world.verify(written=True)
        assert follower.failure is None


async def unaudited(_: Hub) -> None:
    """Stand in for what finds silent losses."""


async def append_again(broker: RedisBroker) -> None:
    """Append as soon as the broker answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(Exception):
                await append(broker, TOPIC, {"n": "again"})
                return
            await asyncio.sleep(0.02)


async def test_95_shutdown_says_come_back_to_each(redis_url: str, key_prefix: str) -> None:
    """A shutdown closes with 1006, or hangs waiting for sockets."""
    async with contextlib.AsyncExitStack() as stack, serve(redis_url, key_prefix, drain=0.3) as gateway:
        plains = [await stack.enter_async_context(gateway.plain()) for _ in range(50)]
        for plain in plains:
            await plain.ask("subscribe", {"channel": TOPIC})
        gateway.server.should_exit = True
        closed = await asyncio.gather(*(plain.closed() for plain in plains))
        assert {code for code, _ in closed} == {3001}


async def test_96_clients_of_a_gateway_that_is_gone_come_back_at_random_moments(
    served: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clients reconnect in step after a restart."""
    drawn: list[tuple[float, float]] = []

    def note(low: float, high: float) -> float:
        drawn.append((low, high))
        return 0.0

    monkeypatch.setattr("gateway.client.BACKOFF_BASE", 0.5)
    monkeypatch.setattr("gateway.client.BACKOFF_CAP", 20.0)
    monkeypatch.setattr("gateway.client.random.uniform", note)
    async with Proxy(served.port) as proxy, Client(f"http://127.0.0.1:{proxy.port}") as client:
        subscription = client.subscribe(TOPIC)
        await anext(subscription)
        with proxy.cut():
            await eventually(lambda: len(drawn) >= 8)
    assert {low for low, _ in drawn} == {0}
    widths = [high for _, high in drawn[:7]]
    assert widths == [min(20.0, 0.5 * 2**number) for number in range(7)]


@pytest.mark.usefixtures("_quick")
async def test_97_quiet_connection_is_kept_alive_and_a_dead_one_is_left(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    """A subscription dies silently after hours; heartbeats are missed."""
    async with (
        serve(redis_url, key_prefix, ping_interval=0.1, pong_timeout=0.5, drain=0) as gateway,
        Proxy(gateway.port) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}") as client,
    ):
        subscription = client.subscribe(TOPIC, since="start", mirror=False)
        await eventually(lambda: gateway.hub.clients(Topic(TOPIC)))
        (first,) = gateway.hub.clients(Topic(TOPIC))
        answered = proxy.pieces
        await eventually(lambda: proxy.pieces >= answered + 10)
        assert gateway.hub.clients(Topic(TOPIC)) == [first]
        with proxy.half_open():
            pass
        position = await append(broker, TOPIC, {"n": 1})
        updates = await read_to(subscription, position.offset)
        assert [update.position.offset for update in updates if not update.snapshot] in ([1], [])
        await eventually(lambda: first not in gateway.hub.clients(Topic(TOPIC)))


async def test_100_characters_are_whole_however_text_is_cut(
    served: Gateway, publisher: Publisher, archive: Archive
) -> None:
    """Characters that are split across chunks become U+FFFD."""
    text = "a🚀é👩‍🚀日\u0301本"
    halves = text.encode("utf-16-le")
    units = [halves[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(halves), 2)]
    async with publisher.run(TOPIC, agent="a") as run, Client(served.http) as client:
        subscription = client.subscribe(TOPIC, since="start", mirror=False)
        for start, width in itertools.product(range(2), range(1, 4)):
            await run.delta("".join(units[:start]))
            for at in range(start, len(units), width):
                await run.delta("".join(units[at : at + width]))
        await run.flush()
        updates = await read_to(subscription, run.position.offset)
        texts = [update.data["text"] for update in updates if update.data["type"] == "agent_delta"]
        assert "".join(texts) == text * 6
        assert not any("\ufffd" in piece for piece in texts)
        late = Client(served.http)
        async with late:
            mirrored = late.subscribe(TOPIC)
            await read_to(mirrored, run.position.offset)
            await assert_exact(mirrored.mirror, archive, TOPIC)
