"""What the package offers, and what its pure modules load."""

import importlib
import pkgutil
import subprocess
import sys
from typing import Any

import pytest

import gateway.context

PUBLIC = (
    "approval",
    "callbacks",
    "context",
    "errors",
    "hooks",
    "log",
    "messages",
    "pubsub",
    "run_context",
    "schema",
    "skills",
    "tools",
    "update",
    "usage",
    "view",
)
MODULES = [module.name for module in pkgutil.iter_modules(gateway.context.__path__)]
WAITING = ("approval", "tools")


def test_package_offers_the_union_of_its_public_modules() -> None:
    union = {name for module in PUBLIC for name in importlib.import_module(f"gateway.context.{module}").__all__}
    assert set(gateway.context.__all__) == union
    for module in PUBLIC:
        own = importlib.import_module(f"gateway.context.{module}")
        assert all(getattr(gateway.context, name) is getattr(own, name) for name in own.__all__)


@pytest.mark.parametrize("module", ["", *(f".{name}" for name in MODULES)])
def test_all_is_sorted(module: Any) -> None:
    names = importlib.import_module(f"gateway.context{module}").__all__
    # The order that the linter keeps: constants, classes, functions, each by name.
    assert sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)) == list(names)


def test_package_has_nothing_else() -> None:
    with pytest.raises(AttributeError):
        gateway.context.nothing  # noqa: B018 - the access is what is tested


def test_pure_modules_load_nothing_that_waits() -> None:
    pure = [name for name in MODULES if name not in WAITING]
    code = (
        f"import importlib, sys\n"
        f"for name in {pure!r}: importlib.import_module('gateway.context.' + name)\n"
        f"print([name for name in ('asyncio', 'redis', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
