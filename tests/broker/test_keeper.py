"""One connection for all who want it."""

import asyncio
from pathlib import Path

import pytest

from gateway.broker.keeper import WireKeeper
from gateway.broker.server import Server
from gateway.errors import BrokerUnavailableError


async def test_wire_is_made_once_and_again_after_its_end(redis_url: str) -> None:
    keeper = WireKeeper(Server(redis_url, timeout=5))
    wires = await asyncio.gather(*(keeper.wire() for _ in range(20)))
    assert len(set(wires)) == 1
    wires[0].close()
    await wires[0].wait_closed()
    assert await keeper.wire() is not wires[0]
    await keeper.aclose()
    with pytest.raises(BrokerUnavailableError, match="closed"):
        await keeper.wire()


async def test_wire_whose_making_fails_fails_all_who_wait(tmp_path: Path) -> None:
    keeper = WireKeeper(Server(f"unix://{tmp_path}/nobody", timeout=5))
    answers = await asyncio.gather(*(keeper.wire() for _ in range(20)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {BrokerUnavailableError}
    await keeper.aclose()


async def test_wire_is_made_even_if_the_first_to_want_it_gives_up(redis_url: str) -> None:
    keeper = WireKeeper(Server(redis_url, timeout=5))
    first, second = asyncio.create_task(keeper.wire()), asyncio.create_task(keeper.wire())
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).server_id
    with pytest.raises(asyncio.CancelledError):
        await first
    await keeper.aclose()
