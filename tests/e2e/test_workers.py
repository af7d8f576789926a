"""People and dying agents: two gateway processes and three worker processes on one store."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.embedded import EmbeddedServer
from gateway.broker.redis import RedisBroker
from gateway.client import Client
from tests.e2e.endless import EndlessProvider
from tests.e2e.processes import ROOT, Gateway, until
from tests.e2e.working import STATES, reached
from tests.publishing import events, written_after_a_stop

NAMES = ("one", "two", "three")


class Page:
    """What a reader at one of the gateways sees of a topic, live."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._mirror: Any = None

    async def follow(self, topic: str) -> None:
        async for update in self.client.subscribe(topic):
            self._mirror = update.mirror

    @property
    def state(self) -> dict[str, Any]:
        return {"runs": [], "approvals": []} if self._mirror is None else self._mirror.state()

    @property
    def statuses(self) -> list[str]:
        return [run["status"] for run in self.state["runs"]]


class Stage:
    """Gateways, workers by name, the provider of their models, and the effects of their tools."""

    def __init__(self, gateways: tuple[Gateway, Gateway], provider: EndlessProvider, effects: Path) -> None:
        self.gateways = gateways
        self.provider = provider
        self.workers: dict[str, asyncio.subprocess.Process] = {}
        self._effects = effects

    async def start(self, name: str) -> None:
        store, provider, effects = self.gateways[0].redis_url, self.provider.url, str(self._effects)
        command = (sys.executable, "-m", "tests.e2e.working", store, provider, effects, "--name", name, "--lease", "2")
        # Not remembered: one that takes a killed one's place must outlive the test that starts it.
        self.workers[name] = await asyncio.create_subprocess_exec(*command, cwd=ROOT)

    def signal(self, number: signal.Signals, names: Iterable[str]) -> None:
        for name in names:
            os.kill(self.workers[name].pid, number)

    @contextlib.asynccontextmanager
    async def pages(self, topic: str) -> AsyncIterator[tuple[Page, Page]]:
        async with Client(self.gateways[0].url) as one, Client(self.gateways[1].url) as other:
            pages = (Page(one), Page(other))
            following = [asyncio.create_task(page.follow(topic)) for page in pages]
            try:
                yield pages
            finally:
                for task in following:
                    task.cancel()
                await asyncio.wait(following)

    async def history(self, topic: str) -> list[dict[str, Any]]:
        broker = RedisBroker(self.gateways[0].redis_url)
        try:
            return await events(broker, topic)
        finally:
            await broker.aclose()

    def effect(self, message: str) -> int:
        path = self._effects / message.replace(" ", "-")
        return len(path.read_text()) if path.exists() else 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with EmbeddedServer() as server, EndlessProvider() as provider:
        gateways = (Gateway(server.url), Gateway(server.url))
        stage = Stage(gateways, provider, tmp_path_factory.mktemp("effects"))
        try:
            for gateway in gateways:
                await gateway.start()
            for name in NAMES:
                await stage.start(name)
            yield stage
        finally:
            for worker in stage.workers.values():
                with contextlib.suppress(ProcessLookupError):
                    worker.kill()
                await worker.wait()
            for gateway in gateways:
                await gateway.stop()


async def shown(pages: Iterable[Page], *statuses: str) -> None:
    """Wait until all pages show the topic's runs so."""

    async def all_so() -> bool:
        return all(page.statuses == list(statuses) for page in pages)

    await until(all_so, f"all pages to show {statuses}")


async def begun(stage: Stage, page: Page, message: str) -> dict[str, Any]:
    """Wait until the last run is in the state that its message names; gives the run."""

    async def there() -> bool:
        if message.partition(" ")[0] in {"streaming", "silent"} and not stage.provider.asked.get(message):
            return False
        if message.startswith("tool") and not stage.effect(message):
            return False
        return reached(page.state)

    await until(there, f"a run of {message!r} to begin")
    run: dict[str, Any] = page.state["runs"][-1]
    return run


