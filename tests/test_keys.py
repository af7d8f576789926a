"""Keys: which are taken, what they are good for, and key sets that change."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway import keys
from gateway.keys import Key, Keyring, KeySet, KeySetError, public_keys_of, secret_key
from gateway.settings import SettingsError
from tests.signing import SECRET, jwk_set, signer

RS, ES, ED = signer("RS256"), signer("ES256"), signer("EdDSA")


@pytest.mark.parametrize(
    ("size", "algorithms"),
    [(32, ("HS256",)), (47, ("HS256",)), (48, ("HS256", "HS384")), (64, ("HS256", "HS384", "HS512"))],
)
def test_secret_is_good_for_what_it_is_long_enough_for(size: int, algorithms: tuple[str, ...]) -> None:
    assert secret_key(b"x" * size).algorithms == algorithms


def test_short_secret_is_refused_and_not_told() -> None:
    with pytest.raises(SettingsError, match="GATEWAY_TOKEN_SECRETS: number 2: expected a secret of 32") as refused:
        Keyring(secrets=[SECRET, "hush-hush"])
    assert "hush" not in str(refused.value)


def test_key_does_not_show_its_secret() -> None:
    assert SECRET not in repr(secret_key(SECRET.encode()))


def test_pem_file_may_hold_several_public_keys() -> None:
    found = public_keys_of(RS.public_pem + ES.public_pem + ED.public_pem)
    assert [key.algorithms[0] for key in found] == ["RS256", "ES256", "EdDSA"]
    assert all("HS256" not in key.algorithms and "none" not in key.algorithms for key in found)


def test_private_and_broken_pem_is_refused(tmp_path: Path) -> None:
    for text, reason in ((RS.private_pem, "private key"), (b"hello", "no public key"), (b"-----BEGIN x\n", "")):
        path = tmp_path / "key.pem"
        path.write_bytes(text)
        with pytest.raises(SettingsError, match=f"GATEWAY_TOKEN_PUBLIC_KEYS: {path}: .*{reason}"):
            Keyring(public_keys=[str(path)])
    with pytest.raises(SettingsError, match="No such file"):
        Keyring(public_keys=[str(tmp_path / "none.pem")])


def test_candidates_fit_the_algorithm_and_the_key_id(tmp_path: Path) -> None:
    path, listed = tmp_path / "key.pem", tmp_path / "keys.json"
    path.write_bytes(RS.public_pem)
    listed.write_bytes(jwk_set(signer("RS256", 1).named("one"), ES.named("two")))
    ring = Keyring(secrets=[SECRET], public_keys=[str(path)], key_set=str(listed))

    def found(algorithm: str, id: str | None) -> list[str | None]:
        return [key.id for key in ring.candidates(algorithm=algorithm, id=id)]

    assert found("HS256", None) == [None]
    assert found("HS256", "anything") == [None]
    assert found("RS256", None) == [None, "one"]
    assert found("RS256", "one") == [None, "one"]
    assert found("RS256", "three") == [None]
    assert found("ES256", "two") == ["two"]
    assert found("none", None) == found("", None) == found("hs256", None) == []


def test_keys_of_a_set_that_are_not_for_us_are_left_out(tmp_path: Path) -> None:
    jwks: list[Any] = [
        {**RS.named("enc").jwk, "use": "enc"},
        {**RS.named("private").jwk, "d": "AQAB"},
        {**RS.named("other").jwk, "alg": "HS256"},
        {**RS.named("pinned").jwk, "alg": "RS384"},
        {"kty": "oct", "kid": "short", "k": "c2hvcnQ"},
        {"kty": "weird"},
        {**RS.named("none").jwk, "alg": "none"},
        "no object",
        {**ED.named("good").jwk, "use": "sig"},
    ]
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": jwks}))
    assert [(key.id, key.algorithms) for key in KeySet(str(path)).keys] == [
        ("pinned", ("RS384",)),
        ("good", ("EdDSA",)),
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": {}}', '{"keys": []}', '{"keys": [1]}', "[" * 5000])
def test_file_that_is_no_key_set_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match="GATEWAY_TOKEN_JWKS"):
        KeySet(str(path))


@pytest.mark.parametrize("address", ["http://example.com/keys", "ftp://example.com/keys", "https://", "file:///etc/x"])
def test_key_set_comes_over_a_safe_road_only(address: str) -> None:
    with pytest.raises(SettingsError, match="https"):
        KeySet(address)


class _Keys(BaseHTTPRequestHandler):
    body: bytes = b""
    status: int = 200
    asked: int = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _served() -> Iterator[tuple[str, type[_Keys]]]:
    handler = type("Keys", (_Keys,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/keys", handler
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_key_set_is_fetched_when_a_key_is_unknown_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with _served() as (address, served):
        served.body = jwk_set(RS.named("one"))
        key_set = KeySet(address)
        assert served.asked == 0
        await asyncio.gather(*(key_set.ready("one") for _ in range(10)))
        assert [key.id for key in key_set.keys] == ["one"]
        assert served.asked == 1

        served.body = jwk_set(RS.named("one"), ES.named("two"))
        await key_set.ready("two")  # too soon after the last reading
        assert served.asked == 1
        monkeypatch.setattr(keys, "PAUSE", 0.0)
        await key_set.ready("two")
        assert [key.id for key in key_set.keys] == ["one", "two"]
        await key_set.ready("one")
        await key_set.ready(None)
        assert served.asked == 2


async def test_keys_stay_while_their_server_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keys, "PAUSE", 0.0)
    with _served() as (address, served):
        served.status = 500
        key_set = KeySet(address)
        with pytest.raises(KeySetError):
            await key_set.ready("one")
        served.status, served.body = 200, jwk_set(RS.named("one"))
        await key_set.ready("one")
        for status, body in ((500, b""), (200, b"nonsense"), (200, b"x" * (keys.MAX_BYTES + 1)), (302, b"")):
            served.status, served.body = status, body
            await key_set.ready("two")
            assert [key.id for key in key_set.keys] == ["one"]
    await key_set.ready("two")
    assert [key.id for key in key_set.keys] == ["one"]
    assert "the key set cannot be read" in caplog.text


async def test_old_keys_are_read_again_beside_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(jwk_set(RS.named("one")))
    key_set = KeySet(str(path))
    path.write_bytes(jwk_set(RS.named("one"), ES.named("two")))
    await key_set.ready("one")
    assert len(key_set.keys) == 1
    monkeypatch.setattr(keys, "FRESH", 0.0)
    await key_set.ready("one")
    await key_set.aclose()
    assert [key.id for key in key_set.keys] == ["one", "two"]


async def test_secrets_of_a_set_count_in_a_file_only(tmp_path: Path) -> None:
    text = jwk_set(RS.named("one"))
    secret = {"kty": "oct", "kid": "s", "k": "c2VjcmV0" * 8}
    body = json.dumps({"keys": [*json.loads(text)["keys"], secret]}).encode()
    path = tmp_path / "keys.json"
    path.write_bytes(body)
    assert [key.id for key in KeySet(str(path)).keys] == ["one", "s"]
    with _served() as (address, served):
        served.body = body
        key_set = KeySet(address)
        await key_set.ready(None)
        assert [key.id for key in key_set.keys] == ["one"]


async def test_other_keys_serve_while_the_set_cannot_be_had() -> None:
    ring = Keyring(secrets=[SECRET], key_set="http://127.0.0.1:1/keys")
    await ring.ready("one")
    assert [key.value for key in ring.candidates(algorithm="HS256", id=None)] == [SECRET.encode()]
    assert isinstance(ring.candidates(algorithm="HS256", id=None)[0], Key)
    await ring.aclose()


def test_ring_without_keys_is_empty() -> None:
    assert not Keyring()
    assert Keyring(secrets=[SECRET])
    assert Keyring(key_set="https://example.com/keys")


def test_too_many_keys_are_refused() -> None:
    with pytest.raises(SettingsError, match="65 keys"):
        Keyring(secrets=[SECRET + str(number) for number in range(65)])
