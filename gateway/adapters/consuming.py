"""Feeding a whole stream into a run, whatever library it comes from."""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from gateway.adapters.openai_agents import is_streamed_run, streamed_run
from gateway.adapters.recognition import ADAPTERS, recognised
from gateway.adapters.response import Adapter, Asking, Sink
from gateway.context.messages import Message
from gateway.errors import ProviderError

__all__ = ["Consumer", "consume"]


class Consumer(Sink, Asking, Protocol):
    """What feeding a stream needs of a `Run`."""

    def check(self) -> None: ...


async def consume(run: Consumer, stream: Any, *, adapter: str | type[Adapter] | None) -> Message | None:
    """Feed a stream into a run; arguments and errors as of `Run.consume`."""
    fed = None if adapter is None else _named(adapter)(run)
    async with _opened(run, stream) as items:
        try:
            async for item in items:
                if fed is None:
                    fed = _recognised(item)(run)
                if fed.resting:
                    run.check()
                await fed.feed(item)
            if fed is not None:
                await fed.finish()
        except BaseException as error:
            if fed is not None:
                await fed.abandon(error)
            raise
    if fed is None:
        raise ProviderError("the stream ended without a single item", code="incomplete_stream")
    return fed.last


def _named(adapter: str | type[Adapter]) -> type[Adapter]:
    if not isinstance(adapter, str):
        return adapter
    if adapter not in ADAPTERS:
        raise ValueError(f"expected an adapter among {', '.join(ADAPTERS)}, got {adapter!r:.80}")
    return ADAPTERS[adapter]


def _recognised(item: object) -> type[Adapter]:
    found = recognised(item)
    if found is None:
        known = ", ".join(ADAPTERS)
        raise TypeError(f"expected a stream of {known}, got one of {type(item).__qualname__}: {item!r:.200}")
    return found


@asynccontextmanager
async def _opened(run: Consumer, stream: Any) -> AsyncIterator[AsyncIterator[Any]]:
    """Open a stream in whatever way its library has for that, and close it in any case."""
    if inspect.isawaitable(stream):
        stream = await stream
    if is_streamed_run(stream):
        stream = streamed_run(run, stream)
    if hasattr(stream, "__aenter__"):
        async with stream as entered:
            yield _iterated(entered)
        return
    items = _iterated(stream)
    try:
        yield items
    finally:
        # A framework's generator stops what it drives when it is closed; left alone it goes on in the background.
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _iterated(stream: Any) -> AsyncIterator[Any]:
    if not hasattr(stream, "__aiter__"):
        raise TypeError(f"expected an asynchronous stream, got {type(stream).__qualname__}")
    return aiter(stream)
