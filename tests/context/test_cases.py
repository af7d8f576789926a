"""The behavioural cases of the three documents that the context model unites."""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("GATEWAY_CONTEXT_CASES", Path(__file__).parents[3] / "shared" / "context"))


def cases() -> Any:
    """Give every case as a parameter."""
    files = sorted((ROOT / "cases").glob("*.json"))
    if not files:
        reason = f"no cases at {ROOT}; GATEWAY_CONTEXT_CASES names their directory"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [
        pytest.param(case, id=f"{file.stem}: {case['name']}")
        for file in files
        for case in json.loads(file.read_text("utf-8"))
    ]


def load_runner() -> Any:
    """Load the module that lies beside the cases and knows how to run one."""
    spec = importlib.util.spec_from_file_location("context_case_runner", ROOT / "run_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runner() -> Any:
    return load_runner()


@pytest.mark.parametrize("case", cases())
def test_case(case: Any, runner: Any) -> None:
    assert runner.run_case(case, runner.Adapter("gateway.context")) == []
