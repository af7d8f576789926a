"""The vectors of tests/vectors, expanded and completed as their README says."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from gateway.types import Publication

__all__ = ["canonical", "complete", "empty_state", "load_vectors", "publication", "publications"]

_DIRECTORY = Path(__file__).parent / "vectors"
_LISTS = ("open", "runs", "approvals", "queue", "log")


def load_vectors(*, merging: bool) -> list[dict[str, Any]]:
    """Give the vectors of merge.json, or all others."""
    paths = sorted(path for path in _DIRECTORY.glob("*.json") if (path.name == "merge.json") == merging)
    vectors: list[dict[str, Any]] = [
        _expand(vector) for path in paths for vector in json.loads(path.read_text("utf-8"))
    ]
    assert len({vector["id"] for vector in vectors}) == len(vectors) > 0
    return vectors


def publication(item: dict[str, Any]) -> Publication:
    """Read a publication in the wire's form."""
    first = item.get("tags", {}).get("from")
    return Publication(offset=item["offset"], data=item["data"], first=None if first is None else int(first))


def publications(vector: dict[str, Any], *, after: int) -> list[Publication]:
    """Give what a vector applies to a mirror at offset ``after``."""
    if "when" in vector:
        return [publication(item) for item in vector["when"]]
    events = vector.get("events", [])
    return [Publication(offset=after + place, data=event) for place, event in enumerate(events, 1)]


def empty_state() -> dict[str, Any]:
    """Give the state before any event."""
    return json.loads(json.dumps(_defaults()["empty"]))  # type: ignore[no-any-return]


def complete(state: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Fill in what a vector leaves out of a state."""
    items = _defaults()["items"]
    whole = {**base, **state, "context": {**base["context"], **state.get("context", {})}}
    context = whole["context"]
    context["events"] = [{**items["events"], **entry} for entry in context["events"]]
    context["usage"] = _counters(context["usage"])
    for name in _LISTS:
        whole[name] = [{**items[name], **item} for item in whole[name]]
    for message in whole["open"]:
        message["tool_calls"] = [{**items["tool_calls"], **call} for call in message["tool_calls"]]
    for run in whole["runs"]:
        run["usage"] = _counters(run["usage"])
        run["calls"] = {call: _counters(counters) for call, counters in run["calls"].items()}
    return whole


def canonical(value: Any) -> str:
    """Write a value so that two texts are equal where the values are (PROTOCOL.md 5.7): 1 is 1.0, true is not 1."""
    return json.dumps(_numbers_alike(value), sort_keys=True)


def _numbers_alike(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers_alike(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_numbers_alike(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    # Beyond 2^53 a browser writes the shortest digits that read back as the same number, not the exact ones.
    if abs(value) > 2**53:
        return float(value)
    return int(value) if value == int(value) else value


@cache
def _defaults() -> dict[str, Any]:
    return json.loads((_DIRECTORY / "defaults" / "state.json").read_text("utf-8"))  # type: ignore[no-any-return]


def _counters(counters: dict[str, int]) -> dict[str, int]:
    return {**_defaults()["empty"]["context"]["usage"], **counters}


def _expand(value: Any) -> Any:
    if isinstance(value, dict):
        if "$text" in value:
            return value["$text"] * value["$times"]
        return {key: _expand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy for item in value for copy in _copies(item)]
    return value


def _copies(item: Any) -> list[Any]:
    if not (isinstance(item, dict) and "$item" in item):
        return [_expand(item)]
    start = item["$from"]
    return [_numbered(item["$item"], number) for number in range(start, start + item["$count"])]


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return number if value == "{i}" else value.replace("{i}", str(number))
    if isinstance(value, dict):
        return {key: _numbered(item, number) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbered(item, number) for item in value]
    return value
