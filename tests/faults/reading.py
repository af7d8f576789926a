"""Reading a topic up to its top, and saying what must be there."""

import asyncio

from gateway.mirror import Mirror
from gateway.reader import Update
from gateway.subscription import Subscription
from tests.faults.store import Archive
from tests.vectors_reader import canonical

__all__ = ["assert_exact", "read_to"]

PATIENCE = 20.0


async def read_to(subscription: Subscription, offset: int) -> list[Update]:
    """Take updates until the topic stands at an offset."""
    updates = []
    async with asyncio.timeout(PATIENCE):
        async for update in subscription:
            updates.append(update)
            if update.position.offset >= offset:
                break
    return updates


async def assert_exact(mirror: Mirror | None, archive: Archive, topic: str) -> None:
    """See that a mirror holds the model's state of what is stored."""
    assert mirror is not None
    position, state = await archive.state(topic)
    assert mirror.offset == position.offset
    assert canonical(mirror.state()) == canonical(state)
