"""What people are told who may not: every command, with every kind of credentials that are not enough."""

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.broker.redis import RedisBroker
from tests.serving import PATIENCE, Gateway, append, serve
from tests.signing import API_KEY, SECRET, token

TOPIC = "chat:1"
COMMANDS = {
    "tail": (["tail", TOPIC, "--no-follow"], "history,read"),
    "publish": (["publish", TOPIC, '{"x":1}'], "publish"),
    "send": (["send", TOPIC, "hello"], "send"),
    "edit": (["edit", TOPIC, "m", "x"], "edit"),
    "withdraw": (["withdraw", TOPIC, "m"], "withdraw"),
    "cancel": (["cancel", TOPIC], "read,cancel"),
    "decide": (["decide", TOPIC, "approve"], "read,decide"),
    "export": (["export", TOPIC], "export"),
    "delete": (["delete", TOPIC, "--yes"], "delete"),
    "topics": (["topics"], "topics"),
}
"""What is typed, and the verbs that it needs."""


@pytest_asyncio.fixture
async def gateway(redis_url: str, key_prefix: str) -> AsyncIterator[Gateway]:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    await append(broker, TOPIC, {"n": 1})
    await broker.aclose()
    async with serve(redis_url, key_prefix, token_secrets=SECRET, api_keys=API_KEY) as running:
        yield running


async def run(gateway: Gateway, *arguments: str) -> tuple[int | None, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *arguments, "--url", gateway.http),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=pipe,
    )
    _, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode, err.decode()


@pytest.mark.parametrize("command", COMMANDS)
async def test_refused_command_says_what_is_missing_and_how_to_get_it(gateway: Gateway, command: str) -> None:
    arguments, verbs = COMMANDS[command]
    other = token("ann", caps=[{"channels": ["other"], "allow": ["*"]}])
    cases = {
        "none": ([], "101: a token is needed here"),
        "expired": (["--token", token("ann", lasts=-100)], "109: the token has expired"),
        "wrong": (["--token", "nonsense"], "invalid token"),
        "key": (["--api-key", "a-key-that-nobody-knows"], "101: invalid API key"),
        **({} if command == "topics" else {"other": (["--token", other], "103: permission denied")}),
    }
    answers = dict(
        zip(cases, await asyncio.gather(*(run(gateway, *arguments, *c[0]) for c in cases.values())), strict=True)
    )
    for case, (code, err) in answers.items():
        assert code == 1, (case, err)
        assert err.count("\n") == 1, (case, err)
        assert err.startswith("gateway: "), (case, err)
        assert cases[case][1] in err, (case, err)
        if case == "key":
            assert "--api-key" in err
            continue
        pattern = "'*=topics'" if command == "topics" else f"{TOPIC}={verbs}"
        assert f"gateway token USER --allow {pattern}" in err, (case, err)
    if "other" in answers:
        assert f"this token does not allow {verbs!r} on {TOPIC}" in answers["other"][1]


async def test_token_made_as_told_opens_it(gateway: Gateway) -> None:
    made = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "gateway",
            "token",
            "ann",
            "--allow",
            f"{TOPIC}=history,read",
            "--token-secrets",
            SECRET,
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(made.communicate(), PATIENCE)
    code, err = await run(gateway, "tail", TOPIC, "--no-follow", "--token", out.decode().strip())
    assert (code, err) == (0, ""), err
