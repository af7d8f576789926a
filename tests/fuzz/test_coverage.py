"""Fuzzing guided by coverage: what reads bytes from outside gives a value or its own error."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: make fuzz")
def test_readers_of_bytes_give_a_value_or_their_own_error(tmp_path: Path) -> None:
    seconds = int(float(os.environ.get("GATEWAY_FUZZ_SECONDS", "0"))) or 4
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.coverage"),
            *(f"-max_total_time={seconds}", "-max_len=8192", "-timeout=20", "-rss_limit_mb=1500"),
            *(f"-artifact_prefix={tmp_path}/", "-verbosity=1", str(corpus)),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds + 200,
        cwd=Path(__file__).parents[2],
    )
    inputs = [path.read_bytes()[:500] for path in tmp_path.iterdir() if path.is_file()]
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\ninput: {inputs}"
    runs = re.search(r"Done (\d+) runs", done.stderr)
    assert runs is not None, done.stderr[-3000:]
    assert int(runs[1]) > 0
    print(f"\nfuzzer coverage: {runs[1]} inputs, {len(list(corpus.iterdir()))} of them reached something new")  # noqa: T201
