"""The answer to an approval: the first one wins, the others are told who decided what."""

from collections.abc import Mapping
from typing import Any

from gateway.actions.caller import Caller
from gateway.actions.fates import UNKNOWN, Fates
from gateway.actions.fields import (
    arguments_field,
    choice_field,
    id_field,
    name_field,
    reason_field,
    refuse,
    topic_field,
)
from gateway.actions.store import Action, ActionStore, Earlier, placed
from gateway.approval_state import ApprovalState, approval_field
from gateway.broker.port import Appended, Change, Condition

__all__ = ["DECISIONS", "Decisions"]

DECISIONS = ("approve", "reject", "edit")

_EXPIRED = "expired"
_UNREAD = "-"
"""No approval's state: a condition that it equals it tells what the field holds."""


class Decisions:
    """Decides approvals: compare-and-set in the store, before the deadline there."""

    def __init__(self, store: ActionStore, fates: Fates) -> None:
        """Make it over the store of the actions."""
        self._store = store
        self._fates = fates

    async def decide(self, caller: Caller, data: Mapping[str, Any]) -> dict[str, Any]:
        """Decide whether, and with what arguments, a tool call goes on."""
        topic, client_id = topic_field(data), id_field(data)
        run, call = name_field(data, "run"), name_field(data, "tool_call_id")
        decision = choice_field(data, "decision", DECISIONS)
        arguments, reason = arguments_field(data, wanted=decision == "edit"), reason_field(data)
        action = Action.of(caller, "decide", topic, client_id, run, call, decision, arguments, reason)
        event = {"type": "approval_decided", "run": run, "tool_call_id": call, "decision": decision}
        if arguments is not None:
            event["arguments"] = arguments
        if reason is not None:
            event["reason"] = reason
        if not await self._store.written(topic):
            return await self._forgotten(action, run, call)
        return await self._decide(action, event)

    async def _decide(self, action: Action, event: Mapping[str, Any]) -> dict[str, Any]:
        run, call = event["run"], event["tool_call_id"]
        expired = {"type": "approval_decided", "run": run, "tool_call_id": call, "decision": _EXPIRED, "by": None}
        field, alive = approval_field(run, call), Condition(field=f"r:{run}", op="=", value="run")
        stored, state, late = _UNREAD, ApprovalState(deadline=0), False
        while True:
            now = state.decided(_EXPIRED, None) if late else state.decided(event["decision"], action.by)
            answer = await self._store.act(
                action,
                expired if late else event,
                outcome=_EXPIRED if late else "",
                conditions=(
                    Condition(field=field, op="=", value=stored),
                    alive,
                    Condition(field=field, op="<" if late else ">"),
                ),
                changes=(Change(field=field, value=now.text),),
            )
            if isinstance(answer, Earlier) or (late and isinstance(answer, Appended)):
                return _lost(_EXPIRED, None)
            if isinstance(answer, Appended):
                return {"won": True, "decision": event["decision"], "by": action.by, **placed(answer.position)}
            if answer.field == alive.field:
                # Every mirror closes what a run leaves undecided (PROTOCOL.md 5.3).
                end = await self._fates.ended_run(action.topic, run, answer.value)
                return {**_lost(_EXPIRED, None), "ended": end or UNKNOWN}
            if not answer.value:
                return await self._forgotten(action, run, call)
            if answer.value == stored:
                late = not late  # nothing but the deadline can be wrong with what was just read
                continue
            stored, state, late = answer.value, ApprovalState.parse(answer.value), False
            if state.decision is not None:
                return _lost(state.decision, state.by)

    async def _forgotten(self, action: Action, run: str, call: str) -> dict[str, Any]:
        decision = await self._fates.decision(action.topic, run, call)
        if decision is None:
            refuse(f"no approval of the tool call {call!r:.80} of the run {run!r:.80} is known on {action.topic}")
        return _lost(*decision)


def _lost(decision: str, by: Any) -> dict[str, Any]:
    return {"won": False, "decision": decision, "by": by}
