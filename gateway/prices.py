"""What model calls cost, as the operator says: the gateway invents no price."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.settings import SettingsError

__all__ = ["Price", "read_prices"]

MAX_PRICES = 1000
"""Models that a table may name: it is sent to every page."""

_Dollars = Annotated[float, Meta(ge=0, le=1e9)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a model's tokens cost, in US dollars a million.

    Attributes:
        input: Those of the input that no cache was used for.
        output: Those of the output.
        cached: Those of the input that were read from a cache; None: as `input`.
        written: Those of the input that were written to a cache; None: as `input`.

    """

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    written: _Dollars | None = None


def read_prices(path: str) -> dict[str, Price]:
    """Read a table of prices: names of models, in which ``*`` stands for any characters, in order; "" for none.

    Args:
        path: A JSON file; "" gives an empty table.

    Raises:
        SettingsError: There is no such file, or it has another form.

    """
    if not path:
        return {}
    form = '{"<model, * for any characters>": {"input", "output", "cached"?, "written"?}} in dollars a million tokens'
    try:
        prices = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Price])
    except OSError as error:
        raise SettingsError(f"GATEWAY_PRICES: expected a JSON file, got {path}: {error.strerror}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise SettingsError(f"GATEWAY_PRICES: expected {form} in {path}: {error}") from error
    if len(prices) > MAX_PRICES:
        raise SettingsError(f"GATEWAY_PRICES: expected at most {MAX_PRICES} models in {path}, got {len(prices)}")
    return prices
