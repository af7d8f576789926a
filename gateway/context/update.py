"""What a tool wants changed in the conversation that called it."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.context.context import Context
from gateway.context.run_context import RunContext

__all__ = ["ContextUpdate"]

_logger = logging.getLogger(__package__)


class ContextUpdate(msgspec.Struct, frozen=True):
    """A list of changes to deps, and events to log after them; a value: each method gives a longer one."""

    changes: tuple[tuple[str, str, Any], ...] = ()
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    def set(self, key: str, value: Any) -> "ContextUpdate":
        """Set a dependency."""
        return self._changed("set", key, value)

    def merge(self, key: str, mapping: Mapping[str, Any]) -> "ContextUpdate":
        """Merge a map into a dependency, maps inside it too; a dependency that is no map is replaced."""
        return self._changed("merge", key, mapping)

    def append(self, key: str, value: Any) -> "ContextUpdate":
        """Add to the end of a list; a missing one is begun, a single value becomes the first."""
        return self._changed("append", key, value)

    def delete(self, key: str) -> "ContextUpdate":
        """Take a dependency away, if it is there."""
        return self._changed("delete", key, None)

    def log_event(self, type: str, data: Mapping[str, Any]) -> "ContextUpdate":
        """Log a bookkeeping event, after all changes to deps."""
        return msgspec.structs.replace(self, events=(*self.events, (type, data)))

    def apply(self, ctx: Context) -> Context:
        """Give the changed context."""
        if self.changes:
            ctx = msgspec.structs.replace(ctx, deps=self._applied(ctx.deps))
        for kind, data in self.events:
            ctx = ctx.log_event(kind, data)
        return ctx

    def apply_to_run_context(self, run: RunContext) -> RunContext:
        """Give the changed context of a tool; it has no log, so events are dropped with a warning."""
        if self.events:
            _logger.warning("%d events of a tool are dropped: its context has no log", len(self.events))
        return msgspec.structs.replace(run, deps=self._applied(run.deps)) if self.changes else run

    def _changed(self, verb: str, key: str, value: Any) -> "ContextUpdate":
        return msgspec.structs.replace(self, changes=(*self.changes, (verb, key, value)))

    def _applied(self, deps: Any) -> dict[str, Any]:
        changed = dict(deps or {})
        for verb, key, value in self.changes:
            match verb:
                case "set":
                    changed[key] = value
                case "merge":
                    changed[key] = _merged(changed.get(key), value)
                case "append":
                    changed[key] = [*_listed(changed.get(key)), value]
                case _:
                    changed.pop(key, None)
        return changed


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
