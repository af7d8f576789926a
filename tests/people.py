"""What people do to a run, as a gateway writes it (STORE.md 7), for the tests of runs and workers."""

import itertools
from typing import Any

import msgspec

from gateway.actions import Actions, Caller
from gateway.broker.port import Broker
from gateway.grants import EVERYTHING

__all__ = ["act", "cancel", "decide"]

_IDS = itertools.count(1)


async def act(broker: Broker, method: str, *, by: str = "ann", **data: Any) -> dict[str, Any]:
    """Do what a client's `rpc` does; gives the answer."""
    body = {"id": f"a{next(_IDS)}", **data}
    return await Actions(broker).rpc(
        Caller(client=f"c-{by}", identity=msgspec.structs.replace(EVERYTHING, user=by)),
        method,
        msgspec.Raw(msgspec.json.encode(body)),
    )


async def cancel(broker: Broker, topic: str, run: str, *, mode: str = "now", by: str = "ann") -> dict[str, Any]:
    """Ask a run to stop."""
    return await act(broker, "cancel", by=by, topic=topic, run=run, mode=mode)


async def decide(broker: Broker, topic: str, run: str, call: str, decision: str, **more: Any) -> dict[str, Any]:
    """Decide about a tool call."""
    return await act(broker, "decide", topic=topic, run=run, tool_call_id=call, decision=decision, **more)
