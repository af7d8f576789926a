"""Stop: a run, or whatever became of a message."""

from collections.abc import Mapping
from typing import Any

from gateway.actions.caller import Caller
from gateway.actions.fates import Fates
from gateway.actions.fields import choice_field, id_field, name_field, refuse, topic_field
from gateway.actions.messages import WaitingMessages
from gateway.actions.store import Action, ActionStore, Earlier, placed
from gateway.broker.port import Appended, Condition
from gateway.types import Position

__all__ = ["MODES", "Cancellations"]

MODES = ("now", "after_step")


class Cancellations:
    """Asks runs to stop; that one has stopped, only its own end says."""

    def __init__(self, store: ActionStore, messages: WaitingMessages, fates: Fates) -> None:
        """Make it over the store of the actions."""
        self._store = store
        self._messages = messages
        self._fates = fates

    async def cancel(self, caller: Caller, data: Mapping[str, Any]) -> dict[str, Any]:
        """Stop a named run, never the next one; or a message: it is withdrawn, or the run that took it is stopped."""
        topic, client_id = topic_field(data), id_field(data)
        mode = choice_field(data, "mode", MODES, default="now")
        if ("run" in data) == ("message" in data):
            refuse("expected either a `run` or a `message`")
        kind = "run" if "run" in data else "message"
        name = name_field(data, kind)
        action = Action.of(caller, "cancel", topic, client_id, kind, name, mode)
        if kind == "message":
            return {**await self._cancel_message(action, name, mode), "message": name}
        if not await self._store.written(topic):
            return {"status": "unknown", "run": name}
        return await self._cancel_run(action, name, mode)

    async def _cancel_message(self, action: Action, message: str, mode: str) -> dict[str, Any]:
        answer = await self._messages.take_back(action, message)
        if isinstance(answer, Earlier):
            return _requested(answer.outcome, mode, answer.position)
        if answer is not None:
            return {"status": "withdrawn", "by": action.by, **placed(answer.position)}
        fate = await self._fates.message(action.topic, message)
        if fate is None:
            return {"status": "unknown"}
        if fate.status == "withdrawn":
            return fate.withdrawal
        return await self._cancel_run(action, fate.run, mode, outcome=fate.run)

    async def _cancel_run(self, action: Action, run: str, mode: str, *, outcome: str = "") -> dict[str, Any]:
        answer = await self._store.act(
            action,
            {"type": "cancel_requested", "run": run, "mode": mode},
            outcome=outcome,
            conditions=(Condition(field=f"r:{run}", op="=", value="run"),),
        )
        if isinstance(answer, Appended | Earlier):
            return _requested(run, mode, answer.position)
        end = await self._fates.ended_run(action.topic, run, answer.value)
        return {"status": "unknown", "run": run} if end is None else {"status": "ended", "run": run, "as": end}


def _requested(run: str, mode: str, position: Position) -> dict[str, Any]:
    return {"status": "requested", "run": run, "mode": mode, **placed(position)}
