"""Bots, on real gateways and a real store."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway import bot as module
from gateway import followers as followers_module
from gateway.bot import Bot, BotEvent
from gateway.broker.redis import RedisBroker
from gateway.client_socket import websocket_url
from gateway.context.messages import Message, ToolCall
from gateway.errors import CommandError, ErrorCode
from gateway.events import AgentComplete, LogLine
from gateway.note import Note, noted
from gateway.publisher import Publisher
from gateway.types import new_id
from tests.e2e.processes import Gateway as Process
from tests.protocol_server import protocol_server
from tests.servers import free_port
from tests.serving import Gateway, append, eventually, serve
from tests.signing import SECRET, token


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers_module, "POLL", 0.05)
    monkeypatch.setattr(module, "SAVE_EVERY", 0.01)


@pytest_asyncio.fixture
async def gateway(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    async with serve(redis_url, key_prefix) as serving:
        yield serving


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    opened = RedisBroker(redis_url, key_prefix=key_prefix)
    yield opened
    await opened.aclose()


@pytest_asyncio.fixture
async def publisher(redis_url: str, key_prefix: str) -> AsyncIterator[Publisher]:
    async with Publisher(redis_url, key_prefix=key_prefix) as opened:
        yield opened


@contextlib.asynccontextmanager
async def serving(bot: Bot) -> AsyncIterator[None]:
    """Let a bot serve for the length of the block, once it has begun; then stop it in good order."""
    begun = asyncio.Event()

    @bot.every(3600)
    async def begin() -> None:
        begun.set()

    task = asyncio.create_task(bot.serve())
    waiting = asyncio.create_task(begun.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        bot.stop()
        waiting.cancel()
        await task


class Heard:
    """What a bot's handlers were given."""

    def __init__(self, bot: Bot, *types: str) -> None:
        self.events: list[BotEvent] = []
        bot.on(*types)(self._hear)

    async def _hear(self, event: BotEvent) -> None:
        self.events.append(event)

    @property
    def numbers(self) -> list[int]:
        return [event.data["n"] for event in self.events]

    async def count(self, wanted: int) -> None:
        await eventually(lambda: len(self.events) >= wanted)
        assert len(self.events) == wanted


async def notes(broker: RedisBroker, topic: str, *numbers: int) -> None:
    for number in numbers:
        await append(broker, topic, {"type": "note", "n": number})


# on, every


@pytest.mark.parametrize("types", [(), ("",), ("agent error",)])
def test_on_refuses_what_is_no_type(types: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Bot("http://127.0.0.1:1").on(*types)


def test_handlers_are_async() -> None:
    bot = Bot("http://127.0.0.1:1")
    with pytest.raises(TypeError, match="async"):
        bot.on("x")(lambda _: None)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="async"):
        bot.every(1)(lambda: None)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="above 0"):
        bot.every(0)


