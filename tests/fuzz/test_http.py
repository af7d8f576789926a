"""Fuzzing requests: paths, queries, headers and bodies are answered by right responses without a 500, or by an end."""

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from gateway.errors import ErrorCode
from tests.fuzz.ground import Ground, fuzz
from tests.fuzz.hostile import JSON, MUTATIONS, NAMES, NUMBERS, TEXTS, dumps, mutated

_METHODS = st.sampled_from(
    ["GET"] * 6 + ["POST"] * 6 + ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "PRI", "G T"]
)
_API = [
    "publish",
    "broadcast",
    "history",
    "history_remove",
    "presence",
    "presence_stats",
    "disconnect",
    "unsubscribe",
    "channels",
    "info",
    "batch",
    "subscribe",
    "refresh",
    "nothing",
]
_BELOW = ["", "/events", "/stream", "/archive", "/export", "/blobs/" + "0" * 64, "/blobs/x", "/", "//", "/events/x"]
_QUERIES: dict[str, st.SearchStrategy[Any]] = {
    "from": st.sampled_from(["start", "aaaaaaaa:0", "aaaaaaaa:1~2", ":0", "a:b:c"]) | TEXTS | NUMBERS,
    "last_event_id": st.sampled_from(["aaaaaaaa:1.5", "start"]) | TEXTS,
    "types": st.sampled_from(["chat", "chat,tools", ",", "a" * 2000]) | TEXTS,
    "rate": NUMBERS | TEXTS,
    "finished": st.sampled_from(["0", "1", "2"]),
    "mirror": st.sampled_from(["0", "1", "true"]),
    "format": st.sampled_from(["sse", "ndjson"]) | TEXTS,
    "dialect": st.sampled_from(["ag-ui", "ai-sdk", "openai-responses"]) | TEXTS,
    "poll": st.sampled_from(["0", "1", "2"]),
    "wait": st.sampled_from(["0", "-1", "61", "x", "1e3"]),
    "limit": NUMBERS | TEXTS,
    "messages": st.sampled_from(["0", "1", "2"]),
    "values": st.sampled_from(["0", "1", "2"]),
    "offset": st.sampled_from(["-1", "now", "aaaaaaaa:1"]) | TEXTS,
    "live": st.sampled_from(["sse", "long-poll"]) | TEXTS,
    "cursor": TEXTS | NUMBERS,
    "token": TEXTS,
}
_HEADERS: dict[str, st.SearchStrategy[str]] = {
    "Authorization": st.sampled_from(["Bearer x", "bearer", "apikey an-api-key-of-tests", "Basic eDp5", ""]) | TEXTS,
    "X-API-Key": st.sampled_from(["an-api-key-of-tests", "x"]) | TEXTS,
    "Last-Event-ID": st.sampled_from(["aaaaaaaa:3", "x", "aaaaaaaa:3.1~1,2"]) | TEXTS,
    "Origin": st.sampled_from(["null", "https://evil.example", "http://localhost", "http://[::1", "://"]) | TEXTS,
    "Accept": st.sampled_from(["application/x-ndjson", "text/event-stream", "*/*"]) | TEXTS,
    "If-None-Match": TEXTS,
    "Range": st.sampled_from(["bytes=0-1", "bytes=-1", "bytes=9-1,,-", "lines=1", "bytes=0-0," * 200]) | TEXTS,
    "X-Forwarded-For": st.sampled_from(["1.2.3.4", "x, ,", "::1%eth0", "1.2.3.4:5"]) | TEXTS,
    "Content-Type": st.sampled_from(["application/json", "text/plain", "multipart/form-data"]) | TEXTS,
    "Cookie": TEXTS,
    "Expect": st.sampled_from(["100-continue", "x"]),
    "Upgrade": st.sampled_from(["websocket", "h2c", "x"]),
    "Sec-WebSocket-Key": st.just("dGhlIHNhbXBsZSBub25jZQ==") | TEXTS,
    "Sec-WebSocket-Version": st.sampled_from(["13", "8", "x"]),
    "Sec-WebSocket-Extensions": st.sampled_from(["permessage-deflate; client_max_window_bits=99", ";;,", "x"]) | TEXTS,
    "Transfer-Encoding": st.sampled_from(["chunked", "gzip, chunked", "identity", " chunked", "chunked, chunked"]),
    "Content-Length": st.sampled_from(["0", "5", "-1", "5, 5", "99999999999999999999", "+5", "0x5"]),
    "Host": st.sampled_from(["localhost", "evil.example", "127.0.0.1:1", "", "[::1]", "a b", "localhost@evil"]) | TEXTS,
    "Connection": st.sampled_from(["close", "keep-alive", "Upgrade", "upgrade, close"]),
}
_TOPIC_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "channel": NAMES,
        "channels": st.lists(NAMES, max_size=3) | JSON,
        "data": st.dictionaries(TEXTS, JSON, max_size=3) | JSON,
        "b64data": st.sampled_from(["e30=", "e30", "!!"]) | TEXTS,
        "idempotency_key": TEXTS,
        "limit": NUMBERS,
        "since": st.fixed_dictionaries({}, optional={"offset": NUMBERS, "epoch": TEXTS}) | JSON,
        "reverse": st.booleans(),
        "user": TEXTS | st.just("ann"),
        "client": TEXTS,
        "whitelist": st.lists(TEXTS, max_size=2),
        "disconnect": st.fixed_dictionaries({}, optional={"code": NUMBERS, "reason": TEXTS}) | JSON,
        "pattern": st.sampled_from(["*", "[", "[z-a]", "{a,b}", "{" * 50, "{a,b}" * 10, "[!]", "**" * 100 + "b"])
        | TEXTS,
        "commands": st.lists(st.dictionaries(st.sampled_from(_API), JSON, max_size=2), max_size=3) | JSON,
        "parallel": st.booleans(),
    },
)
_BODIES = st.one_of(
    _TOPIC_BODIES.map(dumps),
    _TOPIC_BODIES.map(dumps),
    st.builds(mutated, _TOPIC_BODIES.map(dumps), MUTATIONS),
    JSON.map(dumps),
    st.binary(max_size=60),
)


