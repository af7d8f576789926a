"""The public names of the package."""

import subprocess
import sys

import pytest

import gateway


@pytest.mark.parametrize("name", gateway.__all__)
def test_public_name_is_there(name: str) -> None:
    assert getattr(gateway, name) is not None
    assert name in dir(gateway)


def test_every_error_is_public() -> None:
    from gateway import errors  # noqa: PLC0415 - the union is what is tested

    assert set(errors.__all__) <= set(gateway.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = gateway.nothing_of_the_kind


def test_package_alone_loads_nothing_else() -> None:
    script = "import gateway, sys; print([m for m in sys.modules if m.startswith('gateway.') or m == 'asyncio'])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
