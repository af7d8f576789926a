"""Every recorded provider stream, out again through each dialect, read back by that dialect's real client."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters import PROVIDERS
from gateway.errors import ProviderError
from gateway.publisher import Publisher
from gateway.types import Topic
from tests.dialects.clients import Node, Read, read_ag_ui, read_ai_sdk, read_openai
from tests.recordings import Turn, fails, lines, read, recordings
from tests.serving import Gateway, eventually

CLIENTS: dict[str, Callable[[Node, str], Coroutine[Any, Any, Read]]] = {
    "ag-ui": read_ag_ui,
    "ai-sdk": read_ai_sdk,
    "openai-responses": read_openai,
}


class Pause:
    """The middle of a recording, where its publishing waits."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.over = asyncio.Event()


async def publish(publisher: Publisher, provider: str, events: list[dict[str, Any]], pause: Pause) -> None:
    """Publish a recording as a run."""
    with contextlib.suppress(ProviderError):
        async with publisher.run("t", agent="replay", model="m") as run:
            adapter = PROVIDERS[provider](run)
            for number, event in enumerate(events):
                if number == len(events) // 2:
                    await run.flush()
                    pause.reached.set()
                    await pause.over.wait()
                await adapter.feed(event)
            await adapter.finish()


def check(got: Read, turns: list[Turn], *, failed: bool) -> None:
    if failed:
        assert got.status == "failed"
        return
    assert got.status == "completed"
    assert got.texts == [turn.text for turn in turns if turn.text]
    assert got.thinking == "".join(turn.thinking for turn in turns)
    assert got.calls == [call for turn in turns for call in turn.calls]
    for name in turns[0].usage:
        assert got.usage[name] == sum(turn.usage[name] for turn in turns), name


@pytest.mark.streams
@pytest.mark.parametrize(("provider", "path"), recordings())
async def test_recording_is_read_back_equal(
    node: Node, served: Gateway, publisher: Publisher, provider: str, path: Path
) -> None:
    pause = Pause()
    publishing = asyncio.create_task(publish(publisher, provider, lines(path), pause))
    await pause.reached.wait()
    url = f"{served.http}/topics/t/events?dialect="
    joined = {dialect: asyncio.create_task(client(node, url + dialect)) for dialect, client in CLIENTS.items()}
    await eventually(lambda: len(served.hub.clients(Topic("t"))) == len(CLIENTS))
    pause.over.set()
    await publishing
    for dialect, client in CLIENTS.items():
        for reading in (joined[dialect], client(node, f"{url}{dialect}&from=start")):
            check(await reading, read(provider, path), failed=fails(path))
    assert await node.ask("ag-ui-schemas", f"{url}ag-ui&from=start") == []
