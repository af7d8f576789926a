"""People act on a run through two gateway processes that share one store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.embedded import EmbeddedServer
from gateway.client import Client
from gateway.context.approval import Approve, Edit, Reject
from gateway.context.messages import ToolCall
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from tests.e2e.processes import Gateway, Process, until

CALL = ToolCall(id="c1", name="rm", arguments='{"path":"this"}')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways() -> AsyncIterator[tuple[Gateway, Gateway]]:
    async with EmbeddedServer() as server:
        one, two = Gateway(server.url), Gateway(server.url)
        try:
            await one.start()
            await two.start()
            yield one, two
        finally:
            await one.stop()
            await two.stop()


@contextlib.asynccontextmanager
async def crowd(gateways: tuple[Gateway, Gateway], number: int) -> AsyncIterator[list[Client]]:
    """Clients, every other one at the same gateway."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Client(gateways[n % 2].url)) for n in range(number)]


@contextlib.asynccontextmanager
async def asking(publisher: Publisher, topic: str) -> AsyncIterator[tuple[Run, "asyncio.Task[Any]"]]:
    """A run that waits for a decision."""
    async with publisher.run(topic, agent="a") as run:
        answer = asyncio.create_task(run.approval(CALL))
        yield run, answer
        await answer


async def waiting(gateway: Gateway, topic: str) -> None:
    """Wait until the approval is shown."""

    async def shown() -> bool:
        return bool((await gateway.topic(topic))["mirror"]["approvals"])

    await until(shown, "the question to be shown")


@pytest.mark.asyncio(loop_scope="module")
async def test_parallel_decisions_have_one_winner_whom_all_are_told(gateways: tuple[Gateway, Gateway]) -> None:
    """Report 70, and 69: whoever comes later still sees the question."""
    topic = "decided"
    async with (
        Publisher(gateways[0].redis_url) as publisher,
        asking(publisher, topic) as (run, answer),
        crowd(gateways, 50) as clients,
    ):
        await waiting(gateways[1], topic)
        decisions = ["approve" if number % 3 else "reject" for number in range(50)]
        answers = await asyncio.gather(
            *(
                client.decide(topic, run.id, "c1", decision)  # type: ignore[arg-type]  # one of two literals
                for client, decision in zip(clients, decisions, strict=True)
            )
        )
        winners = [number for number, told in enumerate(answers) if told["won"]]
        assert len(winners) == 1
        won = decisions[winners[0]]
        assert {(told["decision"], told["by"]) for told in answers} == {(won, "anonymous")}
        assert type(await answer) is {"approve": Approve, "reject": Reject}[won]
    for gateway in gateways:
        (shown,) = (await gateway.topic(topic))["mirror"]["approvals"]
        assert (shown["decision"], shown["by"]) == (won, "anonymous")


@pytest.mark.asyncio(loop_scope="module")
async def test_parallel_sends_with_one_id_are_one_message(gateways: tuple[Gateway, Gateway]) -> None:
    """Report 80."""
    async with crowd(gateways, 20) as clients:
        answers = await asyncio.gather(*(client.send("sent", "hi", "mine") for client in clients))
    assert all(answer == answers[0] for answer in answers)
    for gateway in gateways:
        (message,) = (await gateway.topic("sent"))["mirror"]["queue"]
        assert message["id"] == answers[0]["message"]


@pytest.mark.asyncio(loop_scope="module")
async def test_stop_through_the_other_gateway_is_seen_and_heard(gateways: tuple[Gateway, Gateway]) -> None:
    """Reports 1 and 58: from a page opened later; all pages show it as requested until the run says stopped."""
    topic, (one, two) = "stopped", gateways
    mirror: Mirror | None = None

    async def follow(client: Client) -> None:
        nonlocal mirror
        async for update in client.subscribe(topic):
            mirror = update.mirror

    def status() -> str:
        return "" if mirror is None or not mirror.state()["runs"] else mirror.state()["runs"][-1]["status"]

    async with Publisher(one.redis_url) as publisher, Client(one.url) as reader, Client(two.url) as stopper:
        following = asyncio.create_task(follow(reader))
        begun = asyncio.Event()
        shown: list[str] = []
        run_ids: list[str] = []

        async def work() -> None:
            async with publisher.run(topic, agent="a") as run:
                run_ids.append(run.id)
                await run.delta("half a sen")
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    # It hears of the stop, and takes its time.
                    while status() != "cancelling":
                        await asyncio.sleep(0.01)
                    shown.append(status())

        working = asyncio.create_task(work())
        await begun.wait()
        answer = await stopper.cancel(topic, run=run_ids[0])
        assert answer["status"] == "requested"
        await asyncio.wait([working])

        async def stopped() -> bool:
            return status() == "cancelled"

        await until(stopped, "the page to show the end")
        assert shown == ["cancelling"]
        again = await stopper.cancel(topic, run=run_ids[0])
        assert (again["status"], again["as"]) == ("ended", "cancelled")
        following.cancel()
        await asyncio.wait([following])


@pytest.mark.asyncio(loop_scope="module")
async def test_command_line_sends_edits_decides_and_stops(gateways: tuple[Gateway, Gateway]) -> None:
    topic, (one, two) = "by-hand", gateways

    async def command(*arguments: str) -> tuple[int, str, str]:
        return await (await Process.start(*arguments, GATEWAY_URL=two.url)).end()

    code, message, _ = await command("send", topic, "first")
    assert code == 0
    assert await command("edit", topic, message.strip(), "second") == (0, "", "")
    (queued,) = (await one.topic(topic))["mirror"]["queue"]
    assert queued["content"] == "second"
    assert await command("withdraw", topic, message.strip()) == (0, "", "")
    assert (await one.topic(topic))["mirror"]["queue"] == []
    async with Publisher(one.redis_url) as publisher, asking(publisher, topic) as (run, answer):
        await waiting(two, topic)
        assert await command("decide", topic, "edit", "--arguments", '{"path":"other"}') == (0, "", "")
        assert await answer == Edit(arguments={"path": "other"})
        code, _, told = await command("decide", topic, "approve", "--run", run.id, "--call", "c1")
        assert (code, told) == (1, "gateway: too late: anonymous has decided: edit\n")
    assert await command("cancel", topic, run.id) == (0, f"run {run.id} had ended before: completed\n", "")
    assert await command("cancel", topic) == (1, "", f"gateway: nothing runs on {topic}\n")
