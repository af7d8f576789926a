"""The examination of a store of several servers, on real ones."""

from pathlib import Path

import pytest

from gateway.broker.store_checkup import check_store
from gateway.finding import Finding
from tests.clusters import RedisCluster, Sentinels, do, until
from tests.servers import RedisServer


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.about: finding for finding in findings}


async def test_one_server_is_examined_as_ever(redis_url: str) -> None:
    found = by_name(await check_store(redis_url, key_prefix="gw"))
    assert found["reachable"].level == found["rights"].level == "ok"


async def test_every_master_of_a_cluster_and_its_slots(tmp_path: Path) -> None:
    with RedisCluster(tmp_path, replicas=0) as cluster:
        found = by_name(await check_store(cluster.url, key_prefix="gw"))
        assert found["cluster"].level == "warning"
        assert found["cluster"].found.startswith("3 masters; without a replica: ")
        for server in cluster.servers:
            place = f"127.0.0.1:{server.port}"
            assert place in found["cluster"].found
            for about in ("reachable", "version", "rights", "clock"):
                assert found[f"{place} {about}"].level == "ok", found[f"{place} {about}"]
            assert do(server.port, "DBSIZE") == 0
        assert not {"slots"} & found.keys()
        do(cluster.servers[0].port, "CLUSTER", "DELSLOTS", *range(100))
        cluster.servers[2].kill()
        found = by_name(await check_store(cluster.url, key_prefix="gw"))
        assert found["slots"].level == "error"
        assert found["slots"].found.startswith("100 of 16384 slots have no server")
        dead = f"127.0.0.1:{cluster.servers[2].port}"
        assert found[f"node {dead}"].level == "warning"
        assert found[f"{dead} reachable"].level == "error"


async def test_masters_that_have_replicas(tmp_path: Path) -> None:
    with RedisCluster(tmp_path, masters=1, replicas=1) as cluster:
        for server in cluster.servers:
            until(lambda port=server.port: len(do(port, "CLUSTER", "SLOTS")[0]) == 4, what="a replica is known")  # type: ignore[misc]
        found = by_name(await check_store(cluster.url, key_prefix="gw"))
        assert found["cluster"].level == "ok"
        assert found["cluster"].found == "1 master, none without a replica"


async def test_no_node_and_no_cluster(tmp_path: Path) -> None:
    found = await check_store("redis+cluster://:sesame@127.0.0.1:1", key_prefix="gw")
    assert [(one.level, one.about) for one in found] == [("warning", "node 127.0.0.1:1"), ("error", "cluster")]
    with RedisServer(tmp_path) as server:
        found += await check_store(f"redis+cluster://127.0.0.1:{server.port}", key_prefix="gw")
    assert "no node of a cluster" in found[2].found
    assert all(one.advice for one in found)
    assert "sesame" not in str(found)


async def test_sentinels_and_the_master_that_they_name(tmp_path: Path) -> None:
    with Sentinels(tmp_path) as sentinels:
        found = by_name(await check_store(sentinels.url, key_prefix="gw"))
        place = f"127.0.0.1:{sentinels.master.port}"
        assert found["sentinels"].level == "ok"
        assert found["sentinels"].found == f"3 of 3 say that {place} is the master of runs"
        assert found[f"{place} rights"].level == "ok"
        assert found[f"{place} replicas"].found == "1"
        other = by_name(await check_store(sentinels.url.replace("/runs", "/others"), key_prefix="gw"))
        assert other["sentinels"].level == "error"
        one = by_name(
            await check_store(f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinels.ports[0]}/runs", key_prefix="gw")
        )
        assert one["sentinels"].level == one["sentinel 127.0.0.1:1"].level == "warning"


async def test_another_form_is_refused_without_its_password() -> None:
    with pytest.raises(ValueError, match="expected the Redis URL") as caught:
        await check_store("http://:sesame@127.0.0.1", key_prefix="gw")
    assert "sesame" not in str(caught.value)
