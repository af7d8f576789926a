"""``gateway demo``."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import webbrowser

import click
import msgspec

from gateway.broker.embedded import EmbeddedServer
from gateway.cli.companion import keep_agent
from gateway.cli.interrupt import INTERRUPTED
from gateway.cli.loop import run_async
from gateway.cli.serve import address, listen, note_of
from gateway.cli.server import PortTakenError, loop_factory, serve
from gateway.note import noted
from gateway.settings import Settings

__all__ = ["command"]

PORTS_TRIED = 100


@click.command
@click.option("--host", default=Settings().host, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=Settings().port,
    show_default=True,
    help="TCP port to listen on; the next free one is taken where it is taken.",
)
@click.option("--insecure", is_flag=True, help="Let anybody who reaches the address do everything.")
@click.option("--model", metavar="NAME", help="A model to drive through OpenAI's API instead of the built-in one.")
@click.option("--base-url", metavar="URL", help="Where that API is.  [default: OPENAI_BASE_URL, else OpenAI's own]")
@click.option("--no-open", is_flag=True, help="Do not open the chat page in the browser.")
def command(*, host: str, port: int, insecure: bool, model: str | None, base_url: str | None, no_open: bool) -> int:
    """Serve a chat with a demo agent, on a store that ends with it."""
    settings = Settings(host=host, port=port, insecure=insecure)
    listener = _listen_near(settings)
    arguments = [*(("--model", model) if model else ()), *(("--base-url", base_url) if base_url else ())]
    work = _demo(settings, listener, arguments, show=not no_open)
    ended_by = run_async(work, loop_factory=loop_factory())
    return INTERRUPTED if ended_by == signal.SIGINT else 0


async def _demo(
    settings: Settings, listener: socket.socket, arguments: list[str], *, show: bool
) -> signal.Signals | None:
    stop = asyncio.Event()
    page = address(settings, listener)

    def greet(redis_url: str) -> None:
        click.echo(f"Chat: {page}")
        click.echo(f"Agents: GATEWAY_REDIS_URL={redis_url}")
        click.echo("Ctrl-C ends it.")
        sys.stdout.flush()
        if show and _has_desktop():
            # It may wait for the browser, which must hold up neither the page that it asks for nor our end.
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    async with EmbeddedServer() as server:
        settings = msgspec.structs.replace(settings, redis_url=server.url)
        agent = asyncio.create_task(keep_agent(server.url, arguments))
        ends = [asyncio.create_task(server.failed.wait()), agent]
        for end in ends:
            end.add_done_callback(lambda _: stop.set())
        try:
            with noted(note_of(settings, listener)):
                ended_by = await serve(settings, listener, started=lambda: greet(server.url), stop=stop)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.wait(ends)
        if ended_by is None and server.failed.is_set():
            await server.wait()
        if ended_by is None and not agent.cancelled():
            await agent
    return ended_by


def _has_desktop() -> bool:
    # Without one, Python's choice may be a browser in text, which takes over the terminal.
    return sys.platform in {"darwin", "win32"} or any(
        os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    )


def _listen_near(settings: Settings) -> socket.socket:
    for port in range(settings.port, min(settings.port + PORTS_TRIED, 65536)):
        with contextlib.suppress(PortTakenError):
            listener = listen(msgspec.structs.replace(settings, port=port))
            if port != settings.port:
                click.echo(f"Port {settings.port} is taken; this is on {port}.")
            return listener
    raise PortTakenError(host=settings.host, port=settings.port)
