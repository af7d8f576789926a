"""The bots of examples/bots, each started as its users start it, against runs of the demo."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Client
from gateway.context.approval import Approve, Reject
from gateway.context.messages import Message, ToolCall
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import new_id
from tests.e2e.processes import GATEWAY, PATIENCE, ROOT, until
from tests.servers import free_port
from tests.started import remember

BOTS = ROOT / "examples" / "bots"


class Demo:
    """`gateway demo`: a gateway, a store, and an agent that answers."""

    def __init__(self, url: str, redis_url: str) -> None:
        self.url = url
        self.redis_url = redis_url


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    port = free_port()
    runtime = tmp_path_factory.mktemp("runtime")
    runtime.chmod(0o700)
    process = subprocess.Popen(
        [*GATEWAY, "demo", "--no-open", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "PYTHONUNBUFFERED": "1"},
    )
    remember(process.pid)
    assert process.stdout is not None
    assert process.stdout.readline() == f"Chat: http://127.0.0.1:{port}\n"
    redis_url = process.stdout.readline().strip().partition("=")[2]
    yield Demo(f"http://127.0.0.1:{port}", redis_url)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)


class Collector:
    """A local HTTP server that keeps what is posted to it.

    Attributes:
        bodies: What it took.
        refusals: How many posts it refuses before it takes one.

    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.refusals = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                refused = collector.refusals > 0
                collector.refusals -= refused
                if not refused:
                    collector.bodies.append(json.loads(body))
                self.send_response(503 if refused else 200)
                self.end_headers()

            def log_message(self, format: str, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    yield collector
    collector.server.shutdown()
    thread.join()
    collector.server.server_close()


class RunningBot:
    """One of the examples, started."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, demo: Demo, name: str, *arguments: str, directory: Path, **environment: str) -> "RunningBot":
        """Start it, and wait until it is up."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            BOTS / f"{name}.py",
            *arguments,
            stderr=asyncio.subprocess.PIPE,
            cwd=directory,
            env={**os.environ, "GATEWAY_URL": demo.url, **environment},
        )
        remember(process.pid)
        bot = cls(process)
        await bot.said("the bot is up")
        return bot

    async def said(self, text: str) -> str:
        """Read its standard error up to a line with this text."""
        assert self.process.stderr is not None
        before = ""
        async with asyncio.timeout(PATIENCE):
            while line := (await self.process.stderr.readline()).decode():
                if text in line:
                    return line
                before += line
        raise AssertionError(before)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Stop it; it must end in good order. Gives the rest of what it said."""
        self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE):
            _, said = await self.process.communicate()
        assert (self.process.returncode, "Traceback" in said.decode()) == (0, False), said.decode()
        return said.decode()


@pytest.fixture
def topic() -> str:
    """A topic that no other test has."""
    return f"chat:{new_id()}"


async def answered(client: Client, topic: str, text: str) -> Mirror:
    """Send the agent of a topic a message, and wait until it has answered; gives the topic's state."""
    await client.send(topic, text)
    async with client.subscribe(topic) as subscription:
        async for update in subscription:
            runs = update.mirror.runs
            if runs and not update.mirror.queue and all(run["ended_at"] for run in runs):
                return update.mirror
    raise AssertionError("the subscription ended before the run")


async def fail(demo: Demo, topic: str) -> None:
    """Make a run that fails."""
    async with Publisher(demo.redis_url) as publisher:
        try:
            async with publisher.run(topic, agent="breaker") as run:
                await run.log("info", "here it comes", logger="breaker", fields={"try": 1})
                await run.log("debug", "not worth a word")
                raise ValueError("out of luck")  # noqa: TRY301 - the run's end is what is wanted
        except ValueError:
            return


async def test_alert_tells_of_errors_across_a_restart(
    demo: Demo, collector: Collector, topic: str, tmp_path: Path
) -> None:
    collector.refusals = 1
    bot = await RunningBot.start(demo, "alert", topic, directory=tmp_path, WEBHOOK_URL=collector.url)
    await fail(demo, topic)

    async def told() -> bool:
        return bool(collector.bodies)

    await until(told, "the alert")
    assert "out of luck" in collector.bodies[0]["text"]
    assert collector.bodies[0]["topic"] == topic
    assert "the webhook does not take an alert" in await bot.stop(signal.SIGINT)
    await fail(demo, topic)
    bot = await RunningBot.start(demo, "alert", topic, directory=tmp_path, WEBHOOK_URL=collector.url)

    async def told_again() -> bool:
        return len(collector.bodies) == 2

    await until(told_again, "the alert of what happened meanwhile")
    await bot.stop()


