"""Whether a store is fit to be the broker, whatever it consists of: one server, one behind sentinels, a cluster."""

import asyncio
import secrets
from typing import Any

import msgspec

from gateway.broker.address import Address
from gateway.broker.checkup import check_broker
from gateway.broker.keys import SLOTS, slot_of
from gateway.broker.sentinel import asked
from gateway.broker.server import Server
from gateway.errors import BrokerError, BrokerUnavailableError
from gateway.finding import Finding

__all__ = ["check_store"]

PATIENCE = 5.0
"""Seconds that a sentinel or a node may take to answer."""

_Place = tuple[str, int]


async def check_store(url: str, *, key_prefix: str) -> list[Finding]:
    """Examine all that a Redis URL stands for.

    Args:
        url: Any form that gateways take.
        key_prefix: First part of the gateways' keys and channels.

    Raises:
        ValueError: The URL has another form.

    """
    address = Address.of(url)
    match address.kind:
        case "server":
            return await check_broker(url, key_prefix=key_prefix)
        case "sentinel":
            return await _check_sentinels(address, key_prefix=key_prefix)
        case "cluster":
            return await _check_cluster(address, key_prefix=key_prefix)


async def _check_sentinels(address: Address, *, key_prefix: str) -> list[Finding]:
    """Ask every sentinel who the master is, and examine that one."""
    servers = [Server(url, timeout=PATIENCE) for url in address.sentinels()]
    answers = await asyncio.gather(*(_master(server, address.service) for server in servers))
    found, masters = list[Finding](), dict[_Place, int]()
    quorums = set[int]()
    for server, answer in zip(servers, answers, strict=True):
        if isinstance(answer, str):
            found.append(_warning(f"sentinel {server.name}", answer, "start it, or take it out of the Redis URL"))
        else:
            place = (answer["ip"], int(answer["port"]))
            masters[place] = masters.get(place, 0) + 1
            quorums.add(int(answer["quorum"]))
    if not masters:
        advice = f"is {address.service!r} the name in sentinel monitor, and are these the sentinels?"
        found.append(Finding(level="error", about="sentinels", found="none knows the master", advice=advice))
        return found
    place, agreed = max(masters.items(), key=lambda item: item[1])
    about = f"{agreed} of {len(servers)} say that {_named(place)} is the master of {address.service}"
    if len(masters) > 1:
        found.append(_warning("sentinels", about, "a failover is under way, or they are cut off from each other"))
    elif len(servers) < 3:
        found.append(_warning("sentinels", about, "name three or more on machines of their own: two cannot agree"))
    elif max(quorums) > agreed:
        found.append(_warning("sentinels", f"{about}; {max(quorums)} have to agree", "start the others"))
    else:
        found.append(Finding(level="ok", about="sentinels", found=about))
    return found + _of(place, await check_broker(address.at(*place), key_prefix=key_prefix))


async def _master(server: Server, service: str) -> dict[str, str] | str:
    """Give what a sentinel knows of a service's master, or why it does not say."""
    try:
        answer = await asked(server, "SENTINEL", "MASTER", service)
    except BrokerError as error:
        return str(error)
    words = [word.decode() if isinstance(word, bytes) else str(word) for word in answer]
    return dict(zip(words[::2], words[1::2], strict=True))


async def _check_cluster(address: Address, *, key_prefix: str) -> list[Finding]:
    """Ask every node that is named who has which slots, and examine the masters."""
    servers = [Server(address.at(*place), timeout=PATIENCE) for place in address.places]
    answers = await asyncio.gather(*(_slots(server) for server in servers))
    found, known = list[Finding](), None
    for server, answer in zip(servers, answers, strict=True):
        if isinstance(answer, str):
            found.append(_warning(f"node {server.name}", answer, "start it, or take it out of the Redis URL"))
        elif answer:
            known = known or answer
    if known is None:
        advice = "start the nodes, or give the address of a single server as redis://"
        found.append(Finding(level="error", about="cluster", found="no node tells who has which slots", advice=advice))
        return found
    covered = sum(last + 1 - first for first, last, _ in known)
    if covered < SLOTS:
        about = f"{SLOTS - covered} of {SLOTS} slots have no server: topics there cannot be read or written"
        found.append(Finding(level="error", about="slots", found=about, advice="redis-cli --cluster check, then fix"))
    owners: dict[_Place, list[tuple[int, int]]] = {}
    alone: dict[_Place, None] = {}
    for first, last, places in known:
        owners.setdefault(places[0], []).append((first, last))
        if len(places) < 2:
            alone[places[0]] = None
    count = f"{len(owners)} masters" if len(owners) != 1 else "1 master"
    if alone:
        about = f"{count}; without a replica: {', '.join(map(_named, alone))}"
        found.append(_warning("cluster", about, "give each master a replica: its topics are away as long as it is"))
    else:
        found.append(Finding(level="ok", about="cluster", found=f"{count}, none without a replica"))
    checks = [check_broker(address.at(*place), key_prefix=key_prefix, tag=_tag(own)) for place, own in owners.items()]
    for place, findings in zip(owners, await asyncio.gather(*checks), strict=True):
        found += _of(place, findings)
    return found


async def _slots(server: Server) -> list[tuple[int, int, list[_Place]]] | str:
    """Give the ranges of slots as a node knows them, each with its master first, or why it does not say."""
    try:
        answer: Any = await asked(server, "CLUSTER", "SLOTS")
    except BrokerUnavailableError as error:
        return str(error)
    except BrokerError as error:
        return f"it is no node of a cluster, or does not let us in: {error}"
    # Without a name of its own a node says "", nothing or ?: it is to be found where it was asked.
    return [
        (
            first,
            last,
            [(server.host if not host or host == b"?" else host.decode(), int(port)) for host, port, *_ in nodes],
        )
        for first, last, *nodes in answer
    ]


def _tag(ranges: list[tuple[int, int]]) -> str:
    """Find a hash tag whose slot is in one of these ranges."""
    while True:
        tag = secrets.token_hex(6)
        if any(first <= slot_of(tag) <= last for first, last in ranges):
            return tag


def _of(place: _Place, findings: list[Finding]) -> list[Finding]:
    return [msgspec.structs.replace(finding, about=f"{_named(place)} {finding.about}") for finding in findings]


def _named(place: _Place) -> str:
    return f"{place[0]}:{place[1]}"


def _warning(about: str, found: str, advice: str) -> Finding:
    return Finding(level="warning", about=about, found=found, advice=advice)
