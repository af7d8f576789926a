"""Fuzzing tokens and key sets: who is let in holds a key of ours; everybody else hears a documented error."""

import base64
import contextlib
import hashlib
import hmac
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
from hypothesis import strategies as st

from gateway.auth import Authority
from gateway.errors import CommandError, ErrorCode
from gateway.grants import VERBS, Identity
from gateway.keys import Key, KeySetError, _keys_of_set
from gateway.settings import Settings
from gateway.types import Topic
from tests.fuzz.ground import Ground, fuzz
from tests.fuzz.hostile import JSON, MUTATIONS, NAMES, NUMBERS, TEXTS, dumps, mutated
from tests.fuzz.wire import TEXT, frame, peer
from tests.signing import SECRET, jwk_set, signer

RS, ES, ED = signer("RS256").named("rs"), signer("ES256").named("es"), signer("EdDSA")
STRANGERS = [signer("RS256", 1).named("rs"), signer("HS256", 1)]
_SHA = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}

_HEADERS = st.fixed_dictionaries(
    {"alg": st.sampled_from(["HS256", "HS512", "RS256", "ES256", "EdDSA", "none", "None", "", "HS1", "PS256"]) | JSON},
    optional={
        "kid": st.sampled_from(["rs", "es", "../../dev/null", "' OR 1=1"]) | JSON,
        "typ": TEXTS | JSON,
        "cty": TEXTS,
        "zip": st.just("DEF"),
        "crit": st.just(["exp"]) | JSON,
        "b64": st.booleans(),
        "jku": st.just("https://evil.example/keys"),
        "jwk": st.just(RS.jwk) | JSON,
        "x5u": TEXTS,
        "x5c": JSON,
    },
)
_CAPS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "channels": st.lists(NAMES, max_size=3) | JSON,
            "match": st.sampled_from(["wildcard", "regex", ""]) | TEXTS,
            "allow": st.lists(st.sampled_from(["sub", "pub", "*", *VERBS]) | TEXTS, max_size=3) | JSON,
            "redact": st.fixed_dictionaries(
                {},
                optional={
                    "drop": st.lists(TEXTS | st.just("tools"), max_size=2),
                    "mask": st.lists(TEXTS | st.just("arguments"), max_size=2),
                },
            )
            | JSON,
        },
    ),
    max_size=3,
)
_CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "sub": NAMES | JSON,
        "exp": st.just(4e9) | NUMBERS | JSON,
        "nbf": NUMBERS | JSON,
        "iat": NUMBERS | JSON,
        "aud": TEXTS | JSON,
        "iss": TEXTS | JSON,
        "info": JSON,
        "channel": NAMES | JSON,
        "channels": st.lists(NAMES, max_size=3) | JSON,
        "caps": _CAPS | JSON,
        "client": TEXTS,
        "allow": JSON,
    },
)
_KEYS = ["secret", "RS", "ES", "ED", "stranger", "public key as secret", "nothing", "noise"]


def _b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _signature(key: str, message: bytes, alg: object) -> bytes:
    match key:
        case "secret":
            return hmac.digest(SECRET.encode(), message, _SHA.get(str(alg), hashlib.sha256))
        case "RS" | "ES" | "ED":
            who = {"RS": RS, "ES": ES, "ED": ED}[key]
            return bytes(jwt.get_algorithm_by_name(who.algorithm).sign(message, who.private))
        case "stranger":
            who = STRANGERS[0]
            return bytes(jwt.get_algorithm_by_name("RS256").sign(message, who.private))
        case "public key as secret":
            return hmac.digest(RS.public_pem, message, _SHA.get(str(alg), hashlib.sha256))
        case "nothing":
            return b""
        case _:
            return message[:32]


@st.composite
def _tokens(draw: st.DrawFn) -> tuple[str, bool]:
    """Draw a token, and whether it was signed with a key of ours."""
    key = draw(st.sampled_from(["secret", "secret", *_KEYS]))
    right = {"secret": "HS256", "RS": "RS256", "ES": "ES256", "ED": "EdDSA"}
    header: Any = draw(_HEADERS)
    if key in right and draw(st.integers(0, 2)):
        header = {"alg": right[key]}
    parts = []
    for value in (header, draw(_CLAIMS if draw(st.integers(0, 12)) else JSON)):
        data = dumps(value)
        if not draw(st.integers(0, 30)):
            depth = draw(st.integers(500, 3000))
            data = b'{"alg":"HS256","kid":' + b"[" * depth + b"]" * depth + b"}"
        if not draw(st.integers(0, 12)):
            data = mutated(data, draw(MUTATIONS))
        parts.append(_b64(data))
    message = b".".join(parts)
    alg = header.get("alg")
    signature = _signature(key, message, alg)
    token = message + b"." + _b64(signature)
    if not draw(st.integers(0, 8)):
        broken = mutated(token, draw(MUTATIONS))
        return broken.decode("latin-1"), key in right  # not judged: it may have become another right one
    return token.decode("latin-1"), key in right


