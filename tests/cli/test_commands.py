"""`tail`, `publish`, `send`, `topics`: against a server whose every answer the test gives."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.mirror import Mirror
from gateway.types import Publication
from tests.e2e.processes import GATEWAY, Process
from tests.protocol_server import ProtocolServer, delta, protocol_server
from tests.started import remember

EPOCH = "aB3dE6gH"


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ProtocolServer]:
    async with protocol_server() as serving:
        yield serving


async def start(server: ProtocolServer, *arguments: str) -> Process:
    return await Process.start(*arguments, GATEWAY_URL=server.url)


# topics, publish, send


async def test_topics_prints_one_a_line(server: ProtocolServer) -> None:
    process = await start(server, "topics", "--json")
    command = await server.command("rpc")
    assert command.body == {"method": "topics", "data": {}}
    await command.reply({"data": {"topics": [{"topic": "b", "at": 2}, {"topic": "a", "at": 1}]}})
    assert await process.end() == (0, '{"topic":"b","at":2}\n{"topic":"a","at":1}\n', "")


async def test_topics_for_people_names_the_time(server: ProtocolServer) -> None:
    process = await start(server, "topics")
    await (await server.command("rpc")).reply({"data": {"topics": [{"topic": "chat:1", "at": 1790000000000}]}})
    code, out, _ = await process.end()
    assert code == 0
    assert re.fullmatch(r"chat:1  2026-09-\d\d \d\d:\d\d:\d\d  \d+ (d|h|min|s) ago\n", out)


async def test_publish_sends_the_event(server: ProtocolServer) -> None:
    process = await start(server, "publish", "t", '{"type":"note","text":"ä"}')
    command = await server.command("publish")
    assert command.body == {"channel": "t", "data": {"type": "note", "text": "ä"}}
    await command.reply({})
    assert await process.end() == (0, "", "")


async def test_publish_refused_is_one_line_and_1(server: ProtocolServer) -> None:
    process = await start(server, "publish", "t", "{}")
    await (await server.command("publish")).refuse(103)
    assert await process.end() == (1, "", "gateway: 103: no\n")


async def test_publish_of_the_gateways_own_type_is_one_line_and_1(server: ProtocolServer) -> None:
    process = await start(server, "publish", "t", '{"type":"user_message"}')
    expected = "gateway: 103: events of type user_message are the gateway's own\n"
    assert await process.end() == (1, "", expected)
    assert server.connected == []


async def test_send_prints_the_waiting_messages_id(server: ProtocolServer) -> None:
    process = await start(server, "send", "t", "hello", "--id", "mine", "--token", "secret")
    command = await server.command("rpc")
    assert command.body == {"method": "send", "data": {"topic": "t", "content": "hello", "id": "mine"}}
    assert server.connected == [{"token": "secret"}]
    await command.reply({"data": {"message": "m1", "offset": 1, "epoch": EPOCH}})
    assert await process.end() == (0, "m1\n", "")


# tail


async def test_tail_prints_events_from_now_on(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json")
    command = await server.command("subscribe")
    assert command.body == {"channel": "t"}
    await command.reply({"epoch": EPOCH, "offset": 4})
    await command.push(delta(5, "ä"), delta(8, "b", first=6))
    assert json.loads(await process.line()) == {
        "topic": "t",
        "epoch": EPOCH,
        "offset": 5,
        "data": {"type": "agent_delta", "run": "r", "message": "m", "text": "ä"},
    }
    assert json.loads(await process.line()) | {"data": None} == {
        "topic": "t",
        "epoch": EPOCH,
        "offset": 8,
        "from": 6,
        "data": None,
    }
    process.kill(signal.SIGINT)
    assert await process.end() == (130, "", "")


async def test_tail_follows_across_a_restart(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json")
    command = await server.command("subscribe")
    await command.reply({"epoch": EPOCH, "offset": 0})
    await command.push(delta(1))
    assert json.loads(await process.line())["offset"] == 1
    await command.close(1012)
    again = await server.command("subscribe")
    assert (again.body["epoch"], again.body["offset"]) == (EPOCH, 1)
    await again.reply({"recovered": True, "epoch": EPOCH, "offset": 2, "publications": [delta(2)]})
    assert json.loads(await process.line())["offset"] == 2
    await process.stop()


async def test_tail_without_following_ends_at_the_top(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--no-follow")
    await (await server.command("history")).reply({"publications": [], "epoch": EPOCH, "offset": 2})
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "recover": True}
    await command.reply({"recovered": True, "epoch": EPOCH, "offset": 1, "publications": [delta(1)]})
    await command.push(delta(2), delta(3))
    code, out, err = await process.end()
    assert (code, err) == (0, "")
    assert [json.loads(line)["offset"] for line in out.splitlines()] == [1, 2]


async def test_tail_without_following_on_an_empty_topic_ends_at_once(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--no-follow")
    await (await server.command("history")).reply({"publications": [], "epoch": "", "offset": 0})
    assert await process.end() == (0, "", "gateway: nobody has written t yet\n")


async def test_tail_of_a_topic_that_nobody_has_written_says_so_and_goes_on(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json")
    await (await server.command("subscribe")).reply({"epoch": "", "offset": 0})
    assert await process.error_line() == "gateway: nobody has written t yet\n"
    process.kill(signal.SIGINT)
    assert await process.end() == (130, "", "")


async def test_tail_says_that_the_gateway_is_away_and_back(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json")
    command = await server.command("subscribe")
    await command.reply({"epoch": EPOCH, "offset": 1})
    away = {"push": {"message": {"data": {"type": "broker", "sure": False}}}}
    back = {"push": {"message": {"data": {"type": "broker", "sure": True}}}}
    for line in (away, away, back):
        await command.send(line)
    url = server.url.replace("http", "ws") + "/connection/websocket"
    assert "does not hear its broker" in await process.error_line()
    assert "hears its broker again" in await process.error_line()
    await command.close(1012, "restart")
    assert await process.error_line() == f"gateway: the connection to {url} has ended (1012: restart); trying on\n"
    assert await process.error_line() == f"gateway: {url} is back\n"
    process.kill(signal.SIGINT)
    assert await process.end() == (130, "", "")


async def test_tail_without_following_gives_up_on_a_gateway_that_falls_silent(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--no-follow")
    await (await server.command("history")).reply({"publications": [], "epoch": EPOCH, "offset": 2})
    await server.command("subscribe")
    code, out, err = await process.end()
    assert (code, out) == (1, "")
    assert "gateway: t cannot be read from" in err
    assert err.count("\n") == 1


async def test_silent_gateway_is_one_line_and_1(server: ProtocolServer) -> None:
    commands = (("topics",), ("publish", "t", "{}"), ("send", "t", "x"), ("tail", "t", "--no-follow"))
    processes = [await start(server, *arguments) for arguments in commands]  # they wait at the same time
    url = server.url.replace("http", "ws") + "/connection/websocket"
    said = f"gateway: no gateway answers at {url}: no answer within 6 s\n"
    assert await asyncio.gather(*(process.end() for process in processes)) == [(1, "", said)] * len(commands)


async def test_tail_from_an_offset_asks_for_what_follows(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--from", "7")
    await (await server.command("history")).reply({"publications": [], "epoch": EPOCH, "offset": 9})
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "recover": True, "epoch": EPOCH, "offset": 7}
    await process.stop()


async def test_tail_from_a_position_asks_for_what_follows(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--from", "ZZZZZZZZ:7")
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "recover": True, "epoch": "ZZZZZZZZ", "offset": 7}
    await process.stop()


async def test_tail_of_a_trimmed_topic_begins_with_its_snapshot(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--from", "start")
    await (await server.command("subscribe")).reply({"recovered": False, "epoch": EPOCH, "offset": 9})
    await server.command("unsubscribe")
    command = await server.command("subscribe")
    snapshot = Mirror("t", EPOCH, 9).snapshot()
    await command.reply({"epoch": EPOCH, "offset": 9, "data": {"snapshot": dict(snapshot)}})
    assert json.loads(await process.line()) == {
        "topic": "t",
        "epoch": EPOCH,
        "offset": 9,
        "data": {"type": "snapshot", **snapshot},
    }
    await server.command("unsubscribe")
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "recover": True, "epoch": EPOCH, "offset": 9}
    await process.stop()


async def test_tail_for_people_streams_within_the_line(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t")
    command = await server.command("subscribe")
    await command.reply({"epoch": EPOCH, "offset": 0})
    await command.push(delta(1, "Hel"), delta(2, "lo"), {"offset": 3, "data": {"type": "x"}})
    assert await process.line() == "Hello\n"
    assert await process.line() == "x \n"
    await process.stop()


async def test_tail_of_some_types_asks_for_them_and_prints_no_others(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--types", "logs, weather")
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "data": {"lens": {"types": ["logs", "weather"]}}}
    await command.reply({"epoch": EPOCH, "offset": 0})
    await command.push(delta(1), {"offset": 2, "data": {"type": "log", "message": "x"}})
    await command.push({"offset": 3, "data": {"type": "hidden"}}, {"offset": 4, "data": {"type": "weather"}})
    assert json.loads(await process.line())["data"]["type"] == "log"
    assert json.loads(await process.line())["data"]["type"] == "weather"
    await process.stop()


async def test_tail_of_some_types_without_following_ends_at_the_top(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--no-follow", "--types", "log")
    await (await server.command("history")).reply({"publications": [], "epoch": EPOCH, "offset": 2})
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "recover": True}
    log = {"offset": 1, "data": {"type": "log", "message": "x"}}
    await command.reply({"recovered": True, "epoch": EPOCH, "offset": 2, "publications": [log, delta(2)]})
    code, out, err = await process.end()
    assert (code, err) == (0, "")
    assert [json.loads(line)["offset"] for line in out.splitlines()] == [1]


@pytest.mark.parametrize("types", ["", "a b", "log,,chat"])
async def test_tail_of_what_is_no_type_is_bad_usage(server: ProtocolServer, types: str) -> None:
    code, out, err = await (await start(server, "tail", "t", "--types", types)).end()
    assert (code, out) == (2, "")
    assert "expected event types or groups with commas between" in err


def announce(offset: int, topic: str, *, run: str = "0123456789abcdef") -> dict[str, Any]:
    """Make the publication with which a run announces a sub-agent."""
    data = {"type": "agent_start", "run": run, "agent": "helper", "parent": "r", "topic": topic}
    return {"offset": offset, "data": data}


async def test_tail_follows_runs_from_their_announcement_to_their_end(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--from", "start", "--follow-runs", "--types", "chat")
    command = await server.command("subscribe")
    assert command.body["data"] == {"lens": {"types": ["chat", "runs"]}}
    await command.reply({"recovered": True, "epoch": EPOCH, "offset": 1, "publications": [delta(1, "I ask")]})
    await command.push(announce(2, "t/sub"))
    child = await server.command("subscribe")
    assert child.body == {"channel": "t/sub", "recover": True, "data": {"lens": {"types": ["chat", "runs"]}}}
    await child.reply({"recovered": True, "epoch": EPOCH, "offset": 1, "publications": [delta(1, "I look")]})
    assert await process.line() == "I ask\n"
    await command.push(delta(3, "I wait"))
    assert await process.line() == "helper 0123 │ I look\n"
    await child.push({"offset": 2, "data": {"type": "agent_complete", "run": "0123456789abcdef"}})
    await server.command("unsubscribe")
    await command.push({"offset": 4, "data": {"type": "user_message", "content": "so"}})
    assert await process.line() == "I wait\n"
    assert await process.line() == "user: so\n"
    await process.stop()


async def test_tail_follows_runs_that_were_announced_before(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--follow-runs")
    mirror = Mirror("t", EPOCH)
    for offset, topic in enumerate(("t/one", "t/two"), start=1):
        mirror.apply(Publication(offset=offset, data=announce(offset, topic, run=topic)["data"]))
    mirror.apply(Publication(offset=3, data={"type": "agent_complete", "run": "t/one"}))
    state = {"epoch": EPOCH, "offset": 3, "data": {"snapshot": mirror.snapshot()}}
    await (await server.command("subscribe")).reply(state)
    await server.command("unsubscribe")
    commands = {command.body["channel"]: command for command in [await server.command("subscribe") for _ in "12"]}
    assert commands["t"].body["offset"] == 3
    assert commands["t/two"].body == {"channel": "t/two"}
    await commands["t/two"].refuse(103)
    assert await process.error_line() == "gateway: t/two cannot be followed: 103: no\n"
    await commands["t"].reply({"recovered": True, "epoch": EPOCH, "offset": 4, "publications": [delta(4)]})
    assert json.loads(await process.line())["offset"] == 4
    await process.stop()


async def test_tail_of_runs_without_following_reads_each_where_it_is_announced(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t", "--json", "--no-follow", "--follow-runs")
    await (await server.command("history")).reply({"publications": [], "epoch": EPOCH, "offset": 2})
    root = await server.command("subscribe")
    events = [announce(1, "t/sub"), delta(2)]
    await root.reply({"recovered": True, "epoch": EPOCH, "offset": 2, "publications": events})
    await (await server.command("history")).reply({"publications": [], "epoch": EPOCH, "offset": 1})
    child = await server.command("subscribe")
    await child.reply({"recovered": True, "epoch": EPOCH, "offset": 1, "publications": [announce(1, "t/sub")]})
    code, out, err = await process.end()
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["topic"], line["offset"]) for line in lines] == [("t", 1), ("t/sub", 1), ("t", 2)]


async def test_tail_into_a_pipe_that_closes_ends_with_a_sub_agents_event(server: ProtocolServer) -> None:
    tail = await asyncio.create_subprocess_shell(
        f"{' '.join(GATEWAY)} tail t --json --follow-runs --from start --url {server.url} | head -n 1",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    command = await server.command("subscribe")
    await command.reply({"recovered": True, "epoch": EPOCH, "offset": 1, "publications": [announce(1, "t/sub")]})
    assert tail.stdout is not None
    assert await tail.stdout.readline()
    child = await server.command("subscribe")
    await child.reply({"recovered": True, "epoch": EPOCH, "offset": 0})
    await child.push(delta(1))
    await child.push(delta(2))
    await child.connection.wait_closed()
    out, err = await tail.communicate()
    assert (out, err) == (b"", b"")


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
async def test_tail_has_colours_on_a_terminal_unless_they_are_not_wanted(
    server: ProtocolServer, no_color: str, *, coloured: bool
) -> None:
    screen, end = pty.openpty()
    environment = {**os.environ, "GATEWAY_URL": server.url, "TERM": "xterm", "NO_COLOR": no_color}
    process = await asyncio.create_subprocess_exec(
        *GATEWAY, "tail", "t", "--from", "start", stdout=end, env=environment
    )
    remember(process.pid)
    os.close(end)
    command = await server.command("subscribe")
    log = {"offset": 1, "data": {"type": "log", "level": "error", "message": "hot"}}
    await command.reply({"recovered": True, "epoch": EPOCH, "offset": 1, "publications": [log]})
    seen = await asyncio.to_thread(os.read, screen, 4096)
    process.send_signal(signal.SIGINT)
    await process.wait()
    os.close(screen)
    assert b"[error] hot" in seen
    assert (b"\x1b[31m" in seen) is coloured


async def test_tail_refused_is_one_line_and_1(server: ProtocolServer) -> None:
    process = await start(server, "tail", "t")
    await (await server.command("subscribe")).close(3507, "permission denied")
    assert await process.end() == (1, "", "gateway: 3507: permission denied\n")


async def test_tail_into_a_pipe_that_closes_ends_quietly(server: ProtocolServer) -> None:
    tail = await asyncio.create_subprocess_shell(
        f"{' '.join(GATEWAY)} tail t --json --url {server.url} | head -n 1",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    command = await server.command("subscribe")
    await command.reply({"epoch": EPOCH, "offset": 0})
    await command.push(delta(1))
    assert tail.stdout is not None
    assert await tail.stdout.readline()
    await command.push(delta(2))
    await command.push(delta(3))
    await command.connection.wait_closed()
    out, err = await tail.communicate()
    assert (out, err) == (b"", b"")
