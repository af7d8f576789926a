"""What every command has in common: help, one line for each error, exit codes."""

import io
import subprocess
import sys

import pytest

from gateway import __version__
from gateway.cli import root
from gateway.cli.root import run


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in root.COMMANDS)


@pytest.mark.parametrize("name", root.COMMANDS)
def test_help_of_each_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"Usage: gateway {name}" in capsys.readouterr().out


def test_a_question_that_nobody_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert run(["delete", "t"]) == 1
    assert capsys.readouterr().err.endswith("\ngateway: not answered: nothing was done\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nope"], "gateway: No such command 'nope'"),
        (["--nope"], "gateway: No such option"),
        (["tail"], "gateway tail: Missing argument 'TOPIC'"),
        (["tail", "a b"], "expected a topic of 1 to 200 characters"),
        (["tail", "t", "--from", "x"], "expected start, an offset or a position"),
        (["tail", "t", "--url", "nowhere"], "expected a gateway's address"),
        (["publish", "t", "{"], "gateway publish: the event is refused: expected JSON in UTF-8"),
        (["publish", "t", '"\udcff"'], "gateway publish: the event is refused: expected JSON in UTF-8"),
        (["publish", "t", "[]"], "expected a JSON object, got list"),
        (["publish", "t", '{"a":1,"a":2}'], "an object has a key twice"),
        (["publish", "t", '{"a":1e999}'], "expected"),
        (["publish", "t", '{"a":NaN}'], "expected"),
        (["publish", "t", '{"__proto__":1}'], "expected keys that are text other than '__proto__'"),
        (["publish", "t", '{"a":"%s"}' % ("x" * 130_000)], "at most 120 KiB (122880 bytes), got 130008 bytes"),
        (["serve", "--port", "x"], "gateway serve: Invalid value for '--port'"),
        (["serve", "--port", "70000"], "Expected `int` <= 65535, got '70000'"),
        (["serve", "--data-dir", __file__], "Invalid value for '--data-dir': Directory"),
        (["serve", "--insecure", "--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["replay", "nowhere.jsonl", "--provider", "anthropic", "--topic", "t"], "'nowhere.jsonl' does not exist"),
        (["replay", __file__, "--provider", "nobody", "--topic", "t"], "'nobody' is not one of 'ag-ui', 'anthropic'"),
        (["replay", __file__, "--provider", "anthropic", "--topic", "t"], "no gateway runs on this machine"),
        (["agent"], "no gateway runs on this machine"),
        (["agent", "--redis-url", "http://:pw@x"], "expected the Redis URL to be like redis://"),
        (["serve", "--redis-url", "redis://x:y"], "expected the Redis URL to be like redis://"),
    ],
)
def test_bad_usage_is_one_line_and_2(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert expected in captured.err
    assert captured.err.count("\n") == 1


def test_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GATEWAY_DRAIN", "soon")
    assert run(["serve"]) == 2
    assert "GATEWAY_DRAIN" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["topics"], ["publish", "t", "{}"], ["send", "t", "hi"], ["tail", "t"]])
def test_gateway_that_does_not_answer_is_one_line_and_1(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--url", "http://127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "no gateway answers at ws://127.0.0.1:1/connection/websocket: nobody listens there" in err
    assert err.count("\n") == 1


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "gateway", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert __version__ in done.stdout


def test_reading_commands_load_no_web_server_and_no_redis() -> None:
    code = (
        "import sys, gateway.cli.tail, gateway.cli.topics; print({'uvicorn', 'starlette', 'redis'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
