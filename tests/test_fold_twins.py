"""Every log of the behavioural cases, folded by both mirrors as the context itself folds it."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.codec import decode_event, encode_event
from gateway.context.context import Context
from gateway.context.log import EventLog
from gateway.mirror import Mirror
from gateway.types import Publication
from tests.context.test_cases import cases, load_runner
from tests.vectors_reader import canonical

_MJS = Path(__file__).parent / "js" / "mirror_stdin.mjs"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; `make test` installs it")
    with subprocess.Popen([node, _MJS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def ask(process: Any, publications: list[dict[str, Any]]) -> Any:
    process.stdin.write(json.dumps({"publications": publications}).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def logs(registers: dict[str, Any]) -> Iterator[EventLog]:
    for value in registers.values():
        if isinstance(value, Context | EventLog):
            yield value.log if isinstance(value, Context) else value


def events(log: EventLog) -> list[dict[str, Any]]:
    """Give a log's events as a run publishes them."""
    written = [event.to_dict() for event in log.events()]
    return [
        decode_event(encode_event({"type": raw["type"], "seq": raw["seq"], "time": raw["time"], **raw["data"]}))
        for raw in written
    ]


@pytest.fixture(scope="module")
def runner() -> Any:
    return load_runner()


@pytest.mark.parametrize("case", cases())
def test_case_folds_alike_in_the_context_and_both_mirrors(case: Any, runner: Any, browser: Any) -> None:
    adapter = runner.Adapter("gateway.context")
    registers: list[dict[str, Any]] = []
    begin = adapter.begin

    def watched(values: dict[str, Any]) -> None:
        registers.append(values)
        begin(values)

    adapter.begin = watched
    runner.run_case(case, adapter)
    for log in logs(registers[0]):
        mirror = Mirror()
        told = events(log)
        for offset, event in enumerate(told, 1):
            assert mirror.apply(Publication(offset=offset, data=event)) == "applied"
        answer = ask(browser, [{"offset": offset, "data": event} for offset, event in enumerate(told, 1)])
        assert canonical(answer["snapshot"]["mirror"]) == canonical(mirror.state())
        assert canonical(answer["messages"]) == canonical(mirror.messages())
        there = Context.deserialize(answer["snapshot"]["mirror"]["context"])
        assert there.log.surface() == log.surface()
        assert there.entries == log.messages()
        assert [message["seq"] for message in answer["messages"]] == [seq for seq, _ in log.indexed()]
