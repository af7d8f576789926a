import json
import logging
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.context import Context
from gateway.context.errors import InvalidEventError
from gateway.context.messages import ContentPart, Message, ToolCall
from gateway.context.run_context import RunContext, SandboxPolicy
from gateway.context.usage import Usage

from .strategies import JSON, MESSAGES, TEXT

T0 = datetime(2024, 5, 1, 10, tzinfo=UTC)
EDITS = st.one_of(
    st.tuples(st.just("add"), MESSAGES),
    st.tuples(st.just("replace"), st.tuples(st.integers(0, 6), st.integers(0, 3), MESSAGES)),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("log"), st.none()),
    st.tuples(st.just("patch"), st.none()),
    st.tuples(st.just("overlay"), st.none() | TEXT),
)


def edited(ctx: Any, edit: Any) -> Any:
    verb, value = edit
    match verb:
        case "add":
            return ctx.add_message(value)
        case "replace":
            first, more, message = value
            return ctx.replace_message_range(first, first + more, message)
        case "clear":
            return ctx.clear()
        case "log":
            return ctx.log_event("step_start", {"step": 1})
        case "patch":
            return ctx.patch_dangling_tool_calls()
        case _:
            return ctx.put_system_prompt_overlay(value)


def contents(ctx: Any) -> Any:
    return [message.content for message in ctx.messages]


# laws over any history of edits


@given(st.lists(EDITS, max_size=14))
def test_every_context_stays_what_it_was(edits: Any) -> None:
    history = [Context.new()]
    seen = [(tuple(history[0].messages), history[0].log.events())]
    for edit in edits:
        history.append(edited(history[-1], edit))
        seen.append((tuple(history[-1].messages), history[-1].log.events()))
    for ctx, (messages, events) in zip(history, seen, strict=True):
        assert ctx.messages == messages
        assert ctx.log.events() == events
    for before, after in pairwise(seen):
        assert after[1][: len(before[1])] == before[1]


@given(st.lists(EDITS, max_size=14))
def test_transcript_is_the_list_that_the_edits_make(edits: Any) -> None:
    ctx, model = Context.new(), []
    for edit in edits:
        verb, value = edit
        ctx = edited(ctx, edit)
        shift = len(ctx.messages) - len(ctx.entries)
        if verb == "add":
            model.append(value)
        elif verb == "replace":
            first, more, message = value
            start, stop = first - shift, first + more - shift
            if start >= 0 and stop < len(model):
                stamped = msgspec.structs.replace(message, created_at=model[start].created_at)
                model[start : stop + 1] = [stamped]
        elif verb == "clear":
            model = []
        elif verb == "patch":
            model = [*model, *ctx.entries[len(model) :]]
        assert ctx.entries == model
    again = Context.deserialize(json.loads(json.dumps(ctx.serialize(), allow_nan=False)))
    assert again.entries == ctx.entries
    assert again.log == ctx.log


@given(st.lists(EDITS, max_size=10))
def test_patching_answers_every_visible_call_once(edits: Any) -> None:
    ctx = Context.new()
    for edit in edits:
        ctx = edited(ctx, edit)
    patched = ctx.patch_dangling_tool_calls()
    assert patched.patch_dangling_tool_calls() is patched
    asked = {c.id for m in patched.messages if m.role == "assistant" for c in m.tool_calls or () if c.id is not None}
    answered = {m.tool_call_id for m in patched.messages if m.role == "tool"}
    assert asked <= answered
    assert patched.entries[: len(ctx.entries)] == tuple(ctx.entries)
    assert patched.needs_response == ctx.needs_response


@given(st.lists(MESSAGES, max_size=6))
def test_adding_many_is_adding_one_by_one(messages: Any) -> None:
    at_once = Context.new(id="x").add_messages(messages)
    one_by_one = Context.new(id="x")
    for message in messages:
        one_by_one = one_by_one.add_message(message)
    assert (at_once.log, at_once.needs_response) == (one_by_one.log, one_by_one.needs_response)


