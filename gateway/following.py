"""Following a gateway that may not be up yet."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence

from gateway.client import Client, backoff, may_return
from gateway.client_socket import shown_url
from gateway.client_token import Token
from gateway.errors import CommandError, DisconnectError, UnreachableError
from gateway.reader import Lens, Since, Update

__all__ = ["opened", "subscribe"]

logger = logging.getLogger(__name__)


async def subscribe(
    url: str,
    topic: str,
    *,
    since: Since = None,
    token: Token = None,
    mirror: bool = True,
    types: Sequence[str] | None = None,
    lens: Lens = None,
) -> AsyncGenerator[Update, None]:
    """Follow one topic of a gateway, which may as well not be up yet.

    Args:
        url: The gateway's address.
        topic: The topic.
        since: Where to begin, as `Client.subscribe` has it.
        token: What the gateway knows the caller by, as `Client` has it.
        mirror: Keep an exact mirror, as `Client.subscribe` has it.
        types: The event types that are wanted, as `Client.subscribe` has it.
        lens: How it is seen, as `Client.subscribe` has it.

    Raises:
        ValueError: URL or topic is none.
        CommandError, DisconnectError, UnreachableError, SnapshotError: The gateway refused for good.

    """
    async with opened(Client(url, token=token)) as client:
        async for update in client.subscribe(topic, since=since, mirror=mirror, types=types, lens=lens):
            yield update


@contextlib.asynccontextmanager
async def opened(client: Client) -> AsyncGenerator[Client, None]:
    """Enter a client whose gateway may as well not be up yet: it is waited for.

    Raises:
        CommandError, DisconnectError, UnreachableError: The gateway refused for good.

    """
    failures = 0
    while True:
        try:
            await client.__aenter__()
            break
        except (UnreachableError, CommandError, DisconnectError) as error:
            if not may_return(error):
                raise
            logger.log(logging.DEBUG if failures else logging.WARNING, "%s; waiting for it", error)
        await asyncio.sleep(backoff(failures))
        failures += 1
    if failures:
        logger.warning("%s is there", shown_url(client.url))
    try:
        yield client
    finally:
        await client.__aexit__()
