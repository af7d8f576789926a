"""The port of a gateway process."""

import socket

import pytest

from gateway.cli.server import PortTakenError, bind


def test_bind_takes_the_port() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        assert listener.getsockname()[1] > 0


def test_bind_where_another_listens_is_told() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} of 127.0.0.1 is taken by another program"):
            bind("127.0.0.1", port)
