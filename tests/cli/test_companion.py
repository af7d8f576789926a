"""What is said about an agent that does not keep up; its restarts are tested with `demo`."""

import pytest

from gateway.cli.companion import AgentEndedError


@pytest.mark.parametrize(
    ("code", "said", "why"),
    [
        (1, "ValueError: no such model", "ValueError: no such model"),
        (1, "", "exit code 1"),
        (0, "done", "exit code 0"),
        (-9, "Agent: demo", "killed by SIGKILL"),
    ],
)
def test_error_tells_why(code: int, said: str, why: str) -> None:
    assert str(AgentEndedError(code=code, said=said)) == f"the demo agent ended 3 times just after its start: {why}"
