"""Bots: handlers of what happens on many topics, each event at least once, across restarts of everything."""

import asyncio
import contextlib
import functools
import inspect
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar

from gateway import note
from gateway.bot_event import SNAPSHOT, BotEvent, type_of
from gateway.client import Client
from gateway.client_socket import shown_url
from gateway.client_token import Token
from gateway.errors import CommandError, DisconnectError, GatewayError, UnreachableError
from gateway.followers import Followers
from gateway.following import opened
from gateway.lens import MAX_TYPES
from gateway.mirror import Mirror
from gateway.positions import Positions
from gateway.reader import Update
from gateway.types import TYPE_PATTERN

__all__ = ["Bot", "BotEvent"]

logger = logging.getLogger(__name__)

CONCURRENCY = 64
GRACE = 10.0
"""Seconds that handlers have to end once the bot is to stop."""
RETRY = 1.0
"""Seconds before a handler is called again."""
SAVE_EVERY = 0.25
"""Seconds; what a killed bot has handled in the last of them it hears again."""
ANY = "*"

Handler = Callable[[BotEvent], Awaitable[object]]
Job = Callable[[], Awaitable[object]]
H = TypeVar("H", bound=Handler)
J = TypeVar("J", bound=Job)
T = TypeVar("T")


class Bot:
    """Calls handlers for the events of topics; see `on`, `every` and `run`.

    The events of one topic are handled one after another, those of several topics at the same time. An event counts
    as handled when all its handlers have returned or failed: a failure is logged and stops nothing. Where an action
    failed because the gateway is away, the handler is called again.

    Args:
        url: The gateway's address; "" is ``GATEWAY_URL``, or the gateway that this user runs on this machine.
        topics: Names, and patterns in which ``*`` stands for any characters. New topics that fit are found within
            seconds.
        token: What the gateway knows the bot by, a text or an async function that makes one, as `Client` has it; None
            is ``GATEWAY_TOKEN``, or nothing.
        positions: A file in which the bot notes what it has handled, so that after a restart it goes on there: each
            event at least once. None begins anew with each start.
        since: Where a bot without positions begins on topics that are there already: with what comes from ``now``
            on, or at their ``start``. Topics that appear later are read from their start.
        mirror: Keep the state of each topic: `BotEvent.mirror`. Handlers of ``snapshot`` are called with it when the
            bot begins to follow a topic.
        concurrency: How many handlers may run at once.
        timeout: Seconds after which a handler is cancelled, which is a failure; None lets it take any time.

    Raises:
        ValueError: The URL is none, no topic is given, or a number is not above 0.

    """

    def __init__(
        self,
        url: str = "",
        *,
        topics: str | Sequence[str] = ANY,
        token: Token = None,
        positions: str | os.PathLike[str] | None = None,
        since: Literal["now", "start"] = "now",
        mirror: bool = False,
        concurrency: int = CONCURRENCY,
        timeout: float | None = None,
    ) -> None:
        if concurrency < 1 or (timeout is not None and not timeout > 0):
            raise ValueError(f"expected concurrency and timeout above 0, got {concurrency} and {timeout}")
        self.client = Client(url or _found_url(), token=token or os.environ.get("GATEWAY_TOKEN"))
        """The connection, for what handlers want of it while the bot runs; the bot's topics are followed on it."""
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        self._positions = positions
        self._since: Literal["now", "start"] = since
        self._mirror = mirror
        self._timeout = timeout
        self._slots = asyncio.Semaphore(concurrency)
        self._handlers: dict[str, list[Handler]] = {}
        """By type, in the order of their registration."""
        self._jobs: list[tuple[float, Job]] = []
        self._stopping = asyncio.Event()
        self._name = ""
        """The name that the positions have for it."""
        Followers.check(self._topics)

    def on(self, *types: str) -> Callable[[H], H]:
        """Register an async function for events of these types.

        Args:
            types: Event types; ``snapshot`` is a whole state, which stands for events that the history no longer
                holds; ``"*"`` is everything.

        Raises:
            ValueError: One is no type.
            TypeError: The handler is not async.

        """
        for kind in types:
            if kind != ANY and not TYPE_PATTERN.match(kind):
                raise ValueError(f"expected an event type such as agent_error, or *, got {kind!r}")
        if not types:
            raise ValueError("expected the types of events that are to be handled, * for all, got none")

        def register(handler: H) -> H:
            _check_async(handler)
            for kind in types:
                self._handlers.setdefault(kind, []).append(handler)
            return handler

        return register

    def every(self, seconds: float) -> Callable[[J], J]:
        """Register an async function without arguments that is called again and again, ``seconds`` after its end.

        Raises:
            ValueError: The time is not above 0.
            TypeError: The function is not async.

        """
        if not seconds > 0:
            raise ValueError(f"expected seconds above 0, got {seconds}")

        def register(job: J) -> J:
            _check_async(job)
            self._jobs.append((seconds, job))
            return job

        return register

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; then it returns once the handlers have ended. A second signal ends it at once.

        Raises:
            SystemExit: The gateway refused for good, or the positions cannot be kept: told in one line.

        """
        try:
            asyncio.run(self._serve_until_signalled())
        except GatewayError as error:
            raise SystemExit(f"bot: {error}") from error
        except asyncio.CancelledError:
            raise SystemExit(1) from None

    async def serve(self) -> None:
        """Handle events until `stop`; once in a bot's life.

        Raises:
            CommandError, DisconnectError, UnreachableError: The gateway refused for good, the bot or one of the
                topics that it names. One that merely fits a pattern is logged and left.
            PositionsError: The positions cannot be kept.

        """
        with Positions(self._positions) as positions:
            self._name = positions.bot
            async with contextlib.AsyncExitStack() as stack:
                if await self._unless_stopped(stack.enter_async_context(opened(self.client))) is None:
                    return
                await self._serve(positions)

    def stop(self) -> None:
        """Let `serve` return: nothing more is read, handlers under way have 10 seconds."""
        self._stopping.set()

    async def _serve_until_signalled(self) -> None:
        loop = asyncio.get_running_loop()
        serving = asyncio.current_task()
        assert serving is not None  # noqa: S101 - for the type checker

        def end() -> None:
            if self._stopping.is_set():
                serving.cancel()
            self.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end)
        await self.serve()

    async def _serve(self, positions: Positions) -> None:
        followers = Followers(
            self.client,
            self._topics,
            positions,
            handle=self._handle,
            since=self._since,
            types=self._types(),
            mirror=self._mirror,
        )
        await self._unless_stopped(followers.begin())
        working = [asyncio.create_task(self._repeat(seconds, job)) for seconds, job in self._jobs]
        saving = asyncio.create_task(self._save(positions))
        following = asyncio.create_task(followers.follow())
        stopping = asyncio.create_task(self._stopping.wait())
        logger.info("the bot is up at %s", shown_url(self.client.url))
        tasks = [*working, saving, following, stopping]
        try:
            await asyncio.wait([saving, following, stopping], return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            # Before its followers are closed: it must not start others.
            following.cancel()
            await followers.close(grace=GRACE)
            await asyncio.wait([*working, saving], timeout=GRACE)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await followers.close(grace=0)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _types(self) -> list[str] | None:
        """Give what the gateway is asked for; None for everything."""
        types = self._handlers.keys() - {SNAPSHOT}
        everything = self._mirror or ANY in types or not 0 < len(types) <= MAX_TYPES
        return None if everything else sorted(types)

    async def _handle(self, update: Update, mirror: Mirror | None) -> None:
        """Call the handlers of an update, one after another."""
        if update.hidden:
            return
        kind = type_of(update)
        for handler in (*self._handlers.get(kind, ()), *self._handlers.get(ANY, ())):
            name = _name(handler)
            handled = False
            while not handled:
                # A new one for each try: its actions have the same ids again.
                event = BotEvent(update, self.client, mirror=mirror, actor=f"{self._name} {name}")
                handled = await self._call(functools.partial(handler, event), f"{name} failed on {event!r}")

    async def _call(self, function: Callable[[], Awaitable[object]], failed: str) -> bool:
        """Call a function, and tell where it fails; False where it did because the gateway is away."""
        async with self._slots:
            try:
                async with asyncio.timeout(self._timeout):
                    await function()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                logger.exception("%s: it was cancelled by itself", failed)
                return True
            except Exception as error:
                if not self._is_away(error):
                    logger.exception("%s", failed)
                    return True
                logger.warning("%s: %s; trying on", failed, error)
            else:
                return True
        await asyncio.sleep(RETRY)
        return False

    def _is_away(self, error: Exception) -> bool:
        """Whether what a handler did at the gateway can succeed later."""
        if isinstance(error, (CommandError, UnreachableError)):
            return error.temporary
        return isinstance(error, DisconnectError) and self.client.failed is None

    async def _repeat(self, seconds: float, job: Job) -> None:
        while not self._stopping.is_set():
            await self._call(job, f"{_name(job)} failed")
            await self._unless_stopped(asyncio.sleep(seconds))

    async def _save(self, positions: Positions) -> None:
        while not self._stopping.is_set():
            await self._unless_stopped(asyncio.sleep(SAVE_EVERY))
            positions.save()

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for something that a stop cancels; None then."""
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            stopping.cancel()
            await asyncio.wait([task, stopping])


def _found_url() -> str:
    """Find the gateway without being told."""
    noted = note.find()
    return os.environ.get("GATEWAY_URL") or (noted[0].url if noted else "http://127.0.0.1:8000")


def _name(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"


def _check_async(function: Callable[..., object]) -> None:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"expected an async function, got {function!r}")
