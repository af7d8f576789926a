"""Asking a provider for one streamed message, again where the stream breaks off."""

import logging
from collections.abc import Awaitable, Callable

from gateway.context.messages import Message
from gateway.errors import ProviderError
from gateway.run import Run

__all__ = ["MAX_ATTEMPTS", "respond_streamed"]

_logger = logging.getLogger(__name__)

_BROKEN_OFF = "incomplete_stream"
"""The adapters' code of a stream without an end."""

MAX_ATTEMPTS = 3
"""Requests for one message whose stream breaks off; what an attempt wrote is discarded."""


async def respond_streamed(
    run: Run, attempt: Callable[[], Awaitable[None]], *, broken_off: tuple[type[Exception], ...]
) -> Message:
    """Make attempts until the stream of one comes to its end; returns the message.

    Args:
        run: Where the message goes.
        attempt: Makes one request and feeds its stream into the run.
        broken_off: What the SDK raises where the connection is lost.

    Raises:
        ProviderError: The provider reports an error, or the last stream broke off too.

    """
    expected: tuple[type[Exception], ...] = (ProviderError, *broken_off)
    made = 1
    while True:
        before = len(run.context.entries)
        try:
            await attempt()
        except expected as error:
            final = isinstance(error, ProviderError) and error.code != _BROKEN_OFF
            if final or made == MAX_ATTEMPTS:
                raise
            _logger.warning("attempt %d of a response broke off: %s", made, error)
        else:
            written = list(run.context.entries)[before:]
            answers = [message for message in written if message.role == "assistant"]
            if answers:
                return answers[-1]
            if made == MAX_ATTEMPTS:
                raise ProviderError("the stream ended without a response", code=_BROKEN_OFF)
        made += 1
        if run.open_message is not None:
            await run.discard(reason="the stream of the response broke off; it is asked for again")
