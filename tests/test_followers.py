"""Which topics a bot follows, against a server whose every answer the test gives."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gateway import followers as module
from gateway.client import Client
from gateway.errors import DisconnectError
from gateway.followers import Followers
from gateway.mirror import Mirror
from gateway.positions import Positions
from gateway.reader import Update
from tests.protocol_server import Command, ProtocolServer, delta, protocol_server

EPOCH = "aB3dE6gH"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL", 0.001)


@contextlib.asynccontextmanager
async def following(server: ProtocolServer, *topics: str, since: str = "start") -> AsyncIterator[asyncio.Task[None]]:
    async def handle(update: Update, mirror: Mirror | None) -> None:
        """Take it as handled."""

    async with Client(server.url) as client:
        with Positions() as positions:
            followers = Followers(
                client,
                topics,
                positions,
                handle=handle,
                since=since,  # type: ignore[arg-type]
                types=None,
                mirror=False,
            )
            await followers.begin()
            task = asyncio.create_task(followers.follow())
            yield task
            task.cancel()
            await asyncio.wait([task])
            await followers.close(grace=1)


async def list_topics(server: ProtocolServer, **topics: int) -> None:
    command = await server.command("rpc")
    assert command.body["method"] == "topics"
    await command.reply({"data": {"topics": [{"topic": topic, "at": at} for topic, at in topics.items()]}})


async def subscribed(server: ProtocolServer, topic: str) -> Command:
    command = await server.command("subscribe")
    assert command.body["channel"] == topic
    await command.reply({"recovered": True, "epoch": EPOCH, "offset": command.body.get("offset", 0)})
    return command


async def test_topic_that_made_room_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FOLLOWED", 1)
    monkeypatch.setattr(module, "QUIET", 0.0)
    async with protocol_server() as server, following(server, "*"):
        await list_topics(server, a=1)
        first = await subscribed(server, "a")
        await first.push(delta(1))
        await list_topics(server, b=2, a=1)
        await server.command("unsubscribe")
        await subscribed(server, "b")
        # Nothing new on a.
        await list_topics(server, b=2, a=1)
        await list_topics(server, a=3, b=2)
        await server.command("unsubscribe")
        again = await subscribed(server, "a")
        assert (again.body["epoch"], again.body["offset"]) == (EPOCH, 1)


async def test_topic_that_was_written_between_two_looks_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FOLLOWED", 1)
    monkeypatch.setattr(module, "QUIET", 0.0)
    async with protocol_server() as server, following(server, "*"):
        await list_topics(server, a=1)
        await subscribed(server, "a")
        await list_topics(server, b=2, a=2)  # the event that a has now may still be on its way
        await server.command("unsubscribe")
        await subscribed(server, "b")
        await list_topics(server, b=2, a=2)
        await server.command("unsubscribe")
        await subscribed(server, "a")


async def test_who_may_not_read_histories_begins_with_what_is_there_now() -> None:
    async with protocol_server() as server:
        beginning = asyncio.create_task(_first_offset(server))
        await (await server.command("history")).refuse(103)
        command = await server.command("subscribe")
        snapshot = Mirror("a", EPOCH, 7).snapshot()
        await command.reply({"epoch": EPOCH, "offset": 7, "data": {"snapshot": snapshot}})
        await server.command("unsubscribe")
        assert await beginning == 7


async def _first_offset(server: ProtocolServer) -> int:
    async with following(server, "a", since="now"):
        offset: int = (await server.command("subscribe")).body["offset"]
        return offset


async def test_first_look_notes_where_topics_stand() -> None:
    async with protocol_server() as server:
        beginning = asyncio.create_task(_begun(server))
        await list_topics(server, a=2, b=1)
        tops = [await server.command("history") for _ in "ab"]
        for offset, command in enumerate(tops, start=5):
            await command.reply({"epoch": EPOCH, "offset": offset})
        assert sorted(await beginning) == [5, 6]


async def _begun(server: ProtocolServer) -> list[int]:
    async with following(server, "*", since="now"):
        await list_topics(server, a=2, b=1)
        return [(await server.command("subscribe")).body["offset"] for _ in "ab"]


async def test_end_of_the_client_is_raised() -> None:
    async with protocol_server() as server, following(server, "*") as task:
        await list_topics(server, a=1)
        await (await subscribed(server, "a")).close(3500, "invalid token")
        with pytest.raises(DisconnectError) as caught:
            await task
        assert caught.value.code == 3500


@pytest.mark.parametrize("topics", [(), ("a b",), ("",), ("chat:*", "ä")])
def test_what_is_no_topic_and_no_pattern_is_refused(topics: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Followers.check(topics)
