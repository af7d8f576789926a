"""A thousand readers of one run: late ones, dropped ones, all exact."""

import asyncio
import resource

import pytest

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.e2e.processes import Gateway, until
from tests.e2e.reader import Reader

READERS, LATE, DROPPED = 1000, 50, 50
TOKENS, PER_SECOND = 500, 100


@pytest.fixture(autouse=True)
def enough_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def test_thousand_readers_of_one_run_are_exact(shared_gateway: Gateway) -> None:
    topic = "scale"
    readers = [Reader(shared_gateway.port, topic) for _ in range(READERS)]
    early, late = readers[:-LATE], readers[-LATE:]
    dropped = early[:DROPPED]
    for start in range(0, len(early), 100):
        await asyncio.gather(*(reader.connect() for reader in early[start : start + 100]))

    async with Publisher(shared_gateway.redis_url) as publisher, publisher.run(topic, agent="counter") as run:
        for number in range(TOKENS):
            await run.delta(f"token {number} – ")
            await asyncio.sleep(1 / PER_SECOND)
            if number == TOKENS // 3:
                for reader in dropped:
                    reader.drop()
            if number == TOKENS // 2:
                for reader in dropped:
                    reader.settle()
                await asyncio.gather(*(reader.connect() for reader in (*late, *dropped)))
        text = "".join(f"token {number} – " for number in range(TOKENS))
        await run.add_message(Message.assistant(text))

    snapshot = await shared_gateway.topic(topic)
    assert snapshot["mirror"]["runs"][0]["status"] == "completed"
    assert snapshot["mirror"]["context"]["events"][-1]["data"]["content"] == text

    async def caught_up() -> bool:
        return all(reader.settle().offset == snapshot["offset"] for reader in readers)

    await until(caught_up, "every reader to stand at the top")
    for reader in readers:
        assert not reader.lost.is_set()
        assert reader.mirror.snapshot() == snapshot
        reader.drop()
