import re
from typing import Any

import pytest

from gateway.context.hooks import BLOCKING_EVENTS, HOOK_EVENTS, Allow, Deny, Hook, HookRegistry, Modify, run_hooks


def registry(*hooks: Any, event: Any = "pre_tool_use") -> Any:
    made = HookRegistry()
    for handler, fields in hooks:
        made = made.register(Hook(event=event, handler=handler, **fields))
    return made


def giving(result: Any, seen: Any = None) -> Any:
    def handler(_event: Any, payload: Any) -> Any:
        if seen is not None:
            seen.append(payload)
        if isinstance(result, Exception):
            raise result
        return result

    return handler


async def test_equal_priorities_run_as_registered() -> None:
    ran: list[str] = []

    def named(name: str) -> Any:
        def run(_event: Any, _payload: Any) -> Allow:
            ran.append(name)
            return Allow()

        return run

    hooks = [(named(name), {"priority": 1 if name == "c" else 100}) for name in "abc"]
    await registry(*hooks).run("pre_tool_use", {})
    assert ran == ["c", "a", "b"]


async def test_registering_leaves_the_old_registry() -> None:
    empty = HookRegistry()
    assert len(empty.register(Hook(event="pre_request", handler=giving(Allow()))).hooks) == 1
    assert empty.hooks == ()


async def test_later_hooks_see_the_changes_and_all_are_given_back() -> None:
    seen: list[Any] = []
    hooks = registry(
        (giving(Modify(changes={"a": 1, "b": 1})), {}),
        (giving(Modify(changes={"b": 2}), seen), {}),
        (giving(Allow()), {}),
    )
    payload = {"c": 0}
    assert await hooks.run("pre_tool_use", payload) == Modify(changes={"a": 1, "b": 2})
    assert seen == [{"c": 0, "a": 1, "b": 1}]
    assert payload == {"c": 0}


@pytest.mark.parametrize("event", sorted(HOOK_EVENTS))
async def test_only_a_blocking_step_can_be_stopped(event: Any) -> None:
    seen: list[Any] = []
    hooks = registry((giving(Deny(reason="no")), {}), (giving(Allow(), seen), {}), event=event)
    result = await hooks.run(event, {})
    if event in BLOCKING_EVENTS:
        assert (result, seen) == (Deny(reason="no"), [])
    else:
        assert (result, seen) == (Allow(), [{}])


@pytest.mark.parametrize("result", [RuntimeError("x"), None, "deny"])
async def test_a_failing_hook_stops_a_step_only_if_it_says_so(result: Any, caplog: Any) -> None:
    assert await registry((giving(result), {})).run("pre_tool_use", {}) == Allow()
    closed = registry((giving(result), {"fail_closed": True}))
    assert isinstance(await closed.run("pre_tool_use", {}), Deny)
    late = registry((giving(result), {"fail_closed": True}), event="post_tool_use")
    assert await late.run("post_tool_use", {}) == Allow()
    assert len(caplog.records) == 3


async def test_a_failing_matcher_counts_as_a_failing_hook() -> None:
    hooks = registry((giving(Allow()), {"matcher": lambda payload: payload["missing"], "fail_closed": True}))
    assert isinstance(await hooks.run("pre_tool_use", {}), Deny)


async def test_handlers_may_be_coroutine_functions() -> None:
    async def handler(event: Any, _payload: Any) -> Any:
        return Deny(reason=event)

    assert await registry((handler, {})).run("pre_tool_use", {}) == Deny(reason="pre_tool_use")


async def test_hooks_of_other_events_do_not_run() -> None:
    assert await registry((giving(Deny()), {}), event="pre_request").run("pre_tool_use", {}) == Allow()


@pytest.mark.parametrize(
    ("matcher", "payload", "matches"),
    [
        (None, 5, True),
        ("read", {"tool_name": "read"}, True),
        ("read", {"tool_name": "read_file"}, False),
        (re.compile("^read"), {"tool_name": "read_file"}, True),
        (re.compile("^read"), {"tool_name": None}, False),
        (re.compile("^read"), "read", False),
        (lambda payload: payload["n"] > 1, {"n": 2}, True),
        (lambda payload: payload["n"] > 1, {"n": 1}, False),
    ],
)
def test_matches(matcher: Any, payload: Any, matches: Any) -> None:
    assert Hook(event="pre_tool_use", handler=giving(Allow()), matcher=matcher).matches(payload) is matches


def test_a_hook_of_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError):
        Hook(event="pre_tool", handler=giving(Allow()))


async def test_without_a_registry_every_step_goes_on() -> None:
    assert await run_hooks(None, "pre_tool_use", {}) == Allow()
    assert await run_hooks(registry((giving(Deny()), {})), "pre_tool_use", {}) == Deny()
