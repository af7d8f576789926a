"""The examples in the docstrings of the documents that the context model unites, one test each, in their order."""

import asyncio
from typing import Any

import pytest

from gateway.context import (
    Context,
    Message,
    Notification,
    Reject,
    RunContext,
    SandboxPolicy,
    Tool,
    Usage,
    emit,
    execute_tool,
)

# Nous.Agent.Context


def test_agent_context_moduledoc() -> None:
    ctx = Context.new(system_prompt="You are helpful", deps={"database": "MyDB"}, max_iterations=15)
    ctx = ctx.add_message(Message.user("Hello")).add_message(Message.assistant("Hi there!"))
    assert [message.content for message in ctx.messages] == ["Hello", "Hi there!"]
    assert (ctx.system_prompt, ctx.deps, ctx.max_iterations) == ("You are helpful", {"database": "MyDB"}, 15)
    assert ctx.needs_response is False
    assert ctx.add_message(Message.user("And?")).needs_response is True


async def test_agent_context_moduledoc_callbacks() -> None:
    told: list[Any] = []
    ctx = Context.new(
        callbacks={
            "on_llm_new_delta": lambda _event, delta: told.append(delta),
            "on_tool_call": lambda _event, call: told.append(call),
        }
    )
    await emit(ctx, "on_llm_new_delta", "Hel")
    await emit(ctx, "on_tool_call", {"id": "call_1"})
    assert told == ["Hel", {"id": "call_1"}]


async def test_agent_context_moduledoc_process_notification() -> None:
    inbox: asyncio.Queue[Notification] = asyncio.Queue()
    ctx = Context.new(notify=inbox.put_nowait)
    await emit(ctx, "on_llm_new_delta", "text")
    await emit(ctx, "on_tool_call", {"id": "call_1"})
    assert inbox.get_nowait() == Notification(type="agent_delta", payload="text")
    assert inbox.get_nowait() == Notification(type="tool_call", payload={"id": "call_1"})


def test_add_message() -> None:
    ctx = Context.new()
    ctx = ctx.add_message(Message.user("Hello"))
    assert len(ctx.messages) == 1


def test_add_messages() -> None:
    ctx = Context.new()
    ctx = ctx.add_messages([Message.user("Hi"), Message.assistant("Hello")])
    assert len(ctx.messages) == 2


def test_add_tool_call() -> None:
    ctx = Context.new()
    ctx = ctx.add_tool_call({"id": "call_123", "name": "search", "arguments": {"q": "test"}})
    assert len(ctx.tool_calls) == 1


def test_add_usage() -> None:
    ctx = Context.new()
    ctx = ctx.add_usage(Usage(input_tokens=100, output_tokens=50))
    assert ctx.usage.input_tokens == 100


def test_assistant_messages() -> None:
    ctx = Context.new().add_message(Message.user("Hi")).add_message(Message.assistant("Hello"))
    assert len(ctx.assistant_messages()) == 1


def test_deserialize() -> None:
    ctx = Context.new(system_prompt="Be helpful")
    restored = Context.deserialize(ctx.serialize())
    assert restored.system_prompt == "Be helpful"


def test_from_run_context() -> None:
    ctx = Context.from_run_context(RunContext.new({"key": "value"}))
    assert ctx.deps["key"] == "value"


def test_increment_iteration() -> None:
    assert Context.new().increment_iteration().iteration == 1


def test_last_message() -> None:
    ctx = Context.new().add_message(Message.user("Hello"))
    last = ctx.last_message()
    assert last is not None
    assert last.content == "Hello"


def test_last_message_of_none() -> None:
    assert Context.new().last_message() is None


def test_log_event() -> None:
    ctx = Context.new().log_event("turn_start", {"turn": 1})
    assert list(ctx.messages) == []
    (event,) = ctx.log.events()
    assert (event.type, event.data["turn"]) == ("turn_start", 1)


@pytest.mark.parametrize(("iteration", "reached"), [(5, True), (3, False)])
def test_max_iterations_reached(iteration: int, reached: object) -> None:
    assert Context.new(max_iterations=5, iteration=iteration).max_iterations_reached() is reached


def test_merge_deps() -> None:
    ctx = Context.new(deps={"count": 0}).merge_deps({"count": 1, "new_key": "value"})
    assert ctx.deps["count"] == 1
    assert ctx.deps["new_key"] == "value"


def test_new() -> None:
    assert Context.new(system_prompt="Be helpful", max_iterations=5).max_iterations == 5


def test_new_with_deps() -> None:
    assert Context.new(deps={"user_id": 123}).deps["user_id"] == 123


