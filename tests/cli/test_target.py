"""Whom a command talks to."""

import os

import click
import pytest

from gateway.cli.target import DEFAULT_URL, checked_redis_url, client, redis_target
from gateway.client_socket import websocket_url
from gateway.note import Note, noted

NOTE = Note(url="http://127.0.0.1:4321", redis_url="redis://:pw@127.0.0.1:1/0", pid=os.getpid())


def test_gateway_given_is_taken_before_the_note() -> None:
    with noted(NOTE):
        assert client("http://example.org", None).url == websocket_url("http://example.org")
        assert client(None, None).url == websocket_url(NOTE.url)
    assert client(None, None).url == websocket_url(DEFAULT_URL)


def test_redis_given_is_taken_before_the_note() -> None:
    with noted(NOTE):
        assert redis_target("redis://example.org") == "redis://example.org"
        assert redis_target(None) == NOTE.redis_url
    with pytest.raises(click.UsageError, match="start gateway serve"):
        redis_target(None)


@pytest.mark.parametrize("url", ["redis://x", "rediss://u:p@x:1/2", "unix:///run/redis.sock?db=1"])
def test_redis_url_is_one(url: str) -> None:
    assert checked_redis_url(url) == url


@pytest.mark.parametrize("url", ["", "x", "http://:secret@x", "redis://:secret@x:port", "redis://:secret@x:99999"])
def test_redis_url_is_none(url: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        checked_redis_url(url)
    assert "secret" not in caught.value.message
