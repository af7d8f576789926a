"""Real Redis Clusters, and masters with replicas behind real sentinels, of which tests may kill each part."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis.connection import Connection
from redis.exceptions import RedisError

from gateway.broker.embedded import find_server
from gateway.broker.keys import SLOTS, slot_of
from tests.servers import RedisServer, free_port
from tests.started import remember

__all__ = ["RedisCluster", "Sentinels", "do", "is_master", "until"]

PATIENCE = 30.0
NODE_TIMEOUT = os.environ.get("GATEWAY_TEST_NODE_TIMEOUT", "2000")
"""Milliseconds after which a silent server counts as dead."""


def do(port: int, *command: str | bytes | int) -> Any:
    """Have a server do something; its answer as bytes."""
    # Without a client, which would read some answers in its own way.
    connection = Connection(host="127.0.0.1", port=port, protocol=2)  # type: ignore[no-untyped-call]
    try:
        connection.send_command(*command)  # type: ignore[no-untyped-call]
        return connection.read_response()
    finally:
        connection.disconnect()  # type: ignore[no-untyped-call]


def is_master(port: int) -> bool:
    """Whether a server is a master by now; not as long as it does not say."""
    # A replica drops all its connections as it is promoted.
    with contextlib.suppress(RedisError):
        return bool(do(port, "ROLE")[0] == b"master")
    return False


def _free_pair() -> int:
    """Find a port that is free, as is the one 10,000 above, on which servers of a cluster talk to each other."""
    while True:
        port = free_port()
        if port < 22_000:
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port + 10_000))
                return port


def until(condition: Callable[[], object], *, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(RedisError):
            if condition():
                return
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class RedisCluster:
    """Masters that share the slots evenly, each with a replica or none; a context manager.

    Args:
        directory: For their data.
        masters: How many.
        replicas: Of each; 0 or 1.

    """

    def __init__(self, directory: Path, *, masters: int = 3, replicas: int = 1) -> None:
        options = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": NODE_TIMEOUT,
            "cluster-require-full-coverage": "no",
            "repl-diskless-sync-delay": "0",
            "appendonly": "no",
        }
        self.servers = [RedisServer(directory / str(number), options) for number in range(masters * (1 + replicas))]
        """First the masters, then the replicas in the same order."""
        for server in self.servers:
            server.port = _free_pair()
        self._masters = masters

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(f'127.0.0.1:{server.port}' for server in self.servers[:3])}"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for number, server in enumerate(self.servers):
                stack.enter_context(server)
                do(server.port, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            first = self.servers[0].port
            for server in self.servers[1:]:
                do(server.port, "CLUSTER", "MEET", "127.0.0.1", first)
            share = -(-SLOTS // self._masters)
            for number, server in enumerate(self.servers[: self._masters]):
                do(server.port, "CLUSTER", "ADDSLOTS", *range(share * number, min(share * (number + 1), SLOTS)))
            for server in self.servers:
                until(lambda s=server: len(self.nodes(s)) == len(self.servers), what="all know each other")  # type: ignore[misc]
            for number, server in enumerate(self.servers[self._masters :]):
                do(server.port, "CLUSTER", "REPLICATE", self.id_of(self.servers[number]))
            self.settle()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def settle(self) -> None:
        """Wait until all have their masters, and their slots."""
        for server in self.servers:
            until(lambda s=server: self._is_ready(s), what=f"{server.port} is ready")  # type: ignore[misc]

    def nodes(self, server: RedisServer) -> list[list[str]]:
        """What a server knows of the others, as the words of its lines."""
        return [
            line.split()
            for line in do(server.port, "CLUSTER", "NODES").decode().splitlines()
            if "handshake" not in line
        ]

    def id_of(self, server: RedisServer) -> str:
        return str(do(server.port, "CLUSTER", "MYID").decode())

    def _is_ready(self, server: RedisServer) -> bool:
        info = do(server.port, "CLUSTER", "INFO").decode()
        owned = sum(len(words) > 8 and "fail" not in words[2] for words in self.nodes(server))
        replication = do(server.port, "INFO", "replication").decode()
        synced = "role:master" in replication or "master_link_status:up" in replication
        return (
            f"cluster_slots_assigned:{SLOTS}" in info
            and "cluster_state:ok" in info
            and owned == self._masters
            and synced
        )

    def master_of(self, key: str) -> RedisServer:
        """The server that has a key now."""
        slot = slot_of(key)
        for server in self.servers:
            with contextlib.suppress(RedisError):
                for first, last, master, *_ in do(server.port, "CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return next(server for server in self.servers if server.port == master[1])
        raise AssertionError(f"nobody has slot {slot}")

    def failed_over(self, key: str, dead: RedisServer) -> None:
        """Wait until a dead server's replica has a key."""
        until(lambda: self.master_of(key) is not dead, what="a failover")

    @contextlib.contextmanager
    def moving(self, key: str, target: RedisServer) -> Iterator[None]:
        """Be in the middle of moving a key's slot to a server, none of its keys moved yet; afterwards it has moved."""
        slot, source = slot_of(key), self.master_of(key)
        do(target.port, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        do(source.port, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        yield
        self.move_keys(key, target)
        for server in (target, source):
            do(server.port, "CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def move_keys(self, key: str, target: RedisServer) -> None:
        """Move those keys of a slot that are there."""
        slot, source = slot_of(key), self.master_of(key)
        while keys := do(source.port, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            do(source.port, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)

    def other(self, server: RedisServer) -> RedisServer:
        """Another master."""
        owners = {master[1] for _, _, master, *_ in do(server.port, "CLUSTER", "SLOTS")}
        return next(other for other in self.servers if other is not server and other.port in owners)


class Sentinels:
    """A master with one replica, and three sentinels; a context manager.

    Args:
        directory: For their data.

    """

    service = "runs"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        options = {"repl-diskless-sync-delay": "0"}
        self.master = RedisServer(directory / "master", options)
        self.replica = RedisServer(directory / "replica", options | {"replicaof": f"127.0.0.1 {self.master.port}"})
        self.ports = [free_port() for _ in range(3)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{self.service}"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.master)
            stack.enter_context(self.replica)
            until(lambda: b"master_link_status:up" in do(self.replica.port, "INFO", "replication"), what="a replica")
            stack.callback(self._kill)
            for port in self.ports:
                self._start(port)
            for port in self.ports:
                until(lambda p=port: self._knows(p), what="sentinels know each other")  # type: ignore[misc]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, port: int) -> None:
        file = self.directory / f"sentinel-{port}.conf"
        file.write_text(
            f"port {port}\nbind 127.0.0.1\nsentinel monitor {self.service} 127.0.0.1 {self.master.port} 2\n"
            f"sentinel down-after-milliseconds {self.service} 1000\nsentinel failover-timeout {self.service} 3000\n"
        )
        program = os.environ.get("GATEWAY_TEST_SERVER") or find_server()
        with file.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen([program, str(file), "--sentinel"], stdout=log, stderr=log)
        remember(process.pid)
        self._processes.append(process)

    def _knows(self, port: int) -> bool:
        answer = do(port, "SENTINEL", "MASTER", self.service)
        facts = dict(zip(answer[::2], answer[1::2], strict=True)) if isinstance(answer, list) else answer
        found = {_text(name): _text(value) for name, value in facts.items()}
        return int(found["num-other-sentinels"]) == 2 and int(found["num-slaves"]) == 1

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
