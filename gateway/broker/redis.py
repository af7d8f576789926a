"""The broker on Redis (STORE.md): one script call per step, many callers on one connection."""

import asyncio
import contextlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from typing import Any, TypeVar

from gateway.broker.attendance import RedisAttendance
from gateway.broker.calls import (
    advance_arguments,
    append_answer,
    append_arguments,
    appended,
    check_append,
    check_lease,
    check_names,
    deleted,
    history,
    position_of,
    refusal,
    slices,
    stale,
    standing,
    weight,
)
from gateway.broker.cluster_link import ClusterLink
from gateway.broker.keys import SHARDS, Keys, shard_of
from gateway.broker.link import RedisLink
from gateway.broker.nodes import ClusterNodes, Lane, SingleNode, nodes_of
from gateway.broker.noticeboard import RedisNoticeboard
from gateway.broker.port import (
    AppendAnswer,
    Appended,
    AppendRequest,
    Bound,
    Busy,
    Deleted,
    Deletion,
    Ended,
    Fenced,
    History,
    Listener,
    Restore,
    Stale,
    Standing,
    Trimmed,
    Weight,
)
from gateway.broker.scripts import ADVANCE, APPEND, ARCHIVE, DELETE, LEASE, READ, TRIM, Script
from gateway.broker.server import Argument, Server
from gateway.broker.wire import RedirectError, Wire
from gateway.errors import BrokerError, BrokerUnavailableError
from gateway.frames import push_prefix
from gateway.trimmer import Trimmer
from gateway.types import START, Position, Topic, new_epoch

