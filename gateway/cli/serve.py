"""``gateway serve``."""

import asyncio
import contextlib
import http.client
import os
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.admission import Admission
from gateway.auth import Authority
from gateway.broker.embedded import EmbeddedServer
from gateway.cli.flags import Flag, settings_flags
from gateway.cli.interrupt import INTERRUPTED
from gateway.cli.loop import run_async
from gateway.cli.server import PortTakenError, bind, loop_factory, serve, serve_workers
from gateway.cli.target import checked_redis_url, without_password
from gateway.examination import idle_settings
from gateway.note import Note, noted
from gateway.origin import is_loopback
from gateway.settings import Settings, SettingsError

__all__ = ["address", "command", "listen", "note_of"]


PROBE_PATIENCE = 1.0
"""Seconds that whoever has the port gets to say who it is."""


@click.command
@settings_flags()
@click.option(
    "--data-dir",
    cls=Flag,
    envvar="GATEWAY_DATA_DIR",
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the private Valkey, which runs where no Redis URL is given, keeps its data.  "
    "[default: agent-gateway in the user's data directory]",
)
def command(*, data_dir: Path | None, **given: Any) -> int:
    """Serve topics to browsers and bots, over the Redis given or over a private Valkey that lasts as long as this."""
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    if settings.redis_url:
        checked_redis_url(settings.redis_url)
    listener = listen(settings)
    directory = data_dir or _user_data_dir()
    if settings.workers > 1:
        ended_by = _serve_many(settings, listener, directory)
    else:
        ended_by = run_async(_serve_one(settings, listener, directory), loop_factory=loop_factory())
    return INTERRUPTED if ended_by == signal.SIGINT else 0


async def _serve_one(settings: Settings, listener: socket.socket, directory: Path) -> signal.Signals | None:
    if settings.redis_url:
        with noted(note_of(settings, listener)):
            return await serve(settings, listener, started=_greeting(settings, listener), stop=asyncio.Event())
    async with EmbeddedServer(directory) as server:
        settings = msgspec.structs.replace(settings, redis_url=server.url)
        with noted(note_of(settings, listener)):
            started = _greeting(settings, listener, private=True)
            ended_by = await serve(settings, listener, started=started, stop=server.failed)
            if server.failed.is_set():
                await server.wait()
            return ended_by


def _serve_many(settings: Settings, listener: socket.socket, directory: Path) -> signal.Signals | None:
    if settings.redis_url:
        with noted(note_of(settings, listener)):
            return serve_workers(settings, listener, started=_greeting(settings, listener))
    with _embedded_beside(directory) as url:
        settings = msgspec.structs.replace(settings, redis_url=url)
        with noted(note_of(settings, listener)):
            return serve_workers(settings, listener, started=_greeting(settings, listener, private=True))


@contextlib.contextmanager
def _embedded_beside(directory: Path) -> Iterator[str]:
    """Keep an embedded server in a thread of its own: the main thread belongs to the workers' supervisor."""
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    failure: list[BaseException] = []

    async def keep() -> None:
        wanted = asyncio.Event()
        try:
            async with EmbeddedServer(directory) as server, asyncio.TaskGroup() as group:
                started.set_result((server.url, asyncio.get_running_loop(), wanted))
                watching = group.create_task(server.wait())
                await wanted.wait()
                watching.cancel()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            failure.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=lambda: asyncio.run(keep()), name="embedded server")
    thread.start()
    url, loop, wanted = started.result()
    try:
        yield url
    finally:
        if not failure:
            loop.call_soon_threadsafe(wanted.set)
        thread.join()
    if failure:
        error = failure[0]
        raise error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error


def listen(settings: Settings) -> socket.socket:
    """Take the port of the settings.

    Raises:
        click.UsageError: Others could reach the address, and no keys say who they are.
        click.UsageError: A key, a grant or a network of the settings has another form.
        PortTakenError: Another program listens there.
        click.UsageError: Host and port cannot be listened on, or those of the metrics.

    """
    try:
        Admission(settings, Authority(settings))
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    if settings.keyless and not settings.insecure and not is_loopback(settings.host):
        raise click.UsageError(
            f"without keys everybody who reaches {settings.host} could do everything: set --token-secrets, "
            "--token-public-keys, --token-jwks or --api-keys, or say --insecure"
        )
    _check_metrics(settings)
    try:
        return bind(settings.host, settings.port)
    except OSError as error:
        raise click.UsageError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from error
    except PortTakenError as error:
        url = _url(settings.host, settings.port)
        if _is_gateway(url):
            raise PortTakenError(host=error.host, port=error.port, gateway=url) from error
        raise


def _check_metrics(settings: Settings) -> None:
    """Say here that a port of the metrics is taken: the processes that take them could only fail."""
    for number in range(settings.workers if settings.metrics_port else 0):
        port = settings.metrics_port + number
        try:
            bind(settings.metrics_host, port).close()
        except (OSError, OverflowError, PortTakenError) as error:
            raise click.UsageError(
                f"metrics cannot be served on {settings.metrics_host}, port {port}; choose another --metrics-port"
            ) from error


def address(settings: Settings, listener: socket.socket) -> str:
    """Give the address at which this machine reaches the gateway."""
    return _url(settings.host, listener.getsockname()[1])


def _url(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104  # read, not bound
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _is_gateway(url: str) -> bool:
    """Whether what answers at an address of this machine says what a gateway says."""
    # Without the proxies of the environment: it is this machine.
    here = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with here.open(f"{url}/healthz", timeout=PROBE_PATIENCE) as answer:
            return bool(msgspec.json.decode(answer.read(100)) == {"ok": True})
    except (OSError, ValueError, http.client.HTTPException):
        return False


def note_of(settings: Settings, listener: socket.socket) -> Note:
    """Make the note for other commands of this user."""
    return Note(url=address(settings, listener), redis_url=settings.redis_url, pid=os.getpid())


def _greeting(settings: Settings, listener: socket.socket, *, private: bool = False) -> Callable[[], None]:
    # The private server's password is made for this user's agents and worth nothing elsewhere; another's is not shown.
    shown = settings.redis_url if private else without_password(settings.redis_url)

    def greet() -> None:
        click.echo(f"Gateway: {address(settings, listener)}")
        click.echo(f"Redis:   {shown}{'  (for agents: GATEWAY_REDIS_URL)' if private else ''}")
        click.echo(f"Access:  {_access(settings)}")
        for name, why in idle_settings(settings).items():
            click.echo(f"gateway: {name} is {why}", err=True)
        sys.stdout.flush()

    return greet


def _access(settings: Settings) -> str:
    if not settings.keyless:
        return "by token or API key"
    who = "everybody on this machine" if is_loopback(settings.host) else "everybody who reaches it"
    return f"no keys are set, so {who} may do everything"


def _user_data_dir() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "agent-gateway"
    own = os.environ.get("XDG_DATA_HOME")
    return (Path(own) if own else Path.home() / ".local" / "share") / "agent-gateway"
