"""What each action of a person is answered, and writes, in each state that a message and its run can be in."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from gateway.broker.port import Appended
from gateway.broker.redis import RedisBroker
from gateway.errors import CommandError
from gateway.recorder import lost_event
from gateway.types import START, Topic
from tests.acting import Actor, Person, trim
from tests.publishing import events, mirror, until

TOPIC = "chat:1"
CONTENT = "do it"

Answer = dict[str, Any]


class World:
    """A topic with one message, the run that took it, and its approvals: `open` and `late` pending, `done` decided."""

    def __init__(self, broker: RedisBroker, other: RedisBroker) -> None:
        self.broker = broker
        self.person = Person(other, TOPIC, user="ann")
        self.bob = Person(other, TOPIC, user="bob")
        self.run = Actor(broker, TOPIC)
        self.message = ""

    async def nobody(self) -> None:
        self.message = "0" * 16

    async def waiting(self) -> None:
        self.message = (await self.person.do("send", content=CONTENT, id="mine"))["message"]

    async def withdrawn(self) -> None:
        await self.waiting()
        await self.bob.do("withdraw", message=self.message, id="earlier")

    async def running(self, lease: int = 60_000) -> None:
        await self.waiting()
        assert isinstance(await self.run.start(lease=lease, taken=await self._queued()), Appended)
        await self.run.ask("open")
        await self.run.ask("late", deadline=1)
        await self.run.ask("done")
        await self.bob.do("decide", run="r1", tool_call_id="done", decision="reject", id="earlier")

    async def cancelling(self) -> None:
        await self.running()
        await self.bob.do("cancel", run="r1", mode="after_step", id="stop")

    async def silent(self) -> None:
        await self.running(lease=1)

    async def completed(self) -> None:
        await self.running()
        await self.run.end("agent_complete")

    async def failed(self) -> None:
        await self.running()
        await self.run.end("agent_error", error="no")

    async def cancelled(self) -> None:
        await self.running()
        await self.run.end("agent_cancelled")

    async def lost(self) -> None:
        await self.silent()
        data = lost_event("r1", at=self.broker.now())

        async def declared() -> bool:
            answer = await self.broker.declare_lost(Topic(TOPIC), run="r1", data=data, position=START)
            return isinstance(answer, Appended)

        await until(declared)

    async def forgotten(self) -> None:
        """The run's end lies so far back that only the snapshot knows of it."""
        await self.completed()
        await trim(self.broker, TOPIC)
        await self.next_runs(Actor(self.broker, TOPIC, run="between"))
        await trim(self.broker, TOPIC)

    async def followed(self) -> None:
        await self.completed()
        await Actor(self.broker, TOPIC, run="next").start()

    async def next_runs(self, run: Actor) -> None:
        await run.start()
        await run.end()

    async def _queued(self) -> Answer:
        return (await mirror(self.broker, TOPIC))["queue"][0]  # type: ignore[no-any-return]  # JSON


@pytest_asyncio.fixture
async def world(redis_url: str, key_prefix: str) -> AsyncIterator[World]:
    """The agent's process and the gateway's have a connection each."""
    broker, other = RedisBroker(redis_url, key_prefix=key_prefix), RedisBroker(redis_url, key_prefix=key_prefix)
    yield World(broker, other)
    await broker.aclose()
    await other.aclose()


STATES = (
    "nobody",
    "waiting",
    "withdrawn",
    "running",
    "cancelling",
    "silent",
    "completed",
    "failed",
    "cancelled",
    "lost",
    "forgotten",
    "followed",
)

ACTIONS: dict[str, Callable[[World], Awaitable[Answer]]] = {
    "send again": lambda world: world.person.do("send", content=CONTENT, id="mine"),
    "send other": lambda world: world.person.do("send", content="other", id="mine"),
    "edit": lambda world: world.person.do("edit", message=world.message, content="new"),
    "withdraw": lambda world: world.person.do("withdraw", message=world.message),
    "cancel run": lambda world: world.person.do("cancel", run="r1"),
    "cancel message": lambda world: world.person.do("cancel", message=world.message, mode="after_step"),
    "decide open": lambda world: world.person.do("decide", run="r1", tool_call_id="open", decision="approve"),
    "decide late": lambda world: world.person.do("decide", run="r1", tool_call_id="late", decision="approve"),
    "decide done": lambda world: world.person.do("decide", run="r1", tool_call_id="done", decision="approve"),
    "decide unasked": lambda world: world.person.do("decide", run="r1", tool_call_id="x", decision="approve"),
}

# An answer without the places that it names; a number is an error's code. Then the type of the event that it wrote.
Cell = tuple[Answer | int, str | None]

SENT: Answer = {"message": "M"}
TAKEN: Answer = {"status": "taken", "message": "M", "run": "r1"}
WITHDRAWN_BY_BOB: Answer = {"status": "withdrawn", "message": "M", "by": "bob"}
NO_RUN: Answer = {"status": "unknown", "run": "r1"}
REJECTED: Answer = {"won": False, "decision": "reject", "by": "bob"}
EXPIRED: Answer = {"won": False, "decision": "expired", "by": None}


