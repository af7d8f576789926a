"""Callers are known by their tokens and keys, and forged ones are none."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from gateway.auth import MAX_TOKEN, Authority, TokenGate
from gateway.errors import CommandError, ErrorCode
from gateway.grants import EVERYTHING
from gateway.settings import Settings, SettingsError
from gateway.types import Topic
from tests.signing import API_KEY, SECRET, forged, jwk_set, signer, token


def _authority(**settings: Any) -> Authority:
    return Authority(Settings(**{"token_secrets": SECRET, **settings}))


def _request(**headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "headers": raw})


def _refusal(call: Callable[..., object], *arguments: object) -> CommandError:
    with pytest.raises(CommandError) as refused:
        call(*arguments)
    return refused.value


def _signed(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, SECRET, algorithm="HS256")


# keys


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_token_signed_with_a_secret_is_taken(algorithm: str) -> None:
    signed = jwt.encode({"sub": "ann"}, SECRET, algorithm=algorithm)
    assert _authority(token_secrets=f"{'another-secret-of-32-characters!'}, {SECRET}").connect(signed).user == "ann"


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "EdDSA"])
def test_token_signed_with_a_private_key_is_taken(algorithm: str, tmp_path: Path) -> None:
    pem, listed = tmp_path / "key.pem", tmp_path / "keys.json"
    mine = signer(algorithm)
    pem.write_bytes(mine.public_pem)
    listed.write_bytes(jwk_set(mine.named("one"), signer("ES256", 9).named("two")))
    for authority in (
        _authority(token_secrets="", token_public_keys=str(pem)),
        _authority(token_secrets="", token_jwks=str(listed)),
    ):
        assert authority.connect(mine.sign({"sub": "ann"})).user == "ann"
    assert authority.connect(mine.named("one").sign({"sub": "ann"})).user == "ann"
    assert _refusal(authority.connect, mine.named("two").sign({"sub": "ann"})).code == ErrorCode.UNAUTHORIZED


async def test_key_set_is_read_again_for_a_key_that_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    old, new = signer("ES256", 1).named("old"), signer("ES256", 2).named("new")
    path.write_bytes(jwk_set(old))
    authority = _authority(token_secrets="", token_jwks=str(path))
    path.write_bytes(jwk_set(old, new))
    signed = new.sign({"sub": "ann"})
    assert _refusal(authority.connect, signed).code == ErrorCode.UNAUTHORIZED
    await authority.ready(signed)
    assert authority.connect(signed).user == "ann"
    path.write_bytes(jwk_set(new))
    monkeypatch.setattr("gateway.keys.PAUSE", 0.0)
    await authority.ready(signer("ES256", 3).named("unknown").sign({}))
    assert _refusal(authority.connect, old.sign({"sub": "ann"})).code == ErrorCode.UNAUTHORIZED


async def test_keys_that_cannot_be_had_are_a_temporary_error() -> None:
    authority = _authority(token_secrets="", token_jwks="http://127.0.0.1:1/keys")
    with pytest.raises(CommandError) as refused:
        await authority.ready(token("ann"))
    assert (refused.value.code, refused.value.temporary) == (ErrorCode.INTERNAL, True)
    await authority.ready(None)
    await authority.ready("nonsense")
    await authority.aclose()


# forged tokens


def _confused(tmp_path: Path) -> tuple[Authority, bytes]:
    pem = signer("RS256").public_pem
    path = tmp_path / "key.pem"
    path.write_bytes(pem)
    return _authority(token_public_keys=str(path)), pem


def test_unsigned_tokens_are_refused(tmp_path: Path) -> None:
    authority, _ = _confused(tmp_path)
    for algorithm in ("none", "None", "NONE", "nOnE", "", None, 0, "hs256"):
        for signature in (b"", b"x" * 32):
            refused = _refusal(authority.connect, forged({"alg": algorithm}, {"sub": "ann"}, signature))
            assert refused.code == ErrorCode.UNAUTHORIZED
    assert _refusal(authority.connect, forged({"typ": "JWT"}, {})).code == ErrorCode.UNAUTHORIZED


def test_public_key_is_no_secret(tmp_path: Path) -> None:
    authority, pem = _confused(tmp_path)
    for algorithm in ("HS256", "HS384", "HS512"):
        unsigned = forged({"alg": algorithm, "typ": "JWT"}, {"sub": "ann"}).rstrip(".")
        for key in (pem, pem.strip(), b"", b"\0"):
            digest = hmac.new(key, unsigned.encode(), getattr(hashlib, f"sha{algorithm[2:]}")).digest()
            whole = unsigned + "." + forged({}, {}, digest).rpartition(".")[2]
            assert _refusal(authority.connect, whole).code == ErrorCode.UNAUTHORIZED


def test_token_of_another_key_or_changed_on_the_way_is_refused() -> None:
    authority = _authority()
    good = token("ann")
    head, body, signature = good.split(".")
    other = token("bob").split(".")[1]
    for bad in (
        token("ann", secret="another-secret-of-32-characters!"),
        f"{head}.{other}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{body}.{signature[:-2]}AA",
        good + "x",
        good + "." + signature,
        signer("RS256").sign({"sub": "ann"}),
        jwt.encode({"sub": "ann"}, SECRET, algorithm="HS256", headers={"crit": ["x"], "x": 1}),
    ):
        assert _refusal(authority.connect, bad).code == ErrorCode.UNAUTHORIZED


def test_header_cannot_name_a_key_of_its_own() -> None:
    mine = signer("ES256", 5)
    for header in (
        {"jwk": mine.jwk},
        {"jku": "http://127.0.0.1:1/keys"},
        {"x5u": "http://127.0.0.1:1"},
        {"kid": "/dev/null"},
    ):
        signed = mine.sign({"sub": "ann"}, **header)
        assert _refusal(_authority().connect, signed).code == ErrorCode.UNAUTHORIZED


@given(st.one_of(st.text(max_size=200), st.lists(st.text(max_size=30), min_size=3, max_size=3).map(".".join)))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    authority = _authority(anonymous_grants="news")
    if text:
        assert _refusal(authority.connect, text).code == ErrorCode.UNAUTHORIZED
    else:
        assert authority.connect(text).user == ""


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_CLAIMS = ("sub", "exp", "nbf", "iat", "aud", "iss", "jti", "caps", "channels", "info")


@given(st.dictionaries(st.sampled_from(_CLAIMS), _JSON))
def test_any_claims_are_an_identity_or_refused(claims: dict[str, Any]) -> None:
    unsigned = forged({"alg": "HS256", "typ": "JWT"}, claims).rstrip(".")
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        unsigned.encode(), SECRET.encode()
    )
    whole = unsigned + "." + forged({}, {}, signature).rpartition(".")[2]
    refused: ErrorCode | int | None = None
    try:
        _authority().connect(whole)
    except CommandError as error:
        refused = error.code
    assert refused in {None, ErrorCode.UNAUTHORIZED, ErrorCode.TOKEN_EXPIRED}


def test_long_token_is_not_looked_at() -> None:
    long = token("ann", info="x" * MAX_TOKEN)
    assert "at most" in _refusal(_authority().connect, long).message


# claims


@pytest.mark.parametrize("where", ["header", "claims"])
@pytest.mark.parametrize("depth", [20, 62, 64, 300, 900, 3000])
def test_token_may_nest_so_deep_wherever_it_is_checked(depth: int, where: str) -> None:
    # As the fuzzer of tokens found: the depth of the caller's own stack decided.
    deep = "[" * depth + "]" * depth
    parts = {"header": '{"alg":"HS256"', "claims": '{"sub":"ann"'}
    parts[where] += f',"x":{deep}'
    signed = b".".join(base64.urlsafe_b64encode(f"{part}}}".encode()).rstrip(b"=") for part in parts.values())
    signature = hmac.digest(SECRET.encode(), signed, "sha256")
    whole = b".".join([signed, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()
    if depth < 64:
        assert _authority().connect(whole).user == "ann"
    else:
        assert _refusal(_authority().connect, whole).code == ErrorCode.UNAUTHORIZED


def test_expired_token_has_an_error_of_its_own() -> None:
    assert _refusal(_authority().connect, token("ann", lasts=-10)).code == ErrorCode.TOKEN_EXPIRED
    assert _authority(token_leeway=60).connect(token("ann", lasts=-10)).user == "ann"
    # Not to who forged it.
    forged_one = token("ann", secret="another-secret-of-32-characters!", lasts=-10)
    assert _refusal(_authority().connect, forged_one).code == ErrorCode.UNAUTHORIZED


def test_token_of_the_future_is_refused() -> None:
    for claim in ("nbf", "iat"):
        refused = _refusal(_authority().connect, _signed({"sub": "ann", claim: int(time.time()) + 600}))
        assert "not valid yet" in refused.message


def test_audience_and_issuer_count_where_they_are_set() -> None:
    strict = _authority(token_audience="us", token_issuer="backend")
    assert strict.connect(token("ann", aud="us", iss="backend")).user == "ann"
    assert strict.connect(token("ann", aud=["them", "us"], iss="backend")).user == "ann"
    for claims in ({}, {"aud": "us"}, {"iss": "backend"}, {"aud": "them", "iss": "backend"}, {"aud": "us", "iss": "x"}):
        assert _refusal(strict.connect, _signed({"sub": "ann", **claims})).code == ErrorCode.UNAUTHORIZED
    assert _authority().connect(token("ann", aud="anyone", iss="anyone")).user == "ann"


# who may what


def test_without_keys_everybody_may_everything() -> None:
    authority = Authority(Settings())
    assert authority.open
    assert authority.connect(None) is authority.connect("whatever") is authority.http(_request()) is EVERYTHING
    authority.api(_request())
    assert authority.subscription(EVERYTHING, Topic("a"), "whatever") is EVERYTHING


def test_without_a_token_one_may_what_the_settings_say() -> None:
    assert _refusal(_authority().connect, None).code == ErrorCode.UNAUTHORIZED
    identity = _authority(anonymous_grants="public:*=read").connect("")
    assert identity.verbs(Topic("public:1")) == ("read", "topics")
    assert identity.verbs(Topic("chat:1")) == ()


def test_grants_come_from_settings_and_their_file(tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    path.write_text(
        json.dumps({"users": [{"channels": ["chat:{sub}:*"], "allow": ["read"]}], "anonymous": [{"channels": ["n"]}]})
    )
    authority = _authority(grants_file=str(path), user_grants="*=send")
    identity = authority.connect(token("ann"))
    assert identity.verbs(Topic("chat:ann:1")) == ("read", "topics")
    assert identity.verbs(Topic("chat:bob:1")) == ("send",)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"admins": []}', '{"users": {}}', '{"users": [{"channels": ["a"], "allow": ["x"]}]}']
)
def test_grants_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=f"GATEWAY_GRANTS_FILE: {path}: "):
        _authority(grants_file=str(path))


def test_wrong_settings_name_their_variable() -> None:
    for settings, name in (
        ({"user_grants": "a=b"}, "GATEWAY_USER_GRANTS"),
        ({"anonymous_grants": "a=b"}, "GATEWAY_ANONYMOUS_GRANTS"),
        ({"api_keys": "short"}, "GATEWAY_API_KEYS"),
        ({"grants_file": "/no/such/file"}, "GATEWAY_GRANTS_FILE"),
        ({"token_secrets": "short"}, "GATEWAY_TOKEN_SECRETS"),
    ):
        with pytest.raises(SettingsError, match=name):
            _authority(**settings)


def test_connection_and_subscription_tokens_are_not_mixed_up() -> None:
    authority = _authority(user_grants="*")
    for_topic = token("ann", channel="a")
    assert _refusal(authority.connect, for_topic).code == ErrorCode.UNAUTHORIZED
    ann = _authority().connect(token("ann"))
    assert authority.subscription(ann, Topic("a"), for_topic).may("read", Topic("a"))
    assert _refusal(authority.subscription, ann, Topic("a"), token("ann")).code == ErrorCode.PERMISSION_DENIED
    expired = token("ann", channel="a", lasts=-60)
    assert _refusal(authority.subscription, ann, Topic("a"), expired).code == ErrorCode.TOKEN_EXPIRED


def test_revoked_token_is_none() -> None:
    authority = _authority()
    authority.revoked = lambda user, issued_at: user if user == "ann" and issued_at == 5 else None
    assert "revoked" in _refusal(authority.connect, _signed({"sub": "ann", "iat": 5})).message
    assert authority.connect(_signed({"sub": "ann", "iat": 6})).issued_at == 6
    assert authority.connect(_signed({"sub": "bob", "iat": 5})).user == "bob"


# HTTP


def test_bearer_token_tells_who_asks() -> None:
    authority = _authority(user_grants="chat:{sub}", anonymous_grants="news")
    assert authority.http(_request(authorization=f"Bearer {token('ann')}")).user == "ann"
    assert authority.http(_request(authorization=f"bearer  {token('ann')}")).user == "ann"
    assert authority.http(_request()).may("read", Topic("news"))
    for header in ("Basic YTpi", "Bearer nonsense", "nonsense"):
        assert _refusal(authority.http, _request(authorization=header)).code == ErrorCode.UNAUTHORIZED


def test_api_keys_open_everything() -> None:
    authority = _authority(api_keys=f"the-old-key-of-the-api, {API_KEY}")
    for request in (
        _request(x_api_key=API_KEY),
        _request(x_api_key="the-old-key-of-the-api"),
        _request(authorization=f"apikey {API_KEY}"),
    ):
        assert authority.http(request) is EVERYTHING
        authority.api(request)
    for request in (
        _request(),
        _request(x_api_key="x" * 16),
        _request(x_api_key=API_KEY[:-1]),
        _request(x_api_key=f"{API_KEY}x"),
        _request(x_api_key="schlüssel"),
        _request(authorization=f"Bearer {API_KEY}"),
        _request(authorization=f"Bearer {token('ann')}"),
    ):
        assert _refusal(authority.api, request).code == ErrorCode.UNAUTHORIZED
    assert _refusal(authority.http, _request(x_api_key="x" * 16)).code == ErrorCode.UNAUTHORIZED


def test_errors_tell_no_secret() -> None:
    authority = _authority(api_keys=API_KEY)
    bad = token("ann", secret="another-secret-of-32-characters!")
    for call in (
        lambda: authority.connect(bad),
        lambda: authority.api(_request(x_api_key="guess-guess-guess")),
        lambda: authority.connect("guess-guess-guess"),
    ):
        text = str(_refusal(call))
        assert bad not in text
        assert "guess" not in text
        assert SECRET not in text
        assert API_KEY not in text


# the gate


def _gated(authority: Authority) -> TestClient:
    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse(authority.http(request).user or "nobody")

    async def live(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("in")
        await websocket.close()

    routes = [Route("/", page), WebSocketRoute("/ws", live)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(TokenGate, authority=authority)]))


@pytest.mark.parametrize("query", ["token=x", "a=1&access_token=x", "TOKEN=x", "jwt=", "%74oken=x", "api_key=x"])
def test_token_in_an_address_is_refused(query: str) -> None:
    client = _gated(_authority(anonymous_grants="news"))
    answer = client.get(f"/?{query}")
    assert answer.status_code == 400
    assert "in the connect command" in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == 107
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(f"/ws?{query}"):
        pass


def test_other_addresses_pass() -> None:
    client = _gated(_authority(anonymous_grants="news"))
    assert client.get("/?from=token&n=1").text == "nobody"
    assert client.get("/", headers={"authorization": f"Bearer {token('ann')}"}).text == "ann"
    with client.websocket_connect("/ws?x=1") as websocket:
        assert websocket.receive_text() == "in"


def test_gate_answers_what_it_cannot_check_now() -> None:
    client = _gated(_authority(token_secrets="", token_jwks="http://127.0.0.1:1/keys", anonymous_grants="news"))
    answer = client.get("/", headers={"authorization": f"Bearer {token('ann')}"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, 100)


def test_header_that_is_not_for_us_passes_where_no_keys_are_set() -> None:
    client = _gated(Authority(Settings()))
    assert client.get("/", headers={"authorization": "Basic eDp5"}).text == "nobody"
