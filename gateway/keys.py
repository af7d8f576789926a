"""The keys that tokens are checked with: secrets, public keys from files, and key sets that change.

Which algorithms a key is good for follows from the key alone, never from the token: a public key that is taken for an
HMAC secret, and `none`, are the two classic ways to forge a token (RFC 8725, 2.1 and 3.1).
"""

import asyncio
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK, PyJWTError

from gateway.settings import SettingsError

__all__ = ["MAX_KEYS", "Key", "KeySet", "KeySetError", "Keyring", "public_keys_of", "secret_key"]

logger = logging.getLogger(__name__)

MAX_KEYS = 64
"""Keys of one kind that are taken, so that a token without `kid` is checked with so many at most."""

MAX_BYTES = 1024 * 1024
"""Bytes of the largest key set."""

FETCH_PATIENCE = 5.0
"""Seconds that the server of a key set gets to answer."""

FRESH = 600.0
"""Seconds after which a key set is read again: so long a key that was withdrawn may go on."""

PAUSE = 10.0
"""Seconds between two readings of a key set, whatever unknown keys tokens name meanwhile."""

_HMAC_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The secret must be as long as the hash (RFC 7518, 3.2)."""

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_RSA_BITS = 2048  # RFC 7518, 3.3

_NO_KEY = (
    PyJWTError,
    UnsupportedAlgorithm,
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""What the libraries raise for a JWK that is none: NotImplementedError for the algorithm `none`, say."""


class KeySetError(Exception):
    """A key set cannot be read now."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key, and what it is good for.

    Attributes:
        value: As PyJWT takes it.
        algorithms: The signatures it checks.
        id: Its `kid`; None fits every token.

    """

    value: Any
    algorithms: tuple[str, ...]
    id: str | None = None

    def __repr__(self) -> str:
        """Show what is no secret."""
        return f"Key(id={self.id!r}, algorithms={self.algorithms!r})"


def secret_key(secret: bytes, *, id: str | None = None) -> Key:
    """Make a key of a secret.

    Raises:
        ValueError: It is too short to be one.

    """
    algorithms = tuple(name for name, size in _HMAC_BYTES.items() if len(secret) >= size)
    if not algorithms:
        raise ValueError(f"expected a secret of 32 bytes or more, got one of {len(secret)}")
    return Key(value=secret, algorithms=algorithms, id=id)


def public_keys_of(text: bytes) -> list[Key]:
    """Read the public keys of a PEM file.

    Raises:
        ValueError: There is none, or something else.

    """
    if b"PRIVATE KEY-----" in text:
        raise ValueError("it holds a private key, which belongs to who makes the tokens; give the public one")
    blocks = text.split(b"-----BEGIN ")[1:]
    keys = [_public_key(load_pem_public_key(b"-----BEGIN " + block)) for block in blocks]
    if not keys:
        raise ValueError("it holds no public key in PEM form")
    return keys


def _public_key(value: object, *, id: str | None = None) -> Key:
    if isinstance(value, RSAPublicKey) and value.key_size >= _RSA_BITS:
        return Key(value=value, algorithms=_RSA, id=id)
    if isinstance(value, EllipticCurvePublicKey) and value.curve.name in _CURVES:
        return Key(value=value, algorithms=(_CURVES[value.curve.name],), id=id)
    if isinstance(value, Ed25519PublicKey):
        return Key(value=value, algorithms=("EdDSA",), id=id)
    raise ValueError(
        f"expected RSA of {_RSA_BITS} bits or more, ECDSA on P-256, P-384 or P-521, or Ed25519, "
        f"got {type(value).__name__}"
    )


def _keys_of_set(text: bytes, *, secrets: bool) -> list[Key]:
    """Read a JSON Web Key Set (RFC 7517); keys that are not for us are left out."""
    try:
        listed = json.loads(text)["keys"]
        keys = [_key_of_jwk(jwk, secrets=secrets) for jwk in listed]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise KeySetError(f'it is no key set {{"keys": […]}}: {error!r:.200}') from error
    found = [key for key in keys if key is not None]
    if not found:
        raise KeySetError(f"none of its {len(keys)} keys can check a token")
    if len(found) > MAX_KEYS:
        raise KeySetError(f"it has {len(found)} keys, and {MAX_KEYS} are taken")
    return found


def _key_of_jwk(jwk: object, *, secrets: bool) -> Key | None:
    if not isinstance(jwk, dict):
        return None
    if jwk.get("use", "sig") != "sig" or "d" in jwk or (jwk.get("kty") == "oct" and not secrets):
        return None
    name = jwk.get("kid") if isinstance(jwk.get("kid"), str) else None
    try:
        value = PyJWK(jwk).key
        key = secret_key(value, id=name) if isinstance(value, bytes) else _public_key(value, id=name)
    except _NO_KEY as error:
        # Its message may quote the key.
        logger.warning("the key %.80r of the key set is left out: %s", name, type(error).__name__)
        return None
    if "alg" not in jwk:
        return key
    return msgspec.structs.replace(key, algorithms=(jwk["alg"],)) if jwk["alg"] in key.algorithms else None


