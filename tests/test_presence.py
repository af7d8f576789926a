"""Who reads what, across gateways that share a Redis."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway import presence as module
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from gateway.presence import Attendee, Presence
from gateway.types import Topic
from tests.publishing import until
from tests.servers import RedisServer
from tests.serving import Gateway, Plain, serve

TOPIC = Topic("p:1")


def somebody(number: int, user: str = "") -> Attendee:
    return Attendee(client=f"c{number:015}", user=user)


class Heard:
    """A watcher that counts frames."""

    def __init__(self) -> None:
        self.frames = b""

    def announce(self, topic: Topic, frames: bytes) -> None:
        assert topic == TOPIC
        self.frames += frames


@pytest_asyncio.fixture
async def broker(redis_url: str, key_prefix: str) -> AsyncIterator[RedisBroker]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    yield broker
    await broker.aclose()


@contextlib.asynccontextmanager
async def attended(broker: RedisBroker, *, ttl: float = 60.0) -> AsyncIterator[Presence]:
    presence = Presence(broker, ttl=ttl)
    presence.start()
    try:
        yield presence
    finally:
        await presence.aclose()


@pytest.mark.parametrize("told", ["", '{"conn_info":{"name":"Ann B"}}', '{"chan_info":"a\\nb"}'])
@pytest.mark.parametrize("user", ["", "ann", "ann b", "jürgen"])
def test_attendee_is_its_member(user: str, told: str) -> None:
    attendee = Attendee(client="0123456789abcdef", user=user, told=told)
    assert Attendee.of(attendee.member) == attendee


def test_attendee_shows_what_its_tokens_tell() -> None:
    assert somebody(1, "ann").info.keys() == {"client", "user"}
    attendee = Attendee(client="c", user="ann", told='{"conn_info":{"name":"Ann"}}')
    assert attendee.info == {"client": "c", "user": "ann", "conn_info": {"name": "Ann"}}


async def test_who_entered_is_listed_at_once_by_its_own_process(broker: RedisBroker) -> None:
    async with attended(broker) as one, attended(broker) as two:
        one.enter(TOPIC, somebody(1, "ann"))
        one.enter(TOPIC, somebody(2, "ann"))
        assert await one.count(TOPIC) == (2, 1)
        two.enter(TOPIC, somebody(3))
        assert await two.count(TOPIC) == (3, 2)
        one.leave(TOPIC, somebody(1).client)
        one.leave(TOPIC, "never came")
        number, attendees = await one.attendees(TOPIC)
        assert (number, set(attendees)) == (2, {somebody(2, "ann"), somebody(3)})
    assert await broker.attendance.read(TOPIC, limit=10) == (0, [])


async def test_list_without_a_question_is_told_too(broker: RedisBroker) -> None:
    async with attended(broker) as presence:
        presence.enter(TOPIC, somebody(1))

        async def told() -> bool:
            return await broker.attendance.read(TOPIC, limit=10) == (1, [somebody(1).member])

        await until(told)


async def test_who_comes_and_goes_is_told_to_all_processes(broker: RedisBroker) -> None:
    async with attended(broker) as one, attended(broker) as two:
        heard, unheard = Heard(), Heard()
        await two.watch(TOPIC, heard)
        await two.watch(TOPIC, unheard)
        two.unwatch(TOPIC, unheard)
        one.enter(TOPIC, somebody(1, "ann"))

        async def told(push: bytes) -> bool:
            return push in heard.frames

        info = b'{"info":{"client":"%b","user":"ann"}}' % somebody(1).client.encode()
        await until(lambda: told(b'{"push":{"channel":"p:1","join":%b}}' % info))
        one.leave(TOPIC, somebody(1).client)
        await until(lambda: told(b'{"push":{"channel":"p:1","leave":%b}}' % info))
        assert unheard.frames == b""


async def test_channel_is_heard_again_after_the_last_watcher_left(broker: RedisBroker) -> None:
    async with attended(broker) as presence:
        for number in range(5):
            heard = Heard()
            await presence.watch(TOPIC, heard)
            presence.enter(TOPIC, somebody(number))

            async def told(heard: Heard = heard, number: int = number) -> bool:
                return somebody(number).client.encode() in heard.frames

            await until(told)
            presence.unwatch(TOPIC, heard)


async def test_who_left_and_came_again_was_never_gone(broker: RedisBroker) -> None:
    async with attended(broker) as presence:
        presence.enter(TOPIC, somebody(1))
        assert await presence.count(TOPIC) == (1, 1)
        heard = Heard()
        await presence.watch(TOPIC, heard)
        presence.leave(TOPIC, somebody(1).client)
        presence.enter(TOPIC, somebody(1))
        presence.enter(TOPIC, somebody(2))

        async def told() -> bool:
            return somebody(2).client.encode() in heard.frames

        await until(told)
        assert somebody(1).client.encode() not in heard.frames


async def test_clients_of_a_process_that_died_are_forgotten_and_others_are_not(broker: RedisBroker) -> None:
    async with attended(broker, ttl=2.0) as alive:
        await broker.attendance.add(TOPIC, [somebody(1).member], ttl=0.3)
        alive.enter(TOPIC, somebody(2))
        assert (await alive.count(TOPIC))[0] == 2

        async def forgotten() -> bool:
            return (await alive.attendees(TOPIC))[1] == [somebody(2)]

        await until(forgotten)
        past_renewals = broker.now() + 3000
        while broker.now() < past_renewals:
            assert (await alive.attendees(TOPIC))[1] == [somebody(2)]
            await asyncio.sleep(0.02)


async def test_outage_is_made_good(tmp_path: Path, key_prefix: str) -> None:
    with RedisServer(tmp_path) as server:  # one that keeps nothing
        broker = RedisBroker(server.url, key_prefix=key_prefix)
        async with attended(broker, ttl=1.0) as presence:
            presence.enter(TOPIC, somebody(1))
            presence.enter(TOPIC, somebody(2))
            assert (await presence.count(TOPIC))[0] == 2
            with server.away():
                presence.leave(TOPIC, somebody(1).client)
                presence.enter(TOPIC, somebody(3))

            async def listed() -> bool:
                try:
                    number, members = await broker.attendance.read(TOPIC, limit=10)
                except BrokerUnavailableError:
                    return False
                return number == 2 and set(members) == {somebody(2).member, somebody(3).member}

            await until(listed)
        await broker.aclose()


async def test_crowd_is_counted_and_not_announced(broker: RedisBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANNOUNCED", 5)
    monkeypatch.setattr(module, "MAX_COUNTED", 7)
    async with attended(broker) as presence:
        heard = Heard()
        await presence.watch(TOPIC, heard)
        for number in range(9):
            presence.enter(TOPIC, somebody(number, f"user{number}"))
        assert await presence.count(TOPIC) == (9, 7)
        number, attendees = await presence.attendees(TOPIC)
        assert (number, len(attendees)) == (9, 5)
        for number in range(6):
            presence.leave(TOPIC, somebody(number).client)
        assert await presence.count(TOPIC) == (3, 3)
        presence.enter(TOPIC, somebody(10))

        async def told() -> bool:
            return somebody(10).client.encode() in heard.frames

        await until(told)
        assert all(somebody(number).client.encode() not in heard.frames for number in range(9))


# On the wire


@pytest_asyncio.fixture
async def gateways(redis_url: str, key_prefix: str) -> AsyncIterator[tuple[Gateway, Gateway]]:
    async with serve(redis_url, key_prefix, drain=0.0) as one, serve(redis_url, key_prefix, drain=0.0) as two:
        yield one, two


async def clients(plain: Plain) -> set[str]:
    return set((await plain.ask("presence", {"channel": TOPIC}))["presence"])


async def test_presence_is_of_all_gateways(gateways: tuple[Gateway, Gateway]) -> None:
    one, two = gateways
    async with one.plain() as ann, two.plain() as bob:
        await ann.ask("subscribe", {"channel": TOPIC})
        assert len(await clients(ann)) == 1
        await bob.ask("subscribe", {"channel": TOPIC})
        assert len(await clients(bob)) == 2
        assert await bob.ask("presence_stats", {"channel": TOPIC}) == {"num_clients": 2, "num_users": 1}
        await bob.ask("unsubscribe", {"channel": TOPIC})
        assert len(await clients(bob)) == 1


async def test_join_and_leave_reach_who_asked_for_them(gateways: tuple[Gateway, Gateway]) -> None:
    one, two = gateways
    async with one.plain() as ann, one.plain() as deaf:
        reply = await ann.ask("subscribe", {"channel": TOPIC, "join_leave": True})
        assert reply["join_leave"] is True
        (me,) = await clients(ann)
        assert await ann.push() == {"channel": TOPIC, "join": {"info": {"client": me, "user": ""}}}
        assert "join_leave" not in await deaf.ask("subscribe", {"channel": TOPIC})
        other = (await ann.push())["join"]["info"]["client"]
        async with two.plain() as bob:
            await bob.ask("subscribe", {"channel": TOPIC})
            third = (await ann.push())["join"]["info"]["client"]
            assert await clients(bob) == {me, other, third}
        assert await ann.push() == {"channel": TOPIC, "leave": {"info": {"client": third, "user": ""}}}
        await deaf.ask("unsubscribe", {"channel": TOPIC})
        assert (await ann.push())["leave"]["info"]["client"] == other
        await deaf.ask("ping", {})
        assert deaf.pushes == []


async def test_gateway_that_ends_says_that_its_clients_are_gone(redis_url: str, key_prefix: str) -> None:
    async with serve(redis_url, key_prefix) as one, one.plain() as ann:
        await ann.ask("subscribe", {"channel": TOPIC, "join_leave": True})
        await ann.push()
        async with serve(redis_url, key_prefix, drain=0.0) as two, two.plain() as bob:
            await bob.ask("subscribe", {"channel": TOPIC})
            client = (await ann.push())["join"]["info"]["client"]
            two.server.should_exit = True
            assert (await bob.closed())[0] == 3001
        assert await ann.push() == {"channel": TOPIC, "leave": {"info": {"client": client, "user": ""}}}


async def test_too_many_for_one_reply(redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANNOUNCED", 1)
    async with serve(redis_url, key_prefix) as gateway, gateway.plain() as ann, gateway.plain() as bob:
        await ann.ask("subscribe", {"channel": TOPIC})
        await bob.ask("subscribe", {"channel": TOPIC})
        assert (await ann.ask("presence", {"channel": TOPIC}))["code"] == 106
        assert (await ann.ask("presence_stats", {"channel": TOPIC}))["num_clients"] == 2
