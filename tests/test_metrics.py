"""The metrics of a gateway: that they parse, that they say what happened, and that nobody foreign sees them."""

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message, ToolCall
from gateway.publisher import Publisher
from gateway.types import START, Topic, new_id
from tests.servers import RedisServer, free_port
from tests.serving import Gateway, append, eventually, serve
from tests.signing import API_KEY, SECRET, token

README = Path(__file__).parent.parent / "README.md"
DASHBOARD = Path(__file__).parent.parent / "examples" / "deploy" / "grafana-dashboard.json"
NOTES: list[dict[str, Any]] = [{"type": "note", "n": n} for n in range(3)]

Samples = dict[str, float]
"""By name, and the labels behind it: ``gateway_readers{state=live}``."""


def parsed(text: str) -> Samples:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


async def scraped(served: Gateway, **headers: str) -> Samples:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{served.http}/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


async def until(served: Gateway, name: str, value: float) -> Samples:
    """Scrape until a sample has a value."""
    async with asyncio.timeout(20):
        while True:
            found = await scraped(served)
            if found.get(name) == value:
                return found
            await asyncio.sleep(0.02)


# What they say


async def test_what_readers_get_is_counted(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    async with serve(redis_url, key_prefix) as served, served.plain() as one, served.plain() as two:
        await append(broker, "t", *NOTES[:1])
        for reader in (one, two):
            await reader.ask("subscribe", {"channel": "t"})
        before = await scraped(served)
        await append(broker, "t", *NOTES[:3])
        for reader in (one, two):
            while (await reader.pub())["offset"] < 4:
                pass
        after = await scraped(served)
    await broker.aclose()

    def grown(name: str) -> float:
        return after[name] - before[name]

    assert grown("gateway_received_events_total") == 3
    assert grown("gateway_sent_events_total") == 2 * 3
    assert 2 <= grown("gateway_sent_writes_total") <= 2 * 3
    # One append, one frame, with a head of four bytes (RFC 6455, 5.2).
    assert grown("gateway_sent_bytes_total{road=live}") == sum(reader.frames[-1] + 4 for reader in (one, two))
    assert grown("gateway_flush_seconds_count") >= 1
    assert grown("gateway_flush_bytes_sum") == grown("gateway_sent_bytes_total{road=live}")
    assert after["gateway_readers{state=live}"] == 2
    assert after["gateway_readers{state=behind}"] == 0
    assert after["gateway_topics"] == 1
    assert after["gateway_connections{state=steady}"] == 2
    assert after["gateway_connections_opened_total"] == 2
    assert after["gateway_joins_total"] == 2
    assert after["gateway_commands_total{method=subscribe,outcome=ok}"] == 2
    assert after["gateway_link_up"] == after["gateway_sure"] == 1
    assert 0 < after["gateway_ring_bytes"] < after["gateway_ring_limit_bytes"]
    assert after["gateway_broker_seconds_count"] > 0


async def test_readers_at_several_places_are_counted_each_by_what_it_got(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    async with serve(redis_url, key_prefix) as served, contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(served.plain()) for _ in range(3)]
        await append(broker, "t", *NOTES[:1])
        for reader in readers:
            await reader.ask("subscribe", {"channel": "t"})
        (topic,) = served.hub.topics
        await append(broker, "t", *NOTES[:2])
        for reader in readers:
            while (await reader.pub())["offset"] < 3:
                pass
        before = await scraped(served)
        first, _, third = topic.live
        first.cursor, third.cursor = 1, 2
        await append(broker, "t", *NOTES[:1])
        for reader in readers:
            while (await reader.pub())["offset"] < 4:
                pass
        after = await scraped(served)
    await broker.aclose()
    assert after["gateway_sent_writes_total"] - before["gateway_sent_writes_total"] == 3
    assert after["gateway_sent_events_total"] - before["gateway_sent_events_total"] == 3 + 1 + 2


async def test_recoveries_are_counted_by_kind(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    async with serve(redis_url, key_prefix) as served, served.plain() as plain:
        await append(broker, "t", *NOTES[:2])
        epoch = (await broker.read(Topic("t"), START, limit=0)).epoch
        asked: dict[str, Any] = {"channel": "t", "recover": True, "offset": 1}
        for extra in ({"epoch": epoch}, {"epoch": "aaaaaaaa", "data": {"mirror": True}}, {"epoch": "aaaaaaaa"}):
            await plain.ask("subscribe", asked | extra)
            await plain.ask("unsubscribe", {"channel": "t"})
        found = await scraped(served)
    await broker.aclose()
    for kind in ("continued", "snapshot", "refused"):
        assert found[f"gateway_recoveries_total{{kind={kind}}}"] == 1
    assert found["gateway_snapshots_made_total"] == 1
    assert found["gateway_snapshot_bytes_count"] == 1
    assert found["gateway_mirror_bytes"] > 0


async def test_what_was_lost_on_the_way_is_a_gap_that_is_healed(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    async with serve(redis_url, key_prefix) as served, served.plain() as plain:
        await append(broker, "t", *NOTES[:1])
        await plain.ask("subscribe", {"channel": "t"})
        hearing, lost = served.hub.received, []
        served.hub.received = lambda *heard: lost.append(heard)  # type: ignore[method-assign]
        await append(broker, "t", *NOTES[:1])
        await eventually(lambda: lost)
        served.hub.received = hearing  # type: ignore[method-assign]
        await append(broker, "t", *NOTES[:1])
        assert [(await plain.pub())["offset"] for _ in range(2)] == [2, 3]
        found = await until(served, "gateway_gaps_healed_total", 1)
    await broker.aclose()
    assert found["gateway_gaps_total{found_by=live}"] == 1


async def test_a_broker_that_was_away_shows(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path) as server:
        async with serve(server.url, key_prefix) as served:
            before = await scraped(served)
            with server.away():
                await until(served, "gateway_link_up", 0)
                assert (await scraped(served))["gateway_sure"] == 0
            after = await until(served, "gateway_sure", 1)
    assert after["gateway_link_losses_total"] == before["gateway_link_losses_total"] + 1
    assert after["gateway_broker_connects_total{use=link}"] == before["gateway_broker_connects_total{use=link}"] + 1


async def test_refusals_and_closes_are_counted(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix, command_rate=1, command_burst=3) as served:
        async with served.plain() as plain:
            await plain.ask("rpc", {"method": "x" * 30, "data": {}})
            await plain.ask("unheard_of", {})
            await plain.ask("ping", {})
        async with served.plain() as plain:
            await plain.socket.send("no JSON")
            await plain.closed()
        found = await until(served, "gateway_disconnects_total{code=client}", 1)
    assert found["gateway_commands_total{method=unknown,outcome=104}"] == 2
    assert found["gateway_commands_total{method=ping,outcome=111}"] == 1
    assert found["gateway_limit_refusals_total{limit=commands_per_connection}"] == 1
    assert found["gateway_disconnects_total{code=3501}"] == 1


async def test_refused_requests_are_counted(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(
            *(redis_url, key_prefix), token_secrets=SECRET, api_keys=API_KEY, request_rate=0.001, request_burst=1
        ) as served,
        httpx.AsyncClient(base_url=served.http, trust_env=False) as http,
    ):
        headers = {"authorization": f"Bearer {token('ann')}"}
        assert [(await http.get("/topics/t", headers=headers)).status_code for _ in range(2)] == [403, 429]
        text = (await http.get("/metrics", headers={"x-api-key": API_KEY})).text
    assert 'gateway_limit_refusals_total{limit="requests"} 1.0' in text


async def test_runs_are_measured_by_their_events(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, ping_interval=0.2) as served,
        served.plain() as plain,
        Publisher(redis_url, key_prefix=key_prefix) as publisher,
    ):
        await publisher.publish("t", NOTES[0])
        await plain.ask("subscribe", {"channel": "t"})
        async with publisher.run("t", agent="a") as run:
            await run.delta("Hello")
            await run.add_message(Message.assistant("Hello"))
            found = await until(served, "gateway_first_output_seconds_count", 1)
            assert found["gateway_runs{state=running}"] == 1
            call = ToolCall(id="c", name="deploy", arguments="{}")
            await run.add_message(Message.assistant("", tool_calls=(call,)))
            asking = asyncio.create_task(run.approval(call))
            found = await until(served, "gateway_approvals_waiting", 1)
            assert found["gateway_runs{state=waiting}"] == 1
            decision = {"topic": "t", "run": run.id, "tool_call_id": "c", "decision": "approve", "id": new_id()}
            await plain.ask("rpc", {"method": "decide", "data": decision})
            await asking
            await until(served, "gateway_approval_seconds_count", 1)
            # In a task of its own: the stop cancels this one, wherever it is.
            wish = {"method": "cancel", "data": {"topic": "t", "run": run.id, "id": new_id()}}
            stopping = asyncio.create_task(plain.ask("rpc", wish))
            await asyncio.Event().wait()
        await stopping
        found = await until(served, "gateway_stop_seconds_count", 1)
    assert found["gateway_runs_started_total"] == 1
    assert found["gateway_runs_ended_total{status=cancelled}"] == 1
    assert found["gateway_approvals_waiting"] == 0
    assert found["gateway_runs{state=running}"] == 0
    assert found["gateway_commands_total{method=decide,outcome=ok}"] == 1


async def test_a_run_that_had_begun_before_is_counted_by_what_it_does(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, ping_interval=0.2) as served,
        served.plain() as plain,
        Publisher(redis_url, key_prefix=key_prefix) as publisher,
    ):
        async with publisher.run("t", agent="a") as run:
            await run.log("info", "begun")
            await plain.ask("subscribe", {"channel": "t"})
            async with run.sub_agent("b"):
                await until(served, "gateway_received_events_total", 1)
            await run.delta("Hello")
            await until(served, "gateway_runs{state=running}", 1)
        found = await until(served, "gateway_runs_ended_total{status=completed}", 1)
    assert found["gateway_runs_started_total"] == 0
    assert found["gateway_first_output_seconds_count"] == 0
    assert found["gateway_runs{state=running}"] == 0


# Who sees them, and where


async def test_a_stranger_needs_an_api_key(redis_url: str, key_prefix: str) -> None:
    key = "k" * 20
    async with serve(redis_url, key_prefix, api_keys=key) as served:
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{served.http}/metrics")).status_code == 401
            headers = {"authorization": "Bearer nonsense"}
            assert (await client.get(f"{served.http}/metrics", headers=headers)).status_code == 401
        assert await scraped(served, **{"x-api-key": key})
        assert await scraped(served, authorization=f"ApiKey {key}")


async def test_a_port_of_their_own_needs_no_key(redis_url: str, key_prefix: str) -> None:
    port = free_port()
    async with (
        serve(redis_url, key_prefix, api_keys="k" * 20, metrics_port=port) as served,
        served.plain(hello=False),
        httpx.AsyncClient() as client,
    ):
        await eventually(lambda: served.hub.measures.opened == 1)
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
        assert parsed(answer.text)["gateway_connections{state=connecting}"] == 1
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/metrics")


async def test_workers_tell_each_on_a_port_of_its_own(redis_url: str, key_prefix: str) -> None:
    port = free_port()
    settings: dict[str, Any] = {"workers": 2, "metrics_port": port}
    async with (
        serve(redis_url, key_prefix, **settings) as one,
        serve(redis_url, key_prefix, **settings) as two,
        two.plain(),
        httpx.AsyncClient() as client,
    ):
        await eventually(lambda: two.hub.measures.opened == 1)
        told = [parsed((await client.get(f"http://127.0.0.1:{port + n}/metrics")).text) for n in range(2)]
        refused = await client.get(f"{one.http}/metrics")
    assert [found["gateway_connections_opened_total"] for found in told] == [0, 1]
    assert refused.status_code == 400
    assert "2 workers share this port" in refused.json()["error"]["message"]


# Their form


async def whole(redis_url: str, key_prefix: str, accept: str = "") -> httpx.Response:
    async with serve(redis_url, key_prefix) as served, served.plain() as plain, httpx.AsyncClient() as client:
        await plain.ask("subscribe", {"channel": "t"})
        await plain.ask("unheard_of", {})
        async with served.plain() as other:
            await other.socket.send("no JSON")
            await other.closed()
        return await client.get(f"{served.http}/metrics", headers={"accept": accept})


async def test_names_and_units_are_prometheus_own(redis_url: str, key_prefix: str) -> None:
    text = (await whole(redis_url, key_prefix)).text
    families = list(text_string_to_metric_families(text))
    own = [family for family in families if family.name.startswith("gateway_")]
    assert len(own) > 40
    for family in own:
        assert family.documentation.endswith((".", ";"))
        assert re.fullmatch(r"[a-z_]+", family.name)
        if family.type == "histogram":
            assert family.name.endswith(("_seconds", "_bytes"))
        for sample in family.samples:
            assert not sample.labels.keys() & {"topic", "user", "channel", "client"}
            assert family.type != "counter" or sample.name.endswith("_total")
    assert len([family.name for family in families]) == len({family.name for family in families})


async def test_openmetrics_is_given_to_who_asks_for_it(redis_url: str, key_prefix: str) -> None:
    answer = await whole(redis_url, key_prefix, "application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
async def test_promtool_finds_nothing(redis_url: str, key_prefix: str) -> None:
    text = (await whole(redis_url, key_prefix)).text
    process = await asyncio.to_thread(
        subprocess.run, ["promtool", "check", "metrics"], input=text.encode(), capture_output=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr


async def test_the_readme_lists_what_exists_and_all_of_it(redis_url: str, key_prefix: str) -> None:
    chapter = README.read_text().partition("**Metrics.**")[2].partition("**Logs**")[0]
    rows = "".join(line.partition("|")[2].partition("|")[2] for line in chapter.splitlines() if line.startswith("| "))
    listed = set(re.findall(r"`([a-z_]+)(?:\{[a-z_,]+\})?`", rows))
    text = (await whole(redis_url, key_prefix)).text
    told = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
        if family.name.startswith("gateway_")
    }
    assert {f"gateway_{name}" for name in listed} == told - {"gateway_build_info", "gateway_summary_readers"}


# The dashboard of Grafana


def expressions(panels: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


async def test_the_dashboard_asks_only_for_what_exists(redis_url: str, key_prefix: str) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = set(re.findall(r"\b(?:gateway|process)_[a-z_]+", " ".join(expressions(dashboard["panels"]))))
    text = (await whole(redis_url, key_prefix)).text
    told = set()
    for family in text_string_to_metric_families(text):
        told |= {sample.name for sample in family.samples} or {f"{family.name}_total"}
    assert asked > {"gateway_readers", "gateway_flush_seconds_bucket"}
    assert asked <= told
    labels = set(re.findall(r"by \(([a-z, ]+)\)", " ".join(expressions(dashboard["panels"]))))
    names = {name.strip() for group in labels for name in group.split(",")} - {"le", "instance", "job"}
    known = {
        label for family in text_string_to_metric_families(text) for sample in family.samples for label in sample.labels
    }
    assert names <= known


def test_the_dashboard_has_the_form_that_grafana_loads() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["schemaVersion"] >= 39
    assert dashboard["title"]
    assert dashboard["uid"]
    (source,) = [each for each in dashboard["templating"]["list"] if each["type"] == "datasource"]
    assert source["query"] == "prometheus"
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["targets"]
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{source['name']}}}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs))
