"""Which module may import what, and what each of them offers."""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_FILES = sorted((_ROOT / "gateway").rglob("*.py"))

_PURE = {
    "gateway.addresses",
    "gateway.codec",
    "gateway.conversation",
    "gateway.counters",
    "gateway.errors",
    "gateway.event_types",
    "gateway.events",
    "gateway.expiry",
    "gateway.fields",
    "gateway.frames",
    "gateway.grants",
    "gateway.lens",
    "gateway.limits",
    "gateway.merge",
    "gateway.mirror",
    "gateway.open_messages",
    "gateway.recovery",
    "gateway.redaction",
    "gateway.session",
    "gateway.session_log",
    "gateway.state",
    "gateway.summary",
    "gateway.tokens",
    "gateway.types",
    "gateway.view",
}
"""They decide and never wait."""

_WAITING = {"asyncio", "concurrent", "redis", "selectors", "socket", "ssl", "starlette", "threading", "uvicorn"}

_WAITING_CONTEXT = {
    "gateway.context.approval",
    "gateway.context.callbacks",
    "gateway.context.hooks",
    "gateway.context.pubsub",
    "gateway.context.tools",
}
"""The parts of the context that call other people's code."""

_HOMES = {
    "redis": ("gateway.broker.",),
    "starlette": (
        "gateway.answers",
        "gateway.api.",
        "gateway.app",
        "gateway.auth",
        "gateway.connection",
        "gateway.dashboard",
        "gateway.exposition",
        "gateway.origin",
        "gateway.site",
        "gateway.streaming.",
        "gateway.topic_resources",
    ),
    "uvicorn": ("gateway.cli.", "gateway.streaming.protocol", "gateway.transport"),
    "click": ("gateway.cli.",),
    "prometheus_client": ("gateway.exposition", "gateway.metrics"),
    "opentelemetry": ("gateway.tracing",),
    "cryptography": ("gateway.keys",),
    "jwt": ("gateway.auth", "gateway.cli.", "gateway.keys"),
    "openai": ("gateway.agent.",),
    "anthropic": ("gateway.agent.",),
    "agents": ("gateway.adapters.openai_agents",),
    "langgraph": ("gateway.adapters.langgraph",),
    "pydantic_ai": ("gateway.adapters.pydantic_ai_approvals",),
}
"""Libraries, and the only modules that know of them."""

_WEB = {"starlette", "uvicorn", "websockets", "click"}


def _name(path: Path) -> str:
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


_MODULES = {_name(path): path for path in _FILES}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_MODULES[module].read_text("utf-8"))


@cache
def _imports(module: str) -> frozenset[str]:
    """Name every module that a module imports, inside functions too; for typing only does not count."""
    found: set[str] = set()
    for node in _executed(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            assert node.module is not None
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & _MODULES.keys()) or {node.module}
    return frozenset(found)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from _executed(child)


def _libraries(module: str) -> set[str]:
    return {name.partition(".")[0] for name in _imports(module)} - {"gateway"}


def _reached(module: str) -> set[str]:
    reached, ahead = set(), [module]
    while ahead:
        current = ahead.pop()
        if current not in reached and current in _MODULES:
            reached.add(current)
            ahead += _imports(current)
    return reached


def _offered(module: str) -> list[str] | None:
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            offered: list[str] = ast.literal_eval(node.value)
            return offered
    return None


def _defined(module: str) -> set[str]:
    names: set[str] = set()
    for node in _tree(module).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            names |= {
                item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
            }
    return names


def _order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, as ruff sorts ``__all__``."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


# import direction


def test_pure_modules_are_where_they_are_said_to_be() -> None:
    assert _MODULES.keys() >= _PURE


@pytest.mark.parametrize("module", sorted(_PURE))
def test_pure_module_reaches_nothing_that_waits(module: str) -> None:
    for reached in _reached(module):
        assert not _libraries(reached) & _WAITING, f"{module} reaches {reached}"


@pytest.mark.parametrize("module", [name for name in _MODULES if name.startswith("gateway.context.")])
def test_context_module_waits_for_nothing(module: str) -> None:
    if module not in _WAITING_CONTEXT:
        assert not _libraries(module) & _WAITING


@pytest.mark.parametrize(("library", "homes"), _HOMES.items(), ids=list(_HOMES))
def test_library_is_known_only_at_home(library: str, homes: tuple[str, ...]) -> None:
    strangers = [
        module
        for module in _MODULES
        if library in _libraries(module)
        and not any(module == home or (home.endswith(".") and f"{module}.".startswith(home)) for home in homes)
    ]
    assert strangers == []


def test_no_module_imports_itself_in_a_circle() -> None:
    circles = sorted(
        module for module in _MODULES for imported in _imports(module) - {module} if module in _reached(imported)
    )
    assert circles == []


@pytest.mark.parametrize("module", ["gateway.publisher", "gateway.worker", "gateway.mirror", "gateway.context"])
def test_agent_loads_no_web_framework(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=_ROOT)
    assert module in loaded.stdout.split()
    assert not _WEB & set(loaded.stdout.split())


def test_mirror_loads_no_redis() -> None:
    code = "import sys, gateway.mirror, gateway.codec, gateway.events; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=_ROOT)
    assert not {"redis", "asyncio"} & set(loaded.stdout.split())


# names


@pytest.mark.parametrize("module", _MODULES)
def test_module_offers_sorted_names_that_it_has(module: str) -> None:
    offered = _offered(module)
    if offered is None:
        assert not _defined(module) - {"__version__"} or module.endswith("__main__"), f"{module} has no __all__"
        return
    assert offered == sorted(set(offered), key=_order)
    if "__getattr__" in _defined(module):  # it loads some of them when they are asked for
        loaded = importlib.import_module(module)
        assert [name for name in offered if not hasattr(loaded, name)] == []
    else:
        assert set(offered) <= _defined(module)


@pytest.mark.parametrize("module", _MODULES)
def test_module_is_named_after_a_thing(module: str) -> None:
    last = module.rpartition(".")[2]
    assert not {"util", "utils", "helper", "helpers", "base", "manager", "common", "misc"} & set(last.split("_"))
