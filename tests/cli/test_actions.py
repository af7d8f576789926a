"""`edit`, `withdraw`, `cancel`, `decide`: against a server whose every answer the test gives."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.cli.root import run as run_line
from gateway.mirror import Mirror
from gateway.types import Publication
from tests.e2e.processes import Process
from tests.protocol_server import ProtocolServer, protocol_server

EPOCH = "aB3dE6gH"
PLACE = {"epoch": EPOCH, "offset": 9}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ProtocolServer]:
    async with protocol_server() as serving:
        yield serving


async def start(server: ProtocolServer, *arguments: str) -> Process:
    return await Process.start(*arguments, GATEWAY_URL=server.url)


async def show(server: ProtocolServer, *events: dict[str, Any]) -> None:
    """Answer a subscribe command with the state after these events."""
    mirror = Mirror("t", EPOCH, 0)
    for offset, event in enumerate(events, 1):
        mirror.apply(Publication(offset=offset, data=event))
    command = await server.command("subscribe")
    assert command.body == {"channel": "t", "data": {"mirror": True}}
    await command.reply({"epoch": EPOCH, "offset": mirror.offset, "data": {"snapshot": dict(mirror.snapshot())}})
    await server.command("unsubscribe")


async def asked(server: ProtocolServer, method: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Answer a method's call; gives what it was given, its own id checked and left out."""
    command = await server.command("rpc")
    assert command.body["method"] == method
    data: dict[str, Any] = command.body["data"]
    assert len(data.pop("id")) == 16
    await command.reply({"data": answer})
    return data


def started(run: str, **more: Any) -> dict[str, Any]:
    return {"type": "agent_start", "run": run, "agent": "a", **more}


def question(run: str, call: str) -> dict[str, Any]:
    return {"type": "approval_required", "run": run, "tool_call_id": call, "name": "rm", "arguments": "{}"}


# edit, withdraw


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        ({"status": "edited", "message": "m", **PLACE}, 0, ""),
        ({"status": "taken", "message": "m", "run": "r1"}, 1, "gateway: too late: run r1 has taken the message\n"),
        ({"status": "withdrawn", "message": "m", "by": "b"}, 1, "gateway: too late: the message was withdrawn\n"),
    ],
)
async def test_edit(server: ProtocolServer, answer: dict[str, Any], code: int, told: str) -> None:
    process = await start(server, "edit", "t", "m", "new text")
    assert await asked(server, "edit", answer) == {"topic": "t", "message": "m", "content": "new text"}
    assert await process.end() == (code, "", told)


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        ({"status": "withdrawn", "message": "m", "by": "b", **PLACE}, 0, ""),
        ({"status": "taken", "message": "m", "run": "r1"}, 1, "gateway: too late: run r1 has taken the message\n"),
    ],
)
async def test_withdraw(server: ProtocolServer, answer: dict[str, Any], code: int, told: str) -> None:
    process = await start(server, "withdraw", "t", "m")
    assert await asked(server, "withdraw", answer) == {"topic": "t", "message": "m"}
    assert await process.end() == (code, "", told)


# cancel


@pytest.mark.parametrize(
    ("arguments", "data", "answer", "told"),
    [
        (
            ["r1"],
            {"run": "r1", "mode": "now"},
            {"status": "requested", "run": "r1"},
            (0, "run r1 was asked to stop\n", ""),
        ),
        (
            ["r1", "--after-step"],
            {"run": "r1", "mode": "after_step"},
            {"status": "ended", "run": "r1", "as": "completed"},
            (0, "run r1 had ended before: completed\n", ""),
        ),
        (
            ["r1"],
            {"run": "r1", "mode": "now"},
            {"status": "unknown", "run": "r1"},
            (1, "", "gateway: no run r1 is known on t\n"),
        ),
        (
            ["--message", "m"],
            {"message": "m", "mode": "now"},
            {"status": "withdrawn", "message": "m", "by": "b"},
            (0, "message m is withdrawn\n", ""),
        ),
        (
            ["--message", "m"],
            {"message": "m", "mode": "now"},
            {"status": "unknown", "message": "m"},
            (1, "", "gateway: no message m is known on t\n"),
        ),
    ],
)
async def test_cancel_tells_what_became_of_it(
    server: ProtocolServer,
    arguments: list[str],
    data: dict[str, Any],
    answer: dict[str, Any],
    told: tuple[int, str, str],
) -> None:
    process = await start(server, "cancel", "t", *arguments)
    assert await asked(server, "cancel", answer) == {"topic": "t", **data}
    assert await process.end() == told


