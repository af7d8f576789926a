"""The examination of a server: each thing that can be wrong, on real ones that are."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from gateway.broker.checkup import check_broker
from gateway.broker.port import AppendRequest, Entry
from gateway.broker.redis import RedisBroker
from gateway.finding import Finding
from gateway.types import START, Topic, new_id
from tests.servers import RedisServer, free_port

PASSWORD = "sesame"
NEWER = {"+waitaof", "+spublish", "+ssubscribe", "+sunsubscribe"}
"""Rights of commands that came with 7.0 and 7.2."""
README = Path(__file__).parents[2] / "README.md"


@pytest_asyncio.fixture
async def bad(tmp_path: Path) -> AsyncIterator[RedisServer]:
    options = {
        "appendonly": "no",
        "client-output-buffer-limit": "pubsub 1mb 512kb 10",
        "maxmemory": "64mb",
        "maxmemory-policy": "allkeys-lru",
        "notify-keyspace-events": "KEA",
        "requirepass": PASSWORD,
    }
    with RedisServer(tmp_path, options) as server:
        yield server


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.about: finding for finding in findings}


async def test_a_server_with_bad_settings_is_told_what_to_do(bad: RedisServer) -> None:
    found = by_name(await check_broker(bad.url, key_prefix="gw"))
    assert found["maxmemory-policy"].level == "error"
    assert found["maxmemory-policy"].found == "allkeys-lru"
    assert "noeviction" in found["maxmemory-policy"].advice
    assert found["client-output-buffer-limit"].level == "warning"
    assert found["client-output-buffer-limit"].found == "pubsub 1048576 524288 10"
    assert found["persistence"].level == "warning"
    assert "appendonly yes" in found["persistence"].advice
    assert found["notify-keyspace-events"].level == "note"
    assert found["replicas"].level == "note"
    for name in ("reachable", "version", "clock", "rights"):
        assert found[name].level == "ok"
    assert all(finding.advice for finding in found.values() if finding.level != "ok")


async def test_a_good_server_is_left_as_it_was(tmp_path: Path) -> None:
    with RedisServer(tmp_path, {"appendonly": "yes", "maxmemory": "256mb"}) as server:
        found = await check_broker(server.url, key_prefix="gw")
        async with Redis.from_url(server.url) as client:
            assert await client.dbsize() == 0
    assert {finding.level for finding in found if finding.about not in {"replicas", "latency"}} == {"ok"}


async def test_memory_that_is_nearly_used_up_is_told(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        async with Redis.from_url(server.url) as client:
            await client.set("large", b"x" * 100_000_000)
            await client.config_set("maxmemory", 105_000_000)
        found = by_name(await check_broker(server.url, key_prefix="gw"))
    assert found["maxmemory"].level == "warning"


async def test_a_wrong_password_is_an_error_that_does_not_show_it(bad: RedisServer) -> None:
    (found,) = await check_broker(bad.url.replace(PASSWORD, "guessed-wrong"), key_prefix="gw")
    assert (found.level, found.about) == ("error", "reachable")
    assert "guessed-wrong" not in found.found + found.advice


async def test_nobody_there_is_an_error() -> None:
    (found,) = await check_broker(f"redis://:{PASSWORD}@127.0.0.1:{free_port()}/0", key_prefix="gw")
    assert (found.level, found.about) == ("error", "reachable")
    assert PASSWORD not in found.found + found.advice


async def test_a_replica_is_an_error(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "master") as master:
        options = {"replicaof": f"127.0.0.1 {master.port}"}
        with RedisServer(tmp_path / "replica", options) as replica:
            found = by_name(await check_broker(replica.url, key_prefix="gw"))
    assert found["role"].level == "error"


async def test_a_clock_that_is_off_is_told(tmp_path: Path) -> None:
    with RedisServer(tmp_path, clock=tmp_path / "clock") as server:
        server.jump(90)
        found = by_name(await check_broker(server.url, key_prefix="gw"))
    assert found["clock"].level == "warning"
    assert found["clock"].found in {"90.0 s ahead", "89.9 s ahead"}


# Rights


async def user(server: RedisServer, *rules: str) -> str:
    """Give the URL of a user; rules that the server does not know yet are left out, as the README says."""
    client: Any
    async with Redis.from_url(server.url) as client:
        await client.execute_command("ACL", "SETUSER", "agents", "on", f">{PASSWORD}", "resetchannels")
        for rule in rules:
            with contextlib.suppress(ResponseError) if rule in NEWER else contextlib.nullcontext():
                await client.execute_command("ACL", "SETUSER", "agents", rule)
    return f"redis://agents:{PASSWORD}@127.0.0.1:{server.port}/0"


async def test_missing_rights_are_told_by_command(bad: RedisServer) -> None:
    url = await user(bad, "~gw:*", "&gw:*", "+@all", "-@dangerous", "+info", "-eval", "-xadd", "-publish")
    found = await check_broker(url, key_prefix="gw")
    denied = [finding.found.partition(" is not allowed")[0] for finding in found if finding.about == "rights"]
    assert denied == ["EVAL", "XADD", "PUBLISH"]
    assert {finding.level for finding in found if finding.about == "rights"} == {"error"}


async def test_keys_and_channels_of_another_prefix_are_missing_rights(bad: RedisServer) -> None:
    url = await user(bad, "~other:*", "&other:*", "+@all", "-@dangerous", "+info")
    denied = [finding for finding in await check_broker(url, key_prefix="gw") if finding.about == "rights"]
    assert {"PUBLISH", "SUBSCRIBE", "XADD"} <= {finding.found.partition(" ")[0] for finding in denied}


async def test_the_rights_that_the_readme_lists_are_enough(bad: RedisServer) -> None:
    rights = README.read_text().partition("ACL SETUSER gateway on >a-password ")[2].partition("```")[0]
    url = await user(bad, *rights.replace("\\", "").split())
    found = by_name(await check_broker(url, key_prefix="gw"))
    assert found["rights"].level == "ok"
    assert found["client-output-buffer-limit"].level == "note"  # CONFIG is not for it
    broker = RedisBroker(url, key_prefix="gw")
    request = AppendRequest(writer=new_id(), seq="1", entries=(Entry(kind="h", type="note", data=b'{"type":"note"}'),))
    await broker.append(Topic("t"), request, position=START)
    assert (await broker.read(Topic("t"), START, limit=10)).top == 1
    await broker.aclose()
