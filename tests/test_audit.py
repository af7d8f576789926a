"""The audit of packages: findings fail, what could not be looked up is told."""

from typing import Any

import pytest

from tests import audit

HOLE = {"id": "GHSA-1", "fix_versions": ["2.0"], "aliases": [], "description": ""}


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ([{"name": "a", "version": "1.0", "vulns": []}], 0, "1 packages looked up, 0 not known to the service, 0 vuln"),
        ([{"name": "a", "skip_reason": "not found"}], 0, "0 packages looked up, 1 not known to the service, 0 vuln"),
        ([{"name": "a", "version": "1.0", "vulns": [HOLE]}], 1, "a 1.0 has GHSA-1, fixed in 2.0"),
    ],
)
def test_report(capsys: pytest.CaptureFixture[str], found: list[dict[str, Any]], status: int, said: str) -> None:
    assert audit.report(found) == status
    assert said in capsys.readouterr().out


def test_accepted_vulnerabilities_have_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(audit.ACCEPTED.values())
    monkeypatch.setitem(audit.ACCEPTED, "GHSA-1", "for the test")
    assert audit.report([{"name": "a", "version": "1.0", "vulns": [HOLE]}]) == 0
