"""Comparison of bucket orders without training: what a run would read, write and wait for (docs/order-lab.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import _native
from ._arguments import whole, whole_or_none
from ._config import ConfigLike, config_of
from ._frames import Frame, flat, frame_of, rows_frame
from ._functions import Function, undecorated
from ._load import as_json
from ._own_orders import OrderFunction
from .errors import UsageError, _warn

OrderLike = Union[str, "os.PathLike[str]", tuple[str, Mapping[str, Any]], OrderFunction]
"""An order: the name of a standard one or the file of a component, a pair of either and its parameters, or a function
decorated with `pbg_host.order`."""


def compare(
    config: ConfigLike | None = None,
    /,
    *,
    orders: Sequence[OrderLike] = (),
    partitions: int | None = None,
    rhs_partitions: int | None = None,
    buffer: int | None = None,
    seeds: int | Sequence[int] = 1,
    entities: int | None = None,
    edges: int | None = None,
    dimension: int | None = None,
    rates: Mapping[str, float] | None = None,
    frame: Frame | None = None,
    **keys: Any,
) -> Any:
    """Compares bucket orders, as `pbg-host orders compare` does. Returns a table with a row for each order and seed.

        pbg_host.orders.compare(partitions=16, buffer=4)
        pbg_host.orders.compare("pbg.toml", orders=["inside_out", ("beta", {"assignment": "random"})])

    Orders are compared on a configuration and its dataset, or on a grid of `partitions`. The grid has the entities and
    edges of Freebase86m by default; `rhs_partitions` gives the right side separate entities. `buffer` partitions fit
    into memory. `rates`, from which stalls are predicted, has the keys `edges_per_second`, `read_bytes_per_second` and
    `write_bytes_per_second`. Without `orders`, all standard orders are compared. An order that rejects the grid causes
    a warning; an unknown order is an error.
    """
    setting = _setting(
        orders, partitions, rhs_partitions, buffer, seeds, entities, edges, dimension, rates
    )
    native = _where(config, keys, partitions)
    functions = [order.native() for order in orders if isinstance(order, OrderFunction)]
    comparison = json.loads(_native.compare_orders(native, as_json(setting), functions))
    rows: list[dict[str, Any]] = []
    for case in comparison["cases"]:
        for refused in case["refused"]:
            _warn(f"{refused['order']} is left out: {refused['reason']}")
        for entry in case["orders"]:
            for seed in entry["seeds"]:
                rows.append({"order": entry["order"], **flat(seed)})
    return rows_frame(rows, frame)


def plan(
    order: OrderLike,
    config: ConfigLike | None = None,
    /,
    *,
    partitions: int | None = None,
    rhs_partitions: int | None = None,
    buffer: int | None = None,
    seed: int = 0,
    entities: int | None = None,
    edges: int | None = None,
    dimension: int | None = None,
    frame: Frame | None = None,
    **keys: Any,
) -> Any:
    """Returns the plan of one order as a table with a row for each bucket, in the order of training: its partitions
    `lhs` and `rhs`, and its number of `edges`. The other arguments are those of `compare`."""
    setting = _setting(
        [order], partitions, rhs_partitions, buffer, [seed], entities, edges, dimension, None
    )
    native = _where(config, keys, partitions)
    function = order.native() if isinstance(order, OrderFunction) else None
    planned = json.loads(_native.plan_order(native, as_json(setting), function))
    lhs, rhs, count = (list(column) for column in zip(*planned["plan"]))
    return frame_of({"lhs": lhs, "rhs": rhs, "edges": count}, frame)


def _where(
    config: ConfigLike | None, keys: dict[str, Any], partitions: int | None
) -> _native.Config | None:
    if config is None and not keys:
        if partitions is None:
            raise UsageError("name a configuration, or a grid: partitions=16")
        return None
    if partitions is not None:
        raise UsageError("partitions cannot be combined with a configuration")
    return config_of(config, keys)._native


def _setting(
    orders: Sequence[OrderLike],
    partitions: int | None,
    rhs_partitions: int | None,
    buffer: int | None,
    seeds: int | Sequence[int],
    entities: int | None,
    edges: int | None,
    dimension: int | None,
    rates: Mapping[str, float] | None,
) -> dict[str, Any]:
    if isinstance(orders, (str, os.PathLike, Function)) or not isinstance(orders, Sequence):
        raise UsageError("orders: expected a list, such as ['random', 'optimal']")
    known = {"edges_per_second", "read_bytes_per_second", "write_bytes_per_second"}
    given = dict(rates or {})
    if unknown := set(given) - known:
        raise UsageError(f"rates: {', '.join(sorted(unknown))} is not one of {', '.join(sorted(known))}")
    return {
        "orders": [_order(order) for order in orders if not isinstance(order, OrderFunction)],
        "partitions": whole_or_none("partitions", partitions),
        "rhs_partitions": whole_or_none("rhs_partitions", rhs_partitions),
        "buffer": whole_or_none("buffer", buffer, 2),
        "seeds": _seeds(seeds),
        "machines": [],
        "entities": whole_or_none("entities", entities),
        "edges": whole_or_none("edges", edges, 0),
        "dimension": whole_or_none("dimension", dimension),
        **{name: given.get(name) for name in known},
    }


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, Sequence) and not isinstance(seeds, str):
        return [whole("seeds", seed, 0) for seed in seeds]
    return list(range(whole("seeds", seeds)))


def _order(order: str | os.PathLike[str] | tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    if isinstance(order, tuple) and len(order) == 2:
        name, parameters = order
        return {"name": os.fspath(name), "parameters": dict(parameters)}
    if isinstance(order, (str, os.PathLike)):
        return {"name": os.fspath(order)}
    raise undecorated(order, "order")


