"""Grounds of the fuzzers."""

import os
from collections.abc import Iterator
from secrets import token_hex

import pytest

from tests.fuzz.ground import Ground, ground
from tests.signing import API_KEY, SECRET, jwk_set, signer

KEYS = (("RS256", "rs"), ("ES256", "es"), ("EdDSA", ""))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the long form its time."""
    seconds = float(os.environ.get("GATEWAY_FUZZ_SECONDS", "0"))
    if seconds:
        for item in items:
            if "fuzz" in item.path.parts:
                item.add_marker(pytest.mark.timeout(seconds + 300))


@pytest.fixture(scope="module")
def open_ground(redis_url: str) -> Iterator[Ground]:
    """A gateway without keys."""
    with ground(redis_url, f"t{token_hex(6)}", command_rate=0, linger=0.0) as made:
        yield made


@pytest.fixture(scope="module")
def closed_ground(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A gateway that asks for tokens of the keys of `tests.signing`."""
    place = tmp_path_factory.mktemp("keys") / "keys.json"
    place.write_bytes(jwk_set(*(signer(name).named(kid) if kid else signer(name) for name, kid in KEYS)))
    with ground(
        redis_url, f"t{token_hex(6)}", token_secrets=SECRET, token_jwks=str(place), api_keys=API_KEY, linger=0.0
    ) as made:
        yield made
