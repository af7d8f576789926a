"""The exceptions of the context model.

::

    ContextError
    ├── InvalidEventError       an event that the log refuses (code)
    ├── ContextDecodeError      saved data that is no context (code, version)
    ├── ToolError               a tool call without a result (code, tool_name, attempt, original)
    │   └── ToolTimeout
    ├── ExecutionCancelled      the run was asked to stop (reason)
    └── MaxIterationsExceeded
"""

from typing import Literal

from gateway.errors import GatewayError

__all__ = [
    "ContextDecodeError",
    "ContextError",
    "DecodeErrorCode",
    "EventErrorCode",
    "ExecutionCancelled",
    "InvalidEventError",
    "MaxIterationsExceeded",
    "ToolError",
    "ToolErrorCode",
    "ToolTimeout",
]

EventErrorCode = Literal[
    "unknown_event_type",
    "surface_op_on_bookkeeping",
    "invalid_surface_op",
    "unserializable_data",
    "invalid_event",
]
DecodeErrorCode = Literal["missing_version", "unsupported_version", "malformed"]
ToolErrorCode = Literal[
    "failed",
    "returned_error",
    "invalid_arguments",
    "approval_required",
    "approval_rejected",
    "timeout",
]


class ContextError(GatewayError):
    """The root of what goes wrong with a conversation."""


class InvalidEventError(ContextError, ValueError):
    """The log refused an event; nothing was added.

    Attributes:
        code: Which rule it broke.
        detail: What was expected and what came.

    """

    def __init__(self, code: EventErrorCode, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class ContextDecodeError(ContextError, ValueError):
    """Saved data could not be read as a context.

    Attributes:
        code: What kind of fault it is.
        detail: What was expected and what came.
        version: The version that the data claims; None where it claims none that can be read.

    """

    def __init__(self, code: DecodeErrorCode, detail: str, *, version: int | None = None) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.version = version

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class ToolError(ContextError):
    """A tool call ended without a result.

    Attributes:
        code: Why.
        tool_name: The tool.
        attempt: How often it ran; 0 when it was refused before.
        original: The exception or the returned reason; None where there is none.

    """

    def __init__(self, code: ToolErrorCode, *, tool_name: str, attempt: int = 0, original: object = None) -> None:
        super().__init__(code, tool_name)
        self.code = code
        self.tool_name = tool_name
        self.attempt = attempt
        self.original = original

    def __str__(self) -> str:
        tries = f" after {self.attempt} attempts" if self.attempt > 1 else ""
        cause = f": {self.original}" if self.original is not None else ""
        return f"tool {self.tool_name}: {self.code}{tries}{cause}"


class ToolTimeout(ToolError):  # noqa: N818 - the documented name
    """A tool took too long.

    Attributes:
        timeout: What it was allowed, in seconds.

    """

    def __init__(self, *, tool_name: str, attempt: int, timeout: float) -> None:
        super().__init__("timeout", tool_name=tool_name, attempt=attempt)
        self.timeout = timeout

    def __str__(self) -> str:
        return f"tool {self.tool_name}: no result within {self.timeout:g} s"


class ExecutionCancelled(ContextError):  # noqa: N818 - the documented name
    """The run was asked to stop.

    Attributes:
        reason: Why, for people.

    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"cancelled: {self.reason}"


class MaxIterationsExceeded(ContextError):  # noqa: N818 - the documented name
    """The run used up its iterations and the model still wants to go on.

    Attributes:
        max_iterations: The bound that was reached.

    """

    def __init__(self, max_iterations: int) -> None:
        super().__init__(max_iterations)
        self.max_iterations = max_iterations

    def __str__(self) -> str:
        return f"no final answer within {self.max_iterations} iterations"
