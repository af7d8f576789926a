"""Whom a command talks to."""

import os

import click
import pytest

from gateway.cli.target import DEFAULT_URL, Access, checked_redis_url, client, redis_target
from gateway.client_socket import websocket_url
from gateway.note import Note, noted, runtime_directory

NOTE = Note(url="http://127.0.0.1:4321", redis_url="redis://:pw@127.0.0.1:1/0", pid=os.getpid())


def test_gateway_given_is_taken_before_the_note() -> None:
    with noted(NOTE):
        assert client("http://example.org", Access()).url == websocket_url("http://example.org")
        assert client(None, Access()).url == websocket_url(NOTE.url)
    assert client(None, Access()).url == websocket_url(DEFAULT_URL)


def test_redis_given_is_taken_before_the_note() -> None:
    with noted(NOTE):
        assert redis_target("redis://example.org") == "redis://example.org"
        assert redis_target(None) == NOTE.redis_url
    with pytest.raises(click.UsageError, match="start gateway serve"):
        redis_target(None)


def test_choice_among_several_gateways_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    other = Note(url="http://127.0.0.1:1234", redis_url="redis://other", pid=1)
    with noted(NOTE):
        assert client(None, Access()).url == websocket_url(NOTE.url)
        assert capsys.readouterr().err == ""
        with noted(other):
            os.utime(runtime_directory() / "1.json", (2**32, 2**32))
            told = f"gateway: 2 gateways run here; taking {other.url}, which started last\n"
            assert client(None, Access()).url == websocket_url(other.url)
            assert capsys.readouterr().err == told
            assert redis_target(None) == other.redis_url
            assert capsys.readouterr().err == told
            assert client(NOTE.url, Access()).url == websocket_url(NOTE.url)
            assert capsys.readouterr().err == ""


@pytest.mark.parametrize("url", ["redis://x", "rediss://u:p@x:1/2", "unix:///run/redis.sock?db=1"])
def test_redis_url_is_one(url: str) -> None:
    assert checked_redis_url(url) == url


@pytest.mark.parametrize("url", ["", "x", "http://:secret@x", "redis://:secret@x:port", "redis://:secret@x:99999"])
def test_redis_url_is_none(url: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        checked_redis_url(url)
    assert "secret" not in caught.value.message