class KeySet:
    """A JSON Web Key Set in a file or on the web, read again when it is old or lacks a key.

    Args:
        place: A path, or an address.

    Raises:
        SettingsError: The file holds no key set, or the address is not one of https (or of this machine).

    """

    def __init__(self, place: str) -> None:
        self.place: str = place
        self.keys: list[Key] = []
        self._remote = "://" in place
        self._tried_at: float | None = None
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None
        if self._remote and not _is_safe(place):
            raise SettingsError("GATEWAY_TOKEN_JWKS: expected a file or an address of https, got another address")
        if not self._remote:
            try:
                self.keys = _keys_of_set(_read_file(place), secrets=True)
            except (KeySetError, OSError) as error:
                raise SettingsError(f"GATEWAY_TOKEN_JWKS: {place}: {error}") from error
            self._read_at = time.monotonic()

    def knows(self, id: str | None) -> bool:
        """Say whether a key for this `kid` is here, and not too old."""
        fresh = self._read_at is not None and time.monotonic() - self._read_at < FRESH
        return fresh and bool(self.keys) and (id is None or any(key.id in {id, None} for key in self.keys))

    async def ready(self, id: str | None) -> None:
        """Have the keys that a token with this `kid` is checked with, as far as they can be had.

        Raises:
            KeySetError: There are none, as the set could not be read yet.

        """
        known = bool(self.keys) and (id is None or any(key.id in {id, None} for key in self.keys))
        now = time.monotonic()
        old = self._read_at is None or now - self._read_at >= FRESH
        if (old or not known) and self._reading is None and (self._tried_at is None or now - self._tried_at >= PAUSE):
            self._tried_at = now
            self._reading = asyncio.get_running_loop().create_task(self._read())
        if not known and self._reading is not None:
            # Whoever waits may be cancelled; the others still wait for the same answer.
            await asyncio.wait([self._reading])
        if not self.keys:
            raise KeySetError("the keys cannot be had now")

    async def aclose(self) -> None:
        """Wait for a reading that is under way."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    async def _read(self) -> None:
        try:
            text = await asyncio.to_thread(_fetched if self._remote else _read_file, self.place)
            self.keys = _keys_of_set(text, secrets=not self._remote)
            self._read_at = time.monotonic()
        except (KeySetError, OSError, ValueError, HTTPException) as error:
            logger.warning("the key set cannot be read: %.300s", error)
        except Exception:
            logger.exception("the key set cannot be read")
        finally:
            self._reading = None


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme == "https":
        return bool(parts.hostname)
    try:
        return parts.scheme == "http" and ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return parts.scheme == "http" and parts.hostname == "localhost"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _fetched(address: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirects())
    try:
        with opener.open(address, timeout=FETCH_PATIENCE) as answer:  # its scheme has been checked
            return _bounded(answer.read(MAX_BYTES + 1))
    except urllib.error.HTTPError as error:
        raise KeySetError(f"its server answers with status {error.code}") from error


def _read_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return _bounded(file.read(MAX_BYTES + 1))


def _bounded(text: bytes) -> bytes:
    if len(text) > MAX_BYTES:
        raise KeySetError(f"it has more than {MAX_BYTES} bytes")
    return text


class Keyring:
    """All keys of a gateway.

    Args:
        secrets: HMAC secrets.
        public_keys: Paths of PEM files.
        key_set: Where a key set is; "" for none.

    Raises:
        SettingsError: One of them is none.

    """

    def __init__(self, *, secrets: Iterable[str] = (), public_keys: Iterable[str] = (), key_set: str = "") -> None:
        self._keys: list[Key] = []
        for number, secret in enumerate(secrets, 1):
            try:
                self._keys.append(secret_key(secret.encode()))
            except ValueError as error:
                raise SettingsError(f"GATEWAY_TOKEN_SECRETS: number {number}: {error}") from error
        for path in public_keys:
            try:
                self._keys += public_keys_of(_read_file(path))
            except (KeySetError, OSError, ValueError) as error:
                raise SettingsError(f"GATEWAY_TOKEN_PUBLIC_KEYS: {path}: {error}") from error
        if len(self._keys) > MAX_KEYS:
            raise SettingsError(f"{len(self._keys)} keys for tokens are set, and {MAX_KEYS} are taken")
        self._set = KeySet(key_set) if key_set else None

    def __bool__(self) -> bool:
        """Say whether tokens can be checked at all."""
        return bool(self._keys) or self._set is not None

    def knows(self, id: str | None) -> bool:
        """Say whether a token with this `kid` can be checked at once."""
        return self._set is None or self._set.knows(id)

    async def ready(self, id: str | None) -> None:
        """Have the keys that a token with this `kid` needs; raises as `KeySet.ready`."""
        if self._set is not None:
            try:
                await self._set.ready(id)
            except KeySetError:
                if not self._keys:
                    raise

    def candidates(self, *, algorithm: str, id: str | None) -> list[Key]:
        """Give the keys that a token with this header may be signed with."""
        listed = [*self._keys, *(self._set.keys if self._set is not None else ())]
        return [key for key in listed if algorithm in key.algorithms and (id is None or key.id in {id, None})]

    async def aclose(self) -> None:
        """Wait for what is under way."""
        if self._set is not None:
            await self._set.aclose()
