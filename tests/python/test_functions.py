"""Orders that are functions: in this process, checked, and as components of the same source."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import pbg_host
import pbg_plugin
import pytest
from conftest import Keys, edges
from pbg_plugin import Bucket, Metadata, Parameter
from test_train import files

STRIDE = 1


def turned(row: int, count: int) -> list[int]:
    columns = list(range(0, count, STRIDE))
    return columns if row % 2 == 0 else columns[::-1]


@pbg_host.order
def zigzag(grid: pbg_host.Pass) -> list[Bucket]:
    """Rows, every other one backwards."""
    rows = list(range(grid.lhs_partitions))
    grid.rng().shuffle(rows)
    return [Bucket(row, at) for turn, row in enumerate(rows) for at in turned(turn, grid.rhs_partitions)]


class Rows(pbg_plugin.Order):
    @classmethod
    def metadata(cls) -> Metadata:
        parameters = [Parameter.boolean("backwards", False, "From the last row to the first.")]
        return Metadata("rows", "0.2.0", "Row by row.", parameters)

    def configure(self, parameters: dict[str, Any]) -> None:
        self.backwards = parameters["backwards"]

    def plan(self, grid_pass: pbg_host.Pass) -> list[Bucket]:
        plan = grid_pass.grid()
        return plan[::-1] if self.backwards else plan


rows_backwards = pbg_host.order(Rows, backwards=True)


def test_orders_of_python_keep_the_contract() -> None:
    for order in (zigzag, rows_backwards):
        assert isinstance(order, pbg_host.OrderFunction)
        found = {finding.promise: finding.outcome for finding in pbg_host.check_order(order)}
        assert found["permutation"] == found["deterministic"] == found["pick"] == "kept"
    plan = pbg_host.orders.plan(rows_backwards, partitions=3, frame="pandas")
    assert list(plan["lhs"]) == [2, 2, 2, 1, 1, 1, 0, 0, 0]


def test_they_train_and_resume(keys: Keys, tmp_path: Path) -> None:
    pbg_host.import_edges(keys, edges={"train": edges(2000)})
    planned: list[str] = []

    def heard(event: pbg_host.Event) -> object:
        if event.kind == "pass_planned":
            planned.append(event["order"])
        return event.kind != "epoch_finished" or event["epoch"] > 0

    assert not pbg_host.train(keys, plugins=[zigzag], on_event=heard).finished
    with pytest.raises(pbg_host.CheckpointError):
        pbg_host.train(keys)
    assert pbg_host.train(keys, plugins=[zigzag], on_event=heard).finished
    assert planned == ["zigzag 0.1.0"] * 2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pbg_host.build(zigzag, tmp_path_factory.mktemp("built") / "zigzag.wasm")


def test_a_component_of_the_same_source_plans_the_same(built: Path) -> None:
    path = built
    for partitions in (2, 5):
        plans = [
            pbg_host.orders.plan(order, partitions=partitions, seed=7, frame="polars")
            for order in (zigzag, path)
        ]
        assert plans[0].equals(plans[1])
    table = pbg_host.orders.compare(orders=[zigzag, path, "random"], partitions=6, frame="pandas")
    swaps = dict(zip(table["order"], table["swaps"]))
    assert swaps["zigzag"] == swaps[str(path)] < swaps["random"]


def test_what_they_do_wrong_is_told_with_its_line(keys: Keys) -> None:
    @pbg_host.order
    def half(grid: Any) -> Any:
        return grid.grid()[1:]

    @pbg_host.order
    def fails(grid: Any) -> Any:
        raise ValueError("no such thing")

    state = [0]

    @pbg_host.order
    def moody(grid: Any) -> Any:
        state[0] += 1
        return grid.grid() if state[0] % 2 else grid.grid()[::-1]

    for order, said in (
        (half, "permutation"),
        (fails, r"ValueError: no such thing \(test_functions.py, line \d+, in fails\)"),
        (moody, "deterministic"),
        (pbg_host.order(lambda grid: [(0.5, 1)], name="odd"), "not a whole number"),
        (pbg_host.order(lambda grid: None, name="none"), "returned None"),
    ):
        with pytest.raises(pbg_host.PluginError, match=said):
            pbg_host.check_order(order)
    pbg_host.import_edges(keys, edges={"train": edges(1000)})
    with pytest.raises(pbg_host.PluginError, match="no such thing"):
        pbg_host.train(keys, plugins=[fails])
    with pytest.raises(pbg_host.UsageError, match="one bucket order"):
        pbg_host.train(keys, plugins=[half, fails])
    with pytest.raises(pbg_host.UsageError) as raised:
        pbg_host.train(keys, plugins=["random", half])
    assert str(raised.value) == (
        "plugins: random: a run has only one bucket order, and half 0.1.0 is already given"
    )


def test_what_is_not_decorated_is_told(keys: Keys) -> None:
    def bare(grid: Any) -> Any:
        return grid.grid()

    calls: list[Any] = [
        pbg_host.check_order,
        pbg_host.check_loss,
        pbg_host.check_operator,
        pbg_host.build,
        lambda given: pbg_host.train(keys, plugins=[given]),
        lambda given: pbg_host.check(keys, plugins=[given]),
        lambda given: pbg_host.orders.plan(given, partitions=2),
    ]
    for call in calls:
        with pytest.raises(pbg_host.UsageError, match="bare .*\nhelp: decorate .*@pbg_host"):
            call(bare)
    with pytest.raises(pbg_host.UsageError, match="zigzag .* is not a valid loss"):
        pbg_host.check_loss(zigzag)  # type: ignore[arg-type]
    with pytest.raises(pbg_host.UsageError, match="a list"):
        pbg_host.train(keys, plugins=zigzag)  # type: ignore[arg-type]
    with pytest.raises(pbg_host.UsageError, match="has no name; pass one"):
        pbg_host.order(functools.partial(bare))
    assert pbg_host.order(zigzag, name="other").name == "other"


def test_what_a_function_cannot_do_is_told(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(pbg_host.UsageError, match=r"pass functions as plugins=\[...\]"):
        pbg_host.train(keys, bucket_order=zigzag)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(pbg_host.PluginError, match=r"help: pip install 'pbg-host\[build\]'"):
        pbg_host.build(zigzag)


class Draws(pbg_plugin.Sampler):
    """A relation sampler."""


class Falls(pbg_plugin.RateSchedule):
    """A learning rate schedule."""


class Drawn(pbg_plugin.NegativeSampler):
    """A negative sampler."""


class Selects(pbg_plugin.NegativeSelector):
    """A negative selector."""


@pytest.mark.parametrize(
    ("plugin", "is_one", "kind"),
    [
        (Draws, "a relation sampler", "sampler"),
        (Draws(), "a relation sampler", "sampler"),
        (Drawn, "a negative sampler", "negatives"),
        (Selects, "a negative selector", "negative-selector"),
        (Falls, "a learning rate schedule", "schedule"),
    ],
)
def test_what_only_a_component_can_be_is_told(keys: Keys, plugin: Any, is_one: str, kind: str) -> None:
    calls: list[Any] = [
        lambda: pbg_host.train(keys, plugins=[plugin]),
        lambda: pbg_host.check(keys, plugins=[plugin]),
        lambda: pbg_host.build(plugin),
    ]
    for call in calls:
        with pytest.raises(pbg_host.UsageError, match=f" is {is_one}, but ") as raised:
            call()
        assert f"`pbg-host plugin new mine --kind {kind} --lang python`" in str(raised.value)


def test_a_component_goes_on_with_what_its_function_began(
    keys: Keys, built: Path, tmp_path: Path
) -> None:
    """A run resumes only with the plugin that it began with; the user must confirm that a component plans the same."""
    pbg_host.import_edges(keys, edges={"train": edges(1000)})
    whole = tmp_path / "whole"
    assert pbg_host.train(keys, plugins=[zigzag], checkpoint_path=whole).finished
    pbg_host.train(keys, plugins=[zigzag], num_epochs=1)
    with pytest.raises(pbg_host.CheckpointError, match="to resume anyway, use `allow_plugin_change=True`"):
        pbg_host.train(keys, plugins=[built])
    assert pbg_host.train(keys, plugins=[built], allow_plugin_change=True).finished
    assert files(keys["checkpoint_path"]) == files(whole)


def test_what_cannot_be_built_is_told() -> None:
    handle = object()

    @pbg_host.order
    def holds(grid: Any) -> Any:
        return [grid.grid(), handle]

    with pytest.raises(pbg_host.UsageError, match="holds uses handle, a object"):
        pbg_host.build(holds)
