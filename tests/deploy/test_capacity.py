"""The model of capacity, and the README's tables that come from it."""

import re

import pytest

from bench.capacity import CONNECTIONS, COSTS, FILL, Demand, gateways_for, need, plan
from tests.e2e.processes import ROOT

README = (ROOT / "README.md").read_text()
HEAD = "| viewers | runs at once | gateway processes | Redis shards | Gbit/s to viewers |\n|---|---|---|---|---|\n"
MILLIONS = (1_000_000, 10_000_000, 100_000_000)
CHATS = [Demand(viewers, viewers // 20, 10, 0.05) for viewers in MILLIONS]
AUDIENCES = [Demand(viewers, viewers // 50, 30) for viewers in MILLIONS]


def table(demands: list[Demand]) -> str:
    rows = []
    for demand in demands:
        found = plan(demand)
        cells = (demand.viewers, demand.runs, found.gateways, found.shards)
        rows.append(f"| {' | '.join(f'{cell:,}' for cell in cells)} | {found.need.bits / 1e9:,.1f} |\n")
    return HEAD + "".join(rows)


@pytest.mark.parametrize("demands", [CHATS, AUDIENCES], ids=["chats", "audiences"])
def test_tables_of_the_readme_are_the_models(demands: list[Demand]) -> None:
    assert table(demands) in README, table(demands)


def test_costs_of_the_readme_are_the_models() -> None:
    text = README.partition("## Capacity\n")[2].partition("\n## ")[0]
    for cost in (
        f"{COSTS.event:.0f} µs of the gateway",
        f"{COSTS.write:.0f} µs where",
        f"{COSTS.append:.0f} µs of Redis",
    ):
        assert cost in text
    assert f"{COSTS.frame:.0f} bytes on the wire" in text
    assert f"filled to {FILL:.0%}".replace("%", " %") in text
    assert re.search(rf"{CONNECTIONS:,} connections", text)


@pytest.mark.parametrize("demand", [*CHATS, *AUDIENCES, Demand(1000, 20, 30), Demand(1, 1, 50)])
def test_number_of_gateways_is_the_smallest_that_fits(demand: Demand) -> None:
    number = gateways_for(demand, fill=FILL, connections=CONNECTIONS)
    assert need(demand, number).core <= FILL
    assert demand.viewers / number <= CONNECTIONS
    assert number == 1 or need(demand, number - 1).core > FILL or demand.viewers / (number - 1) > CONNECTIONS


def test_one_gateway_hears_every_event_once() -> None:
    demand = Demand(viewers=100, runs=10, rate=5)
    one = need(demand, 1)
    assert one.inside == 10 * 5 * COSTS.frame * 8
    assert one.bits == 100 * 5 * COSTS.frame * 8
    assert one.redis == pytest.approx(50 * COSTS.append / 1e6)


def test_demand_that_no_number_of_gateways_carries_is_refused() -> None:
    with pytest.raises(ValueError, match="no number of gateways"):
        gateways_for(Demand(viewers=1, runs=1, rate=1e6), fill=FILL, connections=CONNECTIONS)