async def test_cancel_without_a_run_stops_the_one_that_runs(server: ProtocolServer) -> None:
    process = await start(server, "cancel", "t")
    ended = {"type": "agent_complete", "run": "r1"}
    await show(server, started("r1"), ended, started("r2"), started("sub", parent="r2", topic="t/sub"))
    answer = {"status": "requested", "run": "r2"}
    assert await asked(server, "cancel", answer) == {"topic": "t", "run": "r2", "mode": "now"}
    assert (await process.end())[0] == 0


async def test_cancel_where_nothing_runs(server: ProtocolServer) -> None:
    process = await start(server, "cancel", "t")
    await show(server, started("r1"), {"type": "agent_complete", "run": "r1"})
    assert await process.end() == (1, "", "gateway: nothing runs on t\n")


# decide


async def test_decide_finds_the_one_that_waits(server: ProtocolServer) -> None:
    process = await start(server, "decide", "t", "edit", "--arguments", '{"n": 1.0}', "--reason", "why")
    decided = {"type": "approval_decided", "run": "r1", "tool_call_id": "c1", "decision": "approve", "by": "b"}
    await show(server, started("r1"), question("r1", "c1"), decided, question("r1", "c2"))
    data = await asked(server, "decide", {"won": True, "decision": "edit", "by": "anonymous", **PLACE})
    assert data == {
        "topic": "t",
        "run": "r1",
        "tool_call_id": "c2",
        "decision": "edit",
        "arguments": '{"n": 1.0}',
        "reason": "why",
    }
    assert await process.end() == (0, "", "")


async def test_decide_with_both_names_looks_nothing_up(server: ProtocolServer) -> None:
    process = await start(server, "decide", "t", "reject", "--run", "r1", "--call", "c1")
    data = await asked(server, "decide", {"won": True, "decision": "reject", "by": "anonymous", **PLACE})
    assert data == {"topic": "t", "run": "r1", "tool_call_id": "c1", "decision": "reject"}
    assert (await process.end())[0] == 0


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"decision": "approve", "by": "bob"}, "gateway: too late: bob has decided: approve\n"),
        ({"decision": "expired", "by": None}, "gateway: too late: the approval has expired\n"),
        ({"decision": "expired", "by": None, "ended": "lost"}, "gateway: too late: the run has ended: lost\n"),
    ],
)
async def test_decide_too_late_says_who_or_what_was_first(
    server: ProtocolServer, answer: dict[str, Any], told: str
) -> None:
    process = await start(server, "decide", "t", "approve", "--run", "r1", "--call", "c1")
    await asked(server, "decide", {"won": False, **answer})
    assert await process.end() == (1, "", told)


async def test_decide_where_several_wait_names_them(server: ProtocolServer) -> None:
    process = await start(server, "decide", "t", "approve")
    await show(server, started("r1"), question("r1", "c1"), question("r1", "c2"))
    code, _, err = await process.end()
    assert code == 2
    assert "c1 (rm, run r1), c2 (rm, run r1)" in err


async def test_decide_where_nothing_waits(server: ProtocolServer) -> None:
    process = await start(server, "decide", "t", "approve", "--call", "c9")
    await show(server, started("r1"), question("r1", "c1"))
    assert await process.end() == (1, "", "gateway: no call c9 waits for a decision on t\n")


# usage


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["cancel", "t", "r1", "--message", "m"], "expected a run or a message, got both"),
        (["decide", "t", "maybe"], "'maybe' is not one of 'approve', 'reject', 'edit'"),
        (["decide", "t", "edit"], "expected --arguments with edit, and only with it"),
        (["decide", "t", "approve", "--arguments", "{}"], "expected --arguments with edit, and only with it"),
        (["edit", "t", "m"], "Missing argument 'TEXT'"),
        (["withdraw", "t"], "Missing argument 'MESSAGE'"),
    ],
)
def test_bad_usage_is_one_line_and_2(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_line(arguments) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
