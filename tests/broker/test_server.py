"""Addresses of servers, and what opens a connection to one."""

import asyncio

import pytest

from gateway.broker.server import Server, packed
from gateway.errors import BrokerUnavailableError


@pytest.mark.parametrize(
    ("url", "name", "greeting"),
    [
        ("redis://", "localhost:6379", []),
        ("redis://h:1", "h:1", []),
        ("redis://h:1/3", "h:1", [("SELECT", 3)]),
        ("redis://:p%40w@h:1/0", "h:1", [("AUTH", "p@w")]),
        ("redis://me:pw@h:1?db=2", "h:1", [("AUTH", "me", "pw"), ("SELECT", 2)]),
        ("rediss://me:pw@h:1", "h:1", [("AUTH", "me", "pw")]),
        ("unix://:pw@/run/redis.sock?db=1", "/run/redis.sock", [("AUTH", "pw"), ("SELECT", 1)]),
    ],
)
def test_server_reads_a_url(url: str, name: str, greeting: list[tuple[object, ...]]) -> None:
    server = Server(url, timeout=1)
    assert (server.name, server.greeting) == (name, greeting)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "unix:///nowhere/redis.sock", "rediss://127.0.0.1:1"])
async def test_open_where_nobody_answers_names_the_place_and_no_password(url: str) -> None:
    server = Server(url.replace("://", "://:hush@", 1), timeout=5)
    with pytest.raises(BrokerUnavailableError, match="cannot connect to Redis at") as caught:
        await server.open(asyncio.Protocol)
    assert server.name in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_command_is_packed_as_bytes_whatever_its_words_are() -> None:
    assert packed("SET", b"\r\n", 7) == b"*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$1\r\n7\r\n"
