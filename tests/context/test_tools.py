import asyncio
import threading
from typing import Any

import pytest

from gateway.context.approval import ApprovalRequest, Approve, Edit, Reject, pubsub_handler
from gateway.context.context import Context
from gateway.context.errors import ExecutionCancelled, ToolError, ToolTimeout
from gateway.context.run_context import RunContext
from gateway.context.tools import (
    ContextUpdate,
    Tool,
    ToolFailure,
    ToolResult,
    approved_arguments,
    check_cancellation,
    execute_tool,
)

from .memory_pubsub import MemoryPubSub

RUN = RunContext.new({"db": 1})
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def gated(answer: Any, **fields: Any) -> Any:
    def handler(_request: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return RunContext.new({}, approval_handler=handler, **fields)


class Probe:
    """A tool function that records its calls."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[tuple[int, Any]] = []

    async def __call__(self, run: Any, arguments: Any) -> Any:
        self.calls.append((run.retry, arguments))
        outcome = self.outcomes.pop(0) if self.outcomes else arguments
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def tool(self, **fields: Any) -> Any:
        return Tool(name="probe", function=self, **fields)


async def refused(tool: Any, arguments: Any, run: Any) -> Any:
    with pytest.raises(ToolError) as caught:
        await execute_tool(tool, arguments, run)
    return caught.value


# running


async def test_a_plain_function_runs_in_a_thread_of_its_own() -> None:
    threads = []

    def work(arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return arguments["n"] + 1

    result = await execute_tool(Tool(name="t", function=work, takes_context=False), {"n": 1}, RUN)
    assert result == ToolResult(value=2)
    assert threads != [threading.get_ident()]


async def test_a_result_with_an_update_is_given_as_it_is() -> None:
    result = ToolResult(value=1, update=ContextUpdate().set("a", 1))
    assert await execute_tool(Probe(result).tool(), {}, RUN) is result


async def test_exceptions_are_tried_again() -> None:
    probe = Probe(ValueError("a"), TimeoutError("the tool's own"), "done")
    assert await execute_tool(probe.tool(retries=2), {}, RUN) == ToolResult(value="done")
    assert [retry for retry, _ in probe.calls] == [0, 1, 2]


async def test_the_last_exception_is_told() -> None:
    last = ValueError("b")
    error = await refused(Probe(ValueError("a"), last).tool(), {}, RUN)
    assert (error.code, error.tool_name, error.attempt, error.original) == ("failed", "probe", 2, last)
    assert error.__cause__ is last
    assert str(error) == "tool probe: failed after 2 attempts: b"


async def test_a_returned_failure_is_final() -> None:
    probe = Probe(ToolFailure(reason="no such file"))
    error = await refused(probe.tool(retries=3), {}, RUN)
    assert (error.code, error.original, len(probe.calls)) == ("returned_error", "no such file", 1)


async def test_a_timeout_is_final() -> None:
    async def hang(_run: Any, _arguments: Any) -> None:
        await asyncio.Event().wait()

    error = await refused(Tool(name="t", function=hang, timeout=0.01, retries=3), {}, RUN)
    assert isinstance(error, ToolTimeout)
    assert (error.code, error.attempt, error.timeout) == ("timeout", 1, 0.01)


async def test_a_tool_that_hides_its_timeout_still_timed_out() -> None:
    async def stubborn(_run: Any, _arguments: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("cleanup failed") from None

    error = await refused(Tool(name="t", function=stubborn, timeout=0.01), {}, RUN)
    assert error.code == "timeout"


@pytest.mark.parametrize("error", [ExecutionCancelled("stop"), asyncio.CancelledError()])
async def test_a_cancellation_passes_through(error: Any) -> None:
    probe = Probe(error)
    with pytest.raises(type(error)):
        await execute_tool(probe.tool(retries=3), {}, RUN)
    assert len(probe.calls) == 1


# arguments


@pytest.mark.parametrize("arguments", [{}, {"n": "1"}, "text", None])
async def test_wrong_arguments_never_run_nor_ask(arguments: Any) -> None:
    asked: list[Any] = []
    probe = Probe()
    run = RunContext.new({}, approval_handler=asked.append)
    error = await refused(probe.tool(parameters=SCHEMA, requires_approval=True), arguments, run)
    assert (error.code, error.attempt, probe.calls, asked) == ("invalid_arguments", 0, [], [])


async def test_edited_arguments_are_checked_again() -> None:
    probe = Probe()
    run = gated(Edit(arguments={"n": "x"}))
    error = await refused(probe.tool(parameters=SCHEMA, requires_approval=True), {"n": 1}, run)
    assert (error.code, probe.calls) == ("invalid_arguments", [])


# approval


async def test_the_handler_sees_the_call() -> None:
    asked = []

    async def handler(request: Any) -> Any:
        asked.append(request)
        return Approve()

    tool = Probe().tool(requires_approval=True)
    await execute_tool(tool, {"n": 1}, RunContext.new({}, approval_handler=handler), call_id="c1")
    assert asked == [ApprovalRequest(name="probe", id="c1", arguments={"n": 1}, tool=tool)]


async def test_the_handler_is_asked_once_however_often_the_tool_runs() -> None:
    asked = []

    def handler(request: Any) -> Any:
        asked.append(request.name)
        return {"edit": {"n": 2}}

    probe = Probe(ValueError(), ValueError())
    run = RunContext.new({}, approval_handler=handler)
    result = await execute_tool(probe.tool(retries=2, requires_approval=True), {"n": 1, "m": 1}, run)
    assert (result.value, asked) == ({"n": 2}, ["probe"])


async def test_a_gated_run_is_not_asked() -> None:
    probe = Probe()
    assert await execute_tool(probe.tool(requires_approval=True), {}, RunContext.new({}, approval_gated=True))
    assert await execute_tool(probe.tool(requires_approval=True), {}, gated(Reject(), approval_gated=True))


@pytest.mark.parametrize(
    ("answer", "warns"),
    [(Reject(), False), ("reject", False), ("yes", True), (None, True), ({"edit": 5}, True), (RuntimeError(), True)],
)
async def test_anything_but_a_yes_is_a_no(answer: Any, warns: Any, caplog: Any) -> None:
    probe = Probe()
    error = await refused(probe.tool(requires_approval=True), {}, gated(answer))
    assert (error.code, probe.calls, bool(caplog.records)) == ("approval_rejected", [], warns)


async def test_no_answer_in_time_is_a_no() -> None:
    probe, pubsub = Probe(), MemoryPubSub()
    handler = pubsub_handler(session_id="s", pubsub=pubsub, timeout=0.01)
    error = await refused(probe.tool(requires_approval=True), {}, RunContext.new({}, approval_handler=handler))
    assert (error.code, probe.calls) == ("approval_rejected", [])
    assert [message.type for _, message in pubsub.published] == ["approval_required"]


async def test_handler_that_is_cancelled_runs_nothing() -> None:
    probe = Probe()

    async def handler(_request: Any) -> Any:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await execute_tool(probe.tool(requires_approval=True), {}, RunContext.new({}, approval_handler=handler))
    assert probe.calls == []


async def test_yes_is_to_what_was_asked_whatever_the_handler_does_to_it() -> None:
    def handler(request: Any) -> Any:
        request.arguments["to"].append("eve")
        return Approve()

    probe = Probe()
    run = RunContext.new({}, approval_handler=handler)
    await execute_tool(probe.tool(requires_approval=True), {"to": ["bob"]}, run)
    assert probe.calls == [(0, {"to": ["bob"]})]


async def test_reason_of_a_no_is_told() -> None:
    error = await refused(Probe().tool(requires_approval=True), {}, gated(Reject(reason="too dear")))
    assert (error.code, error.original) == ("approval_rejected", "too dear")


async def test_approved_arguments_are_those_to_run_with() -> None:
    tool = Probe().tool(requires_approval=True)
    assert await approved_arguments(tool, {"n": 1}, gated(Approve())) == {"n": 1}
    assert await approved_arguments(tool, {"n": 1}, gated(Edit(arguments={"n": 2}))) == {"n": 2}
    assert await approved_arguments(Probe().tool(), {"n": 1}, gated(Reject())) == {"n": 1}


async def test_without_a_handler_the_tool_is_refused(caplog: Any) -> None:
    probe = Probe()
    error = await refused(probe.tool(requires_approval=True), {}, RunContext.new({}))
    assert (error.code, probe.calls, len(caplog.records)) == ("approval_required", [], 1)


async def test_a_cancellation_while_asking_passes_through() -> None:
    with pytest.raises(ExecutionCancelled):
        await execute_tool(Probe().tool(requires_approval=True), {}, gated(ExecutionCancelled("stop")))


# check_cancellation


@pytest.mark.parametrize("answer", [None, True, "ok"])
def test_these_answers_let_the_run_go_on(answer: Any) -> None:
    check_cancellation(Context.new(cancellation_check=lambda: answer))
    check_cancellation(Context.new())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("stop", "stop"), (ValueError("x"), "x"), (False, "cancelled"), (ExecutionCancelled("y"), "y")],
)
def test_these_answers_cancel(answer: Any, reason: Any) -> None:
    with pytest.raises(ExecutionCancelled) as caught:
        check_cancellation(Context.new(cancellation_check=lambda: answer))
    assert caught.value.reason == reason


@pytest.mark.parametrize("error", [ExecutionCancelled("x"), KeyError("x")])
def test_what_the_check_raises_passes_through(error: Any) -> None:
    def check() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        check_cancellation(Context.new(cancellation_check=check))
    assert caught.value is error


# secrets


async def test_secrets_of_deps_are_in_no_log_line(caplog: Any) -> None:
    secret = "sk-5d41402abc4b"  # what must not be seen
    caplog.set_level("DEBUG")

    def run(answer: Any) -> Any:
        handler = gated(answer).approval_handler
        return RunContext.new({"db": {"password": secret}}, approval_handler=handler)

    failing = RuntimeError(f"cannot connect with {secret}")
    await execute_tool(Probe(failing).tool(), {}, run(None))
    for answer in (failing, {"garbage": secret}):
        await refused(Probe().tool(requires_approval=True), {}, run(answer))
    assert len(caplog.records) == 3
    assert "cannot connect with [redacted]" in caplog.text
    assert secret not in caplog.text
