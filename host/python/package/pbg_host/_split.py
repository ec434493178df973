"""Division of edges into those that are trained and those that are held out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _native
from .errors import DataError, UsageError, _warn


class Split(Mapping[str, Any]):
    """Edges by set, as `import_edges` takes them: `train`, `valid` and `test`. Each is of the kind that was split: a
    table of the same library, a dictionary of columns, or a list of tuples."""

    def __init__(self, sets: Mapping[str, Any], left_out: Any) -> None:
        self._sets = dict(sets)
        self.left_out = left_out
        """Edges of no set; see `split`."""

    def __getitem__(self, name: str) -> Any:
        return self._sets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    def __repr__(self) -> str:
        counts = {name: _rows(edges) for name, edges in self._sets.items()}
        return f"<pbg_host.Split of {counts}, left_out: {_rows(self.left_out)}>"


def split(
    edges: Any,
    /,
    *,
    valid: float = 0.1,
    test: float = 0.1,
    time: str | int | None = None,
    columns: Mapping[str, str] | None = None,
    pairs_together: bool = True,
    seed: int = 0,
) -> Split:
    """Divides edges into sets to train and to evaluate, so that ranks of the held-out ones are honest.

        frame = pandas.read_csv("edges.tsv", sep="\\t", names=["head", "relation", "tail"])
        pbg_host.import_edges(config, edges=pbg_host.split(frame, valid=0.1, test=0.1))

    `edges` is a table (pandas, polars, pyarrow), a dictionary of columns, or a list of tuples, all in memory; `columns`
    names the columns of a table as in `import_edges`. `valid` and `test` are shares of all edges, of which one may be 0.

    * Every entity and every relation of a held-out edge is in a trained edge.
    * With `pairs_together`, all edges between two entities are in the same set, in both directions and of all relations.
      So no held-out edge is the inverse, the copy or a paraphrase of a trained one.

    Edges are drawn at random by `seed`; if too few edges fit, the sets are smaller, with a warning. With `time`, the
    name of a column or its position in tuples, the latest edges are `test` and those before them `valid`; edges of the
    same time are in the same set. Later edges cannot be trained instead, so those that break one of the rules are in no
    set, but in `left_out`. Tuples are returned without their time, which an import would take for a weight."""
    shares = {"valid": _share("valid", valid), "test": _share("test", test)}
    if not 0 < sum(shares.values()) < 1:
        raise UsageError("valid and test: expected shares of the edges, more than 0 and less than 1 together")
    shares = {name: share for name, share in shares.items() if share > 0}
    source = _source(edges, time, columns)
    if source.count == 0:
        raise DataError("split: there are no edges")
    if source.times is None:
        sets = _by_share(source, shares, pairs_together, seed)
        for name, share in shares.items():
            wanted, found = round(share * source.count), len(sets[name])
            # A group of edges may not fit into what is left.
            if found < 0.95 * wanted - 1:
                _warn(
                    f"{name}: has {found} edges instead of {wanted}, since other edges are the only ones of an entity or "
                    "a relation" + (", or all edges of a pair of entities are too many" if pairs_together else "")
                )
    else:
        sets = _by_time(source, source.times, shares, pairs_together)
    taken = {name: source.take(sorted(sets[name])) for name in ("train", *shares)}
    return Split(taken, source.take(sorted(sets["left_out"])))


@dataclass(frozen=True)
class _Source:
    """Edges as columns."""

    heads: list[int]
    relations: list[int]
    """All 0 if edges have no relation."""
    tails: list[int]
    times: list[Any] | None
    take: Callable[[list[int]], Any]
    """Returns edges, in the form in which they were given."""

    @property
    def count(self) -> int:
        return len(self.heads)

    def pair(self, edge: int) -> tuple[int, int]:
        """Returns the entities of an edge, in the same order for both directions."""
        head, tail = self.heads[edge], self.tails[edge]
        return (head, tail) if head <= tail else (tail, head)

    def parts(self, edge: int) -> tuple[tuple[str, int], ...]:
        """Returns what must be in a trained edge."""
        head, tail = self.heads[edge], self.tails[edge]
        return ("entity", head), ("entity", tail), ("relation", self.relations[edge])


Sets = dict[str, list[int]]


def _by_share(source: _Source, shares: Mapping[str, float], together: bool, seed: int) -> Sets:
    groups: dict[Hashable, list[int]] = {}
    for edge in range(source.count):
        groups.setdefault(source.pair(edge) if together else edge, []).append(edge)
    trained = Counter(part for edge in range(source.count) for part in set(source.parts(edge)))
    listed = list(groups.values())
    order = [listed[at] for at in np.random.default_rng(seed).permutation(len(listed))]
    sets: Sets = {"train": [], "left_out": [], **{name: [] for name in shares}}
    waiting = iter(order)
    for name in reversed(list(shares)):
        room = round(shares[name] * source.count)
        kept = []
        for group in waiting:
            lost = Counter(part for edge in group for part in set(source.parts(edge)))
            if len(group) > room or any(trained[part] <= count for part, count in lost.items()):
                kept.append(group)
                continue
            trained.subtract(lost)
            sets[name] += group
            room -= len(group)
            if room == 0:
                break
        # The edges of the next set are drawn from those that this one did not take.
        waiting = iter([*waiting, *kept])
    sets["train"] = [edge for group in waiting for edge in group]
    return sets


def _by_time(
    source: _Source, times: list[Any], shares: Mapping[str, float], together: bool
) -> Sets:
    try:
        order = sorted(range(source.count), key=times.__getitem__)
    except TypeError as error:
        raise DataError(f"time: its values cannot be compared: {error}") from None
    ends, end = {}, source.count
    for name in reversed(list(shares)):
        start = max(end - round(shares[name] * source.count), 0)
        # Edges of the same time belong together.
        while 0 < start < source.count and times[order[start]] == times[order[start - 1]]:
            start -= 1
        ends[name], end = (start, end), start
    if end == 0:
        raise DataError("time: too many edges have the same time, so no edge is left to train")
    sets: Sets = {"train": order[:end], "left_out": []}
    trained = {part for edge in sets["train"] for part in source.parts(edge)}
    before = {source.pair(edge) for edge in sets["train"]} if together else set()
    for name in shares:
        start, end = ends[name]
        here = order[start:end]
        fits = [
            trained.issuperset(source.parts(edge)) and source.pair(edge) not in before
            for edge in here
        ]
        sets[name] = [edge for edge, fit in zip(here, fits) if fit]
        sets["left_out"] += [edge for edge, fit in zip(here, fits) if not fit]
        if together:
            before.update(map(source.pair, sets[name]))
    return sets


def _source(edges: Any, time: str | int | None, columns: Mapping[str, str] | None) -> _Source:
    names = getattr(edges, "column_names", getattr(edges, "columns", None))
    if names is None and isinstance(edges, Mapping):
        names = list(edges)
    if names is not None:
        return _of_table(edges, list(names), time, columns)
    if isinstance(edges, str) or not isinstance(edges, Sequence):
        raise UsageError(
            f"split: expected a table, a dictionary of columns or a list of tuples, not a {type(edges).__name__}",
            help="read files into a table first, as with pandas.read_csv, and iterables into a list",
        )
    return _of_tuples(edges, time)


def _of_table(
    table: Any, names: list[Any], time: str | int | None, columns: Mapping[str, str] | None
) -> _Source:
    shown = list(map(str, names))
    given = None if columns is None else ",".join(f"{role}={of}" for role, of in columns.items())
    roles = dict(zip(_native.column_roles(given, shown), names))
    if time is not None and time not in names:
        raise UsageError(f"time: there is no column {time!r}; the columns are {', '.join(shown)}")

    def column(name: Any) -> list[Any]:
        values = table[name]
        return list(values.to_pylist() if hasattr(values, "to_pylist") else values)

    def take(rows: list[int]) -> Any:
        if isinstance(table, Mapping):
            return {name: [table[name][row] for row in rows] for name in names}
        if hasattr(table, "iloc"):
            return table.iloc[rows]
        at = np.asarray(rows, dtype=np.int64)
        return table.take(at) if hasattr(table, "take") else table[at]

    heads, tails = column(roles["lhs"]), column(roles["rhs"])
    relations = column(roles["rel"]) if "rel" in roles else None
    return _numbered(heads, relations, tails, None if time is None else column(time), take)


def _of_tuples(edges: Sequence[Any], time: str | int | None) -> _Source:
    if isinstance(time, str):
        raise UsageError(f"time: tuples have no column {time!r}; name the position, such as 3")
    widths = {len(edge) if isinstance(edge, (tuple, list)) else 0 for edge in edges}
    least = 2 if time is None else max(3, time + 1)
    if len(widths) > 1 or any(not least <= width <= 5 for width in widths):
        raise UsageError(
            "split: expected tuples (head, relation, tail), all of the same length"
            + ("" if time is None else f", with a time at position {time}")
        )
    if time is not None and not 2 <= time:
        raise UsageError(f"time: the position {time} is that of an entity or a relation")

    def without_time(edge: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(part for at, part in enumerate(edge) if at != time)

    def take(rows: list[int]) -> list[tuple[Any, ...]]:
        return [without_time(edges[row]) for row in rows]

    plain = [without_time(edge) for edge in edges]
    relations = [edge[1] for edge in plain] if plain and len(plain[0]) > 2 else None
    tails = [edge[2 if relations is not None else 1] for edge in plain]
    times = None if time is None else [edge[time] for edge in edges]
    return _numbered([edge[0] for edge in plain], relations, tails, times, take)


def _numbered(
    heads: list[Any],
    relations: list[Any] | None,
    tails: list[Any],
    times: list[Any] | None,
    take: Callable[[list[int]], Any],
) -> _Source:
    if len({len(heads), len(tails), len(relations or heads), len(times or heads)}) > 1:
        raise DataError("split: the columns have different lengths")
    for row, time in enumerate(times or ()):
        if time is None or time != time:
            raise DataError(f"time: edge {row} has no time")
    numbers: dict[Any, int] = {}
    entities = [[numbers.setdefault(of, len(numbers)) for of in side] for side in (heads, tails)]
    known: dict[Any, int] = {}
    numbered = [known.setdefault(of, len(known)) for of in relations or ()]
    return _Source(entities[0], numbered or [0] * len(heads), entities[1], times, take)


def _share(name: str, value: object) -> float:
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = math.nan
    if isinstance(value, bool) or not 0 <= share < 1:
        raise UsageError(f"{name}: expected a share of at least 0 and less than 1, not {value!r}")
    return share


def _rows(edges: Any) -> int:
    if isinstance(edges, Mapping):
        return len(next(iter(edges.values()), ()))
    return len(edges)
