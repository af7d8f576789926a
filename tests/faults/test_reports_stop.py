"""What users of other systems report about stops, ends and zombies; named as in `test_reports_reconnect`."""

import asyncio
import contextlib
import sys
from typing import Any

import pytest

from gateway.broker.redis import RedisBroker
from gateway.client import Client
from gateway.context.messages import Message, ToolCall
from gateway.errors import PublishError, TopicBusyError
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import START, Topic
from tests.e2e.processes import ROOT, Process
from tests.faults.reading import PATIENCE, assert_exact, read_to
from tests.faults.store import Archive
from tests.people import cancel
from tests.publishing import SlowBroker
from tests.serving import Gateway, serve

TOPIC = "chat:42"


async def until_status(subscription: Any, status: str) -> dict[str, Any]:
    """Read until the mirror's last run has this status."""
    async with asyncio.timeout(PATIENCE):
        async for update in subscription:
            runs = update.mirror.runs
            if runs and runs[-1]["status"] == status:
                return runs[-1]  # type: ignore[no-any-return]
    raise AssertionError("the subscription ended")


async def work(publisher: Publisher, begun: "asyncio.Future[Run]") -> None:
    """Run until somebody stops it."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("half an ans")
        await run.flush()
        begun.set_result(run)
        await asyncio.Event().wait()


async def test_58_stop_through_another_gateway_is_shown_when_the_run_says_so(
    redis_url: str, key_prefix: str, served: Gateway, archive: Archive
) -> None:
    """A stop lands on another instance; the run continues while the page says stopped."""
    slow = SlowBroker(RedisBroker(redis_url, key_prefix=key_prefix))
    async with (
        serve(redis_url, key_prefix, drain=0) as second,
        Client(served.http) as reader,
        Client(second.http) as stopper,
        Publisher(broker=slow, flush_interval=0) as publisher,
    ):
        subscription = reader.subscribe(TOPIC)
        begun = asyncio.get_running_loop().create_future()
        working = asyncio.create_task(work(publisher, begun))
        run = await begun
        slow.hold()
        assert (await stopper.cancel(TOPIC, run=run.id))["status"] == "requested"
        # The run cannot write its end: until it has, nobody says that it has stopped.
        assert (await until_status(subscription, "cancelling"))["ended_at"] is None
        _, state = await archive.state(TOPIC)
        assert state["runs"][0]["status"] == "cancelling"
        slow.release()
        await until_status(subscription, "cancelled")
        await assert_exact(subscription.mirror, archive, TOPIC)
        await working
    await slow.aclose()


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_59_stop_keeps_the_turn_and_what_it_has_cost(
    mode: str, broker: RedisBroker, publisher: Publisher, archive: Archive
) -> None:
    """A cancel throws the turn and its usage away."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("half an ans")
        await run.usage({"requests": 1, "input_tokens": 70, "output_tokens": 4})
        await run.flush()
        await cancel(broker, TOPIC, run.id, mode=mode)
        if mode == "now":
            await asyncio.Event().wait()
        async with asyncio.timeout(PATIENCE):
            while (reason := run.stop_requested) is None:
                await run.delta("")
                await asyncio.sleep(0.01)
        await run.add_message(Message.assistant("the whole answer"))
        await run.cancel(reason)
    _, state = await archive.state(TOPIC)
    (entry,) = state["runs"]
    assert (entry["status"], entry["cancel"]["mode"]) == ("cancelled", mode)
    assert (entry["usage"]["input_tokens"], entry["usage"]["output_tokens"]) == (70, 4)
    contents = [event["data"]["content"] for event in state["context"]["events"] if "content" in event["data"]]
    assert contents == ["half an ans" if mode == "now" else "the whole answer"]


async def test_64_what_a_stopped_run_has_done_is_shown(
    served: Gateway, broker: RedisBroker, publisher: Publisher, archive: Archive
) -> None:
    """A cancelled run had pushed its branch all the same, and nobody was told."""
    call = ToolCall(id="c", name="push", arguments="{}")
    async with publisher.run(TOPIC, agent="a") as run, Client(served.http) as client:
        subscription = client.subscribe(TOPIC)
        await run.add_message(Message.assistant("I push.", tool_calls=(call,)))
        await run.tool_call("c", "push", "{}")
        await run.flush()
        async with run.shield():
            await cancel(broker, TOPIC, run.id)
            # Until the tool is through, the stop is a request: nobody is told that nothing happened.
            assert (await until_status(subscription, "cancelling"))["ended_at"] is None
            await run.tool_result("c", "push", "pushed 3 commits")
        await asyncio.Event().wait()
    async with Client(served.http) as late:
        assert run.ended is not None
        (update,) = await read_to(late.subscribe(TOPIC), run.ended.offset)
        assert update.mirror.runs[0]["status"] == "cancelled"
        result = update.mirror.messages()[-1]
        assert (result["tool_call_id"], result["content"]) == ("c", "pushed 3 commits")
        await assert_exact(update.mirror, archive, TOPIC)


