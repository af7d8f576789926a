"""Whether a tool's arguments fit its JSON schema: the keywords that tool schemas use."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from gateway.context.jsonlike import brief

__all__ = ["check_arguments"]

_MAX_REFS = 64
"""References followed for one value; more is a schema that only refers to itself."""


def check_arguments(schema: Mapping[str, Any], arguments: object) -> None:
    """Check a call's arguments.

    Args:
        schema: JSON schema of an object; empty takes any map. Keywords that only annotate are ignored.
        arguments: The parsed arguments.

    Raises:
        ValueError: They are no map or break the schema; the sentence names the place and is fit for the model.

    """
    if not isinstance(arguments, Mapping):
        raise ValueError(f"expected arguments to be an object, got {_name(arguments)}")  # noqa: TRY004
    _Check(schema).value(schema, arguments, "arguments")


class _Check:
    """One check of one value against one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        """What local references are resolved in."""

    def value(self, schema: object, value: Any, place: str, refs: int = 0) -> None:
        if schema is False:
            raise ValueError(f"{place}: nothing is allowed here")
        if not isinstance(schema, Mapping):
            return
        if isinstance(schema.get("$ref"), str):
            if refs >= _MAX_REFS:
                raise ValueError(f"{place}: the schema refers to itself without end")
            self.value(self._resolved(schema["$ref"]), value, place, refs + 1)
        self._type(schema, value, place)
        if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
            raise ValueError(f"{place}: expected one of {list(schema['enum'])!r}, got {brief(value)}")
        if "const" in schema and not _same(value, schema["const"]):
            raise ValueError(f"{place}: expected {schema['const']!r}, got {brief(value)}")
        if isinstance(value, Mapping):
            self._object(schema, value, place)
        elif isinstance(value, list | tuple):
            self._array(schema, value, place)
        elif isinstance(value, str):
            self._text(schema, value, place)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._number(schema, value, place)
        for part in schema.get("allOf", ()):
            self.value(part, value, place, refs)
        for keyword, enough in (("anyOf", lambda n: n >= 1), ("oneOf", lambda n: n == 1)):
            self._alternatives(schema.get(keyword), enough, value, place, refs)
        if "not" in schema and self._fits(schema["not"], value, place, refs):
            raise ValueError(f"{place}: {brief(value)} is excluded")

    def _resolved(self, ref: str) -> object:
        target: Any = self.root
        for step in ref.removeprefix("#").strip("/").split("/") if ref != "#" else ():
            key = step.replace("~1", "/").replace("~0", "~")
            if not ref.startswith("#") or not isinstance(target, Mapping) or key not in target:
                raise ValueError(f"the schema refers to {ref!r}, which it does not hold")
            target = target[key]
        return target

    def _type(self, schema: Mapping[str, Any], value: Any, place: str) -> None:
        wanted = schema.get("type")
        names = [wanted] if isinstance(wanted, str) else wanted
        if isinstance(names, list | tuple) and not any(_is(name, value) for name in names):
            raise ValueError(f"{place}: expected {' or '.join(map(str, names))}, got {_name(value)}")

    def _object(self, schema: Mapping[str, Any], value: Mapping[str, Any], place: str) -> None:
        missing = [key for key in schema.get("required", ()) if key not in value]
        if missing:
            raise ValueError(f"{place}: {', '.join(map(str, missing))} missing")
        known = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        for key, item in value.items():
            where = f"{place}.{key}"
            if key in known:
                self.value(known[key], item, where)
            matching = [rule for pattern, rule in patterns.items() if re.search(pattern, key)]
            for rule in matching:
                self.value(rule, item, where)
            if key not in known and not matching and "additionalProperties" in schema:
                self.value(schema["additionalProperties"], item, where)
        _within(schema, "minProperties", "maxProperties", len(value), f"{place}: number of properties")

    def _array(self, schema: Mapping[str, Any], value: list[Any] | tuple[Any, ...], place: str) -> None:
        leading = schema.get("prefixItems", ())
        for index, item in enumerate(value):
            rule = leading[index] if index < len(leading) else schema.get("items")
            self.value(rule, item, f"{place}[{index}]")
        _within(schema, "minItems", "maxItems", len(value), f"{place}: number of items")
        if schema.get("uniqueItems") is True:
            for index, item in enumerate(value):
                if any(_same(item, other) for other in value[:index]):
                    raise ValueError(f"{place}[{index}]: {brief(item)} is there twice")

    def _text(self, schema: Mapping[str, Any], value: str, place: str) -> None:
        _within(schema, "minLength", "maxLength", len(value), f"{place}: length")
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not re.search(pattern, value):
            raise ValueError(f"{place}: expected text that matches {pattern!r}, got {brief(value)}")

    def _number(self, schema: Mapping[str, Any], value: float, place: str) -> None:
        _within(schema, "minimum", "maximum", value, place)
        above, below, step = (schema.get(key) for key in ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
        if above is not None and not value > above:
            raise ValueError(f"{place}: expected more than {above}, got {value}")
        if below is not None and not value < below:
            raise ValueError(f"{place}: expected less than {below}, got {value}")
        if step is not None and not math.isclose(value / step, round(value / step), abs_tol=1e-9):
            raise ValueError(f"{place}: expected a multiple of {step}, got {value}")

    def _alternatives(self, rules: Any, enough: Callable[[int], bool], value: Any, place: str, refs: int) -> None:
        if isinstance(rules, list | tuple) and not enough(sum(self._fits(rule, value, place, refs) for rule in rules)):
            raise ValueError(f"{place}: {brief(value)} fits none, or too many, of {len(rules)} alternatives")

    def _fits(self, schema: object, value: Any, place: str, refs: int) -> bool:
        try:
            self.value(schema, value, place, refs)
        except ValueError:
            return False
        return True


def _is(name: object, value: object) -> bool:
    match name:
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list | tuple)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return True


def _name(value: object) -> str:
    names = ("boolean", "null", "integer", "number", "string", "array", "object")
    return next((name for name in names if _is(name, value)), type(value).__name__)


def _same(a: object, b: object) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _within(schema: Mapping[str, Any], least: str, most: str, value: float, what: str) -> None:
    low, high = schema.get(least), schema.get(most)
    if low is not None and value < low:
        raise ValueError(f"{what}: expected {low} or more, got {value}")
    if high is not None and value > high:
        raise ValueError(f"{what}: expected {high} or less, got {value}")
