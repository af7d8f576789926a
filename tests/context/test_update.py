from typing import Any

from gateway.context.context import Context
from gateway.context.run_context import RunContext
from gateway.context.update import ContextUpdate

UPDATE = (
    ContextUpdate()
    .set("a", 1)
    .merge("m", {"x": {"y": 1}})
    .merge("m", {"x": {"z": 2}})
    .append("l", 1)
    .append("l", 2)
    .append("a", 3)
    .delete("gone")
    .delete("never")
)
CHANGED = {"a": [1, 3], "m": {"x": {"y": 1, "z": 2}}, "l": [1, 2], "keep": 0}


def test_changes_apply_in_order_and_leave_the_old() -> None:
    ctx = Context.new(deps={"gone": 1, "keep": 0, "m": 5})
    assert UPDATE.apply(ctx).deps == CHANGED
    assert ctx.deps == {"gone": 1, "keep": 0, "m": 5}


def test_events_are_logged_after_the_changes() -> None:
    ctx = ContextUpdate().log_event("tool_call", {"id": "1"}).set("a", 1).apply(Context.new())
    assert [event.data for event in ctx.log.events()] == [{"id": "1"}]
    assert ctx.deps == {"a": 1}


def test_an_empty_update_changes_nothing() -> None:
    ctx, run = Context.new(), RunContext.new({"a": 1})
    assert ContextUpdate().apply(ctx) is ctx
    assert ContextUpdate().apply_to_run_context(run) is run


def test_a_tools_context_gets_the_changes_and_a_warning_for_events(caplog: Any) -> None:
    run = RunContext.new({"gone": 1, "keep": 0}, retry=2)
    changed = UPDATE.log_event("tool_call", {}).apply_to_run_context(run)
    assert changed == RunContext.new(CHANGED, retry=2)
    assert len(caplog.records) == 1


def test_deps_that_are_none_count_as_empty() -> None:
    assert ContextUpdate().set("a", 1).apply_to_run_context(RunContext.new(None)).deps == {"a": 1}
