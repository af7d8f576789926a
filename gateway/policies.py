"""What a worker does about a message that comes while the run before it still goes on."""

from typing import Literal, get_args

from gateway.run import Run
from gateway.waiting import SUPERSEDED

__all__ = ["POLICIES", "Policy", "follow"]

Policy = Literal["queue", "steer", "interrupt", "reject", "latest"]
"""``queue``: it waits for its turn. ``steer``: the running agent is given it at its next step. ``interrupt``: the run
is stopped, and it is answered next. ``reject``: it is withdrawn. ``latest``: the older ones that wait are withdrawn."""

POLICIES: tuple[Policy, ...] = get_args(Policy)

_REJECTED = "the agent is busy; it takes no messages while it runs"


async def follow(run: Run, policy: Policy) -> None:
    """Follow a policy for as long as a run goes on; returns once nothing more is to be done, or is cancelled.

    Args:
        run: The run, which has begun.
        policy: Which.

    """
    if policy == "steer":
        run.inbox.steers = True
    if policy in {"queue", "steer"}:
        return
    while True:
        await run.inbox.arrival()
        match policy:
            case "interrupt":
                arrived = run.inbox.arrived
                if arrived:
                    by = arrived[0].by
                    run.stop(f"interrupted by a message of {by}" if isinstance(by, str) and by else "interrupted")
                    return
            case "reject":
                for message in run.inbox.arrived:
                    await run.inbox.withdraw(message, reason=_REJECTED)
            case "latest":
                for message in run.inbox.waiting[:-1]:
                    await run.inbox.withdraw(message, reason=SUPERSEDED)
