"""The address of a client, whatever it and the proxies say."""

import pytest

from gateway.addresses import Proxies
from gateway.settings import SettingsError

TRUSTED = ("10.0.0.0/8", "::1/128", "192.0.2.7")


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.2.3.4, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.2.3.4", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 10.9.9.9, 192.0.2.7"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::1", ["[2001:db8:1:2:3:4:5:6]:4711"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", ["198.51.100.1"], "2001:db8:1:2::/64"),
        ("", ["198.51.100.1"], ""),
        ("/run/socket", ["198.51.100.1"], "/run/socket"),
    ],
)
def test_last_address_that_no_trusted_proxy_has_is_the_clients(peer: str, forwarded: list[str], client: str) -> None:
    assert Proxies(TRUSTED).client(peer, forwarded) == client


def test_nobody_is_trusted_by_default() -> None:
    assert Proxies([]).client("127.0.0.1", ["198.51.100.1"]) == "127.0.0.1"


@pytest.mark.parametrize("network", ["10.0.0.0/33", "10.0.0.1/8", "proxy.example", "*"])
def test_what_is_no_network_is_refused(network: str) -> None:
    with pytest.raises(SettingsError, match="GATEWAY_TRUSTED_PROXIES"):
        Proxies([network])
