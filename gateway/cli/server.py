"""A gateway in this process, or in workers of this process, on a socket that is known to be free."""

import asyncio
import contextlib
import importlib.util
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

import msgspec
import uvicorn
from uvicorn.supervisors import Multiprocess

from gateway.app import app_from_env, create_app
from gateway.cli.interrupt import interruptible
from gateway.errors import GatewayError
from gateway.logs import log_config
from gateway.settings import ENV_PREFIX, Settings
from gateway.streaming.protocol import StreamingProtocol

__all__ = [
    "PortTakenError",
    "StartError",
    "bind",
    "loop_factory",
    "serve",
    "serve_workers",
    "worker_app",
]

DRAIN_MARGIN = 5.0
"""Seconds beyond the drain after which what is left is cut off."""
WORKER_PATIENCE = 30.0
"""Seconds until all workers should serve."""
BACKLOG = 2048

_HTTP_PROTOCOL = "gateway.streaming.protocol:StreamingProtocol"
_PROTOCOL = "gateway.transport:GatewayProtocol"


class PortTakenError(GatewayError):
    """Another program listens on the port.

    Attributes:
        host: The address.
        port: The port.
        gateway: The address of the gateway that it is; None for another program.

    """

    def __init__(self, *, host: str, port: int, gateway: str | None = None) -> None:
        super().__init__(host, port, gateway)
        self.host = host
        self.port = port
        self.gateway = gateway

    def __str__(self) -> str:
        if self.gateway is not None:
            return f"a gateway already serves {self.gateway}; choose another port with --port"
        return f"port {self.port} of {self.host} is taken by another program; choose another one with --port"


class StartError(GatewayError):
    """The application did not start; its log says why."""

    def __str__(self) -> str:
        return "the gateway did not start; the log above says why"


def bind(host: str, port: int) -> socket.socket:
    """Take a port.

    Raises:
        PortTakenError: Another program listens there.
        OSError: The host is none of this machine's addresses, or the port is not ours to take.

    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        # A port whose last connections are still fading away is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if "in use" in (error.strerror or "").lower():
            raise PortTakenError(host=host, port=port) from error
        raise
    listener.setblocking(False)
    return listener


class _Server(uvicorn.Server):
    """Leaves the signals to `serve`: the stock one raises them again, in the middle of what comes after it."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_started()


class _Workers(Multiprocess):
    """Tells when all serve, and by which signal they were ended."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, started: Callable[[], None]) -> None:
        super().__init__(config, sockets=[listener])
        self.ended_by: signal.Signals | None = None
        self._tell_started = started
        # Its start lets SIGINT in, wherever that happens.
        resource_tracker.ensure_running()

    def init_processes(self) -> None:
        with _deaf_children():
            super().init_processes()
        if self._all_ready():
            self._tell_started()

    def keep_subprocess_alive(self) -> None:
        with _deaf_children():
            super().keep_subprocess_alive()

    def handle_signals(self) -> None:
        with _deaf_children():
            super().handle_signals()

    def handle_int(self) -> None:
        self.ended_by = signal.SIGINT
        super().handle_int()

    def handle_term(self) -> None:
        self.ended_by = signal.SIGTERM
        super().handle_term()

    def kill_all(self) -> None:
        """End the workers at once."""
        for worker in self.processes:
            worker.process.kill()

    def _all_ready(self) -> bool:
        # As `Process.wait_until_ready`, which would not look at the signals meanwhile.
        deadline = time.monotonic() + WORKER_PATIENCE
        waiting = list(self.processes)
        while waiting and time.monotonic() < deadline:
            self.handle_signals()
            if self.should_exit.is_set() or not waiting[0].process.is_alive():
                return False
            if waiting[0].is_ready(timeout=1):
                waiting.pop(0)
            else:
                time.sleep(0.05)
        return not waiting


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Let the processes that are started in the block never hear Ctrl-C, which the terminal sends to all of a group.

    Their parent ends them; on their own they would end too early, some in the middle of an import.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def serve(
    settings: Settings, listener: socket.socket, *, started: Callable[[], None], stop: asyncio.Event
) -> signal.Signals | None:
    """Serve in this process until a signal or ``stop``, then drain.

    Args:
        settings: The settings, Redis URL included.
        listener: The socket to listen on; closed at the end.
        started: Called once connections are taken.
        stop: Set by the caller to end it.

    Returns:
        SIGINT or SIGTERM, where that ended it; None for ``stop``.

    Raises:
        StartError: The application did not start.

    """
    server = _Server(_config(create_app(settings), settings), started)
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        received.append(number)
        server.handle_exit(number, None)

    async def heed() -> None:
        await stop.wait()
        server.should_exit = True

    loop.add_signal_handler(signal.SIGTERM, end, signal.SIGTERM)
    heeding = asyncio.create_task(heed())
    try:
        with interruptible(lambda: loop.call_soon_threadsafe(end, signal.SIGINT)):
            await server.serve(sockets=[listener])
    except SystemExit as error:
        raise StartError from error
    finally:
        heeding.cancel()
        loop.remove_signal_handler(signal.SIGTERM)
    return received[0] if received else None


def serve_workers(settings: Settings, listener: socket.socket, *, started: Callable[[], None]) -> signal.Signals | None:
    """Serve in ``settings.workers`` processes, which are started again where they die, until a signal.

    Blocks, and must be called in the main thread; arguments and result are those of `serve`.

    Raises:
        StartError: A worker's application did not start.

    """
    for name, value in msgspec.structs.asdict(settings).items():
        os.environ[ENV_PREFIX + name.upper()] = str(value)
    workers = _Workers(_config("gateway.cli.server:worker_app", settings), listener, started)
    # On their own they would be a moment late, and complain about the store that has gone already.
    with interruptible(lambda: workers.signal_queue.append(signal.SIGINT), last=workers.kill_all):
        workers.run()
    if workers.ended_by is None:
        raise StartError
    return workers.ended_by


def worker_app() -> Callable[..., Awaitable[None]]:
    """Make the application of a worker process, which ends with its parent however that ends."""
    settings = Settings.from_env(os.environ)
    _set_timeouts(settings)
    patience = settings.drain + 2 * DRAIN_MARGIN
    threading.Thread(target=_end_with_parent, args=(patience,), name="parent watch", daemon=True).start()
    return app_from_env()


def _end_with_parent(patience: float) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    # It waits on a pipe that only the parent holds open.
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(patience)
    os._exit(1)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Give uvloop's event loop where it is installed."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


def _set_timeouts(settings: Settings) -> None:
    """Set what is the whole process's."""
    StreamingProtocol.head_timeout = settings.handshake_timeout
    StreamingProtocol.body_timeout = settings.body_timeout


def _config(app: Any, settings: Settings) -> uvicorn.Config:
    _set_timeouts(settings)
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=_HTTP_PROTOCOL,
        ws=_PROTOCOL,
        ws_max_size=settings.max_frame,
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=log_config(settings),
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whom we trust is our own setting
        timeout_graceful_shutdown=round(settings.drain + DRAIN_MARGIN),
        backlog=BACKLOG,
    )