def test_patch_dangling_tool_calls() -> None:
    # The documented call is a map; here it is made a ToolCall on entry.
    raw: Any = [{"id": "call_1", "name": "search"}]
    ctx = Context.new(messages=[Message.assistant("Let me search", tool_calls=raw)])
    ctx = ctx.patch_dangling_tool_calls()
    assert len(ctx.messages) == 2


def test_serialize() -> None:
    data = Context.new(system_prompt="Be helpful", max_iterations=5).serialize()
    assert data["version"] == 2
    assert data["system_prompt"] == "Be helpful"


def test_set_needs_response() -> None:
    ctx = Context.new().set_needs_response(False)
    assert ctx.needs_response is False


def test_to_run_context() -> None:
    assert Context.new(deps={"db": "postgres"}).to_run_context().deps["db"] == "postgres"


def test_to_run_context_with_a_sandbox() -> None:
    run = Context.new(deps={}).to_run_context(sandbox=SandboxPolicy.new("read_only"))
    assert run.sandbox is not None
    assert run.sandbox.mode == "read_only"


# Nous.RunContext


async def test_run_context_with_a_tool() -> None:
    rows = {"users": ["ann", "bob"]}

    def search_database(run: RunContext, arguments: Any) -> str:
        return ", ".join(run.deps["database"][arguments["query"]])

    tool = Tool(name="search_database", function=search_database)
    result = await execute_tool(tool, {"query": "users"}, Context.new(deps={"database": rows}).to_run_context())
    assert result.value == "ann, bob"


def test_run_context_is_plain_data() -> None:
    run = RunContext.new({"database": "MyApp.Database", "api_key": "secret"})
    assert run.deps["api_key"] == "secret"
    assert (run.retry, run.approval_gated, run.usage.total_tokens) == (0, False, 0)


def test_run_context_new() -> None:
    run = RunContext.new({"database": "MyApp.Database", "api_key": "secret"})
    assert run.deps["database"] == "MyApp.Database"


def test_run_context_new_with_a_handler() -> None:
    def handler(request: Any) -> Any:
        return "reject" if request["name"] == "delete_all" else "approve"

    run = RunContext.new({}, retry=2, approval_handler=handler)
    assert run.approval_handler is not None
    asked: Any = {"name": "delete_all"}
    assert (run.retry, run.approval_handler(asked), run.approval_gated) == (2, "reject", False)


async def test_run_context_handler_is_consulted() -> None:
    """What its second sentence says: the executor asks before a tool that requires approval."""
    asked: list[str] = []

    def handler(request: Any) -> Any:
        asked.append(request.name)
        return Reject() if request.name == "delete_all" else "approve"

    tool = Tool(name="list_all", function=lambda _: 3, takes_context=False, requires_approval=True)
    result = await execute_tool(tool, {}, RunContext.new({}, approval_handler=handler))
    assert (asked, result.value) == (["list_all"], 3)


# Jido.AI.Context


def test_thread_usage() -> None:
    context = Context.new(system_prompt="You are helpful.")
    context = context.append_user("Hello!").append_assistant("Hi there!")
    assert context.to_messages() == [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Hi there!"},
    ]


def weather() -> Context:
    ctx = Context.new(id="abc123", system_prompt="You are a weather assistant...")
    ctx = ctx.append_user("What's the weather in Seattle?")
    ctx = ctx.append_assistant(None, [{"id": "c1", "name": "get_weather", "arguments": {"city": "Seattle"}}])
    ctx = ctx.append_tool_result("c1", "get_weather", '{"temp": 62, "conditions": "cloudy"}')
    return ctx.append_assistant("The weather is 62°F and cloudy.")


def test_thread_debug_view() -> None:
    view = weather().debug_view(last=2, truncate=20)
    assert view == {
        "id": "abc123",
        "length": 4,
        "system_prompt": "You are a weather as...",
        "entries": [
            {
                "role": "tool",
                "content": '{"temp": 62, "condit...',
                "name": "get_weather",
                "tool_call_id": "c1",
            },
            {"role": "assistant", "content": "The weather is 62°F ..."},
        ],
    }


def test_thread_pp(capsys: pytest.CaptureFixture[str]) -> None:
    weather().pp()
    assert capsys.readouterr().out.splitlines() == [
        "[system] You are a weather assistant...",
        "[user]   What's the weather in Seattle?",
        "[asst]   <tool: get_weather>",
        '[tool]   get_weather: {"temp": 62, "conditions": "cloudy"}',
        "[asst]   The weather is 62°F and cloudy.",
    ]
