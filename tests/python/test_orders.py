"""Orders without training, as tables."""

from __future__ import annotations

from pathlib import Path

import pandas
import pbg_host
import pytest


def test_orders_are_compared() -> None:
    table = pbg_host.orders.compare(
        orders=["random", "beta", ("beta", {"assignment": "random"})],
        partitions=8,
        buffer=4,
        seeds=2,
        frame="pandas",
    )
    assert isinstance(table, pandas.DataFrame) and len(table) == 6
    swaps = table.groupby("order")["swaps"].mean()
    assert swaps["beta"] < swaps["random"]


def test_a_plan_is_a_table_of_all_buckets(trained: pbg_host.Config) -> None:
    plan = pbg_host.orders.plan("inside_out", partitions=4, frame="pandas")
    assert sorted(zip(plan["lhs"], plan["rhs"])) == [(a, b) for a in range(4) for b in range(4)]
    mine = pbg_host.orders.plan("random", trained, seed=3, frame="polars")
    assert mine.height == 16 and mine["edges"].sum() == 4000


def test_what_cannot_be_compared_is_told(trained: pbg_host.Config, tmp_path: Path) -> None:
    with pytest.raises(pbg_host.UsageError, match="name a configuration"):
        pbg_host.orders.compare()
    with pytest.raises(pbg_host.UsageError, match="cannot be combined with a configuration"):
        pbg_host.orders.compare(trained, partitions=4)
    with pytest.raises(pbg_host.PluginError, match=r"nope: .*no standard bucket order of this name"):
        pbg_host.orders.compare(orders=["random", "nope"], partitions=4)
    with pytest.raises(pbg_host.PluginError, match="did you mean inside_out"):
        pbg_host.orders.compare(orders=["inside_ot"], partitions=4)
    with pytest.raises(pbg_host.UsageError, match="<lambda> is not a valid order\nhelp: decorate it"):
        pbg_host.orders.compare(orders=[lambda grid: grid.grid()], partitions=4)  # type: ignore[list-item]
    with pytest.raises(pbg_host.PluginError):
        pbg_host.orders.plan(tmp_path / "none.wasm", partitions=4)
    for wrong in ({"partitions": 0}, {"partitions": "x"}, {"partitions": 4, "buffer": 1}):
        with pytest.raises(pbg_host.UsageError, match="a whole number of at least"):
            pbg_host.orders.compare(**wrong)
    with pytest.raises(pbg_host.UsageError, match="rates"):
        pbg_host.orders.compare(partitions=4, rates={"speed": 1.0})
