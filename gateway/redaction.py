"""What is taken out of what a role reads: types of events and fields (PROTOCOL.md 3.10) — pure."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from gateway.event_types import DELTA_TYPES, END_TYPES, LOG_FIELDS
from gateway.fields import mapping
from gateway.lens import GROUPS, types_of
from gateway.types import TYPE_PATTERN

__all__ = ["MASKED", "MASKS", "MAX_RULES", "Redaction", "masked_blobs"]

MASKED = "[redacted]"
"""Stands where a text was; another value becomes null."""

MAX_RULES = 100
"""Names in one list of a redaction."""

_ARGUMENTS = frozenset(
    {
        "approval_decided.arguments",
        "approval_required.arguments",
        "assistant_message.tool_calls.arguments",
        "assistant_message.tool_calls.function.arguments",
        "context.tool_calls.items.arguments",
        "notification.payload",
        "tool_call.arguments",
        "tool_call_delta.text",
    }
)

MASKS: Mapping[str, frozenset[str]] = {
    "arguments": _ARGUMENTS,
    "results": frozenset(
        {
            "context.tool_calls.items.result",
            "notification.payload",
            "progress.text",
            "tool_result.content",
        }
    ),
    "thinking": frozenset(
        {
            "agent_thinking.text",
            "assistant_message.reasoning_details",
            "assistant_message.thinking",
            "notification.payload",
        }
    ),
}
"""Names that stand for several fields."""

_TOLD_ELSEWHERE: Mapping[str, str] = {"agent_thinking": "thinking", "tool_call": "arguments", "tool_result": "results"}
"""Types whose content other types tell too, and what masks it there: who drops them does not mean to show it."""

_STRUCTURE = (LOG_FIELDS - {"time"}) | {"call", "decision", "id", "index", "surface_op", "tool_call_id"}
"""Fields by which events belong together: masked, the mirror would fall apart."""

_Paths = Mapping[str, Any]
"""Field -> True where it is masked, else what is masked below it."""


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """Rules; two that are equal make equal views.

    Attributes:
        drop: Types of events that are not shown, nor what they say in a snapshot; of a call, its result and thinking
            neither what other types say of them.
        mask: ``<type>.<field>[.<field>…]``: what is masked; a path goes into every item of a list.

    """

    drop: frozenset[str] = frozenset()
    mask: frozenset[str] = frozenset()

    @classmethod
    def read(cls, value: object) -> "Redaction | None":
        """Read ``{"drop": [type or group, …], "mask": [field path, "arguments", "results" or "thinking", …]}``.

        Args:
            value: What a token or a settings file says; None, and rules that take nothing out, give None.

        Raises:
            ValueError: It has another form.

        """
        if value is None:
            return None
        fields = mapping(value)
        if fields is None or fields.keys() - {"drop", "mask"}:
            raise ValueError(f'expected a redaction to be {{"drop": […], "mask": […]}}, got {value!r:.80}')
        drop = _names(fields.get("drop"), "drop")
        mask: set[str] = set()
        for name in _names(fields.get("mask"), "mask"):
            mask |= MASKS.get(name) or {_path(name)}
        for name in drop:
            if not TYPE_PATTERN.match(name):
                raise ValueError(f"expected drop to name types of events or {', '.join(sorted(GROUPS))}, got {name!r}")
        redaction = cls(drop=types_of(drop), mask=frozenset(mask))
        return None if redaction == cls() else redaction

    def redact_event(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """Give an event as it may be shown; None where it may not."""
        kind = event.get("type")
        if not isinstance(kind, str):
            return dict(event)
        if kind in self.drop:
            return None
        shown = self.masked(kind, event)
        if kind in DELTA_TYPES and self.masks(kind, "text"):
            if kind != "tool_call_delta" or not (shown.get("id") or shown.get("name")):
                return None
            shown.pop("text", None)
        return shown

    def redact(self, kind: str, data: bytes) -> bytes | None:
        """Give an encoded event as it may be shown; None where it may not. Most pass through as they are."""
        if kind in self.drop:
            return None
        if kind not in self._plan:
            return data
        shown = self.redact_event(_decode(data))
        return None if shown is None else _encode(shown)

    def redact_entry(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """Give an entry of the session log as it may be shown, in a snapshot or out of the archive; None where not."""
        kind = entry["type"]
        if kind in self.drop:
            return None
        paths = self._plan.get(kind)
        if paths is None:
            return dict(entry)
        shown = {**entry, "data": _mask(entry["data"], paths)}
        if "blobs" in entry:
            shown["blobs"] = masked_blobs(entry["blobs"], paths)
        return shown

    def masked(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Give the fields of an event of a type with those masked that are to be."""
        paths = self._plan.get(kind)
        return dict(fields) if paths is None else _mask(fields, paths)

    def masks(self, kind: str, field: str) -> bool:
        """Tell whether a whole field of a type is masked."""
        paths = self._plan.get(kind)
        return paths is not None and paths.get(field) is True

    @property
    def _plan(self) -> Mapping[str, _Paths]:
        return _planned(self)