@pytest.mark.asyncio(loop_scope="module")
async def test_parallel_sends_with_one_id_are_one_run(stage: Stage) -> None:
    """Reports 77 and 80: however many tabs, gateways and workers there are."""
    async with stage.pages("once") as pages:
        sends = [pages[number % 2].client.send("once", "hello", id="mine") for number in range(20)]
        answers = await asyncio.gather(*sends)
        assert all(answer == answers[0] for answer in answers)
        await pages[0].client.send("once", "and then?", id="next")
        await shown(pages, "completed", "completed")
    history = await stage.history("once")
    kinds = [event["type"] for event in history]
    assert [kinds.count(kind) for kind in ("message_queued", "message_taken", "agent_start")] == [2, 2, 2]
    said = [event["content"] for event in history if event["type"] == "assistant_message"]
    assert said == ["You said hello", "You said and then?"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("mode", ["now", "after_step"])
@pytest.mark.parametrize("state", STATES)
async def test_stop_through_another_gateway_reaches_every_state(stage: Stage, state: str, mode: str) -> None:
    """Reports 1, 3, 58 and 61."""
    message, topic = f"{state} {mode}", f"stop-{state}-{mode}"
    async with stage.pages(topic) as (page, other):
        sent = await page.client.send(topic, message)
        run = await begun(stage, page, message)
        # By the message, as one would who has not seen the run yet.
        asked = await other.client.rpc(
            "cancel", {"topic": topic, "message": sent["message"], "mode": mode, "id": "stop"}
        )
        assert (asked["status"], asked["run"]) == ("requested", run["run"])
        if mode == "after_step":
            await shown((page, other), "cancelling")  # none of these steps ever ends
            assert (await page.client.cancel(topic, run=run["run"]))["status"] == "requested"
        await shown((page, other), "cancelled")
        again = await other.client.cancel(topic, run=run["run"])
        assert (again["status"], again["as"]) == ("ended", "cancelled")

        async def closed() -> bool:
            return not stage.provider.open.get(message)

        await until(closed, "the provider's connection to be closed at its far end")
        state_now = other.state
    history = await stage.history(topic)
    assert history[-1]["type"] == "agent_cancelled"
    assert written_after_a_stop(history) == []
    messages = [event["data"] for event in state_now["context"]["events"]]
    if state == "streaming":
        assert messages[-1]["content"].startswith("word0 ")
        assert messages[-1]["metadata"]["interrupted"] is True
        assert stage.provider.asked[message] == 1
    if state in {"tool", "approval"}:
        assert (messages[-1]["tool_call_id"], history[-2]["type"]) == (f"call_{run['run']}", "tool_result")
    assert stage.effect(message) == (1 if state == "tool" else 0)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("state", ["streaming", "tool", "approval"])
async def test_killed_worker_is_seen_on_every_page_and_another_goes_on(stage: Stage, state: str) -> None:
    """Report 65: a counter of the tool's effects says 0 or 1, never 2; no call is left without a result."""
    message, topic = f"{state} killed", f"killed-{state}"
    async with stage.pages(topic) as pages:
        await pages[0].client.send(topic, message)
        run = await begun(stage, pages[0], message)
        stage.signal(signal.SIGKILL, [run["agent"]])
        await stage.workers[run["agent"]].wait()
        try:
            await shown(pages, "lost")
            if state == "approval":
                assert [approval["decision"] for page in pages for approval in page.state["approvals"]] == [
                    "expired"
                ] * 2
                late = await pages[1].client.decide(topic, run["run"], f"call_{run['run']}", "approve")
                assert (late["won"], late["decision"], late["ended"]) == (False, "expired", "lost")
            await pages[1].client.send(topic, "still there?")
            await shown(pages, "lost", "completed")
            assert pages[0].state["runs"][1]["agent"] != run["agent"]
            entries = [event["data"] for event in pages[0].state["context"]["events"] if event["type"] != "tool_call"]
            asked = [call["id"] for entry in entries for call in entry.get("tool_calls") or ()]
            answered = [entry["tool_call_id"] for entry in entries if entry.get("tool_call_id")]
            assert asked == answered == ([] if state == "streaming" else [f"call_{run['run']}"])
            texts = [entry["content"] for entry in entries]
            assert texts[-2:] == ["still there?", "You said still there?"]
            assert texts[1].startswith("word0 " if state == "streaming" else "Let me see")
            assert stage.effect(message) == (1 if state == "tool" else 0)
        finally:
            await stage.start(run["agent"])


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("state", ["streaming", "silent", "tool", "approval"])
async def test_worker_that_stood_still_for_too_long_gives_its_run_up(stage: Stage, state: str) -> None:
    """Reports 14 and 66: who holds the lease runs, and whoever was replaced says and does nothing more."""
    message, topic = f"{state} paused", f"paused-{state}"
    async with stage.pages(topic) as pages:
        await pages[0].client.send(topic, message)
        run = await begun(stage, pages[0], message)
        stage.signal(signal.SIGSTOP, [run["agent"]])
        try:
            await shown(pages, "lost")
            await pages[1].client.send(topic, "who is there?")
            await shown(pages, "lost", "completed")
            assert pages[0].state["runs"][1]["agent"] != run["agent"]
        finally:
            stage.signal(signal.SIGCONT, [run["agent"]])

        async def closed() -> bool:
            return not stage.provider.open.get(message)

        await until(closed, "the paused run's connection to its provider to be closed")
        # That worker takes part again, on this topic too: nothing of its old run holds it up.
        others = [name for name in NAMES if name != run["agent"]]
        stage.signal(signal.SIGSTOP, others)
        try:
            await pages[0].client.send(topic, "and you?")
            await shown(pages, "lost", "completed", "completed")
            assert pages[0].state["runs"][2]["agent"] == run["agent"]
        finally:
            stage.signal(signal.SIGCONT, others)
    history = await stage.history(topic)
    lost = next(place for place, event in enumerate(history) if event["type"] == "agent_lost")
    late = [event["type"] for event in history[lost + 1 :] if event.get("run") == run["run"]]
    assert late == (["assistant_message"] if state == "streaming" else [])  # its text, sealed by the next run
    assert stage.effect(message) == (1 if state == "tool" else 0)


@pytest.mark.asyncio(loop_scope="module")
async def test_pages_opened_later_take_nothing_from_the_first(stage: Stage) -> None:
    """Report 75: all tabs are equal, none steals the stream; each may stop, and all end with the same state."""
    message, topic = "streaming shared", "shared"
    async with stage.pages(topic) as first:
        await first[0].client.send(topic, message)
        await begun(stage, first[0], message)
        async with stage.pages(topic) as later:
            pages = (*first, *later)

            async def grows(page: Page, beyond: int) -> bool:
                return any(len(opened["text"]) > beyond for opened in page.state.get("open", ()))

            for beyond in (0, 200):
                for page in pages:
                    await until(lambda page=page, beyond=beyond: grows(page, beyond), "every page to go on")  # type: ignore[misc]  # mypy has no type for defaults
            await later[1].client.cancel(topic, run=later[1].state["runs"][-1]["run"])
            await shown(pages, "cancelled")

            async def equal() -> bool:
                return all(page.state == first[0].state for page in pages)

            await until(equal, "all pages to be equal")


@pytest.mark.asyncio(loop_scope="module")
async def test_parallel_decisions_run_the_call_once(stage: Stage) -> None:
    """Report 70: one of fifty wins, and what it allows happens once."""
    message, topic = "approval many", "decided"
    async with stage.pages(topic) as pages:
        await pages[0].client.send(topic, message)
        run = await begun(stage, pages[0], message)
        call = f"call_{run['run']}"
        edits = [
            pages[number % 2].client.decide(topic, run["run"], call, "approve", id=f"d{number}") for number in range(50)
        ]
        answers = await asyncio.gather(*edits)
        assert [answer["won"] for answer in answers].count(True) == 1
        assert {answer["decision"] for answer in answers} == {"approve"}

        async def landed() -> bool:
            return stage.effect(message) > 0

        await until(landed, "the tool to run")
        await pages[1].client.cancel(topic, run=run["run"])
        await shown(pages, "cancelled")
    assert stage.effect(message) == 1
