"""Keys of every kind, and tokens signed with them."""

import base64
import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

__all__ = ["API_KEY", "SECRET", "Signer", "forged", "jwk_set", "signer", "token"]

SECRET = "a-secret-of-64-characters-that-nobody-but-these-tests-would-use!"
API_KEY = "an-api-key-of-tests"


class Signer:
    """A key pair, by the algorithm that it is used with."""

    def __init__(self, algorithm: str, private: Any, *, kid: str | None = None) -> None:
        self.algorithm = algorithm
        self.private = private
        self.kid = kid

    def named(self, kid: str) -> "Signer":
        return Signer(self.algorithm, self.private, kid=kid)

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        if self.kid is not None:
            header["kid"] = self.kid
        return jwt.encode(claims, self.private, algorithm=self.algorithm, headers=header)

    @property
    def public_pem(self) -> bytes:
        pem: bytes = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    @property
    def private_pem(self) -> bytes:
        pem: bytes = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return pem

    @property
    def jwk(self) -> dict[str, Any]:
        public = self.private.public_key()
        to_jwk: Callable[..., Any] = OKPAlgorithm.to_jwk
        if isinstance(self.private, RSAPrivateKey):
            to_jwk = RSAAlgorithm.to_jwk
        elif isinstance(self.private, EllipticCurvePrivateKey):
            to_jwk = ECAlgorithm.to_jwk
        return {**to_jwk(public, as_dict=True), **({"kid": self.kid} if self.kid else {})}


@cache
def signer(algorithm: str, number: int = 0) -> Signer:
    """Give a key pair for an algorithm; the same each time, another for another number."""
    match algorithm[:2]:
        case "RS" | "PS":
            return Signer(algorithm, _rsa(number))
        case "ES":
            return Signer(algorithm, generate_ec(SECP256R1()))
        case _:
            return Signer(algorithm, Ed25519PrivateKey.generate())


@cache
def _rsa(_number: int) -> RSAPrivateKey:  # making one takes long, so the algorithms share them
    return generate_rsa(65537, 2048)


def token(user: str = "", *, secret: str = SECRET, lasts: float | None = None, **claims: Any) -> str:
    """Make a token as a backend would, signed with HS256; `lasts` is seconds."""
    if user:
        claims["sub"] = user
    if lasts is not None:
        claims["exp"] = int(time.time() + lasts)
    return jwt.encode(claims, secret, algorithm="HS256")


def jwk_set(*signers: Signer) -> bytes:
    return json.dumps({"keys": [signer.jwk for signer in signers]}).encode()


def forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """Put a token together that no library would make."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