async def test_second_signal_does_not_wait_for_handlers(
    demo: Demo, collector: Collector, topic: str, tmp_path: Path
) -> None:
    collector.refusals = sys.maxsize
    bot = await RunningBot.start(demo, "alert", topic, directory=tmp_path, WEBHOOK_URL=collector.url)
    await fail(demo, topic)
    line = await bot.said("the webhook does not take an alert (HTTP status 503); trying on")
    assert collector.url not in line
    bot.process.send_signal(signal.SIGTERM)
    bot.process.send_signal(signal.SIGINT)
    _, said = await bot.process.communicate()
    assert bot.process.returncode == 1
    assert "Traceback" not in said.decode()


async def test_alert_tells_of_slow_approvals_once(demo: Demo, collector: Collector, topic: str, tmp_path: Path) -> None:
    bot = await RunningBot.start(demo, "alert", topic, directory=tmp_path, WEBHOOK_URL=collector.url, SLOW_AFTER="0.1")
    async with Client(demo.url) as client:
        await client.send(topic, "Send a postcard to my aunt")

        async def told() -> bool:
            return bool(collector.bodies)

        await until(told, "the reminder")
        async for update in client.subscribe(topic):
            waiting = [one for one in update.mirror.approvals if one["decision"] is None]
            if waiting:
                await client.decide(topic, waiting[0]["run"], waiting[0]["tool_call_id"], "reject")
                break
    await fail(demo, f"{topic}/other")
    await bot.stop()
    assert [body["text"] for body in collector.bodies] == ["send_postcard waits for an approval"]


async def test_approve_decides_what_its_rules_cover(demo: Demo, topic: str, tmp_path: Path) -> None:
    rules = [
        {"tool": "send_postcard", "arguments": {"to": "my a*"}, "decision": "approve"},
        {"tool": "send_*", "arguments": {"to": "the *"}, "decision": "reject", "reason": "Not to them."},
    ]
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    bot = await RunningBot.start(demo, "approve", "rules.json", "chat:*", directory=tmp_path)
    async with Client(demo.url) as client:
        mirror = await answered(client, topic, "A postcard to my aunt")
        async with Publisher(demo.redis_url) as publisher, publisher.run(topic, agent="a") as run:
            call = ToolCall(id="c", name="send_letter", arguments='{"to": "the king"}')
            await run.add_message(Message.assistant(None, tool_calls=(call,)))
            assert await run.approval(call) == Reject(reason="Not to them.")
    assert [(one["decision"], one["by"]) for one in mirror.approvals] == [("approve", "anonymous")]
    await bot.stop()


