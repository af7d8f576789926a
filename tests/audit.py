"""Looks the installed packages up among known vulnerabilities: ``python -m tests.audit``, a part of ``make check``.

Fails on a finding. Where the service cannot be reached, or does not know the packages, it says so and does not fail.
"""

import json
import subprocess
import sys
from typing import Any

PATIENCE = 120
"""Seconds for all look-ups; behind a network that swallows packets they would not end by themselves."""

ACCEPTED: dict[str, str] = {}
"""Vulnerabilities that do not concern us, by id, each with the reason."""


def main() -> int:
    """Say what was found; 1 where something was."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        _say("audit: the service of known vulnerabilities cannot be reached; nothing was looked up")
        return 0
    return report(found)


def report(found: list[dict[str, Any]]) -> int:
    """Print what an audit says of each package; 1 where one has a vulnerability that is not accepted."""
    bad = 0
    for package in found:
        for hole in package.get("vulns", ()):
            if hole["id"] in ACCEPTED:
                continue
            bad += 1
            fixed = ", ".join(hole.get("fix_versions", ())) or "no version yet"
            _say(f"audit: {package['name']} {package['version']} has {hole['id']}, fixed in {fixed}")
    unknown = sum("skip_reason" in package for package in found)
    _say(f"audit: {len(found) - unknown} packages looked up, {unknown} not known to the service, {bad} vulnerabilities")
    return 1 if bad else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
