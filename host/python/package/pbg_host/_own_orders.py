"""Bucket orders that are functions of Python."""

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
    """A bucket order of Python; `pbg_host.order` makes one. Calling it calls the function."""

    kind = "order"

    @classmethod
    def _base(cls) -> type:
        return pbg_plugin.Order

    def _of_function(self) -> Any:
        return _Function(self._made_of)

    def __call__(self, grid: Any) -> Any:
        """The plan of a grid, a `pbg_plugin.Pass`."""
        return self._instance().plan(grid)

    def native(self, module: Any = _native, given: Mapping[str, Any] | None = None) -> Any:
        order = self._instance(given)

        def plan(text: str, run: tuple[int, int, int]) -> Any:
            return answered(lambda: _pairs(order.plan(_pass(text))), run)

        def pick(text: str, held: Any, free: Any, run: tuple[int, int, int]) -> Any:
            buckets = [[pbg_plugin.Bucket(*pair) for pair in pairs] for pairs in (held, free)]
            return answered(
                lambda: component.whole(order.pick(_pass(text), *buckets), "what pick returned"),
                run,
            )

        return module.FunctionOrder(self.name, self.version, self._sha256(), plan, pick)


class _Function(pbg_plugin.Order):
    """A function as an order of the SDK."""

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
    """Makes a bucket order of a function from a grid to the list of its buckets.

        @pbg_host.order
        def rows(grid):
            return [(lhs, rhs) for lhs in range(grid.lhs_partitions) for rhs in range(grid.rhs_partitions)]

        pbg_host.check_order(rows)
        pbg_host.orders.compare(orders=[rows, "beta"], partitions=16, buffer=4)
        pbg_host.train("pbg.toml", plugins=[rows])
        pbg_host.build(rows)                      # rows.wasm, for `pbg-host train --plugin` and other machines

    The grid is a `pbg_host.Pass`, as plugins in Python get it: `lhs_partitions`, `rhs_partitions`, `edges`,
    `buffer_partitions`, `rng()` and so on (docs/plugins). A class of the SDK, `pbg_plugin.Order`, will do as well;
    `parameters` are then its. It must be a pure function of the grid, or a run that is resumed differs from one that is not.

    It runs in this process, so nothing limits it; what it returns is checked as that of every order.
    """
    return decorated(OrderFunction, make, name, version, parameters)


def check_order(order: OrderFunction, /) -> list[Finding]:
    """Tries on many grids what is asked of every order, as `pbg-host plugin check` does: that its plans have every bucket
    once and depend on the grid alone, and what they load. Raises `PluginError` with the first case in which it does not."""
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