async def test_approve_leaves_the_rest_to_people(demo: Demo, topic: str, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text('[{"tool": "rm", "arguments": {"path": "/tmp/*"}, "decision": "approve"}]')
    bot = await RunningBot.start(demo, "approve", "rules.json", topic, directory=tmp_path)
    async with Publisher(demo.redis_url) as publisher, publisher.run(topic, agent="a") as run:
        calls = [
            ToolCall(id="c1", name="rm", arguments='{"path": "/etc/passwd"}'),
            ToolCall(id="c2", name="rm", arguments='{"path": "/tmp/x"}'),
        ]
        await run.add_message(Message.assistant(None, tool_calls=tuple(calls)))
        asking = asyncio.create_task(run.approval(calls[0], timeout=None))
        assert isinstance(await run.approval(calls[1]), Approve)
        assert not asking.done()
        asking.cancel()
    await bot.stop(signal.SIGINT)


async def test_budget_stops_a_run_that_costs_too_much(demo: Demo, topic: str, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"demo": {"input": 1, "output": 1000}}')
    bot = await RunningBot.start(demo, "budget", "0.001", "prices.json", topic, directory=tmp_path)
    async with Client(demo.url) as client:
        mirror = await answered(client, topic, "What is 6 * 7?")
    assert [run["status"] for run in mirror.runs] == ["cancelled"]
    assert "it has cost $0.0" in await bot.said("is stopped")
    await bot.stop()


@pytest.mark.parametrize("name", ["transcript.jsonl", "transcript.db"])
async def test_archive_keeps_each_message_once(demo: Demo, topic: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    async with Client(demo.url) as client:
        bot = await RunningBot.start(demo, "archive", name, topic, directory=tmp_path)
        await answered(client, topic, "What is 6 * 7?")

        async def ends() -> int:
            return sum(kind == "agent_complete" for _, kind in archived(file))

        await until(ends, "the first run")
        # Killed, it has noted nothing of the last moment, and hears that again.
        bot.process.kill()
        await bot.process.communicate()
        if file.suffix == ".jsonl":
            with file.open("a") as torn:
                torn.write('{"topic": "half')
        async with Publisher(demo.redis_url) as publisher, publisher.run(topic, agent="a") as run:
            await run.add_message(Message.user("And 7 * 8?"))
            await run.add_message(Message.assistant("56"))
        bot = await RunningBot.start(demo, "archive", name, topic, directory=tmp_path)

    async def both() -> bool:
        return await ends() == 2

    await until(both, "the second run")
    await bot.stop()
    async with Client(demo.url) as client:
        mirror = (await anext(client.subscribe(topic))).mirror
    kept = archived(file)
    assert len(set(kept)) == len(kept)
    kinds = [kind for _, kind in kept]
    assert [kind for kind in kinds if kind.endswith("_message")] == [
        f"{message['role']}_message" for message in mirror.messages() if message["role"] != "tool"
    ]
    assert kinds.count("tool_result") == sum(message["role"] == "tool" for message in mirror.messages())


async def test_archive_that_is_killed_again_and_again_is_whole(demo: Demo, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "transcript.jsonl"
    async with Publisher(demo.redis_url) as publisher, publisher.run(topic, agent="a") as run:
        writing = asyncio.create_task(write(run, 400))
        for goal in (1, 50, 100, 200):

            async def reached(goal: int = goal) -> bool:
                return len(archived(file)) >= goal

            bot = await RunningBot.start(demo, "archive", file.name, topic, directory=tmp_path)
            await until(reached, f"{goal} lines")
            bot.process.kill()
            await bot.process.communicate()
        await writing
    bot = await RunningBot.start(demo, "archive", file.name, topic, directory=tmp_path)

    async def ended() -> bool:
        return any(kind == "agent_complete" for _, kind in archived(file))

    await until(ended, "the run's end")
    await bot.stop()
    kept = [line["data"] for line in map(json.loads, file.read_text().splitlines())]
    assert [event["content"] for event in kept if event["type"] == "user_message"] == list(map(str, range(400)))


async def write(run: Run, count: int) -> None:
    for number in range(count):
        await run.add_message(Message.user(str(number)))
        await asyncio.sleep(0.005)


def archived(file: Path) -> list[tuple[int, str]]:
    """Give the offset and the type of each event in an archive."""
    if not file.exists():
        return []
    if file.suffix == ".jsonl":
        lines = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(line["offset"], line["data"]["type"]) for line in map(json.loads, lines)]
    database = sqlite3.connect(file)
    try:
        return database.execute('SELECT "offset", type FROM events ORDER BY "offset"').fetchall()
    except sqlite3.OperationalError:  # it has no table yet
        return []
    finally:
        database.close()


async def test_ship_logs_ships_what_is_worth_it(demo: Demo, collector: Collector, topic: str, tmp_path: Path) -> None:
    collector.refusals = 1
    await fail(demo, topic)
    bot = await RunningBot.start(demo, "ship_logs", topic, directory=tmp_path, COLLECTOR_URL=collector.url)
    await fail(demo, topic)

    async def shipped() -> bool:
        return len(collector.bodies) == 2

    await until(shipped, "both lines")
    assert "the collector takes nothing" in await bot.stop()
    line = collector.bodies[0]
    assert line.pop("timestamp").endswith("+00:00")
    assert line.pop("run")
    assert line == {
        "level": "info",
        "message": "here it comes",
        "logger": "breaker",
        "fields": {"try": 1},
        "topic": topic,
    }


async def test_bot_that_cannot_begin_says_why_in_one_line(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "alert.db").write_text("no database, but long enough to be looked at as one" * 10)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        BOTS / "alert.py",
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "GATEWAY_URL": demo.url, "WEBHOOK_URL": "http://127.0.0.1:1"},
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert said.decode() == "bot: a bot's positions cannot be kept in alert.db: file is not a database\n"
