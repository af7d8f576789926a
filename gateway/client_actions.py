"""What a person can do through a client (PROTOCOL.md 7)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from gateway.types import new_id, parse_topic

__all__ = ["ClientActions"]


class ClientActions(ABC):
    """The actions of PROTOCOL.md 7, each one call of `rpc`.

    Each takes the caller's own ``id`` of the action, by which a repetition of it is known; None draws one. Each raises
    what `rpc` raises, and ValueError where the topic is no topic's name.
    """

    @abstractmethod
    async def rpc(self, method: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Call a method."""

    async def send(self, topic: str, content: str | list[Any], id: str | None = None) -> dict[str, Any]:
        """Send a person's message to the agent of a topic.

        Args:
            topic: The topic.
            content: Text, or a list of content parts.
            id: The caller's own id; None draws one.

        Returns:
            ``message``, the waiting message's id, and ``epoch`` and ``offset`` of its event.

        """
        return await self._act("send", topic, id, content=content)

    async def delete(self, topic: str) -> dict[str, Any]:
        """Delete a topic's history with all that belongs to it, for good; a run that holds it ends.

        Args:
            topic: The topic.

        Returns:
            ``deleted``, false where nobody had written the topic, and ``epoch``, its new one.

        """
        return await self.rpc("delete", {"topic": parse_topic(topic)})

    async def edit(
        self, topic: str, message: str, content: str | list[Any], *, id: str | None = None
    ) -> dict[str, Any]:
        """Give a message that waits another content.

        Args:
            topic: The topic.
            message: The waiting message's id.
            content: Text, or a list of content parts.
            id: The caller's own id; None draws one.

        Returns:
            ``status``: ``edited``, or what had become of the message, ``taken`` (by ``run``) or ``withdrawn``.

        """
        return await self._act("edit", topic, id, message=message, content=content)

    async def withdraw(self, topic: str, message: str, *, id: str | None = None) -> dict[str, Any]:
        """Take a message back that waits.

        Args:
            topic: The topic.
            message: The waiting message's id.
            id: The caller's own id; None draws one.

        Returns:
            ``status``: ``withdrawn``, with who did it in ``by``, or ``taken`` (by ``run``).

        """
        return await self._act("withdraw", topic, id, message=message)

    async def cancel(
        self,
        topic: str,
        *,
        run: str | None = None,
        message: str | None = None,
        mode: Literal["now", "after_step"] = "now",
        id: str | None = None,
    ) -> dict[str, Any]:
        """Ask a run to stop; only its own end says that it has.

        Args:
            topic: The topic.
            run: The run's id.
            message: Instead of it a message's: it is withdrawn, or the run that took it is stopped.
            mode: In the middle of whatever it does, or when the step is done.
            id: The caller's own id; None draws one.

        Returns:
            ``status``: ``requested``, ``ended`` (how is in ``as``), ``withdrawn`` or ``unknown``.

        """
        named = {"run": run, "message": message}
        return await self._act("cancel", topic, id, mode=mode, **named)

    async def decide(
        self,
        topic: str,
        run: str,
        tool_call_id: str,
        decision: Literal["approve", "reject", "edit"],
        *,
        arguments: str | None = None,
        reason: str | None = None,
        id: str | None = None,
    ) -> dict[str, Any]:
        """Decide whether a tool call goes on; the first decision wins.

        Args:
            topic: The topic.
            run: The run that asks.
            tool_call_id: The call it asks about.
            decision: Yes, no, or yes with other arguments.
            arguments: With ``edit``, and only with it: the whole new arguments as JSON text.
            reason: What the model is told; None for nothing.
            id: The caller's own id; None draws one.

        Returns:
            ``won``, and the ``decision`` that stands and ``by`` whom it was made: one's own, or the one before it.

        """
        return await self._act(
            "decide",
            topic,
            id,
            run=run,
            tool_call_id=tool_call_id,
            decision=decision,
            arguments=arguments,
            reason=reason,
        )

    async def _act(self, method: str, topic: str, id: str | None, **data: Any) -> dict[str, Any]:
        given = {name: value for name, value in data.items() if value is not None}
        return await self.rpc(method, {"topic": parse_topic(topic), **given, "id": id or new_id()})
