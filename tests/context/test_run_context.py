from typing import Any

import pytest

from gateway.context.run_context import RunContext, SandboxPolicy
from gateway.context.usage import Usage


def test_new_has_the_documented_defaults() -> None:
    run = RunContext.new({"a": 1})
    assert run == RunContext(deps={"a": 1}, retry=0, usage=Usage(), approval_gated=False)
    assert run.approval_handler is None
    assert run.sandbox is None


def test_policy_from_name_map_and_policy() -> None:
    policy = SandboxPolicy.new({"mode": "workspace_write", "workspace_root": "/w"})
    assert policy == SandboxPolicy(mode="workspace_write", workspace_root="/w")
    assert SandboxPolicy.new(policy) is policy
    assert SandboxPolicy.new("read_only").mode == "read_only"


@pytest.mark.parametrize("policy", ["open_bar", {}, {"mode": "read_only", "root": "/"}, {"mode": None}])
def test_policy_refuses(policy: Any) -> None:
    with pytest.raises(ValueError):
        SandboxPolicy.new(policy)


def test_resolve_goes_from_argument_to_policy_to_deps_to_default() -> None:
    run = RunContext.new(
        {"workspace_root": "/deps", "session_id": "deps"},
        sandbox=SandboxPolicy(mode="danger_full_access", workspace_root="/run"),
    )
    assert SandboxPolicy.resolve(run, workspace_root="/arg").workspace_root == "/arg"
    assert SandboxPolicy.resolve(run) == SandboxPolicy(
        mode="danger_full_access", workspace_root="/run", session_id="deps"
    )
    assert SandboxPolicy.resolve(RunContext.new(None)) == SandboxPolicy(mode="read_only")