async def test_61_partial_answer_of_a_stopped_run_stays(
    served: Gateway, broker: RedisBroker, publisher: Publisher, archive: Archive
) -> None:
    """A stopped partial answer disappears after a refresh."""
    async with publisher.run(TOPIC, agent="a") as run:
        await run.delta("half an ans")
        await run.tool_call_delta(index=0, id="c", name="look", text='{"of":')
        await run.flush()
        await cancel(broker, TOPIC, run.id)
        await asyncio.Event().wait()
    async with Client(served.http) as client:
        assert run.ended is not None
        (update,) = await read_to(client.subscribe(TOPIC), run.ended.offset)
        (message,) = update.mirror.messages()
        assert message["content"] == "half an ans"
        assert message["metadata"]["interrupted"] is True
        assert not message["tool_calls"]
        assert update.mirror.open == []
        await assert_exact(update.mirror, archive, TOPIC)


async def test_62_late_end_never_overwrites_the_first(
    redis_url: str, key_prefix: str, publisher: Publisher, archive: Archive
) -> None:
    """A late worker write turns a cancelled run into completed."""
    slow = SlowBroker(RedisBroker(redis_url, key_prefix=key_prefix))
    broker = publisher.broker
    async with Publisher(broker=slow, lease=0.2, flush_interval=0) as late:
        run = await late.run(TOPIC, agent="a", run_id="r1").__aenter__()
        slow.hold()
        finishing = asyncio.create_task(run.complete("done"))
        async with asyncio.timeout(PATIENCE):
            while not (
                lost := await broker.declare_lost(
                    Topic(TOPIC), run="r1", data=b'{"type":"agent_lost","run":"r1","at":1}', position=START
                )
            ) or not hasattr(lost, "first"):
                await asyncio.sleep(0.05)
        slow.release()
        assert await finishing == lost.position
        with contextlib.suppress(PublishError):
            await run.__aexit__(None, None, None)
    await slow.aclose()
    _, events = await archive.whole(TOPIC)
    ends = [event["type"] for event in events.values() if event["type"] in {"agent_complete", "agent_lost"}]
    assert ends == ["agent_lost"]


WORKER = """
import asyncio, sys
from gateway.publisher import Publisher

async def main():
    async with Publisher(sys.argv[1], key_prefix=sys.argv[2], lease=1.0, flush_interval=0) as publisher:
        async with publisher.run(sys.argv[3], agent="mortal") as run:
            await run.delta("half an ans")
            await run.flush()
            print("running", flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_65_run_of_a_killed_process_is_declared_lost(
    redis_url: str, key_prefix: str, served: Gateway, archive: Archive
) -> None:
    """The process dies, and its run is "running" for ever."""
    process = Process(
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            WORKER,
            redis_url,
            key_prefix,
            TOPIC,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    )
    async with Client(served.http) as client:
        subscription = client.subscribe(TOPIC)
        assert await process.line() == "running\n"
        process.kill()
        await process.end()
        # Nobody asks for the topic, which its next run would have to: the gateway says so by itself.
        assert (await until_status(subscription, "lost"))["ended_at"] is not None
        async with Publisher(redis_url, key_prefix=key_prefix, lease=1.0) as heir, asyncio.timeout(PATIENCE):
            while True:
                try:
                    async with heir.run(TOPIC, agent="heir") as run:
                        await run.add_message(Message.assistant("mine"))
                    break
                except TopicBusyError:
                    await asyncio.sleep(0.05)
        assert run.ended is not None
        await read_to(subscription, run.ended.offset)
        assert subscription.mirror is not None
        assert [run["status"] for run in subscription.mirror.runs] == ["lost", "completed"]
        assert [message["content"] for message in subscription.mirror.messages()] == ["half an ans", "mine"]
        assert subscription.mirror.messages()[0]["metadata"]["interrupted"] is True
        await assert_exact(subscription.mirror, archive, TOPIC)


async def test_66_lease_decides_who_is_active(redis_url: str, key_prefix: str, publisher: Publisher) -> None:
    """Stale registrations look active for ever."""
    async with Publisher(redis_url, key_prefix=key_prefix) as other:
        async with publisher.run(TOPIC, agent="a") as run:
            with pytest.raises(TopicBusyError) as caught:
                await other.run(TOPIC, agent="b").__aenter__()
            assert caught.value.holder == run.id
        async with other.run(TOPIC, agent="b") as second:
            assert second.ended is None
