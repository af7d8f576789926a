"""What a bot's handlers are given."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from gateway.client import Client
from gateway.events import Event
from gateway.mirror import Mirror
from gateway.reader import Update
from gateway.types import Position, Topic

__all__ = ["SNAPSHOT", "BotEvent", "type_of"]

SNAPSHOT = "snapshot"
"""The type under which a handler hears of a whole state."""


def type_of(update: Update) -> str:
    """Give the type under which handlers hear of an update; "" where it has none."""
    kind = SNAPSHOT if update.snapshot else update.data.get("type")
    return kind if isinstance(kind, str) else ""


class BotEvent:
    """An event on one of a bot's topics, and what can be done about it.

    The actions have ids made from the event's position: where the bot is restarted and hears the event again, the
    gateway carries none of them out twice, for as long as the topic's history goes back to them.
    """

    def __init__(self, update: Update, client: Client, *, mirror: Mirror | None, actor: str) -> None:
        self._update = update
        self._client = client
        self._mirror = mirror
        self._actor = actor
        """Whose actions these are: the bot's name and the handler's."""
        self._acts = 0

    def __repr__(self) -> str:
        return f"<{self.type or 'event'} at {self.position} of {self.topic}>"

    @property
    def topic(self) -> Topic:
        """The topic."""
        return self._update.topic

    @property
    def type(self) -> str:
        """Its type; ``snapshot`` for a whole state, "" where it has none."""
        return type_of(self._update)

    @property
    def data(self) -> dict[str, Any]:
        """The event as it lies on the topic; the snapshot of a whole state."""
        return self._update.data

    @property
    def typed(self) -> Event | None:
        """The event as a Struct of `gateway.events`; None for a snapshot, and for what is none of the gateway's own."""
        return self._update.event

    @property
    def position(self) -> Position:
        """Where the topic stands with it."""
        return self._update.position

    @property
    def first(self) -> int:
        """The first offset it stands for: less than ``position.offset`` where deltas were merged."""
        return self._update.first

    @property
    def run(self) -> str | None:
        """The run it belongs to."""
        run = self.data.get("run")
        return run if isinstance(run, str) else None

    @property
    def mirror(self) -> Mirror:
        """The topic's state with this event; only to be read, and a later one where the bot is catching up.

        Raises:
            LookupError: The bot keeps none.

        """
        if self._mirror is None:
            raise LookupError("this bot keeps no mirrors: make it with Bot(…, mirror=True)")
        return self._mirror

    async def decide(
        self,
        decision: Literal["approve", "reject", "edit"],
        *,
        arguments: str | None = None,
        reason: str | None = None,
        approval: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Decide about a tool call; see `Client.decide` for arguments, answer and errors.

        Args:
            decision: The decision.
            arguments: With ``edit``, the whole new arguments as JSON text.
            reason: What the model is told.
            approval: Which one: an entry of the mirror's `approvals`; None is the one that this event is about.

        Raises:
            ValueError: The event is about none.

        """
        about = self.data if approval is None else approval
        run, call = about.get("run"), about.get("tool_call_id")
        if not isinstance(run, str) or not isinstance(call, str):
            raise ValueError(  # noqa: TRY004 - it is what the event says, not what it is
                f"expected an event about the approval of a tool call, got {self!r}"
            )
        return await self._client.decide(
            self.topic, run, call, decision, arguments=arguments, reason=reason, id=self._id()
        )

    async def cancel(self, *, run: str | None = None, mode: Literal["now", "after_step"] = "now") -> dict[str, Any]:
        """Ask a run to stop, None being the event's own; see `Client.cancel`.

        Raises:
            ValueError: The event belongs to none.

        """
        run = run or self.run
        if run is None:
            raise ValueError(f"expected an event of a run, got {self!r}")
        return await self._client.cancel(self.topic, run=run, mode=mode, id=self._id())

    async def send(self, content: str | list[Any]) -> dict[str, Any]:
        """Send a message to the agent of the event's topic; see `Client.send`."""
        return await self._client.send(self.topic, content, self._id())

    def _id(self) -> str:
        self._acts += 1
        named = f"{self._actor}\n{self.topic}\n{self.position}\n{self._acts}"
        return hashlib.sha256(named.encode()).hexdigest()[:40]
