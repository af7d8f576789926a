"""All the real parts, each connection between them through a proxy, and the faults that can strike them."""

import asyncio
import contextlib
import os
import random
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from redis.asyncio import Redis

from gateway.broker.link import RedisLink
from gateway.broker.port import Broker, Listener
from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.errors import FencedError, TopicBusyError
from gateway.patience import Patience
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import START, Topic
from tests.e2e.processes import Gateway as GatewayProcess
from tests.faults.agents import Agent
from tests.faults.comparison import check
from tests.faults.followers import Follower
from tests.faults.hurry import SILENCE
from tests.faults.killed import Mortal, hurried_gateway
from tests.faults.model import state_of
from tests.faults.proxy import Proxy
from tests.faults.standby import Standby
from tests.faults.store import Archive
from tests.faults.tally import Tally
from tests.publishing import SlowBroker
from tests.servers import RedisServer
from tests.serving import Gateway, serve
from tests.vectors_reader import canonical

__all__ = ["World"]

PATIENCE = float(os.environ.get("GATEWAY_TEST_PATIENCE", "30"))
"""Seconds after which something hangs; raise it on a slow machine."""
PREFIX = "f"
TIMEOUT = 1.0
"""Seconds after which a silent Valkey is given up."""
LEASE = 1.0


class _Broker(RedisBroker):
    """The broker, its link soon tired of silence."""

    def link(self, listener: Listener) -> RedisLink:
        return RedisLink(self._url, listener, timeout=self._timeout, ping_after=0.3)


class World:
    """A Valkey that loses nothing by itself, a gateway, agents and readers; an async context manager.

    Args:
        directory: For the server's data.
        seed: Of everything that is drawn.
        tally: Where everything is counted.
        silence: Seconds after which the gateway gives up a silent reader.

    """

    def __init__(self, directory: Path, *, seed: int, tally: Tally, silence: float = SILENCE) -> None:
        self.tally = tally
        self._silence = silence
        self.choice = random.Random(seed)
        self._directory = directory
        self.server = self._store("data")
        self.agents: dict[str, Agent] = {}
        self.followers: list[Follower] = []
        self.late: list[Follower] = []
        """Those of them that came late, in order."""
        self.gateway: Gateway
        self.redis: Redis
        self.archive: Archive
        self.publisher: Publisher
        """Of events outside runs."""
        self.admin: RedisBroker
        self.direct: Proxy
        """Between the test and Valkey, without faults: it follows the store's address."""
        self.to_store: Proxy
        """Between agents and Valkey."""
        self.to_hub: Proxy
        """Between the gateway and Valkey."""
        self.to_readers: Proxy
        """Between readers and the gateway."""
        self._copy = directory / "copy"
        self._promotions = 0
        self._mortals = 0
        self._second: GatewayProcess | None = None
        self._stack = contextlib.AsyncExitStack()
        self._serving = contextlib.AsyncExitStack()
        self._brokers: list[RedisBroker] = []
        self.trimmed: set[str] = set()
        """Topics of which something is in a snapshot alone."""

    async def __aenter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self.server.start)
        self._stack.callback(self._kill_store)
        self.direct = await self._stack.enter_async_context(Proxy(self.server.port))
        self.redis = await self._stack.enter_async_context(Redis(port=self.direct.port))
        self.archive = Archive(self.redis, PREFIX)
        self.to_store = await self._stack.enter_async_context(Proxy(self.server.port))
        self.to_hub = await self._stack.enter_async_context(Proxy(self.server.port))
        self.admin = self.broker(self.direct.url)
        self.publisher = await self._stack.enter_async_context(Publisher(broker=self.admin))
        await self._serve(port=0)
        self.to_readers = await self._stack.enter_async_context(Proxy(self.gateway.port))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for agent in self.agents.values():
            await agent.die()
        for follower in self.followers:
            await follower.leave()
        await self._serving.aclose()
        await self._stack.aclose()
        for broker in self._brokers:
            await broker.aclose()

    def _store(self, name: str) -> RedisServer:
        # Written before it is answered, so that kill -9 loses nothing; what fsync adds only a power cut would show.
        options = {"appendonly": "yes", "appendfsync": "no", "repl-diskless-sync-delay": "0"}
        return RedisServer(self._directory / name, options, clock=self._directory / "clock")

    def broker(self, url: str) -> RedisBroker:
        broker = _Broker(url, key_prefix=PREFIX, timeout=TIMEOUT)
        self._brokers.append(broker)
        return broker

    async def _serve(self, *, port: int) -> None:
        self.gateway = await self._serving.enter_async_context(
            serve(
                "",
                PREFIX,
                broker=self.broker(self.to_hub.url),
                port=port,
                drain=0,
                audit_interval=0.2,
                ping_interval=0.4,
                pong_timeout=self._silence,
                linger=0.3,
                ring_bytes=256 * 1024,
            )
        )

    # Parts

    def agent(self, topic: str) -> Agent:
        """Let an agent write on a topic of its own."""
        choice = random.Random(self.choice.random())
        agent = Agent(self.broker(self.to_store.url), topic, choice, self.tally, lease=LEASE)
        self.agents[topic] = agent
        agent.start()
        return agent

    def follow(self, topic: str, *, mirror: bool, late: bool = False, url: str = "") -> Follower:
        """Let a reader follow a topic, from its beginning or (late) from now on.

        Args:
            topic: The topic.
            mirror: Whether it keeps a mirror.
            late: As said.
            url: Of its gateway; by default that of this process, behind the proxy before readers.

        """
        url = url or f"http://127.0.0.1:{self.to_readers.port}"
        follower = Follower(url, topic, mirror=mirror, late=late, tally=self.tally)
        self.followers.append(follower)
        follower.start()
        return follower

    async def second_gateway(self) -> GatewayProcess:
        """Give the gateway that is a process of its own, started when first asked for, with readers of every topic."""
        if self._second is None:
            gateway = hurried_gateway(self.to_hub.url, PREFIX)
            self._stack.push_async_callback(gateway.stop)
            await gateway.start()
            self._second = gateway
            for topic in self.agents:
                self.follow(topic, mirror=True, url=gateway.url)
        return self._second

    async def mortal(self, *, messages: int) -> None:
        """Let an agent's process die in mid-run on a topic of its own, and another run take its place.

        Raises:
            AssertionError: Something that it was told is stored is lost, or its run is not.

        """
        self._mortals += 1
        mortal = Mortal(self.to_store.url, PREFIX, f"mortal-{self._mortals}")
        self.follow(mortal.topic, mirror=True)
        self.follow(mortal.topic, mirror=False)
        await mortal.live(messages)
        await mortal.succeed(self.admin)
        await mortal.verify(self.archive)

    async def dismiss(self, follower: Follower) -> None:
        """Let a reader go for good."""
        await follower.leave()
        self.followers.remove(follower)

    # Faults of processes

    async def restart_gateway(self) -> None:
        """End the gateway and start another on its port."""
        port = self.gateway.port
        await self._serving.aclose()
        await self._serve(port=port)

    def _kill_store(self) -> None:
        self.server.kill()

    @contextlib.asynccontextmanager
    async def store_away(self) -> AsyncIterator[None]:
        """Kill Valkey; it is back afterwards with all that it had."""
        await asyncio.to_thread(self.server.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(self.server.start)

    def copy_data(self) -> None:
        """Keep the data directory as it is now."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.server.directory, self._copy)

    async def roll_back(self) -> None:
        """Kill Valkey and start it with what `copy_data` kept."""
        async with self.store_away():
            await self._note_loss()
            shutil.rmtree(self.server.directory)
            shutil.copytree(self._copy, self.server.directory)

    async def empty(self) -> None:
        """Kill Valkey and start it with nothing, as one without persistence."""
        async with self.store_away():
            await self._note_loss()
            shutil.rmtree(self.server.directory)

    @contextlib.asynccontextmanager
    async def cut_off_replica(self) -> AsyncIterator[None]:
        """Give Valkey a replica that hears nothing more of it, and afterwards takes its place and address."""
        self._promotions += 1
        async with Standby(self.server, self._store(f"replica-{self._promotions}")) as standby:
            standby.cut_off()
            yield
            await asyncio.to_thread(self.server.kill)
            await self._note_loss()
            self.server = standby.server
            await standby.promote()
        for proxy in (self.direct, self.to_store, self.to_hub):
            proxy.target = self.server.port
            proxy.reset()

    async def evict(self, topic: str, part: str) -> None:
        """Delete one key of a topic."""
        key = f"{PREFIX}:{{{topic}}}"
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.hget(key, "lease")
            pipe.delete(f"{key}{part}")
            lease, _ = await pipe.execute()
        agent = self.agents[topic]
        # One whose end stands already, though its answer is still on the way, writes nothing again.
        agent.losable = agent.losable or topic in self.trimmed or not lease
        agent.strike()

    async def kill_clients(self, kind: str) -> None:
        """Have Valkey close connections of a kind: ``normal`` or ``pubsub``."""
        await self.redis.client_kill_filter(_type=kind, skipme=True)

    async def _note_loss(self) -> None:
        """Only a run that is under way, and has read the log from its first event, can write again what is lost."""
        await asyncio.sleep(0.05)  # answers of the server that is gone are still on their way
        for topic, agent in self.agents.items():
            agent.losable = agent.losable or topic in self.trimmed
            agent.strike()

    @contextlib.contextmanager
    def wall_clock_off(self, seconds: int) -> Iterator[None]:
        """Let this process's wall clock, which is that of all parts but Valkey, be set forward or back for a while."""
        with pytest.MonkeyPatch.context() as patch:
            now, now_ns = time.time, time.time_ns
            patch.setattr(time, "time", lambda: now() + seconds)
            patch.setattr(time, "time_ns", lambda: now_ns() + seconds * 10**9)
            yield

    # Faults between parts

    async def trim(self, topic: str) -> None:
        """Put a topic's history so far into a snapshot."""
        self.trimmed.add(topic)
        await Patience().call(lambda: self.archive.trim(self.admin, topic))

    @contextlib.contextmanager
    def garbled(self, how: str) -> Iterator[None]:
        """Spoil what the hub hears: ``duplicated``, ``reordered`` or ``dropped``, each with odds of one to two."""
        hub, choice = self.gateway.hub, random.Random(self.choice.random())
        received = hub.received
        late: list[tuple[str, bytes]] = []

        def spoiled(channel: str, payload: bytes) -> None:
            if choice.random() < 0.5:
                received(channel, payload)
                if late:
                    received(*late.pop())
            elif how == "duplicated":
                received(channel, payload)
                received(channel, payload)
            elif how == "reordered":
                late.append((channel, payload))

        hub.received = spoiled  # type: ignore[method-assign]
        try:
            yield
        finally:
            hub.received = received  # type: ignore[method-assign]

    async def fence(self, topic: str) -> None:
        """Pause a run until another has taken its topic; awake, it finds itself fenced and writes nothing more.

        Raises:
            AssertionError: It went on writing.

        """
        slow = SlowBroker(self.broker(self.direct.url))
        async with asyncio.timeout(PATIENCE):
            try:
                async with self._entered(topic, slow) as zombie:
                    await zombie.delta("the last words before the pause ")
                    await zombie.flush()
                    slow.hold()
                    await zombie.delta("words that nobody must see")
                    async with self._entered(topic, self.broker(self.direct.url)) as heir:
                        await heir.add_message(Message.assistant("the heir's words"))
                        slow.release()
                        await zombie.flush()
            except FencedError:
                self.tally.add("fence")
            else:
                raise AssertionError(f"{topic}: a run that was declared lost went on writing")

    @contextlib.asynccontextmanager
    async def _entered(self, topic: str, broker: Broker) -> AsyncIterator[Run]:
        """Run on a topic as soon as nobody else does, or has stopped answering."""
        async with Publisher(broker=broker, lease=0.3, flush_interval=0) as publisher:
            while True:
                try:
                    run = await publisher.run(topic, agent="heir").__aenter__()
                    break
                except TopicBusyError:
                    await asyncio.sleep(0.02)
            try:
                yield run
            except BaseException as error:
                await run.__aexit__(type(error), error, error.__traceback__)
                raise
            await run.__aexit__(None, None, None)

    # The comparison

    async def paused(self) -> None:
        """Stop all agents in the middle of what they say, compare everything, and let them go on."""
        agents = self.agents.values()
        try:
            await asyncio.gather(*(agent.pause() for agent in agents))
            await self.settled()
            await self.verify(written=False)
            for agent in agents:
                _, events = await self.archive.whole(agent.topic)
                for opened in state_of([*events.values()])["open"]:
                    said = agent.said.get(opened["message"], "")
                    assert said.startswith(opened["text"]), (
                        f"{agent.topic}: {opened['text']!r} was not said, but {said!r}"
                    )
        finally:
            for agent in agents:
                agent.wake()

    async def settled(self) -> None:
        """Wait until every reader stands at its topic's top.

        Raises:
            AssertionError: One hangs, or has failed.

        """
        topics = sorted({follower.topic for follower in self.followers})
        behind: list[str] = []
        for topic in topics:
            # Appends do not look for a lost key; whoever reads finds it (STORE.md 9).
            await Patience().call(lambda topic=topic: self.admin.read(Topic(topic), START, limit=0))  # type: ignore[misc]
        # redis-py's pipelines swallow a cancellation now and then: a timeout alone would go on for ever.
        deadline = asyncio.get_running_loop().time() + PATIENCE
        try:
            async with asyncio.timeout_at(deadline):
                while asyncio.get_running_loop().time() < deadline:
                    tops = {topic: (await self.archive.stored(topic)).position for topic in topics}
                    behind = [
                        f"{follower.topic} {'mirror' if follower.mirror else 'stock'} at {follower.position} of "
                        f"{tops[follower.topic]}"
                        for follower in self.followers
                        if not follower.stands_at(tops[follower.topic]) or follower.failure
                    ]
                    if not behind:
                        return
                    for follower in self.followers:
                        if follower.failure is not None:
                            raise AssertionError(f"a reader of {follower.topic} failed") from follower.failure
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        raise AssertionError(f"these hang: {'; '.join(behind)}")

    async def verify(self, *, written: bool) -> None:
        """Compare every reader with the model's state of what is stored, and what is stored with what was written.

        Args:
            written: No run is writing again what the store has lost: all that was written has to be there.

        Raises:
            AssertionError: Something was lost, doubled, reordered or made up.

        """
        # Readers mend a hole by asking again, so that it would not show in what they have.
        assert not self.tally.counts["hole"], "a reader was given a publication that does not follow the one before"
        for topic, agent in self.agents.items():
            _, events = await self.archive.whole(topic)
            self.tally.add("lost run", written and sum(event.get("type") == "agent_lost" for event in events.values()))
            if written and not agent.losable:
                found = agent.found(events)
                differ = next(
                    (n for n, pair in enumerate(zip_longest(found, agent.written)) if pair[0] != pair[1]), None
                )
                assert differ is None, (
                    f"{topic}: the history is not what its agent wrote: from number {differ} on {found[differ:]} "
                    f"in place of {agent.written[differ:]}"
                )
        for topic in sorted({follower.topic for follower in self.followers}):
            while not await self._compared(topic):
                await self.settled()

    async def _compared(self, topic: str) -> bool:
        """Compare the readers of a topic; False where it went on meanwhile, as when a paused run's lease lapses."""
        position, events = await self.archive.whole(topic)
        expected = canonical(await asyncio.to_thread(state_of, [*events.values()]))
        try:
            for follower in self.followers:
                if follower.topic == topic:
                    assert follower.stands_at(position), f"{topic}: a reader stands at {follower.position}"
                    await asyncio.to_thread(check, follower, events, expected)
        except AssertionError:
            if (await self.archive.stored(topic)).position == position:
                raise
            return False
        return True
