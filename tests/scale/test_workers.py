"""One address, two processes behind it, and a store of several servers that loses one while runs stream."""

import asyncio
from pathlib import Path

import pytest

from gateway.types import Topic
from tests.clusters import RedisCluster, Sentinels, is_master, until
from tests.e2e.processes import Gateway
from tests.scale.scene import PREFIX, TOPICS, streaming


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
async def test_workers_outlive_the_loss_of_a_master(tmp_path: Path, kind: str) -> None:
    with RedisCluster(tmp_path) if kind == "cluster" else Sentinels(tmp_path) as store:
        gateway = Gateway(store.url, "--workers", "2", "--key-prefix", PREFIX, "--drain", "0")
        try:
            await gateway.start()
            async with streaming(store.url, gateway.url, gateway.url) as scene:
                await scene.heard_on()
                if isinstance(store, RedisCluster):
                    key = scene.broker.channel(Topic(TOPICS[0]))
                    dead = store.master_of(key)
                    dead.kill()
                    await asyncio.to_thread(store.failed_over, key, dead)
                else:
                    store.master.kill()
                    await asyncio.to_thread(until, lambda: is_master(store.replica.port), what="a failover")
                await scene.heard_on()
                await scene.stop_and_compare()
        finally:
            await gateway.stop()
