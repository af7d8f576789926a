"""Gateways on a real cluster whose slots move and whose masters die while runs stream.

``GATEWAY_SCALE_ROUNDS`` is how often that happens (`make test-scale`).
"""

import asyncio
import os
from functools import partial
from pathlib import Path

from gateway.patience import Patience
from gateway.types import START, Topic
from tests.clusters import RedisCluster, do
from tests.scale.scene import TOPICS, streaming
from tests.servers import RedisServer

ROUNDS = int(os.environ.get("GATEWAY_SCALE_ROUNDS", "1"))


async def test_94_and_57_readers_are_exact_after_a_slot_moved_and_a_master_died(tmp_path: Path) -> None:
    """Reports 94 (subscriptions survive a moved slot and a lost shard) and 57 (stop reaches the run's own node)."""
    with RedisCluster(tmp_path) as cluster:
        async with streaming(cluster.url) as scene:
            for number in range(ROUNDS):
                await scene.heard_on()
                key = scene.broker.channel(Topic(TOPICS[number % len(TOPICS)]))
                target = cluster.other(cluster.master_of(key))
                await asyncio.to_thread(move, cluster, key, target.port)
                await scene.heard_on()
                dead = cluster.master_of(key)
                dead.kill()
                await asyncio.to_thread(cluster.failed_over, key, dead)
                await scene.heard_on()
                await asyncio.to_thread(dead.start)
                await asyncio.to_thread(cluster.settle)
            await scene.stop_and_compare()


async def test_readers_are_exact_after_a_replica_took_over_that_lacked_acknowledged_events(tmp_path: Path) -> None:
    with RedisCluster(tmp_path) as cluster:
        async with streaming(cluster.url) as scene:
            for number in range(ROUNDS):
                await scene.heard_on()
                topic = Topic(TOPICS[number % len(TOPICS)])
                key = scene.broker.channel(topic)
                dead = cluster.master_of(key)
                await asyncio.to_thread(cut_off, cluster, dead)
                await scene.heard_on()
                lost = await Patience().call(partial(scene.broker.read, topic, START, limit=0))
                dead.kill()
                await asyncio.to_thread(cluster.failed_over, key, dead)
                await scene.heard_on()
                lineage = do(cluster.master_of(key).port, "HGET", key, "lineage").decode()
                shared = dict(epoch.split(":") for epoch in lineage.split(","))
                assert int(shared[lost.epoch]) < lost.top
                await asyncio.to_thread(dead.start)
                await asyncio.to_thread(cluster.settle)
            await scene.stop_and_compare()


def cut_off(cluster: RedisCluster, master: RedisServer) -> None:
    """Let a master's replica hear no more of it, and take its place all the same when it dies."""
    for server in cluster.servers:
        do(server.port, "CONFIG", "SET", "cluster-replica-validity-factor", 0)
    do(master.port, "ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
    do(master.port, "CLIENT", "KILL", "TYPE", "replica")


def move(cluster: RedisCluster, key: str, port: int) -> None:
    with cluster.moving(key, next(server for server in cluster.servers if server.port == port)):
        pass
