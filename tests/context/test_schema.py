from typing import Any

import pytest
from hypothesis import given

from gateway.context.schema import check_arguments

from .strategies import JSON, MAPS

TREE = {
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}, "required": ["n"]}},
}


def under_a(**rules: Any) -> Any:
    return {"properties": {"a": rules}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "object"}, {}, []),
        (under_a(type="string"), "x", 1),
        (under_a(type="integer"), 1.0, 1.5),
        (under_a(type="integer"), 1, True),
        (under_a(type="number"), 1.5, "1"),
        (under_a(type="boolean"), True, 1),
        (under_a(type="null"), None, 0),
        (under_a(type="array"), [1], {}),
        (under_a(type="object"), {}, []),
        (under_a(type=["string", "null"]), None, 1),
        (under_a(enum=["x", 1]), 1, True),
        (under_a(const={"k": 1}), {"k": 1}, {"k": 2}),
        (under_a(required=["k"]), {"k": None}, {}),
        (under_a(properties={"k": {}}, additionalProperties=False), {"k": 1}, {"k": 1, "x": 1}),
        (under_a(additionalProperties={"type": "string"}), {"x": "y"}, {"x": 1}),
        (under_a(patternProperties={"^x": {"type": "string"}}, additionalProperties=False), {"xy": "z"}, {"xy": 1}),
        (under_a(minProperties=1), {"k": 1}, {}),
        (under_a(items={"type": "string"}), ["x"], ["x", 1]),
        (under_a(prefixItems=[{"type": "string"}], items={"type": "integer"}), ["x", 1], [1, 1]),
        (under_a(minItems=1, maxItems=2), [1, 2], [1, 2, 3]),
        (under_a(uniqueItems=True), [1, True, "1"], [{"k": 1}, {"k": 1}]),
        (under_a(minLength=2, maxLength=3), "xy", "wxyz"),
        (under_a(pattern="^a+$"), "aa", "ab"),
        (under_a(minimum=1, maximum=2), 2, 3),
        (under_a(minimum=1), 1, 0),
        (under_a(exclusiveMinimum=1), 1.1, 1),
        (under_a(exclusiveMaximum=1), 0, 1),
        (under_a(multipleOf=0.1), 0.3, 0.35),
        (under_a(allOf=[{"type": "integer"}, {"minimum": 2}]), 2, 1),
        (under_a(anyOf=[{"type": "integer"}, {"type": "null"}]), None, "x"),
        (under_a(oneOf=[{"type": "integer"}, {"type": "number"}]), 1.5, 1),
        (under_a(**{"not": {"type": "null"}}), 1, None),
        (TREE, {"n": 1}, {"n": "x"}),
        ({"properties": {"a": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": {"type": "string"}}}, "x", 1),
    ],
)
def test_check(schema: Any, good: Any, bad: Any) -> None:
    name = "node" if schema is TREE else "a"
    check_arguments(schema, {name: good})
    with pytest.raises(ValueError):
        check_arguments(schema, bad if schema == {"type": "object"} else {name: bad})


def test_check_follows_references_as_deep_as_the_value() -> None:
    node: dict[str, Any] = {"n": 1}
    for _ in range(100):
        node = {"n": 1, "next": node}
    check_arguments(TREE, {"node": node})
    with pytest.raises(ValueError, match=r"arguments\.node\.next: n missing"):
        check_arguments(TREE, {"node": {"n": 1, "next": {}}})


@pytest.mark.parametrize("ref", ["#/missing", "https://example.org/schema", "#/properties/a"])
def test_check_refuses_a_reference_to_nowhere_or_itself(ref: Any) -> None:
    with pytest.raises(ValueError):
        check_arguments(under_a(**{"$ref": ref}), {"a": 1})


def test_check_names_the_place() -> None:
    schema = under_a(items={"properties": {"k": {"type": "integer"}}})
    with pytest.raises(ValueError, match=r"^arguments\.a\[1\]\.k: expected integer, got string$"):
        check_arguments(schema, {"a": [{"k": 1}, {"k": "x"}]})


@given(MAPS)
def test_an_empty_schema_takes_every_map(arguments: Any) -> None:
    check_arguments({}, arguments)


@given(JSON)
def test_arguments_are_a_map(value: Any) -> None:
    if not isinstance(value, dict):
        with pytest.raises(ValueError):
            check_arguments({}, value)
