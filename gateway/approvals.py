"""The approvals of one run: asked on its topic, decided there by people, or expired."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.approval_state import ApprovalState, approval_field
from gateway.broker.port import Change, Condition
from gateway.context.approval import Approve, Decision, Edit, Reject
from gateway.context.messages import ToolCall
from gateway.errors import PublishError
from gateway.outbox import Group
from gateway.recorder import outgoing
from gateway.run_writer import RunWriter

__all__ = ["EXPIRED", "Approvals"]

_logger = logging.getLogger(__name__)

EXPIRED = Reject(reason="nobody decided in time")
"""What an approval that expired comes to."""

MAX_TIMEOUT = 10 * 365 * 24 * 3600
"""Seconds of the longest question that expires at all."""

_CLOCK_STEP = 0.05
"""Seconds between two tries to write that an approval expired: Redis' clock may be a little behind ours."""


class _Asked:
    """One question."""

    def __init__(self, field: str, *, deadline: int) -> None:
        self.field = field
        """Its state field."""
        self.state = ApprovalState(deadline=deadline)
        """What that holds for as long as nobody has decided."""
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    def settled(self, decision: str, by: object) -> Change:
        """Give what it holds at last."""
        return Change(field=self.field, value=self.state.decided(decision, by).text)


class Approvals:
    """Asks people about tool calls, and takes their answers. The first answer counts, the store sees to it.

    Args:
        run: The run's id.
        writer: Where the questions go.
        listen: Lets the run look for what it may not have heard.

    """

    def __init__(self, run: str, writer: RunWriter, *, listen: Callable[[], None]) -> None:
        self._run = run
        self._writer = writer
        self._listen = listen
        self._asked: dict[str, _Asked] = {}
        """By the call's id."""

    async def ask(self, call: ToolCall, *, timeout: float | None) -> Decision:  # noqa: ASYNC109 - its end is an event
        """Ask whether a call may run, and wait for the answer; asked again, the same question has the same answer.

        Args:
            call: The call; its id names the question.
            timeout: Seconds until the question expires, which is a no; None waits for ever.

        Raises:
            ValueError: The call has no id or no name, or the timeout is not above 0 and at most 10 years.
            EventRefusedError: The call breaks an entry rule.

        """
        if not call.id or not call.name or not isinstance(call.arguments, str):
            raise ValueError(f"expected a call with an id, a name and arguments as JSON text, got {call!r:.200}")
        if timeout is not None and not 0 < timeout <= MAX_TIMEOUT:
            raise ValueError(f"expected a timeout above 0 and of at most {MAX_TIMEOUT} seconds, got {timeout}")
        await self._writer.ready()
        asked = self._asked.get(call.id)
        if asked is None:
            asked = self._put(call, timeout)
            await self._writer.stored()
        if asked.state.deadline and not asked.answer.done():
            seconds = max(0, asked.state.deadline - self._writer.now()) / 1000
            await asyncio.wait([asked.answer], timeout=seconds)
            if not asked.answer.done():
                await self._expire(call.id, asked)
        # Others may wait for the same answer.
        return await asyncio.shield(asked.answer)

    def adopt(self, approval: Mapping[str, Any]) -> None:
        """Go on with a question that the run asked before its process was restarted; a decision comes by `heard`.

        Args:
            approval: As the mirror has it.

        """
        call_id = approval["tool_call_id"]
        asked = _Asked(approval_field(self._run, call_id), deadline=approval["expires_at"] or 0)
        self._asked[call_id] = asked
        told = {"tool_call_id": call_id, "expires_at": approval["expires_at"]}
        event = self._writer.event("approval_required", **told, name=approval["name"], arguments=approval["arguments"])
        self._writer.sender.enter(outgoing(event), Change(field=asked.field, value=asked.state.text))

    def heard(self, event: Mapping[str, Any]) -> None:
        """Take the decision that an `approval_decided` event tells."""
        asked = self._asked.get(str(event.get("tool_call_id")))
        if asked is None or asked.answer.done():
            return
        asked.answer.set_result(_decision(event))
        # The run acts on it: should the store lose it, the run writes it again (STORE.md 3).
        told = {key: value for key, value in event.items() if key in _TOLD and value is not None}
        self._writer.sender.enter(outgoing(told), asked.settled(str(event.get("decision")), event.get("by")))

    def next_deadline(self) -> int | None:
        """Give the first deadline of the questions without an answer (ms, the broker's clock); None for none."""
        deadlines = [asked.state.deadline for asked in self._asked.values() if not asked.answer.done()]
        return min((deadline for deadline in deadlines if deadline), default=None)

    def endings(self) -> list[Change]:
        """Give the state fields of the questions that the run's end answers."""
        return [asked.settled("expired", None) for asked in self._asked.values() if not asked.answer.done()]

    def _put(self, call: ToolCall, timeout: float | None) -> _Asked:
        deadline = 0 if timeout is None else self._writer.now() + round(timeout * 1000)
        asked = _Asked(approval_field(self._run, str(call.id)), deadline=deadline)
        event = self._writer.event(
            "approval_required",
            tool_call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            expires_at=deadline or None,
        )
        group = Group(entries=[outgoing(event)], changes=[Change(field=asked.field, value=asked.state.text)])
        self._asked[str(call.id)] = asked
        self._writer.add(group)
        return asked

    async def _expire(self, call_id: str, asked: _Asked) -> None:
        """Write that nobody has decided, unless somebody has."""

        def group() -> Group:
            event = self._writer.event("approval_decided", tool_call_id=call_id, decision="expired")
            return Group(
                entries=[outgoing(event)],
                conditions=[
                    Condition(field=asked.field, op="=", value=asked.state.text),
                    Condition(field=asked.field, op="<"),
                ],
                changes=[asked.settled("expired", None)],
            )

        while not asked.answer.done():
            found = await self._writer.attempt(group)
            if found is None:
                if not asked.answer.done():  # else the run has heard its own words
                    asked.answer.set_result(EXPIRED)
            elif found.value == asked.state.text:
                await asyncio.sleep(_CLOCK_STEP)
            elif not found.value:
                raise PublishError(f"expected the approval of {call_id} to be pending or decided, it is gone")
            else:
                # Somebody was faster; what they decided is told to `heard`.
                self._listen()
                return


def _decision(event: Mapping[str, Any]) -> Decision:
    reason = event.get("reason")
    told = reason if isinstance(reason, str) else None
    match event.get("decision"):
        case "approve":
            return Approve()
        case "edit":
            try:
                arguments = msgspec.json.decode(event.get("arguments") or "")
            except (msgspec.DecodeError, TypeError, UnicodeEncodeError):
                arguments = None
            if isinstance(arguments, dict):
                return Edit(arguments=arguments)
            return Reject(reason="the edited arguments are no JSON object")
        case "expired":
            return EXPIRED
        case _:
            return Reject(reason=told)


_TOLD = frozenset({"type", "at", "run", "tool_call_id", "decision", "arguments", "by", "reason"})
