import pickle
from typing import Any

import pytest

from gateway.context.errors import (
    ContextDecodeError,
    ContextError,
    ExecutionCancelled,
    InvalidEventError,
    MaxIterationsExceeded,
    ToolError,
    ToolTimeout,
)
from gateway.errors import GatewayError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InvalidEventError("invalid_event", "expected a map"), "invalid_event: expected a map"),
        (ContextDecodeError("malformed", "expected a map", version=2), "malformed: expected a map"),
        (ToolError("approval_rejected", tool_name="t"), "tool t: approval_rejected"),
        (ToolTimeout(tool_name="t", attempt=1, timeout=0.5), "tool t: no result within 0.5 s"),
        (ExecutionCancelled("stop"), "cancelled: stop"),
        (MaxIterationsExceeded(3), "no final answer within 3 iterations"),
    ],
)
def test_errors_have_one_root_and_a_sentence(error: Any, text: Any) -> None:
    assert isinstance(error, ContextError)
    assert isinstance(error, GatewayError)
    assert str(error) == text


@pytest.mark.parametrize("kind", [InvalidEventError, ContextDecodeError])
def test_refusals_are_value_errors(kind: Any) -> None:
    assert issubclass(kind, ValueError)


def test_a_timeout_is_a_tool_error() -> None:
    error = ToolTimeout(tool_name="t", attempt=1, timeout=0.5)
    assert isinstance(error, ToolError)
    assert error.code == "timeout"


def test_errors_with_one_fact_survive_another_process() -> None:
    assert pickle.loads(pickle.dumps(ExecutionCancelled("stop"))).reason == "stop"  # noqa: S301 - our own bytes