def alive() -> dict[str, Cell]:
    """The row of a run without an end."""
    return {
        "send again": (SENT, None),
        "send other": (409, None),
        "edit": (TAKEN, None),
        "withdraw": (TAKEN, None),
        "cancel run": ({"status": "requested", "run": "r1", "mode": "now"}, "cancel_requested"),
        "cancel message": (
            {"status": "requested", "run": "r1", "mode": "after_step", "message": "M"},
            "cancel_requested",
        ),
        "decide open": ({"won": True, "decision": "approve", "by": "ann"}, "approval_decided"),
        "decide late": (EXPIRED, "approval_decided"),
        "decide done": (REJECTED, None),
        "decide unasked": (107, None),
    }


def ended(how: str) -> dict[str, Cell]:
    """The row of a run with an end."""
    return {
        "send again": (SENT, None),
        "send other": (409, None),
        "edit": (TAKEN, None),
        "withdraw": (TAKEN, None),
        "cancel run": ({"status": "ended", "run": "r1", "as": how}, None),
        "cancel message": ({"status": "ended", "run": "r1", "as": how, "message": "M"}, None),
        "decide open": ({**EXPIRED, "ended": how}, None),
        "decide late": ({**EXPIRED, "ended": how}, None),
        "decide done": (REJECTED, None),
        "decide unasked": (107, None),
    }


def without_run(**cells: Cell) -> dict[str, Cell]:
    """The row of a topic that has no run."""
    decisions = {name: (107, None) for name in ACTIONS if name.startswith("decide")}
    row: dict[str, Cell] = {"cancel run": (NO_RUN, None), **decisions}
    return {**row, **{name.replace("_", " "): cell for name, cell in cells.items()}}


MATRIX: dict[str, dict[str, Cell]] = {
    "nobody": without_run(
        send_again=(SENT, "message_queued"),
        send_other=(SENT, "message_queued"),
        edit=(107, None),
        withdraw=(107, None),
        cancel_message=({"status": "unknown", "message": "M"}, None),
    ),
    "waiting": without_run(
        send_again=(SENT, None),
        send_other=(409, None),
        edit=({"status": "edited", "message": "M"}, "message_edited"),
        withdraw=({"status": "withdrawn", "message": "M", "by": "ann"}, "message_withdrawn"),
        cancel_message=({"status": "withdrawn", "message": "M", "by": "ann"}, "message_withdrawn"),
    ),
    "withdrawn": without_run(
        send_again=(SENT, None),
        send_other=(409, None),
        edit=(WITHDRAWN_BY_BOB, None),
        withdraw=(WITHDRAWN_BY_BOB, None),
        cancel_message=(WITHDRAWN_BY_BOB, None),
    ),
    "running": alive(),
    "cancelling": alive(),
    "silent": alive(),
    "completed": ended("completed"),
    "failed": ended("failed"),
    "cancelled": ended("cancelled"),
    "lost": ended("lost"),
    "followed": ended("completed"),
    # Two trims later nobody retries: the ids of actions are free again, and only what mirrors hold is known.
    "forgotten": {
        **ended("completed"),
        "send again": (SENT, "message_queued"),
        "send other": (SENT, "message_queued"),
        "edit": (107, None),
        "withdraw": (107, None),
        "cancel message": ({"status": "unknown", "message": "M"}, None),
    },
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("state", STATES)
async def test_action_in_state(world: World, state: str, action: str) -> None:
    await getattr(world, state)()
    before = [entry["type"] for entry in await events(world.broker, TOPIC)]
    status = {entry["run"]: entry["status"] for entry in (await mirror(world.broker, TOPIC))["runs"]}
    answer, event = MATRIX[state][action]

    async def act() -> Answer | int:
        try:
            return await ACTIONS[action](world)
        except CommandError as error:
            return int(error.code)

    first = await act()
    assert _placeless(first) == answer
    written = [entry["type"] for entry in await events(world.broker, TOPIC)][len(before) :]
    assert written == ([] if event is None else [event])
    # The same once more, as after a lost reply: the same answer, and nothing more is written.
    assert await act() == first
    assert len(await events(world.broker, TOPIC)) == len(before) + len(written)
    after = {entry["run"]: entry["status"] for entry in (await mirror(world.broker, TOPIC))["runs"]}
    assert after == status | ({"r1": "cancelling"} if event == "cancel_requested" else {})


def test_matrix_has_every_cell() -> None:
    assert MATRIX.keys() == set(STATES)
    assert all(row.keys() == ACTIONS.keys() for row in MATRIX.values())


def _placeless(answer: Answer | int) -> Answer | int:
    if isinstance(answer, int):
        return answer
    places = {"epoch", "offset"}
    return {name: "M" if name == "message" else value for name, value in answer.items() if name not in places}
