"""PROTOCOL.md says what the code does: its tables and lists against the code's own."""

import re
from pathlib import Path

import gateway
from gateway.actions import Actions
from gateway.broker.redis import RedisBroker
from gateway.errors import DisconnectCode, ErrorCode
from gateway.event_types import LOGGED_TYPES, RESERVED_TYPES
from gateway.grants import VERBS
from gateway.settings import Settings

TEXT = (Path(gateway.__file__).parent / "PROTOCOL.md").read_text()


def section(number: int) -> str:
    found = re.search(rf"^## {number}\. .*?(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def test_event_table_names_every_reserved_type() -> None:
    rows = [row.split("|")[1:3] for row in section(4).splitlines() if row.startswith("| `")]
    logged = {name for names, mark in rows for name in re.findall(r"`(\w+)`", names) if "✓" in mark}
    others = {name for names, mark in rows for name in re.findall(r"`(\w+)`", names) if "✓" not in mark}
    assert logged == LOGGED_TYPES
    # These are told in sections 3 and 5: they are no events of a history.
    told = {"snapshot", "summary", "broker", "hidden"}
    assert logged | others | told == RESERVED_TYPES | told


def test_error_codes_and_which_are_temporary() -> None:
    errors = section(6).split("Closes:")[0]
    told = {int(code): bool(star) for code, star in re.findall(r"(?<!\d)(\d{3}) [a-z][^,*.]*(\*?)", errors)}
    assert told == {int(code): code.temporary for code in ErrorCode}


def test_close_codes_and_which_invite_back() -> None:
    closes = section(6).split("Closes:")[1]
    back, stay = closes.split("come back.")
    told = {int(code): True for code in re.findall(r"\d{4}", back)} | dict.fromkeys(
        map(int, re.findall(r"\d{4}", stay)), False
    )
    assert told == {int(code): code.reconnect for code in DisconnectCode}


async def test_rpc_methods(redis_url: str, key_prefix: str) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    told = set(re.findall(r"`([a-z]+) \{", section(7)))
    assert told == set(Actions(broker).methods)
    await broker.aclose()


def test_verbs_of_grants() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", section(12).split("| verb |")[1].split("\n\n")[0], re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == list(VERBS)


def test_limits_and_their_defaults() -> None:
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", section(12).split("| setting |")[1], re.MULTILINE)
    told: dict[str, int] = {}
    for names, numbers in rows:
        found = re.findall(r"(\d[\d,]*)( KiB)?", numbers)
        values = [int(number.replace(",", "")) * (1024 if unit else 1) for number, unit in found]
        told.update(zip(re.findall(r"`(\w+)`", names), values, strict=True))
    assert len(told) >= 10
    assert told == {name: getattr(Settings(), name) for name in told}


def test_numbers_of_the_sections() -> None:
    assert [int(number) for number in re.findall(r"^## (\d+)\. ", TEXT, re.MULTILINE)] == list(range(1, 13))
