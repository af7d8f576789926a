"""One execution of an agent on a topic: what it does becomes events, and it ends exactly once."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from gateway.adapters.consuming import consume
from gateway.adapters.response import Adapter
from gateway.approvals import Approvals
from gateway.context.approval import ApprovalRequest, Decision
from gateway.context.context import Context
from gateway.context.errors import ExecutionCancelled
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import check_cancellation
from gateway.context.usage import Usage
from gateway.errors import FencedError, PublishError
from gateway.hearing import Ear
from gateway.inbox import Inbox
from gateway.resumption import Resumption
from gateway.run_events import RunEvents
from gateway.start import Resumed, Start
from gateway.stop import Stop
from gateway.sub_agent import SubAgent
from gateway.tracing import RunTrace
from gateway.types import Position, new_id, parse_topic
from gateway.unfinished import call_in_text

if TYPE_CHECKING:
    from gateway.publisher import Publisher

__all__ = ["APPROVAL_TIMEOUT", "Run"]

_logger = logging.getLogger(__name__)

APPROVAL_TIMEOUT = 300.0
"""Seconds that people have to decide about a tool call, unless the caller says otherwise."""

_START_GRACE = 5.0
"""Seconds that a cancelled start waits to learn whether its first append was stored."""

_END_GRACE = 5.0
"""Seconds that a cancelled end has left to be written."""

_FAILURE_GRACE = 1.0
"""Seconds in which a block learns from what it does that nothing more of its run is stored; then it is cancelled."""


class Run(RunEvents):
    """One execution of an agent; made by `Publisher.run`, used as an async context manager.

    Entering takes the topic and writes ``agent_start``. Leaving writes the run's one end: ``agent_complete``, after
    an exception ``agent_error``, after a cancellation ``agent_cancelled``.

    People may stop it. Mode ``now`` cancels the task that has entered the run, as `asyncio.timeout` does: the block
    sees a `CancelledError` wherever it waits, and is left quietly once the end is written; `stop_requested` tells the
    reason. `shield` puts that off. Mode ``after_step`` only shows in `stop_requested` and `check`.

    Every method raises `FencedError` once another run holds the topic, `RunEndedError` after the end,
    `HistoryConflictError` and `ContextTooLargeError` where the store refused an earlier event, and waits while too
    much is unsent. A block that calls none while it is fenced is cancelled, and left with the `FencedError`.
    """

    def __init__(self, publisher: "Publisher", start: Start | Resumption) -> None:
        super().__init__()
        self._publisher = publisher
        self._start = start
        self._stop = Stop()
        self._ear: Ear
        self._approvals: Approvals
        self._failure: Exception | None = None
        """Why nothing more of the run is stored."""
        self._missed: Sequence[Mapping[str, Any]] = ()
        """What people did before the run was resumed."""
        self._token = ""
        self._begun = False
        self._end: Mapping[str, Any] | None = None
        """The end that it was given first."""
        self.id = start.run
        self.topic = start.topic
        self.inbox: Inbox
        """The messages of people that have come meanwhile."""

    @property
    def ended(self) -> Position | None:
        """Where the run's end stands; None while it has none."""
        return self._writer.sender.ended if self._begun else None

    @property
    def outcome(self) -> Mapping[str, Any]:
        """The event that ended it; where it could not write one, or has none yet, ``agent_lost``."""
        if self._end is None or self.ended is None or self._writer.sender.declared_lost:
            return {"type": "agent_lost", "at": self._publisher.broker.now(), "run": self.id}
        return self._end

    @property
    def ticket(self) -> str:
        """What `Publisher.resume` goes on with after a restart; a secret, who has it can write as this run."""
        return f"{self.topic} {self.id} {self._token}"

    @property
    def stop_requested(self) -> str | None:
        """Why the run is asked to stop, for people; None while it is not."""
        return self._stop.reason

    @property
    def interrupted(self) -> bool:
        """Whether a stop has cancelled the block."""
        return self._stop.sent

    async def __aenter__(self) -> Self:
        """Take the topic.

        Raises:
            TopicBusyError: Another run holds it.
            HistoryConflictError: The given context is not the topic's.
            ConditionError: The waiting message is gone or changed.
            RunEndedError: A run of this id has ended.

        """
        agent = self._start.agent if isinstance(self._start, Start) else ""
        trace = self._trace = RunTrace(topic=self.topic, run=self.id, agent=agent)
        try:
            await _despite_cancellation(self._begin(), grace=_START_GRACE)
        except asyncio.CancelledError:
            # The first append may be stored by now; nobody would end that run.
            if self._begun:
                await self._leave(asyncio.CancelledError())
            trace.end("agent_cancelled")
            raise
        except BaseException:
            trace.end("agent_error")
            raise
        trace.enter()
        # Only from here on: a stop must not cancel what is not the block.
        self._stop.enter()
        for action in self._missed:
            self._heard(action)
        self._publisher.hearing.listen(self._ear)
        self._ear.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        alone = self._stop.leave()
        if self._trace is not None:
            self._trace.leave()
        try:
            await _despite_cancellation(self._leave(error), grace=_END_GRACE)
        finally:
            if self._trace is not None:
                self._trace.end(self.outcome["type"])
        if self._stop.reason is None or not alone:
            return False
        if self._failure is not None and self._stop.sent and isinstance(error, asyncio.CancelledError):
            raise self._failure from error
        return isinstance(error, ExecutionCancelled) or (self._stop.sent and isinstance(error, asyncio.CancelledError))

    async def approval(self, tool_call: ToolCall, *, timeout: float | None = APPROVAL_TIMEOUT) -> Decision:  # noqa: ASYNC109 - its end is an event
        """Ask people whether a tool call may run, and wait for the first answer.

        An edit's arguments are any JSON object: whoever runs the tool checks them. Asked again, the same call has the
        same answer.

        Args:
            tool_call: The call; its id names the question.
            timeout: Seconds until the question expires, which is a no; None waits for ever.

        Raises:
            ValueError: The call has no id or no name, or the timeout is not above 0.
            EventRefusedError: The call breaks an entry rule.

        """
        return await self._approvals.ask(call_in_text(tool_call), timeout=timeout)

    def check(self) -> None:
        """Stop here if the run is asked to, or its context's ``cancellation_check`` says so.

        Raises:
            ExecutionCancelled: It shall stop.

        """
        if self._stop.reason is not None:
            raise ExecutionCancelled(self._stop.reason)
        check_cancellation(self.context)

    def stop(self, reason: str) -> None:
        """Stop the run as people do with mode ``now``.

        Args:
            reason: Why, for people.

        """
        self._stop.request(reason, now=True)

    def shield(self) -> AbstractAsyncContextManager[None]:
        """Let a block finish before a stop cancels the task."""
        return self._stop.shield()

    async def consume(self, stream: Any, *, adapter: str | type[Adapter] | None = None) -> Message | None:
        """Feed the stream of a model's provider or of an agent framework into the run, to its end.

        Its kind is told by its items: OpenAI (chat completions, Responses), Anthropic, Gemini, LiteLLM, pydantic-ai,
        the OpenAI Agents SDK, LangChain and LangGraph (``astream_events``), AG-UI. The stream is opened and closed as
        its library wants it: also where the run is stopped, after whose step it does not go on.

        Tools that the stream's own framework runs are told with their results; those of a bare model are the caller's.

        Args:
            stream: What the library gives: an asynchronous iterator, a context manager of one, or an awaitable of them.
            adapter: The adapter or its name (``gateway.adapters.ADAPTERS``); None recognises it.

        Returns:
            The message that was written last; None where there was none.

        Raises:
            ProviderError: The stream reports an error, or breaks off in the middle of a response.
            ExecutionCancelled: The run was asked to stop after the step that has ended.
            TypeError: It is no asynchronous stream, or one that no adapter knows.
            ValueError: There is no adapter of this name.

        """
        return await consume(self, stream, adapter=adapter)

    def sub_agent(
        self, agent: str, *, model: str | None = None, input: str | None = None, max_iterations: int | None = None
    ) -> AbstractAsyncContextManager["Run"]:
        """Open the run of a sub-agent, to be entered with ``async with``, on a topic of its own: ``<topic>/<run>``.

        Its start and its end are told on this run's topic, too, so that readers find it. How it ends makes no
        difference to this run, unless its error is let through. Any number may run at once, in tasks of their own.

        Args:
            agent: The sub-agent's name.
            model: Its model's name; None leaves it open.
            input: What it is asked, as text for people; None for nothing.
            max_iterations: Model requests it may make; None for no bound.

        Raises:
            ValueError: The topic's name is too long to have another behind it.

        """
        run = new_id()
        start = Start(
            topic=parse_topic(f"{self.topic}/{run}"),
            run=run,
            agent=agent,
            model=model,
            parent=self.id,
            input=input,
            max_iterations=max_iterations,
        )
        return SubAgent(Run(self._publisher, start), start, self._writer)

    async def complete(self, result: Any = None) -> Position:
        """End the run as completed; returns where its one end stands, whoever wrote it.

        Args:
            result: JSON; None for none.

        """
        return await self._finish("agent_complete", result=result)

    async def fail(self, error: BaseException | str) -> Position:
        """End the run as failed; returns where its one end stands, whoever wrote it."""
        text = error if isinstance(error, str) else str(error) or type(error).__name__
        return await self._finish("agent_error", error=text)

    async def cancel(self, reason: str | None = None) -> Position:
        """End the run as cancelled; returns where its one end stands, whoever wrote it."""
        return await self._finish("agent_cancelled", reason=reason)

    async def _begin(self) -> None:
        start = self._start
        if isinstance(start, Start) and self._trace is not None:
            start = msgspec.structs.replace(start, trace=self._trace.parent)
        begun = await start.begin(self._publisher)
        begun.writer.sender.trace = self._trace
        self._writer = writer = begun.writer
        self.inbox = Inbox(writer, begun.waiting)
        self._ear = Ear(
            self._publisher.broker,
            self._publisher.patience,
            topic=self.topic,
            run=self.id,
            position=begun.position,
            heard=self._heard,
        )
        writer.sender.told = self._ear.told
        self._approvals = Approvals(self.id, writer, listen=self._ear.wake)
        writer.sender.due_before = self._approvals.next_deadline
        writer.sender.failed = self._failed
        writer.recorder.context = self._wired(writer.context)
        self._token = begun.token
        if begun.resumed is not None:
            self._go_on(begun.resumed)
        self._begun = True
        self._publisher.entered(self)

    def _go_on(self, resumed: Resumed) -> None:
        self._calls.update(resumed.calls)
        self._messages.last = resumed.last
        for approval in resumed.approvals:
            self._approvals.adopt(approval)
        self._missed = resumed.actions

    def _wired(self, context: Context) -> Context:
        """Let the context ask people, where it does not ask somebody else."""
        return msgspec.structs.replace(
            context,
            cancellation_check=context.cancellation_check or self._stop.check,
            approval_handler=context.approval_handler or self._asked,
        )

    async def _asked(self, request: ApprovalRequest) -> Decision:
        call = ToolCall(id=request.id or f"call_{new_id()}", name=request.name, arguments=request.arguments)
        return await self.approval(call)

    def _failed(self, error: Exception) -> None:
        """Let no block go on for ever, at a silent model or in a tool, in a run that nobody sees any more."""
        self._failure = error
        # At once it would hide the error from a block that is about to learn it from a call of its own.
        asyncio.get_running_loop().call_later(_FAILURE_GRACE, lambda: self._stop.request(str(error), now=True))

    def _heard(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "cancel_requested":
                by = event.get("by")
                reason = f"stopped by {by}" if isinstance(by, str) and by else "stopped"
                self._stop.request(reason, now=event.get("mode") != "after_step")
            case "approval_decided":
                self._writer.sender.reach(self._ear.position)
                self._approvals.heard(event)
            case _:
                self.inbox.heard(event)

    async def _leave(self, error: BaseException | None) -> None:
        writer = self._writer
        try:
            if self._stop.reason is not None and (self._stop.sent or isinstance(error, ExecutionCancelled)):
                # What else the cancellation led to is not what ended the run.
                await self.cancel(self._stop.reason)
            elif error is None:
                await self.complete()
                if writer.sender.declared_lost:
                    raise FencedError(run=self.id, holder="")
            elif isinstance(error, ExecutionCancelled):
                await self.cancel(error.reason)
            elif isinstance(error, Exception):
                await self.fail(error)
            else:
                await self.cancel(str(error) or None)
        except PublishError as refused:
            if error is None:
                raise
            _logger.warning("run %s has no end of its own: %s", self.id, refused)
        finally:
            await self._ear.aclose()
            await writer.sender.aclose()
            taken = isinstance(self._start, Start) and self._start.taken is not None
            await self._publisher.left(self, self._ear, taken=taken, waiting=writer.people_wait)

    async def _finish(self, type: str, **fields: Any) -> Position:
        usage = sum(self._calls.values(), Usage()).to_dict() if self._calls else None
        event = self._writer.event(type, **self._redacted(fields), usage=usage)
        self._end = self._end or event
        return await self._writer.end(event, list(self._messages), self._approvals.endings())


async def _despite_cancellation(step: Coroutine[Any, Any, None], *, grace: float) -> None:
    """Run a step that must not be left in the middle; cancelled, it has some seconds to come to its end."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=grace)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            _logger.warning("a cancelled run failed, too: %s", task.exception())
        raise
