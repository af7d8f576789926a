"""Settings as flags and variables."""

from typing import Any

import click
import msgspec
import pytest

from gateway.cli.flags import settings_flags
from gateway.settings import Settings


def given(*arguments: str) -> dict[str, Any]:
    """Read a command line into settings."""
    found: dict[str, Any] = {}

    @click.command
    @settings_flags(leave_out=frozenset({"redis_url"}))
    def command(**values: Any) -> None:
        found.update(values)

    command.main(list(arguments), standalone_mode=False)
    return found


def test_every_setting_has_a_flag_a_variable_and_its_unit_in_the_help() -> None:
    @click.command
    @settings_flags()
    def command(**_: Any) -> None: ...

    text = " ".join(command.get_help(click.Context(command)).split())
    for name, default in msgspec.structs.asdict(Settings()).items():
        assert f"--{name.replace('_', '-')} " in text
        assert f"[env var: GATEWAY_{name.upper()}]" in text
        assert default == "" or f"[default: {default}]" in text
        assert Settings.descriptions()[name][1:] in text


def test_flag_over_variable_over_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given()["drain"] is None
    monkeypatch.setenv("GATEWAY_DRAIN", "1.5")
    assert given()["drain"] == 1.5
    assert given("--drain", "2")["drain"] == 2.0
    assert Settings(drain=given("--drain", "2")["drain"]).drain == 2.0


def test_left_out_is_no_flag() -> None:
    with pytest.raises(click.NoSuchOption):
        given("--redis-url", "redis://x")


@pytest.mark.parametrize("arguments", [("--workers", "0"), ("--workers", "many"), ("--ping-interval", "0")])
def test_value_out_of_range_is_refused(arguments: tuple[str, str]) -> None:
    with pytest.raises(click.BadParameter) as caught:
        given(*arguments)
    told = caught.value.format_message()
    assert f"'{arguments[0]}'" in told
    assert repr(arguments[1]) in told
    assert "GATEWAY_" not in told
    assert told.count("got") == 1


def test_variable_out_of_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_WORKERS", "many")
    with pytest.raises(click.BadParameter) as caught:
        given()
    assert caught.value.format_message() == "Invalid value for 'GATEWAY_WORKERS': Expected `int`, got 'many'"
    assert given("--workers", "2")["workers"] == 2


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_number_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(click.BadParameter):
        given(f"--drain={value}")


def test_switch_is_on_or_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given()["insecure"] is None
    assert given("--insecure")["insecure"] is True
    monkeypatch.setenv("GATEWAY_INSECURE", "1")
    assert given()["insecure"] is True
