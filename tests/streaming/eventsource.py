"""Server-sent events read as the HTML standard says (9.2.6), and nothing more."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx

from tests.serving import PATIENCE

__all__ = ["EventSource", "Received", "listen"]


class Received(NamedTuple):
    """One dispatched event."""

    name: str
    id: str
    data: Any


class EventSource:
    """One response, read event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.id = ""
        """What a browser would send as `Last-Event-ID`."""
        self.comments = 0
        self._lines = response.aiter_lines()

    async def next(self) -> Received:
        """Give the next event; StopAsyncIteration at the end of the stream."""
        name, ident = "message", self.id
        data: list[str] = []
        while True:
            line = await asyncio.wait_for(anext(self._lines), PATIENCE)
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                self.id = ident
                if data:
                    return Received(name, ident, json.loads("\n".join(data)))
                name = "message"
            elif not field:
                self.comments += 1
            elif field == "event":
                name = value
            elif field == "id":
                ident = value
            elif field == "data":
                data.append(value)

    async def take(self, count: int) -> list[Received]:
        return [await self.next() for _ in range(count)]

    async def ended(self) -> list[Received]:
        """Read to the end."""
        rest = []
        with contextlib.suppress(StopAsyncIteration):
            while True:
                rest.append(await self.next())
        return rest


@contextlib.asynccontextmanager
async def listen(http: httpx.AsyncClient, path: str, *, last: str = "") -> AsyncIterator[EventSource]:
    headers = {"last-event-id": last} if last else {}
    async with http.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        yield EventSource(response)