__all__ = ["MAX_BYTES", "MAX_HISTORY_BYTES", "MAX_HISTORY_EVENTS", "RedisBroker"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BYTES = 64 * 1024 * 1024
MAX_HISTORY_BYTES = 8 * 1024 * 1024
MAX_HISTORY_EVENTS = 20_000
TTL_RENEWAL = 60.0
"""Seconds: a topic's keys get their new deadline at most so often from one connection."""
INDEX_REFRESH = 10.0
"""Seconds: a topic's place in the index is written at most so often."""
INDEX_PATIENCE = 0.5
"""Seconds that a step waits at most for the server of a cluster that has the index."""
CLOCK_RENEWAL = 60.0
"""Seconds after which the clocks are compared again."""
REMEMBERED_TOPICS = 10_000
"""Topics of which it is known when these were done last; a forgotten one has them done early."""
ARCHIVED_AT_ONCE = 256 * 1024
"""Bytes of events that one call archives, unless one is larger: more would stop the server for long."""
DUE_AT_ONCE = 1_000
"""Topics of one shard in one answer of `RedisBroker.due`."""
DELETION_PATIENCE = 1_000
"""Milliseconds that a deletion waits for the server's disk, and for its replicas."""
DELETED_KEPT = 10_000
"""Deleted topics that are deleted again on a server that comes back with them; those deleted last."""


class RedisBroker:
    """Keeps histories in Redis or Valkey and publishes on its channels; implements `gateway.broker.port.Broker`.

    Connects at the first call, and again whenever the connection was lost. Belongs to one event loop.

    Args:
        url: Of one server, of one behind sentinels, or of a cluster; see `gateway.broker.address.FORMS`.
        key_prefix: Begins every key and channel, so that several gateways can share a server.
        ttl: Seconds a topic is kept after its last activity (an append or a lease renewal); 0 = for ever.
        max_bytes: Of one topic's history, its snapshot and archive included; above it an append is answered `Bound`,
            but for a run's end. As many bytes of large values are kept beside it.
        max_history_bytes: Of one topic's events above its snapshot; beyond it they are folded into a new one.
        max_history_events: Of the same.
        timeout: Seconds the server may take to connect, and to answer a call.

    Raises:
        ValueError: The URL or the prefix has another form.

    """

    def __init__(
        self,
        url: str,
        *,
        key_prefix: str = "gw",
        ttl: float = 30 * 24 * 3600,
        max_bytes: int = MAX_BYTES,
        max_history_bytes: int = MAX_HISTORY_BYTES,
        max_history_events: int = MAX_HISTORY_EVENTS,
        timeout: float = 5.0,
    ) -> None:
        self._url = url
        self._timeout = timeout
        self._keys = Keys(key_prefix)
        self._ttl = int(ttl * 1000)
        self._max_bytes = max_bytes
        self._nodes = nodes_of(url, timeout=timeout)
        self.server: Server = self._nodes.server
        """The server, or what stands for all those of a cluster."""
        self._steps = Lane(self._nodes)
        """For what is short: a page of a long history must not stand before an append."""
        self._pages = Lane(self._nodes)
        """For reading and trimming."""
        self.attendance = RedisAttendance(self._keys, wire=partial(self._wire, self._pages), now=self.now)
        self.notices = RedisNoticeboard(self._keys, wire=partial(self._wire, self._pages))
        self._indexed: OrderedDict[Topic, float] = OrderedDict()
        """Per topic: when its index entry was written last; monotonic, s."""
        self._renewed: OrderedDict[Topic, tuple[float, Wire]] = OrderedDict()
        """Per topic: when its deadline was renewed last (monotonic, s), and on which wire."""
        self._index_patience = None if isinstance(self._nodes, SingleNode) else INDEX_PATIENCE
        self._trimmer = Trimmer(self, max_bytes=max_history_bytes, max_events=max_history_events)
        self._deleted: OrderedDict[Topic, str] = OrderedDict()
        """Topics whose deletion is known here, with the names of their histories."""
        self._met: dict[str, str] = {}
        """The ids of the servers that are known to have these deletions, by name."""
        self._meeting = asyncio.Lock()
        self._clock: Wire | None = None
        """The wire whose measure of the server's clock is the last one."""

    async def append(self, topic: Topic, request: AppendRequest, *, position: Position) -> AppendAnswer:
        """Append events in one atomic step; see `Broker.append`.

        Raises:
            ValueError: The request breaks a rule of its form.
            BrokerUnavailableError: Nothing is known about the outcome: repeat it with the same seq.

        """
        check_append(request)
        listed = topic in self._indexed
        answer = await self._append(topic, request, position)
        if isinstance(answer, Bound):
            await self._trimmer.make_room(topic)
            answer = await self._append(topic, request, position)
        if isinstance(answer, Deleted) and not answer.position.offset:
            # Whoever deleted the topic took it off the index; this call has put it on again.
            key = self._keys.topics(shard_of(topic))
            (await self._wire(self._steps, key)).cast("ZREM", key, topic)
        if isinstance(answer, Appended) and not answer.repeated:
            if answer.first == 1 and listed:
                await self._index(topic)
            self._trimmer.grew(topic, answer, size=sum(len(entry.data) for entry in request.entries))
        return answer

    async def read(self, topic: Topic, position: Position, *, limit: int = 1000, seen: bool = False) -> History:
        """Read what lies above a position; see `Broker.read`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        return history(await self._page(READ, topic, position, limit, 1 if seen else 0))

    async def trim(self, topic: Topic, snapshot: bytes, *, position: Position, size: int) -> Trimmed | Stale:
        """Store a snapshot and raise the floor to it; see `Broker.trim`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        answer = await self._page(TRIM, topic, position, snapshot, size)
        if (refused := stale(answer)) is not None:
            return refused
        at = position_of(answer[1], answer[2])
        # The floor stands; what lies below goes in slices, so that the server stops for none for long.
        while answer[0] == b"ok" and answer[3] == 1:
            answer = await self._page(TRIM, topic, at, b"", 0)
        return Trimmed(position=at)

    async def weigh(self, topic: Topic) -> Weight:
        """Tell what a topic takes; see `Broker.weigh`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        state, _, _, snap, archive, _ = self._keys.of(topic)
        wire = await self._wire(self._pages, state)
        counts, fields, snapshot, archived = await asyncio.gather(
            wire.call("HGET", state, "d"),
            wire.call("HLEN", state),
            wire.call("STRLEN", snap),
            wire.call("HGET", archive, "bytes"),
        )
        return weight(counts, fields=fields, snapshot=snapshot, archive=archived)

    async def archive(self, topic: Topic, events: Mapping[int, bytes], *, position: Position) -> int | Stale:
        """Keep logged events that a trim will remove; see `Broker.archive`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        total = 0
        for part in slices(events.items(), size=ARCHIVED_AT_ONCE):
            answer = await self._page(ARCHIVE, topic, position, *(item for pair in part for item in pair))
            if (refused := stale(answer)) is not None:
                return refused
            total = int(answer[1])
        return total

    async def archived(self, topic: Topic, seqs: Sequence[int]) -> dict[int, bytes]:
        """Give those of these events that are archived.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        if not seqs:
            return {}
        key = self._keys.of(topic)[4]
        wire = await self._wire(self._pages, key)
        found = await wire.call("HMGET", key, *seqs)
        return {seq: data for seq, data in zip(seqs, found, strict=True) if data is not None}

    async def store_blobs(
        self, topic: Topic, blobs: Mapping[str, bytes], *, run: str, position: Position
    ) -> Bound | Deleted | None:
        """Keep large values, at most ``max_bytes`` of one topic; see `Broker.store_blobs`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        state, key = self._keys.of(topic)[0], self._keys.of(topic)[5]
        wire = await self._wire(self._pages, key)
        names = list(blobs)
        facts, held, *known = await asyncio.gather(
            wire.call("HMGET", state, "gone", "epoch"),
            wire.call("HGET", key, "bytes"),
            *(wire.call("HEXISTS", key, name) for name in names),
        )
        if (refused := deleted(facts, run=run, position=position)) is not None:
            return refused
        total = int(held or 0)
        new = [name for name, there in zip(names, known, strict=True) if not there]
        if total + sum(len(blobs[name]) for name in new) > self._max_bytes:
            return Bound(size=total)
        # Plainly, and one by one: through a script such values would stop the server (STORE.md 9).
        for name in new:
            total += len(blobs[name])
            await wire.call("HSET", key, name, blobs[name], "bytes", total)
        if self._ttl:
            await wire.call("PEXPIRE", key, self._ttl)
        # Deleted while they were written: they would outlive the topic.
        refused = deleted(await wire.call("HMGET", state, "gone", "epoch"), run=run, position=position)
        if refused is not None and new:
            await wire.call("HDEL", key, *new)
        return refused

    async def blobs(self, topic: Topic, hashes: Sequence[str]) -> dict[str, bytes]:
        """Give those of these values that are kept.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key = self._keys.of(topic)[5]
        wire = await self._wire(self._pages, key)
        found = {name: await wire.call("HGET", key, name) for name in hashes}
        return {name: value for name, value in found.items() if value is not None}

    async def renew(
        self, topic: Topic, *, run: str, token: str, lease: int, position: Position
    ) -> Appended | Restore | Ended | Fenced | Deleted:
        """Move the lease's deadline; see `Broker.renew`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        check_names(run=run, token=token)
        check_lease(lease)
        keys = self._keys.of(topic)
        wire = await self._wire(self._steps, keys[0])
        if time.monotonic() - wire.measured > CLOCK_RENEWAL:
            await wire.measure()
        await self._list(topic)

        def arguments(wire: Wire) -> list[Argument]:
            return [*self._common(wire, position, ttl=self._active(wire, topic)), "renew", run, token, lease, ""]

        answer = await self._run(self._steps, LEASE, keys, arguments)
        if answer[0] == b"ok":
            at = position_of(*answer[1].split(b" "))
            return Appended(position=at, first=at.offset, people=int(answer[2]))
        return refusal(answer)

    async def declare_lost(self, topic: Topic, *, run: str, data: bytes, position: Position) -> Appended | Busy | None:
        """Write ``agent_lost`` for a run whose deadline has passed; see `Broker.declare_lost`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        check_names(run=run)
        await self._list(topic)

        def arguments(wire: Wire) -> list[Argument]:
            steady = max(0.0, asyncio.get_running_loop().time() - wire.server.steady_since)
            common = self._common(wire, position, ttl=self._active(wire, topic))
            return [*common, "lost", run, "", int(steady * 1000), data]

        answer = await self._run(self._steps, LEASE, self._keys.of(topic), arguments)
        if answer[0] == b"ok":
            return appended(answer[1], people=0, repeated=False)
        if answer[0] == b"alive":
            return Busy(holder=run, deadline=int(answer[1]), position=position)
        return None

    async def delete(self, topic: Topic, *, epochs: str) -> Deletion | None:
        """Remove a history for good; see `Broker.delete`.

        The answer comes once the deletion is on the server's disk and on its replicas, or after a second.

        Raises:
            BrokerUnavailableError: Nothing is known about the outcome: repeat it with the same epochs.

        """
        # A connection of its own: what waits for the disk would keep everybody else waiting.
        wire = await Wire.connect(await self._nodes.of(self._keys.channel(topic)))
        try:
            deletion = await self._delete(wire, topic, epochs)
            if deletion is not None:
                await self._lasting(wire, topic)
                await self._unlist(wire, topic)
        finally:
            wire.close()
            await wire.wait_closed()
        return deletion

    def keep_deleted(self, topic: Topic, gone: str) -> None:
        """Delete a history again, should the server ever come back with it; see `Broker.keep_deleted`."""
        if not gone:
            return
        self._deleted[topic] = gone
        self._deleted.move_to_end(topic)
        if len(self._deleted) > DELETED_KEPT:
            self._deleted.popitem(last=False)

    async def _delete(self, wire: Wire, topic: Topic, epochs: str) -> Deletion | None:
        arguments = [*self._common(wire, START, ttl=f"-{self._ttl}"), f" {epochs.strip()} ", 0]
        answer = await wire.run(DELETE, self._keys.deletion(topic), arguments)
        if answer[0] == b"other":
            return None
        if answer[0] == b"none":
            return Deletion()
        found = Deletion(epoch=answer[1].decode(), gone=answer[2].decode())
        self.keep_deleted(topic, found.gone)
        return found

    async def _lasting(self, wire: Wire, topic: Topic) -> None:
        """Wait until a deletion is where the server would read it from after a crash, or its successor."""
        replicas = int((await wire.facts("replication")).get("connected_slaves", 0))
        if replicas and int(await wire.call("WAIT", replicas, DELETION_PATIENCE)) < replicas:
            logger.warning("the deletion of %s has not reached every replica", topic)
        facts = await wire.facts("persistence")
        if facts.get("aof_enabled") == "1":
            with contextlib.suppress(BrokerError):  # servers before 7.2 do not know it
                await wire.call("WAITAOF", 1, 0, DELETION_PATIENCE)

    async def _unlist(self, wire: Wire, topic: Topic) -> None:
        """Take a deleted topic off the indexes, unless somebody has written it again."""
        listed, due = self._keys.topics(shard_of(topic)), self._keys.due(shard_of(topic))
        index = await self._wire(self._steps, listed)
        await index.call("ZREM", listed, topic)
        await index.call("ZREM", due, topic)
        counts = await wire.call("HGET", self._keys.of(topic)[0], "d")
        if counts and not counts.startswith(b"0 "):
            await index.call("ZADD", listed, self.now(), topic)
            await index.call("ZADD", due, self.now(), topic)

    async def _meet(self, wire: Wire) -> None:
        """Delete again what a server has come back with: an older state of it, or a replica that lagged."""
        name = wire.server.name
        async with self._meeting:
            if self._met and self._met.get(name) != wire.server_id:
                for topic, gone in list(self._deleted.items()):
                    keys = self._keys.deletion(topic)
                    if self._nodes.now(keys[0]) is not wire.server:
                        continue
                    answer = await wire.run(DELETE, keys, [*self._common(wire, START, ttl=f"-{self._ttl}"), gone, 1])
                    if answer[0] == b"ok":
                        self._deleted[topic] = answer[2].decode()
                    if answer[0] == b"ok" and answer[3]:
                        logger.warning("Redis at %s came back with the deleted topic %s; deleted again", name, topic)
            self._met[name] = wire.server_id

    async def standing(self, topic: Topic) -> Standing:
        """Tell what there is of a topic that may be over; see `Broker.standing`.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        state = self._keys.of(topic)[0]
        wire = await self._wire(self._pages, state)
        lease = await wire.call("HGET", state, "lease")
        approvals: dict[str, str] = {}
        cursor = b"0"
        while lease:
            cursor, found = await wire.call("HSCAN", state, cursor, "MATCH", "a:*", "COUNT", 1000)
            approvals |= {name.decode(): text.decode() for name, text in zip(found[::2], found[1::2], strict=True)}
            if cursor == b"0":
                break
        return standing(lease, approvals)

    async def topics(self, *, limit: int = 1000) -> list[tuple[Topic, int]]:
        """List the topics written last, with the Unix time (ms) of their last activity, to within 10 s.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        if limit <= 0:
            return []
        oldest = f"({self.now() - self._ttl}" if self._ttl else "-inf"

        async def newest(key: str) -> Any:
            wire = await self._wire(self._pages, key)
            return await wire.call("ZREVRANGEBYSCORE", key, "+inf", oldest, "WITHSCORES", "LIMIT", 0, limit)

        answers = await asyncio.gather(*(newest(self._keys.topics(shard)) for shard in range(SHARDS)))
        found = [
            (int(float(at)), name.decode())
            for answer in answers
            for name, at in zip(answer[::2], answer[1::2], strict=True)
        ]
        return [(Topic(name), at) for at, name in nlargest(limit, found)]

    async def due(self, *, until: int) -> list[Topic]:
        """List the topics whose due time is at or before ``until`` (ms, Redis clock), of each shard the first 1,000.

        Of a cluster, those of the servers that answer.

        Raises:
            BrokerUnavailableError: None answers.

        """

        async def first(key: str) -> Any:
            wire = await self._wire(self._pages, key)
            if time.monotonic() - wire.measured > CLOCK_RENEWAL:
                await wire.measure()  # a gateway renews nothing that would do it
            return await wire.call("ZRANGEBYSCORE", key, "-inf", until, "LIMIT", 0, DUE_AT_ONCE)

        answers = await asyncio.gather(
            *(first(self._keys.due(shard)) for shard in range(SHARDS)), return_exceptions=True
        )
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            if len(failures) == SHARDS or not isinstance(failure, BrokerUnavailableError):
                raise failure
        return [Topic(name.decode()) for answer in answers if isinstance(answer, list) for name in answer]

    async def set_due(self, topic: Topic, at: int | None) -> None:
        """Note when a topic wants work (ms, Redis clock); None takes the note away.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key = self._keys.due(shard_of(topic))
        wire = await self._wire(self._steps, key)
        if at is None:
            await wire.call("ZREM", key, topic)
        else:
            await wire.call("ZADD", key, at, topic)

    async def wake(self, topic: Topic) -> None:
        """Tell the workers that a topic wants work now.

        Raises:
            BrokerUnavailableError: The server is away, or in no state to answer.

        """
        key = self._keys.due(shard_of(topic))
        wire = await self._wire(self._steps, key)
        await wire.call(wire.publish, key, topic)

    def now(self) -> int:
        """Give the Unix time in ms on the server's clock; before the first connect, on this machine's."""
        if self._clock is None:
            return time.time_ns() // 1_000_000
        return int(time.monotonic() * 1000 + self._clock.skew)

    def channel(self, topic: Topic) -> str:
        """Name the channel of a topic's publications."""
        return self._keys.channel(topic)

    def control_channel(self, topic: Topic) -> str:
        """Name the channel of a topic's wake-ups."""
        return self._keys.control_channel(topic)

    def wake_channels(self) -> tuple[str, ...]:
        """Name the channels that workers hear: one a shard, payload = a topic."""
        return tuple(self._keys.due(shard) for shard in range(SHARDS))

    def link(self, listener: Listener) -> RedisLink | ClusterLink:
        """Make a pub/sub connection; the caller closes it."""
        if isinstance(self._nodes, ClusterNodes):
            return ClusterLink(self._nodes, listener)
        return RedisLink(self._url, listener, timeout=self._timeout)

    async def aclose(self) -> None:
        """Close the connections; calls in flight, and later ones, raise `BrokerUnavailableError`."""
        await self._trimmer.aclose()
        await self._nodes.aclose()
        await self._steps.aclose()
        await self._pages.aclose()

    async def _append(self, topic: Topic, request: AppendRequest, position: Position) -> AppendAnswer:
        keys = self._keys.of(topic)
        await self._list(topic)
        wire = await self._wire(self._steps, keys[0])
        ttl = self._active(wire, topic)
        if ttl.startswith("-") and position.epoch and (events := advance_arguments(request)):
            answer = await self._advance(keys, topic, request, position, events)
            if answer:
                place, _, people = answer.rpartition(b" ")
                return appended(place, people=int(people), repeated=False)
            # Nothing was done. What follows may meet another server, and has to name that one.
        own = append_arguments(request, max_bytes=self._max_bytes)

        def arguments(wire: Wire) -> list[Argument]:
            # The wire may be another than before: then that one has given the topic no deadline yet.
            return [*self._common(wire, position, ttl=ttl if wire is met else self._active(wire, topic)), *own]

        met = wire
        return append_answer(await self._run(self._steps, APPEND, keys, arguments))

    async def _advance(
        self, keys: tuple[str, ...], topic: Topic, request: AppendRequest, position: Position, events: list[Argument]
    ) -> bytes:
        """Go the short way; b"" where it does not lead there."""

        def arguments(wire: Wire) -> list[Argument]:
            return [
                f"{position.epoch} {wire.server_id} {request.run} {request.token}",
                position.offset,
                f"w:{request.run}",
                request.seq,
                wire.publish,
                self._max_bytes,
                push_prefix(topic) + b'{"data":',
                *events,
            ]

        answer: bytes = await self._run(self._steps, ADVANCE, keys[:3], arguments)
        return answer

    async def _run(
        self, lane: Lane, script: Script, keys: tuple[str, ...], arguments: Callable[[Wire], list[Argument]]
    ) -> Any:
        """Run a script where its keys are.

        A server of a cluster that has not their slot has done nothing: the other one is asked, and named in the
        arguments, once.
        """
        wire = await self._wire(lane, keys[0])
        try:
            return await wire.run(script, keys, arguments(wire))
        except RedirectError as error:
            self._nodes.moved(error)
            wire = await self._known(await lane.to(self._nodes.at(error.place)))
            return await wire.run(script, keys, arguments(wire), asking=error.asking)

    async def _wire(self, lane: Lane, key: str) -> Wire:
        return await self._known(await lane.wire(key))

    async def _known(self, wire: Wire) -> Wire:
        if self._met.get(wire.server.name) != wire.server_id:
            await self._meet(wire)
        if self._clock is None or wire.measured > self._clock.measured:
            self._clock = wire
        return wire

    async def _page(self, script: Script, topic: Topic, position: Position, *arguments: Argument) -> Any:
        def all_arguments(wire: Wire) -> list[Argument]:
            return [*self._common(wire, position, ttl=f"-{self._ttl}"), *arguments]

        return await self._run(self._pages, script, self._keys.of(topic), all_arguments)

    def _common(self, wire: Wire, position: Position, *, ttl: str) -> list[Argument]:
        """Make the arguments that all scripts share; the server id belongs to the wire they will go out on."""
        return [wire.server_id, position.epoch, position.offset, new_epoch(), wire.publish, ttl]

    async def _index(self, topic: Topic) -> None:
        """List a topic that has just begun: the entry made before may have been taken away by a deletion."""
        key = self._keys.topics(shard_of(topic))
        (await self._wire(self._steps, key)).cast("ZADD", key, self.now(), topic)

    async def _list(self, topic: Topic) -> None:
        """Refresh a topic's place in the index now and then, before the step that makes it active."""
        now = time.monotonic()
        if now - self._indexed.get(topic, -math.inf) < INDEX_REFRESH:
            return
        key = self._keys.topics(shard_of(topic))
        try:
            async with asyncio.timeout(self._index_patience):
                wire = await self._wire(self._steps, key)
        except (BrokerUnavailableError, TimeoutError) as error:
            # In a cluster the index is elsewhere: a topic goes on without it, and is listed at the next step.
            if isinstance(self._nodes, SingleNode):
                raise
            logger.debug("%s is not listed: %s", topic, error)
            return
        at = self.now()
        wire.cast("ZADD", key, at, topic)
        if self._ttl:
            wire.cast("ZREMRANGEBYSCORE", key, "-inf", at - self._ttl)
        _remember(self._indexed, topic, now)

    def _active(self, wire: Wire, topic: Topic) -> str:
        """Give the scripts' ttl argument: now and then the keys of an active topic get a new deadline."""
        now = time.monotonic()
        renewed, before = self._renewed.get(topic, (-math.inf, wire))
        if before is wire and now - renewed < TTL_RENEWAL:
            return f"-{self._ttl}"
        _remember(self._renewed, topic, (now, wire))
        return f"{self._ttl}"


def _remember(of: OrderedDict[Topic, T], topic: Topic, what: T) -> None:
    of[topic] = what
    of.move_to_end(topic)
    if len(of) > REMEMBERED_TOPICS:
        of.popitem(last=False)
