"""A user of Redis with the least rights, and one with less."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from gateway.broker.port import Appended, Deletion
from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerError
from gateway.types import START
from tests.broker.author import Author, event, stored
from tests.broker.conftest import TOPIC
from tests.broker.test_link import Ears, back, heard, until
from tests.servers import RedisServer

README = Path(__file__).parents[2] / "README.md"
RULE = re.search(r"^ACL SETUSER gateway (.*?)$", README.read_text().replace("\\\n", " "), re.MULTILINE)
assert RULE is not None
RIGHTS = [
    word
    for word in RULE[1].split()
    if word.startswith(("+", "-", "~", "&")) or word in {"on", "resetchannels", "reset"}
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("rights")) as server:
        yield server


@pytest_asyncio.fixture
async def admin(server: RedisServer) -> AsyncIterator["Redis"]:
    async with Redis.from_url(server.url) as admin:
        yield admin


async def set_user(admin: "Redis", name: str, *rules: str) -> None:
    await admin.execute_command("ACL", "SETUSER", name, *rules)  # type: ignore[no-untyped-call]


@contextlib.asynccontextmanager
async def user(server: RedisServer, admin: "Redis", *, without: str = "") -> AsyncIterator[RedisBroker]:
    """Connect as a user with the README's rights, but for one."""
    rights = [word for word in RIGHTS if word != without and await _known(admin, word)]
    await set_user(admin, "gateway", "reset", *rights, ">secret")
    broker = RedisBroker(f"redis://gateway:secret@127.0.0.1:{server.port}/0", key_prefix="gw")
    try:
        yield broker
    finally:
        await broker.aclose()


async def _known(admin: "Redis", word: str) -> bool:
    try:
        await set_user(admin, "probe", word)
    except ResponseError:
        return False  # of newer servers
    return True


async def test_the_rights_of_the_readme_are_enough(server: RedisServer, admin: "Redis") -> None:
    async with user(server, admin) as broker:
        ears = Ears()
        link = broker.link(ears)
        await link.subscribe(broker.channel(TOPIC))
        author = Author(broker, TOPIC)
        await author.start()
        await author.delta("a")
        await author.delta("b")
        await author.end_message("ab")
        assert len((await broker.read(TOPIC, START)).events) == 2
        assert isinstance(
            await broker.renew(TOPIC, run=author.run, token=author.token, lease=1000, position=author.position),
            Appended,
        )
        await broker.declare_lost(TOPIC, run=author.run, data=b"{}", position=author.position)
        await broker.standing(TOPIC)
        await broker.store_blobs(TOPIC, {"h": b"x"}, run=author.run, position=author.position)
        assert await broker.blobs(TOPIC, ["h"]) == {"h": b"x"}
        await broker.archive(TOPIC, {1: b"{}"}, position=author.position)
        await broker.archived(TOPIC, [1])
        await broker.trim(TOPIC, b"{}", position=author.position, size=10)
        await broker.weigh(TOPIC)
        assert [topic for topic, _ in await broker.topics()] == [TOPIC]
        await broker.set_due(TOPIC, 1)
        assert await broker.due(until=2) == [TOPIC]
        await broker.set_due(TOPIC, None)
        await broker.wake(TOPIC)
        await broker.attendance.add(TOPIC, ["me"], ttl=10)
        await broker.attendance.read(TOPIC, limit=10)
        await broker.attendance.announce(TOPIC, b"x")
        await broker.attendance.remove(TOPIC, ["me"])
        await broker.notices.post(b"notice")
        await broker.notices.after("", limit=10)
        await broker.notices.say(b"x")
        await broker.notices.register("node", b"{}")
        await broker.notices.nodes()
        await broker.notices.unregister("node")
        assert stored(await author.end()).position.offset > 0
        assert isinstance(await broker.delete(TOPIC, epochs=author.position.epoch), Deletion)
        await until(lambda: any(payload.startswith(author.position.epoch.encode()) for _, payload in ears.heard))
        await link.unsubscribe(broker.channel(TOPIC))
        await link.aclose()


async def test_a_missing_right_is_told(server: RedisServer, admin: "Redis") -> None:
    for right in ("+info", "+time", "+script|load", "+evalsha", "+xadd", "+hset"):
        async with user(server, admin, without=right) as broker:
            with pytest.raises(BrokerError, match="rights") as caught:
                await Author(broker, TOPIC, run=f"r{right}").start()
            # Of what a script wants to do, older servers do not name the command.
            assert right[1:].partition("|")[0] in str(caught.value).lower() or right in {"+xadd", "+hset"}
            assert "secret" not in str(caught.value)


async def test_a_link_without_the_right_to_subscribe_says_so_once(
    server: RedisServer, admin: "Redis", caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.broker.link.LONGEST_PAUSE", 0.02)
    async with user(server, admin, without="+subscribe") as broker:
        ears = Ears()
        link = broker.link(ears)
        waiting = asyncio.create_task(link.subscribe(broker.channel(TOPIC)))
        before = int((await admin.info("stats"))["total_connections_received"])
        async with asyncio.timeout(30):
            while int((await admin.info("stats"))["total_connections_received"]) < before + 5:
                await asyncio.sleep(0.01)
        assert not waiting.done()
        assert ears.turns() == ["lost"]
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(told) == 1, told
        assert "subscribe" in told[0]
        assert "rights" in told[0]
        await set_user(admin, "gateway", "+subscribe")
        await waiting
        await admin.publish(broker.channel(TOPIC), "now")
        await heard(ears, broker.channel(TOPIC), b"now")
        await back(ears)
        await link.aclose()


async def test_a_user_of_other_keys_is_told(server: RedisServer, admin: "Redis") -> None:
    async with user(server, admin) as broker:
        await set_user(admin, "gateway", "resetkeys", "~other:*")
        with pytest.raises(BrokerError, match="rights"):
            await Author(broker, TOPIC, run="other").add(event("x"))
