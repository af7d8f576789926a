"""The port and the log of a gateway process."""

import logging
import socket

import pytest

from gateway.cli.server import PortTakenError, WithoutSecrets, bind


def test_bind_takes_the_port() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        assert listener.getsockname()[1] > 0


def test_bind_where_another_listens_is_told() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} of 127.0.0.1 is taken by another program"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize(
    ("message", "arguments", "expected"),
    [
        ('%s - "WebSocket %s" [accepted]', ("1.2.3.4:5", "/x?token=abc"), '1.2.3.4:5 - "WebSocket /x?…" [accepted]'),
        ("cannot reach redis://:pw@10.0.0.1:6379/0", (), "cannot reach redis://…@10.0.0.1:6379/0"),
        ("cannot reach %s", ("redis://me:pw@host",), "cannot reach redis://…@host"),
        ("what is this? nothing", (), "what is this? nothing"),
        ("%d readers", (3,), "3 readers"),
    ],
)
def test_log_lines_lose_their_secrets(message: str, arguments: tuple[object, ...], expected: str) -> None:
    record = logging.LogRecord("x", logging.INFO, __file__, 1, message, arguments, None)
    assert WithoutSecrets().filter(record)
    assert record.getMessage() == expected
