"""Bucket orders that are Python functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, overload

import pbg_plugin
from pbg_plugin import component

from . import _native
from ._functions import Finding, Function, answered, decorated, findings, wanted

Plan = Callable[[Any], Any]


class OrderFunction(Function):
    """A bucket order of Python, created by `pbg_host.order`. Calling it calls the function."""

    kind = "order"

    @classmethod
    def _base(cls) -> type:
        return pbg_plugin.Order

    def _of_function(self) -> Any:
        return _Function(self._made_of)

    def __call__(self, grid: Any) -> Any:
        """Returns the plan of a grid, which is a `pbg_plugin.Pass`."""
        return self._instance().plan(grid)

    def native(self, given: Mapping[str, Any] | None = None) -> Any:
        order = self._instance(given)

        def plan(text: str, run: tuple[int, int, int]) -> Any:
            return answered(lambda: _pairs(order.plan(_pass(text))), run)

        def pick(text: str, held: Any, free: Any, run: tuple[int, int, int]) -> Any:
            buckets = [[pbg_plugin.Bucket(*pair) for pair in pairs] for pairs in (held, free)]
            return answered(
                lambda: component.whole(order.pick(_pass(text), *buckets), "what pick returned"),
                run,
            )

        return _native.FunctionOrder(self.name, self.version, self._sha256(), plan, pick)


class _Function(pbg_plugin.Order):
    """Wraps a function as an order of the SDK."""

    def __init__(self, function: Plan) -> None:
        self._function = function

    def plan(self, grid_pass: pbg_plugin.Pass) -> Any:
        return self._function(grid_pass)


@overload
def order(
    make: Any, /, *, name: str | None = None, version: str | None = None, **parameters: Any
) -> OrderFunction: ...
@overload
def order(
    *, name: str | None = None, version: str | None = None, **parameters: Any
) -> Callable[[Any], OrderFunction]: ...
def order(
    make: Any = None, /, *, name: str | None = None, version: str | None = None, **parameters: Any
) -> Any:
    """Creates a bucket order from a function that maps a grid to the list of its buckets.

        @pbg_host.order
        def rows(grid):
            return [(lhs, rhs) for lhs in range(grid.lhs_partitions) for rhs in range(grid.rhs_partitions)]

        pbg_host.check_order(rows)
        pbg_host.orders.compare(orders=[rows, "beta"], partitions=16, buffer=4)
        pbg_host.train("pbg.toml", plugins=[rows])
        pbg_host.build(rows)                      # rows.wasm, for `pbg-host train --plugin` and other machines

    The grid is a `pbg_host.Pass`, as for plugins in Python: it has `lhs_partitions`, `rhs_partitions`, `edges`,
    `buffer_partitions`, `rng()` and so on (docs/plugins). Instead of a function, `make` may be a subclass of
    `pbg_plugin.Order`; `parameters` then set its parameters. The plan must depend only on the grid, otherwise a
    resumed run differs from an uninterrupted one.

    The function runs in this process, without limits. Its plans are checked like those of every order.
    """
    return decorated(OrderFunction, make, name, version, parameters)


def check_order(order: OrderFunction, /) -> list[Finding]:
    """Checks the contract of an order on many grids, as `pbg-host plugin check` does: each plan must contain every
    bucket once and depend only on the grid. The findings also say what the plans load. Raises `PluginError` with the
    first case that breaks the contract."""
    checked = wanted(order, OrderFunction)
    return findings(checked.name, _native.check_order(checked.native))


def _pass(text: str) -> Any:
    fields = json.loads(text)
    fields["resident"] = {(side, partition) for side, partition in fields["resident"]}
    return pbg_plugin.Pass(**fields)


def _pairs(plan: Any) -> list[tuple[int, int]]:
    if plan is None:
        raise TypeError("plan returned None, not a list of buckets")
    names = ("lhs", "rhs")
    return [component.pair(b, f"bucket {at} of the plan", names) for at, b in enumerate(plan)]
