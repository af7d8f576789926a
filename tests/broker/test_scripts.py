"""The scripts as text."""

import re

import pytest

from gateway.broker.scripts import ADVANCE, SCRIPTS, Script


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_script_holds_the_shared_rules_once(script: Script) -> None:
    source = script.source.decode()
    # The short way judges nothing: it has no rules, and leaves to append whatever needs one.
    assert source.count("local function continues(") == (0 if script is ADVANCE else 1)
    assert "@state\n" not in source.replace("says @state.", "")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_script_names_no_key_of_its_own(script: Script) -> None:
    """Every key comes in as KEYS: on a cluster another one would work by luck only."""
    for command, key in re.findall(r"call\('([A-Z]+)', ([^,)]+)", script.source.decode()):
        assert re.fullmatch(r"KEYS\[\w+\]|state|events|open|key", key), (command, key)
