"""People's actions: what clients may put on a topic, and the methods of `rpc` (PROTOCOL.md 4.5 and 7)."""

from gateway.actions.actions import Actions, Method
from gateway.actions.caller import Caller
from gateway.actions.fields import MAX_CONTENT

__all__ = ["MAX_CONTENT", "Actions", "Caller", "Method"]
