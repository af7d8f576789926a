"""What a tool sees of the run that calls it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.context.jsonlike import Live, brief
from gateway.context.usage import Usage

if TYPE_CHECKING:  # only a name: approval waits, and this module must not load what waits
    from gateway.context.approval import ApprovalHandler

__all__ = ["SANDBOX_MODES", "RunContext", "SandboxPolicy"]

SANDBOX_MODES = ("read_only", "workspace_write", "danger_full_access")
_DEFAULT_MODE = "read_only"


class RunContext(Live, msgspec.Struct, frozen=True, kw_only=True):
    """Plain data for tools; make one directly to call a tool outside a run.

    Attributes:
        deps: Whatever the tools need.
        retry: How often this call has run already.
        usage: Model requests and tokens so far.
        approval_handler: Asked before a tool that requires approval; without one such a tool is refused.
        approval_gated: Whether the caller has asked already.
        sandbox: The session's policy; None leaves it to deps and the default.

    """

    deps: Any
    retry: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)
    approval_handler: "ApprovalHandler | None" = None
    approval_gated: bool = False
    sandbox: "SandboxPolicy | None" = None

    @classmethod
    def new(
        cls,
        deps: Any,
        *,
        retry: int = 0,
        usage: Usage | None = None,
        approval_handler: "ApprovalHandler | None" = None,
        approval_gated: bool = False,
        sandbox: "SandboxPolicy | None" = None,
    ) -> "RunContext":
        """Make one; None as usage is zero."""
        return cls(
            deps=deps,
            retry=retry,
            usage=Usage() if usage is None else usage,
            approval_handler=approval_handler,
            approval_gated=approval_gated,
            sandbox=sandbox,
        )

    def __repr__(self) -> str:
        # Not with its deps: whoever shows it, in a message or a log line, would show their secrets.
        return f"<RunContext at retry {self.retry}>"


class SandboxPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How far a tool that starts processes may go; carried for it, enforced by it.

    Attributes:
        mode: One of `SANDBOX_MODES`.
        workspace_root: The directory that may be written.
        session_id: Whose session it is.

    """

    mode: str
    workspace_root: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in SANDBOX_MODES:
            raise ValueError(f"expected a sandbox mode of {', '.join(SANDBOX_MODES)}, got {brief(self.mode)}")

    @classmethod
    def new(cls, policy: "str | Mapping[str, Any] | SandboxPolicy") -> "SandboxPolicy":
        """Make one from a mode's name or a map of its fields.

        Raises:
            ValueError: The mode is none of `SANDBOX_MODES`, or the map has another key.

        """
        if isinstance(policy, SandboxPolicy):
            return policy
        if not isinstance(policy, Mapping):
            return cls(mode=policy)
        unknown = policy.keys() - set(cls.__struct_fields__)
        if unknown or "mode" not in policy:
            raise ValueError(f"expected mode, workspace_root, session_id, got {sorted(map(str, policy))}")
        return cls(**policy)

    @classmethod
    def resolve(
        cls,
        run: RunContext,
        *,
        mode: str | None = None,
        workspace_root: str | None = None,
        session_id: str | None = None,
    ) -> "SandboxPolicy":
        """Decide what holds for a call: for each field the argument, then the run's policy, then deps.

        Args:
            run: The tool's context; its deps may name ``workspace_root`` and ``session_id``.
            mode: None leaves it to the run's policy, then ``read_only``.
            workspace_root: None leaves it to the run.
            session_id: None leaves it to the run.

        """
        policy = run.sandbox
        deps = run.deps if isinstance(run.deps, Mapping) else {}
        return cls(
            mode=mode or (policy.mode if policy else _DEFAULT_MODE),
            workspace_root=workspace_root or (policy and policy.workspace_root) or deps.get("workspace_root"),
            session_id=session_id or (policy and policy.session_id) or deps.get("session_id"),
        )
