"""A person's waiting message: sent, edited, taken back."""

import hashlib
from collections.abc import Mapping
from typing import Any

from gateway.actions.caller import Caller
from gateway.actions.fates import Fates, MessageFate
from gateway.actions.fields import content_field, encode_content, id_field, name_field, refuse, topic_field
from gateway.actions.store import Action, ActionStore, Earlier, placed
from gateway.broker.port import Appended, Change, Condition, Unmet
from gateway.errors import CommandError, ErrorCode

__all__ = ["WaitingMessages"]

_UNREAD = "-"
"""No content, which is JSON: a condition that it equals it tells what the field holds."""


class WaitingMessages:
    """What can be done with messages until a run takes them."""

    def __init__(self, store: ActionStore, fates: Fates) -> None:
        """Make it over the store of the actions."""
        self._store = store
        self._fates = fates

    async def send(self, caller: Caller, data: Mapping[str, Any]) -> dict[str, Any]:
        """Put a message into a topic's queue."""
        topic, client_id, content = topic_field(data), id_field(data), content_field(data)
        text = encode_content(content)
        action = Action.of(caller, "send", topic, client_id, content)
        message = hashlib.sha256(f"{caller.name}\n{client_id}".encode()).hexdigest()[:16]
        broker = self._store.broker
        await broker.set_due(topic, broker.now())
        answer = await self._store.act(
            action,
            {"type": "message_queued", "id": message, "content": content},
            conditions=(Condition(field=f"m:{message}", op="!"),),
            changes=(Change(field=f"m:{message}", value=text),),
        )
        # Without its writer's record, which a trim takes away, a message that still waits is known by its content.
        if isinstance(answer, Unmet) and answer.value != text:
            raise CommandError(ErrorCode.CONFLICT, f"id {client_id!r} was used for another message")
        await broker.wake(topic)
        return {"message": message, **placed(answer.position)}

    async def edit(self, caller: Caller, data: Mapping[str, Any]) -> dict[str, Any]:
        """Give a waiting message another content."""
        topic, client_id, message = topic_field(data), id_field(data), name_field(data, "message")
        content = content_field(data)
        action = Action.of(caller, "edit", topic, client_id, message, content)
        event = {"type": "message_edited", "id": message, "content": content}
        answer = await self._change(action, event, encode_content(content))
        if answer is not None:
            return {"status": "edited", "message": message, **placed(answer.position)}
        return self._gone(await self._fates.message(topic, message), action, message)

    async def withdraw(self, caller: Caller, data: Mapping[str, Any]) -> dict[str, Any]:
        """Take a waiting message back."""
        topic, client_id, message = topic_field(data), id_field(data), name_field(data, "message")
        action = Action.of(caller, "withdraw", topic, client_id, message)
        answer = await self.take_back(action, message)
        if answer is not None:
            return {"status": "withdrawn", "message": message, "by": caller.name, **placed(answer.position)}
        return self._gone(await self._fates.message(topic, message), action, message)

    async def take_back(self, action: Action, message: str) -> Appended | Earlier | None:
        """Withdraw a message as (a part of) an action; None where it does not wait."""
        return await self._change(action, {"type": "message_withdrawn", "id": message}, "")

    async def _change(self, action: Action, event: Mapping[str, Any], value: str) -> Appended | Earlier | None:
        if not await self._store.written(action.topic):
            return None
        field, stored = f"m:{event['id']}", _UNREAD
        while True:
            answer = await self._store.act(
                action,
                event,
                conditions=(Condition(field=field, op="=", value=stored),),
                changes=(Change(field=field, value=value),),
            )
            if not isinstance(answer, Unmet):
                return answer
            if not answer.value:
                return None
            stored = answer.value

    def _gone(self, fate: MessageFate | None, action: Action, message: str) -> dict[str, Any]:
        if fate is None:
            refuse(f"no message {message!r:.80} is known on {action.topic}")
        if fate.status == "taken":
            return {"status": "taken", "message": message, "run": fate.run}
        return {**fate.withdrawal, "message": message}
