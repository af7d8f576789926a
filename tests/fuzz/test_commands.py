"""Fuzzing commands over a real connection: each is answered once by a reply or a documented error, or ends it."""

import json
from typing import Any

from hypothesis import strategies as st

from gateway.errors import DisconnectError, ErrorCode
from gateway.limits import Allowance
from gateway.session import Session
from tests.fuzz.ground import Ground, fuzz
from tests.fuzz.hostile import JSON, KEYS, MUTATIONS, NAMES, NUMBERS, TEXTS, dumps, mutated
from tests.fuzz.wire import CLOSE, TEXT, frame, peer

_POSITIONS = st.fixed_dictionaries({}, optional={"epoch": TEXTS | st.just("aaaaaaaa"), "offset": NUMBERS})
_LENSES = st.one_of(
    st.just("summary"),
    st.fixed_dictionaries(
        {},
        optional={
            "types": st.lists(TEXTS | st.sampled_from(["chat", "tools", "log"]), max_size=3),
            "rate": NUMBERS,
            "finished": st.booleans(),
        },
    ),
    JSON,
)
_ACTIONS = st.fixed_dictionaries(
    {},
    optional={
        "topic": NAMES,
        "content": TEXTS | JSON,
        "id": TEXTS | st.sampled_from(["1", "2"]),
        "message": TEXTS,
        "run": TEXTS | st.just("r1"),
        "tool_call_id": TEXTS,
        "decision": st.sampled_from(["approve", "reject", "edit"]) | TEXTS,
        "arguments": st.just("{}") | TEXTS,
        "mode": st.sampled_from(["now", "after_step"]) | TEXTS,
        "reason": TEXTS,
    },
)
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "channel": NAMES,
    "token": TEXTS,
    "recover": st.booleans(),
    "epoch": TEXTS | st.just("aaaaaaaa"),
    "offset": NUMBERS,
    "flag": NUMBERS,
    "join_leave": st.booleans(),
    "limit": NUMBERS,
    "reverse": st.booleans(),
    "since": _POSITIONS,
}
_DATA: dict[str, st.SearchStrategy[Any]] = {
    "subscribe": st.fixed_dictionaries({}, optional={"mirror": st.booleans(), "lens": _LENSES}) | JSON,
    "publish": st.dictionaries(KEYS, JSON, max_size=4) | JSON,
    "rpc": _ACTIONS,
}
_METHODS = [
    "subscribe",
    "subscribe",
    "unsubscribe",
    "publish",
    "publish",
    "presence",
    "presence_stats",
    "history",
    "ping",
    "send",
    "rpc",
    "rpc",
    "refresh",
    "sub_refresh",
]
_RPCS = st.sampled_from(["send", "edit", "withdraw", "cancel", "decide", "topics"]) | TEXTS


@st.composite
def _commands(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a command whose fields are mostly there and mostly of the right kind."""
    method = draw(st.sampled_from(_METHODS)) if draw(st.integers(0, 19)) else draw(TEXTS | st.just("connect"))
    names = draw(st.lists(st.sampled_from(sorted(_FIELDS)), max_size=3))
    body: Any = {name: draw(_FIELDS[name] if draw(st.integers(0, 7)) else JSON) for name in ["channel", *names]}
    if method in _DATA and draw(st.integers(0, 9)):
        body["data"] = draw(_DATA[method])
    if method == "rpc":
        body["method"] = draw(_RPCS)
    if not draw(st.integers(0, 30)):
        body = draw(JSON)
    number = draw(st.integers(1, 2**53 - 1) if draw(st.integers(0, 30)) else NUMBERS | JSON)
    return {"id": number, method: body}


_LINES = st.one_of(
    _commands().map(dumps),
    _commands().map(dumps),
    _commands().map(dumps),
    st.builds(mutated, _commands().map(dumps), MUTATIONS),
    JSON.map(dumps),
    st.just(b"{}"),
)
_FRAMES = st.lists(st.lists(_LINES, min_size=1, max_size=4).map(b"\n".join), max_size=6)
_GREETINGS = st.sampled_from(
    [[b'{"id":1,"connect":{}}']] * 12 + [[], [b'{"id":1,"connect":{"token":"x","data":[[]]}}']]
)


def test_commands(open_ground: Ground) -> None:
    settings = open_ground.gateway.hub.settings

    async def throw(frames: list[bytes]) -> None:
        session = Session(
            max_frame=settings.max_frame, max_topics=settings.max_topics, allowance=Allowance(rate=0, burst=1)
        )
        wanted, code = 0, None
        for data in frames:
            try:
                wanted += sum(
                    1 for one in session.receive(data, text=True, now=0) if one.method != "send" or one.refusal
                )
            except DisconnectError as error:
                code = error.code
                break
        async with peer(open_ground.port) as one:
            for data in frames:
                await one.send(frame(TEXT, data))
            replies: list[dict[str, Any]] = []
            while code is not None or len(replies) < wanted:
                found = await one.frame()
                assert found is not None, "the connection ended without a word"
                opcode, payload, _ = found
                if opcode == CLOSE:
                    assert int.from_bytes(payload[:2]) == code, payload
                    return
                replies += [line for line in map(json.loads, payload.decode().split("\n")) if "id" in line]
        assert len(replies) == wanted
        for reply in replies:
            assert isinstance(reply["id"], int)
            assert len(reply) == 2
            if refusal := reply.get("error"):
                assert refusal["code"] in set(ErrorCode)
                assert refusal["code"] != ErrorCode.INTERNAL, refusal
                assert 0 < len(refusal["message"]) <= 1000, refusal

    fuzz(
        "commands",
        st.builds(lambda first, rest: first + rest, _GREETINGS, _FRAMES),
        lambda frames: open_ground.run(throw(frames)),
        examples=100,
    )
