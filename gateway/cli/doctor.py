"""``gateway doctor``."""

import asyncio
import time
import urllib.error
import urllib.request
from typing import Any

import click
import msgspec

from gateway import note
from gateway.broker.store_checkup import check_store
from gateway.cli.flags import Flag, settings_flags
from gateway.cli.loop import run_async
from gateway.cli.screen import echo
from gateway.cli.target import DEFAULT_URL, PATIENCE, Access, checked_redis_url, client
from gateway.errors import CommandError, DisconnectError, GatewayError
from gateway.examination import check_machine, check_settings
from gateway.finding import Finding
from gateway.settings import Settings

__all__ = ["command"]

_MARKS = {"ok": ("✓", "green"), "note": ("·", "cyan"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@click.command
@click.option("--json", "as_json", is_flag=True, help='Print lines {"part", "level", "about", "found", "advice"}.')
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Connections that this machine should hold.",
)
@click.option(
    "--url",
    cls=Flag,
    envvar="GATEWAY_URL",
    show_envvar=True,
    metavar="URL",
    help=f"Address of the gateway.  [default: the one that runs on this machine, else {DEFAULT_URL}]",
)
@click.option(
    "--token",
    cls=Flag,
    envvar="GATEWAY_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="What the gateway knows you by.",
)
@settings_flags()
def command(*, as_json: bool, connections: int, url: str | None, token: str | None, **given: Any) -> int:
    """Examine the settings, this machine, Redis and the gateway, and say what to do about what is wrong.

    Takes the flags and variables of gateway serve, to be judged before it is started. The exit code is 1 where
    something is an error.
    """
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    noted = note.find()
    redis_url = settings.redis_url or (noted[0].redis_url if noted else "")
    if redis_url:
        checked_redis_url(redis_url)
    parts = {
        "settings": check_settings(settings),
        "machine": check_machine(settings, connections=connections),
        "redis": run_async(_redis(redis_url, settings)),
        "gateway": run_async(_gateway(url or (noted[0].url if noted else None), token)),
    }
    for part, findings in parts.items():
        if not as_json:
            click.echo(click.style(part, bold=True))
        for finding in findings:
            if as_json:
                click.echo(msgspec.json.encode({"part": part, **msgspec.structs.asdict(finding)}))
            else:
                _show(finding)
    return 1 if any(finding.level == "error" for found in parts.values() for finding in found) else 0


def _show(finding: Finding) -> None:
    mark, colour = _MARKS[finding.level]
    echo(f"  {click.style(mark, fg=colour)} {finding.about}: {finding.found}\n")
    if finding.advice:
        echo(click.style(f"      {finding.advice}\n", dim=True))


async def _redis(url: str, settings: Settings) -> list[Finding]:
    if not url:
        advice = "without GATEWAY_REDIS_URL gateway serve starts a private Valkey, for one machine"
        return [Finding(level="note", about="reachable", found="none is named", advice=advice)]
    return await check_store(url, key_prefix=settings.key_prefix)


async def _gateway(url: str | None, token: str | None) -> list[Finding]:
    where = url or DEFAULT_URL
    ready = await asyncio.to_thread(_ready, where)
    if ready is None:
        level: Any = "note" if url is None else "error"
        return [Finding(level=level, about="ready", found=f"nobody answers at {where}", advice="start gateway serve")]
    if ready:
        advice = "is its Redis away? /readyz says so as long as it is"
        return [Finding(level="error", about="ready", found=ready, advice=advice)]
    return [Finding(level="ok", about="ready", found=where), await _ping(where, token)]


async def _ping(url: str, token: str | None) -> Finding:
    began = time.perf_counter()
    try:
        async with asyncio.timeout(2 * PATIENCE), client(url, Access(token=token)) as gateway:
            entered = time.perf_counter()
            await gateway.topics()
            took = time.perf_counter() - entered
    except (CommandError, DisconnectError) as error:
        advice = "give --token: gateway token makes one for development"
        return Finding(level="warning", about="ping", found=f"it does not let us in: {error}", advice=advice)
    except (GatewayError, TimeoutError) as error:
        advice = "do proxies on the way pass websockets?"
        return Finding(level="error", about="ping", found=str(error) or "no answer in time", advice=advice)
    return Finding(
        level="ok",
        about="ping",
        found=f"{1000 * took:.1f} ms for a command, {1000 * (entered - began):.1f} ms to connect",
    )


def _ready(url: str) -> str | None:
    """Ask whether it is ready: "", or why not; None where nobody answers."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/readyz", timeout=PATIENCE):  # noqa: S310  # the user's own address
            return ""
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code}: {error.read(300).decode(errors='replace')}"
    except (OSError, ValueError):
        return None