@pytest.mark.parametrize(
    "arguments", [{"topics": []}, {"topics": "a b"}, {"concurrency": 0}, {"timeout": 0}, {"url": "nowhere"}]
)
def test_bot_refuses_what_makes_none(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Bot(**{"url": "http://127.0.0.1:1", **arguments})


def test_gateway_is_found_without_being_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("GATEWAY_URL", raising=False)
    assert Bot().client.url == websocket_url("http://127.0.0.1:8000")
    with noted(Note(url="http://127.0.0.1:4321", redis_url="redis://127.0.0.1:1/0", pid=1)):
        assert Bot().client.url == websocket_url("http://127.0.0.1:4321")
        monkeypatch.setenv("GATEWAY_URL", "http://127.0.0.1:1234")
        assert Bot().client.url == websocket_url("http://127.0.0.1:1234")
        assert Bot("http://example.org").client.url == websocket_url("http://example.org")


async def test_token_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", "of the environment")
    async with protocol_server() as server:
        for bot in (
            Bot(server.url, topics="t", since="start"),
            Bot(server.url, topics="t", since="start", token="mine"),
        ):
            async with serving(bot):
                await server.command("subscribe")
            await server.command("unsubscribe")
        assert server.connected == [{"token": "of the environment"}, {"token": "mine"}]


async def test_handlers_get_the_events_of_their_types_in_order(gateway: Gateway, publisher: Publisher) -> None:
    bot = Bot(gateway.http, topics="t")
    ends, everything = Heard(bot, "agent_complete", "log"), Heard(bot, "*")
    async with serving(bot):
        async with publisher.run("t", agent="a") as run:
            await run.log("info", "one")
            await run.log("info", "two")
        await ends.count(3)
    assert [type(event.typed) for event in ends.events] == [LogLine, LogLine, AgentComplete]
    assert [event.data.get("message") for event in ends.events] == ["one", "two", None]
    assert {event.run for event in ends.events} == {run.id}
    assert [event.position.offset for event in everything.events] == list(range(1, len(everything.events) + 1))


async def test_job_is_repeated_until_the_end(gateway: Gateway) -> None:
    bot = Bot(gateway.http, topics="t")
    calls = 0

    @bot.every(0.001)
    async def job() -> None:
        nonlocal calls
        calls += 1
        raise ValueError("no luck")

    async with serving(bot):
        await eventually(lambda: calls > 2)


# failures


async def test_failing_handler_is_told_and_stops_nothing(
    gateway: Gateway, broker: RedisBroker, caplog: pytest.LogCaptureFixture
) -> None:
    bot = Bot(gateway.http, topics="t", timeout=0.05)

    @bot.on("note")
    async def unlucky(_: BotEvent) -> None:
        raise ValueError("no luck")

    @bot.on("note")
    async def cancelled(_: BotEvent) -> None:
        raise asyncio.CancelledError

    @bot.on("note")
    async def slow(_: BotEvent) -> None:
        await asyncio.Event().wait()

    heard = Heard(bot, "note")
    with caplog.at_level(logging.ERROR, logger="gateway.bot"):
        async with serving(bot):
            await notes(broker, "t", 1, 2)
            await heard.count(2)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 6
    assert "unlucky failed on <note at" in told[0]
    assert "of t>" in told[0]
    assert "cancelled by itself" in told[1]
    assert "slow failed" in told[2]
    assert "no luck" in caplog.text


async def test_topic_that_is_refused_for_good_ends_the_bot_that_names_it() -> None:
    async with protocol_server() as server:
        task = asyncio.create_task(Bot(server.url, topics="t", since="start").serve())
        await (await server.command("subscribe")).refuse(103)
        with pytest.raises(CommandError) as caught:
            await task
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


async def test_topic_that_is_refused_for_good_is_left_where_it_fits_a_pattern(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with protocol_server() as server:
        bot = Bot(server.url, topics="t*", since="start")
        heard = Heard(bot, "note")
        task = asyncio.create_task(bot.serve())
        listed = {"data": {"topics": [{"topic": "t1", "at": 2}, {"topic": "x", "at": 2}, {"topic": "t2", "at": 1}]}}
        await (await server.command("rpc")).reply(listed)
        first, second = await server.command("subscribe"), await server.command("subscribe")
        assert (first.body["channel"], second.body["channel"]) == ("t1", "t2")
        await first.refuse(103)
        await second.reply({"recovered": True, "epoch": "aB3dE6gH", "offset": 0})
        await second.push({"offset": 1, "data": {"type": "note", "n": 1}})
        await heard.count(1)
        bot.stop()
        await task
    assert "t1 is not followed: 103" in caplog.text


# topics


async def test_begins_now_on_old_topics_and_at_the_start_of_new_ones(gateway: Gateway, broker: RedisBroker) -> None:
    await notes(broker, "chat:old", 1)
    await notes(broker, "other", 1)
    bot = Bot(gateway.http, topics=["chat:*"])
    heard = Heard(bot, "note")
    looked = Heard(bot, "look")
    async with serving(bot):
        await append(broker, "chat:look", {"type": "look"})
        await looked.count(1)
        await notes(broker, "chat:old", 2)
        await notes(broker, "chat:new", 3, 4)
        await notes(broker, "other", 5)
        await heard.count(3)
    assert sorted(heard.numbers) == [2, 3, 4]


async def test_begins_at_the_start_of_old_topics_where_told_so(gateway: Gateway, broker: RedisBroker) -> None:
    await notes(broker, "t", 1, 2)
    bot = Bot(gateway.http, topics=["t", "nobody:has:written"], since="start")
    heard = Heard(bot, "note")
    async with serving(bot):
        await heard.count(2)
    assert heard.numbers == [1, 2]


async def test_quiet_topics_make_room(gateway: Gateway, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers_module, "MAX_FOLLOWED", 2)
    monkeypatch.setattr(followers_module, "QUIET", 0.0)
    bot = Bot(gateway.http, since="start")
    heard = Heard(bot, "note")
    names = [f"t{number}" for number in range(5)]
    async with serving(bot):
        for name in names:
            await notes(broker, name, 1)
        await heard.count(5)
        # The store's index of topics names the time of the last activity to within 10 s.
        later = [f"u{number}" for number in range(3)]
        for name in later:
            await notes(broker, name, 2)
        await heard.count(8)
        assert len(bot.client._subscriptions) <= 2
    assert {event.topic for event in heard.events} == {*names, *later}


# positions


async def test_goes_on_after_a_restart_where_it_was(gateway: Gateway, broker: RedisBroker, tmp_path: Path) -> None:
    file = tmp_path / "bot.db"
    await notes(broker, "t", 1)
    bot = Bot(gateway.http, positions=file)
    heard = Heard(bot, "note")
    async with serving(bot):
        await notes(broker, "t", 2, 3)
        await heard.count(2)
    await notes(broker, "t", 4)
    await notes(broker, "born:meanwhile", 5)
    again = Bot(gateway.http, positions=file)
    heard_again = Heard(again, "note")
    async with serving(again):
        await heard_again.count(2)
        await notes(broker, "t", 6)
        await heard_again.count(3)
    assert heard.numbers == [2, 3]
    assert sorted(heard_again.numbers) == [4, 5, 6]


async def test_event_whose_handler_did_not_end_is_heard_again(
    gateway: Gateway, broker: RedisBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.05)
    bot = Bot(gateway.http, topics="t", since="start", positions=tmp_path / "bot.db")
    begun: list[int] = []

    @bot.on("note")
    async def slow(event: BotEvent) -> None:
        begun.append(event.data["n"])
        if event.data["n"] == 2:
            await asyncio.Event().wait()

    await notes(broker, "t", 1, 2, 3)
    async with serving(bot):
        await eventually(lambda: begun == [1, 2])
    again = Bot(gateway.http, topics="t", positions=tmp_path / "bot.db")
    heard = Heard(again, "note")
    async with serving(again):
        await heard.count(2)
    assert heard.numbers == [2, 3]


async def test_what_it_does_not_see_moves_its_position_only(tmp_path: Path) -> None:
    async with protocol_server() as server:
        bot = Bot(server.url, topics="t", since="start", positions=tmp_path / "bot.db")
        heard = Heard(bot, "*")
        async with serving(bot):
            command = await server.command("subscribe")
            await command.reply({"recovered": True, "epoch": "aB3dE6gH", "offset": 0})
            await command.push({"offset": 2, "data": {"type": "hidden"}, "tags": {"from": "1"}})
            await command.push({"offset": 3, "data": {"type": "note", "n": 1}})
            await heard.count(1)
    assert heard.events[0].first == 3


async def test_stop_lets_handlers_end(gateway: Gateway, broker: RedisBroker, tmp_path: Path) -> None:
    bot = Bot(gateway.http, topics="t", since="start", positions=tmp_path / "bot.db")
    started, go_on, ended = asyncio.Event(), asyncio.Event(), []

    @bot.on("note")
    async def slow(event: BotEvent) -> None:
        started.set()
        await go_on.wait()
        ended.append(event.data["n"])

    await notes(broker, "t", 1, 2)
    async with serving(bot):
        await started.wait()
        bot.stop()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    assert ended == [1]
    again = Bot(gateway.http, topics="t", positions=tmp_path / "bot.db")
    heard = Heard(again, "note")
    async with serving(again):
        await heard.count(1)
    assert heard.numbers == [2]


# the gateway comes and goes


async def test_waits_for_a_gateway_and_stays_when_it_is_restarted(
    redis_url: str, key_prefix: str, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda _low, _high: 0.01)
    port = free_port()
    bot = Bot(f"http://127.0.0.1:{port}", topics="t", since="start")
    heard = Heard(bot, "note")
    async with serving_soon(bot):
        async with serve(redis_url, key_prefix, port=port):
            await notes(broker, "t", 1)
            await heard.count(1)
        await notes(broker, "t", 2)
        async with serve(redis_url, key_prefix, port=port):
            await notes(broker, "t", 3)
            await heard.count(3)
    assert heard.numbers == [1, 2, 3]


@contextlib.asynccontextmanager
async def serving_soon(bot: Bot) -> AsyncIterator[None]:
    task = asyncio.create_task(bot.serve())
    try:
        yield
    finally:
        bot.stop()
        await task


async def test_stop_ends_the_wait_for_a_gateway() -> None:
    async with serving_soon(Bot(f"http://127.0.0.1:{free_port()}")):
        await asyncio.sleep(0)


async def test_hears_each_event_once_while_gateways_are_killed(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda _low, _high: 0.01)
    gateway = Process(redis_url)
    topic = f"t{new_id()}"
    broker = RedisBroker(redis_url)

    async def write() -> None:
        for number in range(300):
            await notes(broker, topic, number)
            await asyncio.sleep(0.005)

    await gateway.start()
    bot = Bot(gateway.url, topics=topic)
    heard = Heard(bot, "note")
    try:
        async with serving(bot):
            writing = asyncio.create_task(write())
            for goal in (1, 100):
                await eventually(lambda goal=goal: len(heard.events) >= goal)  # type: ignore[misc]
                gateway.kill()
                await gateway.stop()
                await gateway.start()
            await writing
            await heard.count(300)
    finally:
        await gateway.stop()
        await broker.aclose()
    assert heard.numbers == list(range(300))


async def test_handler_that_failed_for_want_of_a_gateway_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.01)
    async with protocol_server() as server:
        bot = Bot(server.url, topics="t", since="start")
        bot.client._patience = 0.1
        answers: list[dict[str, Any]] = []

        @bot.on("note")
        async def answer(event: BotEvent) -> None:
            answers.append(await event.send("heard"))

        async with serving(bot):
            command = await server.command("subscribe")
            await command.reply({"recovered": True, "epoch": "aB3dE6gH", "offset": 0})
            await command.push({"offset": 1, "data": {"type": "note", "n": 1}})
            unanswered = await server.command("rpc")
            again = await server.command("rpc")
            assert again.body == unanswered.body
            await again.reply({"data": {"message": "m"}})
            await eventually(lambda: answers)
    assert answers == [{"message": "m"}]


# grants


async def test_reads_what_its_tokens_allow_and_renews_them_in_place(
    redis_url: str, key_prefix: str, broker: RedisBroker
) -> None:
    made = 0

    async def make() -> str:
        nonlocal made
        made += 1
        return token("bot", lasts=1)

    await notes(broker, "chat:old", 1)
    async with serve(redis_url, key_prefix, token_secrets=SECRET, user_grants="chat:*=read,topics") as gateway:
        bot = Bot(gateway.http, token=make)
        heard = Heard(bot, "note")
        async with serving(bot):
            await notes(broker, "secret", 2)
            await notes(broker, "chat:old", 3)
            await notes(broker, "chat:new", 4)
            await heard.count(2)
            connection = bot.client._socket
            await eventually(lambda: made > 2)
            await notes(broker, "chat:old", 5)
            await heard.count(3)
            assert bot.client._socket is connection
    assert sorted(heard.numbers) == [3, 4, 5]


# order and concurrency


async def test_topics_are_handled_at_once_up_to_the_bound_and_each_in_order(
    gateway: Gateway, broker: RedisBroker
) -> None:
    bot = Bot(gateway.http, since="start", concurrency=3)
    running: set[str] = set()
    most = 0
    order: dict[str, list[int]] = {}

    @bot.on("note")
    async def handle(event: BotEvent) -> None:
        nonlocal most
        assert event.topic not in running
        running.add(event.topic)
        most = max(most, len(running))
        await asyncio.sleep(0.01)
        order.setdefault(event.topic, []).append(event.data["n"])
        running.discard(event.topic)

    for number in range(6):
        await notes(broker, f"t{number}", 1, 2, 3)
    async with serving(bot):
        await eventually(lambda: sum(map(len, order.values())) == 18)
    assert set(map(tuple, order.values())) == {(1, 2, 3)}
    assert most == 3


# mirror


async def test_mirror_is_exact_at_each_event(gateway: Gateway, publisher: Publisher) -> None:
    async with publisher.run("t", agent="a") as run:
        await run.add_message(Message.user("before"))
        bot = Bot(gateway.http, topics="t", mirror=True)
        seen: list[tuple[str, int]] = []

        @bot.on("snapshot", "user_message", "agent_complete")
        async def see(event: BotEvent) -> None:
            assert event.mirror.position == event.position
            seen.append((event.type, len(event.mirror.messages())))

        async with serving(bot):
            await eventually(lambda: seen)
            await run.add_message(Message.user("after"))
            await eventually(lambda: len(seen) == 2)
    assert seen == [("snapshot", 1), ("user_message", 2)]


async def test_mirror_is_there_for_what_a_restarted_bot_catches_up_with(
    gateway: Gateway, broker: RedisBroker, tmp_path: Path
) -> None:
    first = Bot(gateway.http, topics="t", mirror=True, positions=tmp_path / "bot.db")
    async with serving(first):
        pass
    for text in "abc":
        await append(broker, "t", {"type": "log", "level": "info", "message": text})
    bot = Bot(gateway.http, topics="t", mirror=True, positions=tmp_path / "bot.db")
    seen: list[tuple[str, str]] = []

    @bot.on("log")
    async def see(event: BotEvent) -> None:
        seen.append((event.data["message"], "".join(line["message"] for line in event.mirror.log)))

    async with serving(bot):
        await eventually(lambda: len(seen) == 3)
        await append(broker, "t", {"type": "log", "level": "info", "message": "d"})
        await eventually(lambda: len(seen) == 4)
    assert seen == [("a", "abc"), ("b", "abc"), ("c", "abc"), ("d", "abcd")]


async def test_bot_without_mirrors_says_so(gateway: Gateway, broker: RedisBroker) -> None:
    bot = Bot(gateway.http, topics="t", since="start")
    heard = Heard(bot, "note")
    await notes(broker, "t", 1)
    async with serving(bot):
        await heard.count(1)
    with pytest.raises(LookupError, match="mirror=True"):
        _ = heard.events[0].mirror


# actions


async def test_handlers_decide_cancel_and_send(gateway: Gateway, publisher: Publisher) -> None:
    bot = Bot(gateway.http, topics="t")
    answers: list[dict[str, Any]] = []

    @bot.on("approval_required")
    async def decide(event: BotEvent) -> None:
        answers.append(await event.decide("reject", reason="not today"))
        await event.send("No.")

    @bot.on("approval_decided")
    async def cancel(event: BotEvent) -> None:
        answers.append(await event.cancel())

    queued = Heard(bot, "message_queued")
    async with serving(bot):
        async with publisher.run("t", agent="a") as run:
            call = ToolCall(id="c", name="rm", arguments="{}")
            await run.add_message(Message.assistant(None, tool_calls=(call,)))
            await run.approval(call)
            await asyncio.Event().wait()
        await queued.count(1)
    assert answers[0]["won"]
    assert answers[1]["status"] == "requested"
    assert queued.events[0].data["content"] == "No."


async def test_event_heard_twice_acts_once(gateway: Gateway, broker: RedisBroker, tmp_path: Path) -> None:
    file = tmp_path / "bot.db"

    def made(*, fail: Callable[[], Awaitable[object]]) -> Bot:
        bot = Bot(gateway.http, topics="t", since="start", positions=file)

        @bot.on("note")
        async def answer(event: BotEvent) -> None:
            answers.append(await event.send(f"heard {event.data['n']}"))
            await fail()

        return bot

    answers: list[dict[str, Any]] = []
    await notes(broker, "t", 1)
    task = asyncio.create_task(made(fail=asyncio.Event().wait).serve())
    await eventually(lambda: answers)
    task.cancel()  # as it would be killed: the event is not noted as handled
    with contextlib.suppress(asyncio.CancelledError):
        await task
    async with serving(made(fail=lambda: asyncio.sleep(0))):
        await eventually(lambda: len(answers) == 2)
    assert answers[0] == answers[1]
