"""``gateway export``."""

import json
import shutil
import sys
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import click

from gateway.cli.target import PATIENCE, Access, gateway_options, gateway_url, read_topic
from gateway.errors import CommandError, GatewayError
from gateway.types import Topic

__all__ = ["command"]

PIECE = 64 * 1024
"""Bytes that are held at a time of a line that is long."""


@click.command
@click.argument("topic", callback=read_topic)
@click.option("--values", is_flag=True, help="Write large values, too, each after the first line that refers to it.")
@gateway_options
def command(*, topic: Topic, values: bool, url: str | None, access: Access) -> None:
    """Write all that a topic holds to standard output, as lines of JSON.

    Where the history was trimmed, what the archive keeps and the snapshot come first.
    """
    # No shell's pipe tells that a copy is not whole: the exit code does.
    if not _exported(_request(topic, url=url, access=access, values=values), sys.stdout.buffer):
        raise click.ClickException(f"the export of {topic} broke off; what was written is not the whole")


def _request(topic: Topic, *, url: str | None, access: Access, values: bool) -> Request:
    parts = urlsplit(gateway_url(url))
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if scheme not in {"http", "https"} or not parts.netloc:
        raise click.UsageError("expected the URL of the gateway to be like http://127.0.0.1:8000")
    address = f"{scheme}://{parts.netloc}/topics/{quote(topic, safe='')}/export{'?values=1' if values else ''}"
    request = Request(address)  # noqa: S310  # its scheme is checked above
    if access.token is not None:
        request.add_header("authorization", f"Bearer {access.token}")
    elif access.api_key is not None:
        request.add_header("x-api-key", access.api_key)
    return request


def _exported(request: Request, out: BinaryIO) -> bool:
    """Copy the lines; says whether the last one is the export's end."""
    try:
        with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  # its scheme is checked above
            tail = _Tail(out)
            shutil.copyfileobj(answer, tail, PIECE)
    except HTTPError as error:
        raise _refusal(error) from error
    except (URLError, OSError) as error:
        why = error.reason if isinstance(error, URLError) else error
        raise click.ClickException(f"no gateway answers at {request.host}: {why}") from error
    out.flush()
    last = tail.line()
    if last.startswith(b'{"error"'):
        click.echo(f"gateway: {json.loads(last)['error']['message']}", err=True)
    return last.startswith(b'{"end"') and last.endswith(b"}\n")


class _Tail:
    """Writes on, and remembers how the last line ends."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._last = b""

    def write(self, data: bytes) -> int:
        self._last = (self._last + data)[-PIECE:]
        return self._out.write(data)

    def line(self) -> bytes:
        return self._last[self._last.rstrip(b"\n").rfind(b"\n") + 1 :]


def _refusal(error: HTTPError) -> GatewayError | click.ClickException:
    try:
        told = json.load(error)["error"]
        return CommandError(int(told["code"]), str(told["message"]))
    except (KeyError, TypeError, ValueError):
        return click.ClickException(f"the gateway answered with HTTP status {error.code}")
