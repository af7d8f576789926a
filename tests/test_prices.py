import json
from pathlib import Path

import pytest

from gateway import Client
from gateway.prices import MAX_PRICES, Price, read_prices
from gateway.settings import SettingsError
from tests.serving import serve

TABLE = {"fast-*": {"input": 1.0, "output": 2.5, "cached": 0.1}, "*": {"input": 3, "output": 15}}


def test_table_is_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(TABLE))
    assert list(read_prices(str(path)).items()) == [
        ("fast-*", Price(input=1, output=2.5, cached=0.1)),
        ("*", Price(input=3, output=15)),
    ]


def test_no_file_is_no_price() -> None:
    assert read_prices("") == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "Expected `object`"),
        ("{", "expected"),
        ('{"m": {"input": 1}}', "missing required field `output`"),
        ('{"m": {"input": -1, "output": 1}}', "`float` >= 0.0"),
        ('{"m": {"input": 1, "output": 1, "reasoning": 2}}', "unknown field `reasoning`"),
        ('{"m": {"input": 1, "output": 1e400}}', "out of range"),
        (json.dumps({f"m{number}": {"input": 1, "output": 1} for number in range(MAX_PRICES + 1)}), "at most 1000"),
    ],
)
def test_table_of_another_form_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match="GATEWAY_PRICES: expected") as raised:
        read_prices(str(path))
    assert says in str(raised.value)


def test_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_prices(str(tmp_path / "none.json"))


@pytest.mark.parametrize("table", [{}, TABLE])
async def test_whoever_connects_is_told(redis_url: str, key_prefix: str, tmp_path: Path, table: object) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(table))
    async with serve(redis_url, key_prefix, prices=str(path)) as gateway, Client(gateway.http) as client:
        assert await client.rpc("prices", {}) == {"prices": table}
