"""Where the store is, by its URL."""

import pytest

from gateway.broker.address import Address
from gateway.cli.target import without_password


def test_one_server() -> None:
    found = Address.of("rediss://me:pw@h:1/2?ssl_cert_reqs=none")
    assert (found.kind, found.url) == ("server", "rediss://me:pw@h:1/2?ssl_cert_reqs=none")


def test_sentinels() -> None:
    found = Address.of(
        "redis+sentinel://me:p%40w@h1:1,h2,[::1]:3/my%20runs/2?sentinel_password=s%2Fp&ssl_cert_reqs=none"
    )
    assert (found.kind, found.service, found.places) == ("sentinel", "my runs", (("h1", 1), ("h2", 26379), ("::1", 3)))
    assert found.at("10.0.0.1", 7) == "redis://me:p%40w@10.0.0.1:7/2?ssl_cert_reqs=none"
    assert found.at("fe80::1", 7).startswith("redis://me:p%40w@[fe80::1]:7/2")
    assert found.sentinels()[0] == "redis://:s%2Fp@h1:1?ssl_cert_reqs=none"
    assert found.sentinels()[2] == "redis://:s%2Fp@[::1]:3?ssl_cert_reqs=none"
    assert found.name == "my runs of the sentinels h1:1,h2:26379,::1:3"


def test_cluster() -> None:
    found = Address.of("rediss+cluster://:pw@h1,h2:2")
    assert (found.kind, found.places, found.at("x", 9)) == ("cluster", (("h1", 6379), ("h2", 2)), "rediss://:pw@x:9")
    assert found.name == "h1:6379,h2:2"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:1",
        "http://h",
        "redis://h:x",
        "redis://h:0",
        "redis+sentinel://h:1",
        "redis+sentinel://h:1/",
        "redis+sentinel:///service",
        "redis+sentinel://h:1,,h:2/service",
        "redis+sentinel://h:1,h:x/service",
        "redis+sentinel://h:1/service/one/two",
        "redis+cluster://h:1/2",
        "redis+cluster://h:1?db=2",
        "redis+cluster://",
        "unix+cluster://h",
        "redis+other://h",
        "redis+cluster://user:secret@h:99999",
    ],
)
def test_what_is_none_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ValueError, match="expected the Redis URL to be like redis://") as caught:
        Address.of(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h", "redis://h"),
        ("redis://me:pw@h:1/2", "redis://me:…@h:1/2"),
        ("redis+cluster://:pw@h1:1,h2:2", "redis+cluster://:…@h1:1,h2:2"),
        (
            "redis+sentinel://:pw@h1,h2/s?sentinel_password=x&ssl_password=y&db=1",
            "redis+sentinel://:…@h1,h2/s?sentinel_password=…&ssl_password=…&db=1",
        ),
    ],
)
def test_shown_without_passwords(url: str, shown: str) -> None:
    assert without_password(url) == shown