@given(st.dictionaries(TEXT, JSON, max_size=3), JSON, JSON, JSON)
def test_readers_survive_any_logged_data(data: Any, content: Any, calls: Any, name: Any) -> None:
    data = {**data, "content": content, "tool_calls": calls, "name": name, "thinking": calls, "tool_call_id": name}
    ctx = Context.new()
    for kind in ("system_message", "user_message", "assistant_message", "tool_result", "custom_message"):
        ctx = msgspec.structs.replace(ctx, log=ctx.log.append(kind, data))
    ctx = ctx.put_system_prompt_overlay("more").patch_dangling_tool_calls()
    blob = json.loads(json.dumps([ctx.to_messages(), ctx.debug_view(), ctx.serialize()], allow_nan=False))
    assert Context.deserialize(blob[2]).entries == ctx.entries
    assert all(isinstance(line, str) for line in [*ctx.format_lines(), repr(ctx)])


# new, equality


def test_new_refuses_unknown_options() -> None:
    with pytest.raises(TypeError):
        Context.new(tool_calls=[])  # type: ignore[call-arg]


def test_contexts_are_equal_by_value() -> None:
    base = Context.new(id="x", messages=[Message.user("a", created_at=T0)])
    read = msgspec.structs.replace(base)
    assert len(read.messages) == 1
    assert base == read
    assert base != base.add_usage(Usage(requests=1))


def test_new_refuses_a_message_that_cannot_be_logged() -> None:
    with pytest.raises(InvalidEventError):
        Context.new(messages=[Message.assistant(tool_calls=[{"arguments": print}])])


# adding


def test_add_message_that_cannot_be_logged_leaves_the_context() -> None:
    ctx = Context.new()
    with pytest.raises(InvalidEventError):
        ctx.add_message(Message.assistant("a", tool_calls=[{"id": "1", "arguments": {"f": print}}]))
    assert len(ctx) == 0


@pytest.mark.parametrize("content", [None, 5, {"type": "text"}])
def test_append_user_and_tool_result_take_text_or_parts(content: Any) -> None:
    with pytest.raises(TypeError):
        Context.new().append_user(content)
    with pytest.raises(TypeError):
        Context.new().append_tool_result("c", "n", content)


def test_append_messages_is_all_or_nothing() -> None:
    ctx = Context.new()
    with pytest.raises(ValueError):
        ctx.append_messages([{"role": "user", "content": "a"}, {"content": "b"}])
    assert len(ctx) == 0


def test_append_messages_reads_its_own_projection() -> None:
    ctx = Context.new(system_prompt="P")
    ctx = ctx.append_user([ContentPart.of_image_url("u")], refs={"a": 1})
    ctx = ctx.append_assistant("b", [ToolCall(id="c", name="n", arguments="{}")], thinking="t")
    ctx = ctx.append_tool_result("c", "n", "r").append_messages([{"role": "developer", "content": "d"}])
    back = Context.new().append_messages(json.loads(json.dumps(ctx.to_messages()))[1:])

    def timeless(entries: Any) -> Any:
        return [msgspec.structs.replace(entry, created_at=None) for entry in entries]

    assert timeless(back.entries) == timeless(ctx.entries)


# replace


@pytest.mark.parametrize(
    ("first", "last", "error"), [(-1, 0, ValueError), (1, 0, ValueError), ("0", 0, TypeError), (0, True, TypeError)]
)
def test_replace_refuses_other_indices(first: Any, last: Any, error: Any) -> None:
    with pytest.raises(error):
        Context.new(messages=[Message.user("a")] * 3).replace_message_range(first, last, Message.user("x"))


def test_replace_of_a_replacement_goes_by_position() -> None:
    ctx = Context.new(messages=[Message.user(str(n), created_at=T0) for n in range(5)])
    ctx = ctx.replace_message_range(1, 3, Message.system("s1")).replace_message_range(1, 2, Message.system("s2"))
    assert contents(ctx) == ["0", "s2"]
    assert ctx.log.events()[-1].surface_op == (1, 4)


def test_replace_leaves_the_rest_of_the_context() -> None:
    ctx = Context.new(messages=[Message.user("a")], needs_response=False)
    assert ctx.replace_message(0, Message.user("b")).needs_response is False


# clear