@lru_cache(maxsize=1024)
def _planned(redaction: Redaction) -> dict[str, dict[str, Any]]:
    """Arrange the paths of a redaction by type."""
    plan: dict[str, dict[str, Any]] = {}
    implied = [MASKS[mask] for kind, mask in _TOLD_ELSEWHERE.items() if kind in redaction.drop]
    for path in redaction.mask.union(*implied):
        kind, *fields, last = path.split(".")
        below = plan.setdefault(kind, {})
        for field in fields:
            found = below.setdefault(field, {})
            if found is True:
                break
            below = found
        else:
            below[last] = True
    if "usage" in redaction.drop:
        for kind in END_TYPES:
            plan.setdefault(kind, {})["usage"] = True
    return plan


def masked_blobs(blobs: Any, paths: _Paths) -> dict[str, Any]:
    """Leave out the references to large values that lie in what is masked."""
    if not isinstance(blobs, Mapping):
        return {}
    return {pointer: blob for pointer, blob in blobs.items() if not _covers(paths, pointer)}


def _covers(paths: _Paths, pointer: str) -> bool:
    below: Any = paths
    for part in pointer.split("/")[1:]:
        if part.isdecimal():
            continue  # a path goes into every item of a list
        below = below.get(part.replace("~1", "/").replace("~0", "~"))
        if below is None:
            return False
        if below is True:
            return True
    return True


def _mask(value: Mapping[str, Any], paths: _Paths) -> dict[str, Any]:
    shown = {key: _below(item, paths[key]) if key in paths else item for key, item in value.items()}
    if isinstance(value.get("blobs"), Mapping):
        shown["blobs"] = masked_blobs(value["blobs"], paths)
    return shown


def _below(value: Any, paths: Any) -> Any:
    if paths is not True:
        if isinstance(value, Mapping):
            return _mask(value, paths)
        if isinstance(value, (list, tuple)):
            return [_below(item, paths) for item in value]
    # What has not the form that the path expects may hold just that.
    return MASKED if isinstance(value, str) else None


def _names(value: Any, field: str) -> list[str]:
    if value is None:
        return []
    names = list(value) if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)) else None
    if names is None or len(names) > MAX_RULES or not all(isinstance(name, str) for name in names):
        raise ValueError(f"expected {field} to be a list of at most {MAX_RULES} names, got {value!r:.80}")
    return names


def _path(name: str) -> str:
    kind, *fields = name.split(".")
    if not kind or not fields or not all(fields):
        known = ", ".join(sorted(MASKS))
        raise ValueError(f"expected mask to name <type>.<field>[.<field>…], {known}, got {name!r:.80}")
    if (fields[0] in _STRUCTURE and name != "log.message") or name in {"agent_start.parent", "agent_start.topic"}:
        raise ValueError(f"expected mask to name no field by which events belong together, got {name!r:.80}")
    return name


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode
