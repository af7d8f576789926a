"""From waiting messages to runs: takes them from the topics' queues, one run a topic at a time."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from gateway.broker.port import Link
from gateway.context.errors import ExecutionCancelled
from gateway.context.messages import Message
from gateway.errors import BrokerError, BrokerUnavailableError, ConditionError, GatewayError, TopicBusyError
from gateway.policies import POLICIES, Policy, follow
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic, parse_topic

__all__ = ["Agent", "Worker"]

_logger = logging.getLogger(__name__)

_SWEEP_INTERVAL = 1.0
"""Seconds between two looks at the topics that are due, for wake-ups that were lost."""

_IDLE_DELAY = 5000
"""Milliseconds after which a topic without work is looked at once more: between the note that a message comes and the
message itself there is a moment."""

Agent = Callable[[Run, Message], Awaitable[None]]
"""Answers one message of a person, which is the last of the run's context; its exception is the run's error."""


class Worker:
    """Runs an agent for every message that people send to a topic.

    The messages of a topic are answered one after another, oldest first; those of several topics at once.

    Args:
        publisher: Opens the runs.
        agent: Answers a message.
        concurrency: Runs at once.
        name: The agent's name in ``agent_start``.
        model: The model's name there; None leaves it open.
        policy: What happens to a message that comes during a run; see `Policy`. A function of the topic where topics
            differ.
        grace: Seconds that the runs have to finish once the worker is to stop; then they are cancelled.

    """

    def __init__(
        self,
        publisher: Publisher,
        agent: Agent,
        *,
        concurrency: int = 8,
        name: str = "agent",
        model: str | None = None,
        policy: Policy | Callable[[Topic], Policy] = "queue",
        grace: float = 5.0,
    ) -> None:
        if not callable(policy):
            _checked(policy)
        self._publisher = publisher
        self._agent = agent
        self._concurrency = concurrency
        self._name = name
        self._model = model
        self._policy = policy
        self._grace = grace
        self._wanted: dict[Topic, None] = {}
        """Topics to look at, the one that has waited longest first."""
        self._busy: dict[Topic, asyncio.Task[None]] = {}
        """Topics that are being looked at or run."""
        self._idle: set[Topic] = set()
        """Topics found without work, to be looked at once more."""
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()

    async def serve(self) -> None:
        """Work until `stop` is called, or this is cancelled; the runs have ended when it returns."""
        link = self._publisher.broker.link(self)
        try:
            async with asyncio.TaskGroup() as group:
                hearing = group.create_task(self._hear(link))
                sweeping = group.create_task(self._sweep())
                await self._dispatch()
                hearing.cancel()
                sweeping.cancel()
        finally:
            await self._end_runs()
            await link.aclose()

    def stop(self) -> None:
        """Take nothing more; `serve` returns when the runs have ended."""
        self._stopping.set()
        self._changed.set()

    def received(self, channel: str, payload: bytes) -> None:
        """Hear that a topic wants work."""
        try:
            topic = parse_topic(payload.decode())
        except ValueError:
            _logger.warning("expected a topic on %s, got %r", channel, payload[:200])
            return
        self._want(topic)

    def drained(self) -> None:
        """Nothing to do: every wake-up is acted on by itself."""

    def lost(self) -> None:
        """Nothing to do: the sweep hears what the link does not."""

    def restored(self) -> None:
        """Nothing to do: the sweep has heard what the link did not."""

    def missed(self, channels: Sequence[str]) -> None:
        """Nothing to do: the sweep has heard what the link did not."""

    def _want(self, topic: Topic) -> None:
        self._wanted.setdefault(topic)
        self._changed.set()

    async def _hear(self, link: Link) -> None:
        await asyncio.gather(*(link.subscribe(channel) for channel in self._publisher.broker.wake_channels()))

    async def _sweep(self) -> None:
        while True:
            try:
                for topic in await self._publisher.broker.due(until=self._publisher.broker.now()):
                    # A topic that is being run has its next look when the run has ended.
                    if topic not in self._busy:
                        self._want(topic)
            except BrokerUnavailableError as error:
                _logger.debug("no sweep: %s", error)
            except BrokerError as error:
                # Wake-ups still come, and runs go on: they are not to end for what can be put right in Redis.
                _logger.warning("topics that wait cannot be looked for: %s", error)
            await asyncio.sleep(_SWEEP_INTERVAL)

    async def _dispatch(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            ready = [topic for topic in self._wanted if topic not in self._busy]
            for topic in ready[: self._concurrency - len(self._busy)]:
                del self._wanted[topic]
                task = asyncio.create_task(self._attend(topic), name=f"gateway worker {topic}")
                self._busy[topic] = task
                task.add_done_callback(partial(self._attended, topic))
            await self._changed.wait()

    def _attended(self, topic: Topic, _: asyncio.Task[None]) -> None:
        del self._busy[topic]
        self._changed.set()

    async def _attend(self, topic: Topic) -> None:
        """Answer the oldest message that waits on a topic."""
        try:
            policy = _checked(self._policy(topic)) if callable(self._policy) else self._policy
            state = await self._publisher.read(topic)
            run = self._publisher.take(state, agent=self._name, model=self._model, policy=policy)
            if run is None:
                await self._rest(topic)
                return
            self._idle.discard(topic)
            await self._answer(run, policy)
            # What else waits here goes behind what waits elsewhere.
            self._want(topic)
        except TopicBusyError as error:
            _logger.debug("not yet: %s", error)
        except ConditionError as error:
            # Somebody else took or withdrew it; what is left there is found at the next look.
            _logger.debug("the message on %s is gone: %s", topic, error)
            await self._publisher.look_again(topic, at=0)
        except GatewayError:
            _logger.exception("topic %s could not be attended to", topic)
            with contextlib.suppress(GatewayError):  # its note stands as it was
                await self._publisher.look_again(topic, at=self._publisher.broker.now() + _IDLE_DELAY)
        except Exception:
            _logger.exception("attending to topic %s failed", topic)

    async def _answer(self, run: Run, policy: Policy) -> None:
        async with run:
            message = run.context.entries[-1]
            following = asyncio.create_task(_follow(run, policy))
            try:
                await self._agent(run, message)
            except ExecutionCancelled as error:
                await run.cancel(error.reason)
            except Exception as error:
                _logger.exception("run %s on %s failed", run.id, run.topic)
                # What else a stop led to is not what ended the run.
                if not run.interrupted:
                    await run.fail(error)
            finally:
                following.cancel()
                await asyncio.wait([following])

    async def _rest(self, topic: Topic) -> None:
        """Note when a topic without a waiting message is to be looked at again."""
        publisher = self._publisher
        at = await publisher.patience.call(lambda: publisher.sweeper.look(topic))
        if at is not None:
            self._idle.discard(topic)
            await publisher.look_again(topic, at=at)
        elif topic in self._idle:
            self._idle.discard(topic)
            await publisher.patience.call(lambda: publisher.broker.set_due(topic, None))
        else:
            self._idle.add(topic)
            await publisher.look_again(topic, at=publisher.broker.now() + _IDLE_DELAY)

    async def _end_runs(self) -> None:
        tasks = list(self._busy.values())
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self._grace if self._stopping.is_set() else 0)
        for task in late:
            task.cancel("the worker was stopped")
        if late:
            await asyncio.wait(late)


async def _follow(run: Run, policy: Policy) -> None:
    try:
        await follow(run, policy)
    except GatewayError as error:
        _logger.debug("messages on %s are left alone: %s", run.topic, error)
    except Exception:
        _logger.exception("messages on %s are left alone", run.topic)


def _checked(policy: Policy) -> Policy:
    if policy not in POLICIES:
        raise ValueError(f"expected a policy among {', '.join(POLICIES)}, got {policy!r}")
    return policy
