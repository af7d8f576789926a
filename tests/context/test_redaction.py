from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.context.context import Context
from gateway.context.jsonlike import compact_json, lenient, native
from gateway.context.redaction import MIN_SECRET_CHARACTERS, REDACTED, is_secret, redacted, secrets_of

from .strategies import JSON

SECRET = "sk-5d41402abc4b"  # what must not be seen


class Config(msgspec.Struct):
    url: str
    api_key: str


class Account(Enum):
    MAIN = {"password": SECRET}  # noqa: RUF012 - an enum's value may be a map


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "OPENAI_API_KEY", "apiKey", "X-Api-Key", "api key", "max_tokens", "clientSecret", "passwd2"),
        *("Authorization", "db.credentials", "privateKey", "aws-access-key", "Bearer"),
    ],
)
def test_is_secret_however_it_is_written(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["", "key", "url", "author", "pass", "monkey"])
def test_is_secret_leaves_other_names(name: str) -> None:
    assert not is_secret(name)


HIDING: list[Any] = [
    {"api_key": SECRET},
    {"a": {"b": [{"token": SECRET}]}},
    {"a": Config("u", SECRET)},
    {"a": [Config("u", SECRET)]},
    {"a": Account.MAIN},
    {"credentials": {"user": ["x", SECRET]}},
    {"credentials": (Config("u", SECRET),)},
    {"a": Context.new(deps={"api_key": SECRET})},
    {"a": [Context.new(deps={"api_key": SECRET}).to_run_context()]},
]
"""Deps with a secret in every place in which one can be named."""


def buried(deps: Any, levels: int) -> Any:
    for level in range(levels):
        deps = {f"level{level}": deps} if level % 2 else {f"level{level}": [deps]}
    return deps


@pytest.mark.parametrize("levels", [0, 1, 6, 25, 100])
@pytest.mark.parametrize("deps", HIDING)
def test_secret_is_never_saved_at_any_depth(deps: Any, levels: int, caplog: Any) -> None:
    ctx = Context.new(deps={"kept": 1, **buried(deps, levels)})
    saved = ctx.serialize()
    assert SECRET not in compact_json(saved)
    assert saved["deps"]["kept"] == 1
    assert SECRET not in caplog.text
    assert SECRET not in repr(ctx) + repr(ctx.to_run_context())


@given(JSON, st.lists(st.text(max_size=4) | st.integers(0, 3), max_size=5))
def test_secret_is_never_saved_among_anything(value: Any, path: Any) -> None:
    deps: Any = {"token": SECRET, "beside": value}
    for step in path:
        deps = {step: deps, "beside": value} if isinstance(step, str) else [value] * step + [deps]
    assert SECRET not in compact_json(Context.new(deps={"x": deps}).serialize())


@pytest.mark.parametrize(
    "live", [Context.new(deps={"key": SECRET}), Context.new(deps={"key": SECRET}).to_run_context()]
)
def test_live_context_has_no_json_form(live: Any) -> None:
    """It would take its deps along into a tool's result, a message's metadata, a notification."""
    with pytest.raises(ValueError, match="expected a JSON value"):
        native({"context": live})
    assert lenient([live]) == [repr(live)]
    assert SECRET not in compact_json({"result": live})


def test_secrets_of_finds_texts_below_secret_names() -> None:
    deps = {
        "api_key": "long-key",
        "auth": {"credentials": {"user": "alice", "pins": ["1234", "12"], "raw": b"bytes!"}},
        "config": Config("https://a", "long-key-2"),
        "url": "https://b",
        "tokens": 5,
    }
    assert secrets_of(deps) == ("long-key-2", "long-key", "bytes!", "alice", "1234")
    assert secrets_of(None) == secrets_of("text") == secrets_of({}) == ()
    assert secrets_of({"token": "x" * (MIN_SECRET_CHARACTERS - 1)}) == ()


def test_secrets_of_deps_that_hold_themselves_ends() -> None:
    deps: dict[str, Any] = {"token": SECRET}
    deps["self"] = deps
    assert secrets_of(deps) == (SECRET,)


def test_redacted_follows_maps_and_lists() -> None:
    secrets = secrets_of({"token": SECRET})
    value = {"a": [f"<{SECRET}>", 1, None], SECRET: ({"b": SECRET},), "n": 2.5}
    assert redacted(value, secrets) == {"a": [f"<{REDACTED}>", 1, None], REDACTED: [{"b": REDACTED}], "n": 2.5}
    assert redacted(value, ()) is value


def test_redacted_exception_becomes_its_text_only_if_it_tells() -> None:
    secrets = secrets_of({"token": SECRET})
    harmless = ValueError("no such table")
    assert redacted(harmless, secrets) is harmless
    assert redacted(ValueError(f"401 for {SECRET}"), secrets) == f"ValueError('401 for {REDACTED}')"


@given(JSON)
def test_redacted_without_a_secret_inside_is_the_same(value: Any) -> None:
    assert redacted(value, (SECRET,)) == value
