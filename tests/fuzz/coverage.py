"""Fuzzing what reads bytes from outside, guided by the code that they reach (atheris).

``python -m tests.fuzz.coverage -max_total_time=SECONDS CORPUS`` runs until the time is over or something is found. A
target takes any bytes and gives a value or the error that it documents; anything else is a fault. The first byte of an
input chooses the target, and the folder is where inputs that reached something new are kept.
"""

import contextlib
import json
import logging
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import atheris
from starlette.applications import Starlette
from starlette.requests import Request

with atheris.instrument_imports(include=["gateway", "jwt"]):
    from gateway.addresses import Proxies
    from gateway.api.globs import compile_glob
    from gateway.auth import Authority
    from gateway.codec import decode_event, encode_event
    from gateway.errors import CommandError, DisconnectError, EventRefusedError, SnapshotError
    from gateway.frames import decode_frame
    from gateway.incoming import FrameReader, FrameRefusedError
    from gateway.keys import KeySetError, _keys_of_set
    from gateway.lens import read_lens
    from gateway.mirror import Mirror
    from gateway.origin import OriginGuard
    from gateway.settings import Settings
    from gateway.streaming.request import read_request
    from gateway.types import Publication

from tests.signing import SECRET, jwk_set, signer, token

KEYS = [signer("RS256").named("rs"), signer("ES256"), signer("EdDSA")]


def frames(data: bytes) -> None:
    """Bytes of a websocket, with and without compression, in two pieces."""
    for deflate in (False, True):
        reader = FrameReader(max_message=1000, deflate=deflate)
        with contextlib.suppress(FrameRefusedError):
            for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
                for _, payload in reader.feed(piece):
                    assert len(payload) <= 1000


def commands(data: bytes) -> None:
    """The text of a frame."""
    with contextlib.suppress(DisconnectError):
        for command in decode_frame(data):
            assert (command.request is None) != (command.refusal is None)


def events(data: bytes) -> None:
    """Lines that are events: each that is taken is the same after another round, and every mirror takes it."""
    mirror = Mirror("t", epoch="aaaaaaaa")
    for line in data.split(b"\n"):
        with contextlib.suppress(EventRefusedError):
            encoded = encode_event(decode_event(line))
            event = decode_event(encoded)
            assert encode_event(event) == encoded
            mirror.apply(Publication(offset=mirror.offset + 1, data=event))
    state = json.loads(json.dumps(mirror.snapshot()))
    assert Mirror.restore(state).snapshot() == mirror.snapshot()


def snapshots(data: bytes) -> None:
    """A snapshot from somewhere."""
    with contextlib.suppress(EventRefusedError, SnapshotError):
        Mirror.restore(decode_event(data)).messages()


def tokens(data: bytes) -> None:
    """A token, as it is in a connect command."""
    text = data.decode("latin-1")
    AUTHORITY.knows(text)
    with contextlib.suppress(CommandError):
        AUTHORITY.connect(text)


def key_sets(data: bytes) -> None:
    """A key set from the web."""
    with contextlib.suppress(KeySetError):
        for key in _keys_of_set(data, secrets=False):
            assert not set(key.algorithms) & {"none", "HS256"}


def requests(data: bytes) -> None:
    """A path, a query and headers, by lines."""
    path, query, *rest = [*data.split(b"\n"), b"", b""]
    names = (b"last-event-id", b"host", b"origin", b"x-forwarded-for", b"x-api-key", b"authorization")
    headers = list(zip(names, rest, strict=False))
    scope = {"type": "http", "method": "GET", "app": APP, "headers": headers, "query_string": query}
    scope |= {"raw_path": b"/topics/" + path, "path": "/topics/" + path.decode("latin-1")}
    request = Request(scope)
    with contextlib.suppress(CommandError):
        read_request(request)
    GUARD._objection(request.headers, scope)
    PROXIES.client("10.0.0.1", request.headers.getlist("x-forwarded-for"))


def patterns(data: bytes) -> None:
    """A pattern of topics, and a lens."""
    with contextlib.suppress(ValueError):
        compile_glob(data.decode("latin-1")).match("chat:1")
    with contextlib.suppress(EventRefusedError, CommandError):
        read_lens(decode_event(data))


TARGETS: list[Callable[[bytes], None]] = [frames, commands, events, snapshots, tokens, key_sets, requests, patterns]

_PACKED = zlib.compress(b'{"id":1}', wbits=-15)
SEEDS: list[bytes] = [
    b"\x00\x81\x82\0\0\0\0{}\x01\x81\0\0\0\0a\x80\x81\0\0\0\0b\x89\x80\0\0\0\0\x88\x82\0\0\0\0\x03\xe8",
    b"\x00\xc1" + bytes((0x80 | len(_PACKED),)) + b"\0\0\0\0" + _PACKED,
    b"\x00\x81\xfe" + struct.pack("!H", 126) + b"\0\0\0\0" + b"x" * 126,
    b'\x01{"id":1,"connect":{"token":"x"}}\n{"id":2,"subscribe":{"channel":"a","recover":true,"offset":1,"epoch":"x"}}',
    b'\x01{"id":3,"rpc":{"method":"send","data":{}}}\n{"id":4,"history":{"channel":"a","since":{"offset":1}}}\n{}',
    b'\x02{"type":"agent_start","run":"r","at":1}\n{"type":"agent_delta","run":"r","message":"m","text":"\\ud83d"}',
    (
        b'\x02{"type":"tool_call_delta","run":"r","message":"m","index":0,"id":"c","name":"n","text":"{"}\n'
        b'{"type":"assistant_message","seq":0,"time":"t","run":"r","message":"m","content":"x","metadata":{}}'
    ),
    (
        b'\x02{"type":"approval_required","run":"r","tool_call_id":"c","name":"n","arguments":"{}","expires_at":1}\n'
        b'{"type":"usage","run":"r","call":"k","requests":1}\n{"type":"message_queued","id":"1","content":"x","by":"y"}'
    ),
    b"\x03" + json.dumps(Mirror("t", epoch="aaaaaaaa").snapshot()).encode(),
    b"\x04" + token("ann", channels=["a"], caps=[{"channels": ["b*"], "match": "wildcard", "allow": ["sub"]}]).encode(),
    b"\x04" + KEYS[0].sign({"sub": "ann"}).encode(),
    b"\x05" + jwk_set(*KEYS),
    b"\x06a/events\nfrom=aaaaaaaa:1&types=chat&rate=3&mirror=1\naaaaaaaa:1.2~1,2\nlocalhost\nhttp://localhost\n1.2.3.4",
    b"\x07{a,b}[!c]*?",
    b'\x07{"lens":{"types":["chat"],"rate":5,"finished":true}}',
]


def one(data: bytes) -> None:
    """Throw one input at the target that it chooses."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def _authority() -> Authority:
    with tempfile.NamedTemporaryFile(suffix=".json") as keys:
        keys.write(jwk_set(*KEYS))
        keys.flush()
        return Authority(Settings(token_secrets=SECRET, token_jwks=keys.name))


AUTHORITY = _authority()
GUARD = OriginGuard(Starlette(), host="127.0.0.1", allowed=())
PROXIES = Proxies(["10.0.0.0/8"])
APP = Starlette()
APP.state.authority = Authority(Settings())

if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the keys that are left out of a set
    for number, seed in enumerate(SEEDS):
        (Path(sys.argv[-1]) / f"seed{number}").write_bytes(seed)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
