"""Edges of graphs of NetworkX."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from .._arguments import name as name_of
from ..errors import DataError, UsageError
from .graphml import RELATIONS, Row


def is_graph(source: object) -> bool:
    """Returns whether an object is a graph of NetworkX, or one with the same methods."""
    return all(hasattr(source, name) for name in ("edges", "is_directed", "is_multigraph"))


def edges_of(graph: Any, *, relation: str | None = None, weight: str | None = None) -> Iterator[Row]:
    """Yields the edges of a graph of NetworkX: `Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`.

    `relation` names the attribute of edges that is the relation, and `weight` the one that is the weight. Without
    `relation`, it is the first of `relation`, `predicate`, `label` and `type` that the first edge has; otherwise the
    keys of a multigraph, if they are text; otherwise the edges have no relation. Each undirected edge is yielded once.

    Raises `DataError` if an edge lacks the attribute.
    """
    if not is_graph(graph):
        raise UsageError(f"expected a graph of NetworkX, not {type(graph).__name__}")
    keyed = graph.is_multigraph()
    rows = iter(graph.edges(keys=True, data=True) if keyed else graph.edges(data=True))
    first = next(rows, None)
    if first is None:
        return
    if relation is None:
        relation = next((name for name in RELATIONS if name in first[-1]), None)
    by_key = relation is None and keyed and isinstance(first[2], str)
    for row in chain([first], rows):
        source, target, data = row[0], row[1], row[-1]
        lhs, rhs = name_of("node", source), name_of("node", target)
        if relation is None and not by_key:
            if weight is not None:
                raise DataError("the edges have no relation; name its attribute with `relation`")
            yield lhs, rhs
            continue
        edge = f"the edge {source!r}, {target!r}"
        value = row[2] if by_key else _attribute(data, relation, edge)
        rel = name_of(f"relation of {edge}", value)
        if weight is None:
            yield lhs, rel, rhs
            continue
        try:
            yield lhs, rel, rhs, float(_attribute(data, weight, edge))
        except (TypeError, ValueError):
            raise DataError(f"{edge} has the weight {data[weight]!r}, which is not a number") from None


def _attribute(data: Any, name: str | None, edge: str) -> Any:
    if name not in data:
        raise DataError(f"{edge} has no attribute `{name}`")
    return data[name]