_REFUSALS = {ErrorCode.UNAUTHORIZED, ErrorCode.TOKEN_EXPIRED}
_TOPICS = [Topic("a"), Topic("chat:1"), Topic("x" * 200)]


def _authority() -> Authority:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "keys.json"
        place.write_bytes(jwk_set(RS, ES, ED))
        return Authority(Settings(token_secrets=SECRET, token_jwks=str(place), user_grants="chat:{sub}"))


def test_tokens(closed_ground: Ground) -> None:
    authority = _authority()

    async def throw(token: str, *, ours: bool, outcome: str) -> None:
        """The same token in a connect command and in a header is judged as it was apart from the wire."""
        async with peer(closed_ground.port) as one:
            await one.send(frame(TEXT, json.dumps({"id": 1, "connect": {"token": token}}).encode()))
            found = await one.frame()
        assert found is not None
        _, payload, _ = found
        if outcome == "in" and token:
            assert payload.startswith(b'{"id":1,"connect":{'), payload
            assert ours
        else:
            assert payload.startswith(
                (b'{"id":1,"error":{"code":101,', b'{"id":1,"error":{"code":109,', b"\x0d\xac")
            ), payload

    def judge(given: tuple[str, bool]) -> None:
        token, ours = given
        authority.knows(token)
        let_in = _judged(lambda: authority.connect(token), _REFUSALS)
        if let_in is not None:
            assert ours or not token
            _look(let_in)
        ann = Identity(user="ann", grants=())
        _judged(lambda: authority.subscription(ann, _TOPICS[0], token), {*_REFUSALS, ErrorCode.PERMISSION_DENIED})
        closed_ground.run(throw(token, ours=ours, outcome="out" if let_in is None else "in"))

    fuzz("tokens", _tokens(), judge, examples=150)


def _judged(check: Callable[[], Identity], refusals: set[ErrorCode]) -> Identity | None:
    """Give who a token is; None where it is refused, with one of these codes."""
    try:
        return check()
    except CommandError as error:
        refused = error
    assert refused.code in refusals
    assert 0 < len(refused.message) < 500
    return None


def _look(identity: Identity) -> None:
    """Ask an identity everything it can be asked."""
    assert isinstance(identity.user, str)
    for topic in _TOPICS:
        for verb in VERBS:
            identity.may(verb, topic)
        assert isinstance(identity.verbs(topic), list | tuple)
        identity.redaction(topic)


_JWKS = st.one_of(
    st.sampled_from([RS.jwk, ES.jwk, ED.jwk, {"kty": "oct", "k": _b64(SECRET.encode()).decode()}]),
    st.builds(
        lambda jwk, name, value: {**jwk, name: value},
        st.sampled_from([RS.jwk, ES.jwk, ED.jwk]),
        st.sampled_from(["kty", "alg", "use", "kid", "n", "e", "x", "y", "crv", "k", "d", "p", "key_ops", "oth"]),
        JSON
        | st.sampled_from(
            [
                "AQAB",
                "AA",
                "",
                "_" * 8000,
                "P-256",
                "P-521",
                "secp256k1",
                "Ed448",
                "RSA",
                "EC",
                "OKP",
                "oct",
                "none",
                "HS256",
            ]
        ),
    ),
    JSON,
)
_SETS = st.one_of(
    st.fixed_dictionaries({"keys": st.lists(_JWKS, max_size=4) | JSON}, optional={"x": JSON}).map(dumps),
    JSON.map(dumps),
    st.builds(mutated, st.just(jwk_set(RS, ES, ED)), MUTATIONS),
    st.builds(lambda depth: b'{"keys":' + b"[" * depth + b"]" * depth + b"}", st.integers(900, 100_000)),
    st.binary(max_size=50),
)


def test_key_sets() -> None:
    def throw(text: bytes) -> None:
        keys: list[Key] = []
        with contextlib.suppress(KeySetError):
            keys = _keys_of_set(text, secrets=False)
        for key in keys:
            assert key.algorithms
            assert not set(key.algorithms) & {"none", "HS256", "HS384", "HS512"}

    fuzz("key sets", _SETS, throw, examples=300)