def test_clear_hides_everything_and_the_log_goes_on(caplog: Any) -> None:
    ctx = Context.new(messages=[Message.user("a"), Message.user("b")])
    ctx = ctx.replace_message(1, Message.user("c")).clear()
    assert ctx.is_empty()
    assert ctx.clear() is ctx
    assert contents(ctx.append_user("d")) == ["d"]
    assert [event.type for event in ctx.log.events()][-1] == "cleared"
    assert not caplog.records


# log_event


@pytest.mark.parametrize(("kind", "data"), [(5, {}), ([], {}), ("turn_start", None), ("turn_start", {"surface_op": 1})])
def test_log_event_never_raises(kind: Any, data: Any, caplog: Any) -> None:
    ctx = Context.new()
    assert ctx.log_event(kind, data) is ctx
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


# the overlay


def test_overlay_extends_parts_by_a_part() -> None:
    ctx = Context.new(messages=[Message.system([ContentPart.of_text("a")])]).put_system_prompt_overlay("b")
    assert contents(ctx) == [(ContentPart.of_text("a"), ContentPart.of_text("\n\nb"))]


def test_overlay_on_an_empty_transcript_has_the_time_of_the_start() -> None:
    ctx = Context.new().put_system_prompt_overlay("b")
    assert ctx.messages[0].created_at == ctx.started_at
    assert ctx.messages == ctx.messages
    assert msgspec.structs.replace(ctx, started_at=None).messages[0].created_at == datetime(1970, 1, 1, tzinfo=UTC)


def test_overlay_is_cleared_by_empty_text() -> None:
    assert Context.new().put_system_prompt_overlay("").system_prompt_overlay is None


# the rest


def test_add_tool_call_takes_maps_and_copies_them() -> None:
    call = {"id": "1"}
    ctx = Context.new().add_tool_call(call).add_tool_call(ToolCall(id="2"))
    call["id"] = "changed"
    assert ctx.tool_calls == ({"id": "1"}, ToolCall(id="2"))
    with pytest.raises(TypeError):
        ctx.add_tool_call("call")  # type: ignore[arg-type]


def test_add_usage_takes_usage_and_maps() -> None:
    with pytest.raises(TypeError):
        Context.new().add_usage(5)  # type: ignore[arg-type]


def test_merge_deps_is_shallow_and_leaves_the_old() -> None:
    ctx = Context.new(deps={"a": {"x": 1}, "b": 2})
    merged = ctx.merge_deps({"a": {"y": 2}})
    assert merged.deps == {"a": {"y": 2}, "b": 2}
    assert ctx.deps == {"a": {"x": 1}, "b": 2}


def test_set_needs_response_takes_bools_only() -> None:
    with pytest.raises(TypeError):
        Context.new().set_needs_response(1)  # type: ignore[arg-type]


def test_max_iterations_of_zero_is_reached_at_once() -> None:
    assert Context.new(max_iterations=0).max_iterations_reached()


def test_run_context_there_and_back() -> None:
    handler = str
    ctx = Context.new(deps={"a": 1}, usage=Usage(requests=2), approval_handler=handler)
    sandbox = SandboxPolicy.new("read_only")
    run = ctx.to_run_context(sandbox=sandbox, approval_gated=False)
    assert run == RunContext(
        deps={"a": 1}, usage=Usage(requests=2), approval_handler=handler, approval_gated=False, sandbox=sandbox
    )
    back = Context.from_run_context(run, deps={"b": 2}, usage=Usage(), agent_name="x")
    assert (back.deps, back.usage, back.agent_name) == ({"a": 1}, Usage(requests=2), "x")
    assert back.approval_handler is None


def test_pp_prints(capsys: Any) -> None:
    Context.new(messages=[Message.user("hello")]).pp()
    assert capsys.readouterr().out == "[user]   hello\n"


def test_repr_names_the_last_roles() -> None:
    ctx = Context.new(id="x", messages=[Message.user("a"), Message.assistant("b")])
    assert repr(ctx) == "<Context x of 2 messages, last user, assistant>"
    assert repr(Context.new(id="x")) == "<Context x of 0 messages>"
