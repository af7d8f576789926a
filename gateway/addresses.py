"""Which address a client really has, behind proxies that are trusted to say so — pure."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from gateway.settings import SettingsError

__all__ = ["Proxies"]

_Address = IPv4Address | IPv6Address


class Proxies:
    """The proxies in front of a gateway.

    Args:
        networks: Where they are, as ``10.0.0.0/8`` or ``::1``.

    Raises:
        SettingsError: One is no network.

    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        for network in networks:
            try:
                self._networks.append(ip_network(network))
            except ValueError as error:
                raise SettingsError(f"GATEWAY_TRUSTED_PROXIES: {error}") from error

    def client(self, peer: str, forwarded: Iterable[str]) -> str:
        """Give the address of the client.

        Args:
            peer: Who made the connection; "" where nobody knows, as on a Unix socket.
            forwarded: The values of ``X-Forwarded-For``, in the order of the headers.

        Returns:
            The last address that no trusted proxy has. What stands before it may be made up by the client. An IPv6
            client is its network of 64 bits, of which anybody has as many addresses as they like.

        """
        found = _parse(peer)
        hops = [hop for value in forwarded for hop in value.split(",")]
        while found is not None and hops and self._trusted(found):
            before = _parse(hops.pop())
            if before is None:
                break
            found = before
        if found is None:
            return peer
        return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found)

    def _trusted(self, address: _Address) -> bool:
        return any(address in network for network in self._networks)


def _parse(text: str) -> _Address | None:
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]  # some proxies add the port
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A server that listens on both kinds sees IPv4 clients so.
    return getattr(address, "ipv4_mapped", None) or address