@st.composite
def _targets(draw: st.DrawFn) -> str:
    pages = [
        "/",
        "/healthz",
        "/readyz",
        "/dashboard",
        "/static/gateway/index.js",
        "/static/../../etc/passwd",
        "/static/%2e%2e/x",
    ]
    path: str = draw(
        st.one_of(
            st.sampled_from(_API).map(lambda name: f"/api/{name}"),
            st.sampled_from(_API).map(lambda name: f"/api/{name}"),
            st.builds(lambda name, below: f"/topics/{_quoted(name)}{below}", NAMES, st.sampled_from(_BELOW)),
            st.builds(lambda name, below: f"/topics/{_quoted(name)}{below}", NAMES, st.sampled_from(_BELOW)),
            st.builds(lambda name, below: f"/topics/{_quoted(name)}{below}", NAMES, st.sampled_from(_BELOW)),
            st.sampled_from(
                [*pages, "/connection/websocket", "*", "http://evil.example/", "//evil.example/", "/%", "/%zz", "/%ff"]
            ),
            TEXTS.map(_quoted).map(lambda text: f"/{text}"),
        )
    )
    names = draw(st.lists(st.sampled_from(sorted(_QUERIES)), max_size=3))
    if "poll" in names and "wait" not in names:
        names.append("wait")
    query = "&".join(f"{name}={_quoted(str(draw(_QUERIES[name])))}" for name in names)
    return path + (f"?{query}" if query else "")


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe=":@/")


@st.composite
def _requests(draw: st.DrawFn) -> tuple[str, bytes]:
    method = draw(_METHODS)
    body = draw(_BODIES) if draw(st.integers(0, 3)) else b""
    headers = {"Host": "localhost"}
    for name in draw(st.lists(st.sampled_from(sorted(_HEADERS)), max_size=4)):
        headers[name] = draw(_HEADERS[name])
    lines = [
        f"{method} {draw(_targets())} {draw(st.sampled_from(['HTTP/1.1'] * 20 + ['HTTP/1.0', 'HTTP/2.0', 'X', '']))}"
    ]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body and not {"Content-Length", "Transfer-Encoding"} & headers.keys():
        lines.append(f"Content-Length: {len(body)}")
    elif headers.get("Transfer-Encoding") == "chunked":
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    data = "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body
    if not draw(st.integers(0, 9)):
        data = mutated(data, draw(MUTATIONS))
    return method, data


def test_http(open_ground: Ground) -> None:
    _throw_all("http", open_ground, examples=250)


def test_http_with_keys(closed_ground: Ground) -> None:
    _throw_all("http with keys", closed_ground, examples=100)


def _throw_all(name: str, ground: Ground, *, examples: int) -> None:
    async def throw(method: str, data: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", ground.port)
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(data)
                await writer.drain()
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await _judge(reader, method)
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    fuzz(name, _requests(), lambda given: ground.run(throw(*given)), examples=examples)


async def _judge(reader: asyncio.StreamReader, method: str) -> None:
    """Look at the first answer; a request that was not whole, or waits for news, has none yet."""
    try:
        async with asyncio.timeout(0.2):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except TimeoutError:
        return
    status, *lines = head.split("\r\n")
    version, code, _ = status.split(" ", 2)
    assert version == "HTTP/1.1"
    number = int(code)
    assert 100 <= number < 500, head
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    assert "traceback" not in head.lower()
    if method == "HEAD" or number in {101, 204, 304} or "content-length" not in headers:
        return
    body = await reader.readexactly(int(headers["content-length"]))
    assert b"Traceback" not in body
    if headers.get("content-type", "").startswith("application/json"):
        answer = json.loads(body)
        if isinstance(answer, list):
            return  # events, as Durable Streams are
        _check_error(answer)
        for reply in answer.get("replies") or answer.get("responses") or []:
            _check_error(reply)


def _check_error(answer: dict[str, Any]) -> None:
    error = answer.get("error")
    if error is not None:
        assert error["code"] in set(ErrorCode) | {404, 405}, error
        assert error["code"] != ErrorCode.INTERNAL, error
        assert 0 < len(error["message"]) < 1000, error
