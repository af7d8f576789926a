"""Any interleaving of adds, replaces and clears is what the same edits of a plain list are; nothing is destroyed."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.context import Context, ContextDecodeError, Message

from .strategies import JSON

STEPS = st.one_of(
    st.tuples(st.just("add")),
    st.tuples(st.just("add")),
    st.tuples(st.just("replace"), st.integers(0, 6), st.integers(0, 4)),
    st.tuples(st.just("replace"), st.integers(0, 6), st.integers(0, 4)),
    st.tuples(st.just("overlay"), st.sampled_from(["", "o"])),
    st.tuples(st.just("book")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("save")),
)


def shown(ctx: Context) -> list[Any]:
    return [message.content for message in ctx.messages]


@given(st.lists(STEPS, max_size=25))
def test_transcript_is_that_of_a_list_and_the_log_keeps_all(steps: list[tuple[Any, ...]]) -> None:
    ctx, overlay = Context.new(), ""
    plain: list[str] = []
    said: list[str] = []
    earlier: list[tuple[Context, list[Any]]] = []
    for number, step in enumerate(steps):
        text = f"m{number}"
        match step:
            case ("add",):
                ctx = ctx.add_message(Message.user(text))
                plain = [*plain, text]
                said.append(text)
            case ("replace", first, more):
                last = first + more
                invented = 1 if overlay else 0  # users alone: the overlay leads as a message of its own
                inside = invented <= first and last - invented < len(plain)
                after = ctx.replace_message_range(first, last, Message.user(text))
                assert (after is not ctx) == inside
                ctx = after
                if inside:
                    plain = [*plain[: first - invented], text, *plain[last - invented + 1 :]]
                    said.append(text)
            case ("overlay", overlay):
                ctx = ctx.put_system_prompt_overlay(overlay)
            case ("book",):
                ctx = ctx.log_event("step_start", {})
            case ("clear",):
                ctx = ctx.clear()
                plain = []
            case ("save",):
                ctx = Context.deserialize(json.loads(json.dumps(ctx.serialize()))).put_system_prompt_overlay(overlay)
        assert shown(ctx) == ([overlay] if overlay else []) + plain
        assert [event.data["content"] for event in ctx.log.events() if "content" in event.data] == said
        times = [message.created_at for message in ctx.entries if message.created_at is not None]
        assert len(times) == len(plain)
        assert all(one <= other for one, other in pairwise(times))
        earlier.append((ctx, shown(ctx)))
    # Every value is still what it was, whatever grew from it.
    assert all(shown(old) == then for old, then in earlier)


def lived() -> list[dict[str, Any]]:
    """Give blobs of both versions that a program might have saved."""
    ctx = Context.new(system_prompt="p", deps={"a": {"b": [1]}}, agent_name="n").log_event("turn_start", {"turn": 1})
    calls: Any = [{"id": "c1", "name": "t", "arguments": {"q": 1}}]
    ctx = ctx.add_messages([Message.user("a"), Message.assistant("", tool_calls=calls), Message.tool("c1", "r")])
    ctx = ctx.replace_message_range(0, 1, Message.system("s")).add_tool_call({"id": "c1"}).add_usage({"requests": 1})
    new = ctx.serialize()
    old = {name: value for name, value in new.items() if name not in {"events", "next_seq", "id"}} | {"version": 1}
    return [new, old]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def changed(blob: Any, path: tuple[Any, ...], value: Any, *, gone: bool) -> Any:
    if not path:
        return value
    copy = dict(blob) if isinstance(blob, dict) else list(blob)
    if gone and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], value, gone=gone)
    return copy


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_saved_blob_with_parts_changed_is_a_context_or_the_one_error(data: st.DataObject) -> None:
    blob: Any = data.draw(st.sampled_from(lived()))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(blob)))
        blob = changed(blob, path, data.draw(JSON), gone=data.draw(st.booleans()))
    try:
        ctx = Context.deserialize(blob)
    except ContextDecodeError:
        return
    again = Context.deserialize(json.loads(json.dumps(ctx.serialize(), allow_nan=False)))
    assert (again.entries, again.log, again.usage) == (ctx.entries, ctx.log, ctx.usage)
    # What was read can be used.
    assert len(ctx.patch_dangling_tool_calls().to_messages()) >= len(ctx)
    ctx.format_lines()
    ctx.append_user("x").debug_view()
