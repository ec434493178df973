"""Import of edges: from files, and from whatever a program has them in."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Protocol, Union

from . import _native
from ._arguments import name as name_of, whole, whole_or_none
from ._config import ConfigLike, config_of
from ._load import as_json
from ._progress import Bar
from .errors import DataError, PbgError, UsageError


class LazyFrame(Protocol):
    """A `polars.LazyFrame`."""

    def collect(self) -> Any:
        """All of its rows as a table."""

    def collect_schema(self) -> Any:
        """What tells it from others that can collect."""


EdgeSource = Union[
    str,
    "os.PathLike[str]",
    "_native.ArrowStream",
    "_native.ArrowBatch",
    "LazyFrame",
    Mapping[str, Sequence[Any]],
    Iterable[Any],
]
"""Where edges come from: a file (TSV, CSV or Parquet, plain or compressed); a table that speaks Arrow's C stream
(`pyarrow.Table` and `RecordBatchReader`, `pandas.DataFrame`, `polars.DataFrame`, a DuckDB result, ...); a
`polars.LazyFrame`; a dictionary of columns; or an iterable of any of these or of tuples `(lhs, rel, rhs)`,
`(lhs, rel, rhs, weight)` or `(lhs, rhs)`."""

_AT_ONCE = 65536
"""Tuples that are in memory at once."""


def import_edges(
    config: ConfigLike | None = None,
    /,
    *,
    edges: Mapping[str, EdgeSource],
    columns: str | Mapping[str, str] | Sequence[str] | None = None,
    entity_min_count: int = 0,
    relation_min_count: int = 0,
    dictionary: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    features: Mapping[str, str | os.PathLike[str]] | None = None,
    threads: int | None = None,
    memory: int | None = None,
    progress: bool | Callable[[str, int, int], None] = False,
    **keys: Any,
) -> dict[str, Any]:
    """Makes the dataset that a configuration names, as `pbg-host import` does.

    `edges` has the edge sets by name. What is no file is written to one beside the dataset first, which is removed again:
    memory stays bounded however much an iterable yields.

        pbg_host.import_edges("pbg.toml", edges={"train": "train.tsv.gz", "test": frame})

    `columns` says what the columns are: `{"lhs": "head", "rhs": "tail"}` by name, or `["lhs", "-", "rhs"]` by position;
    columns of tables that are called `lhs`, `rel`, `rhs`, `weight`, `head`, `relation`, `tail` and the like are known.
    `entity_min_count` and `relation_min_count` leave out what is in fewer edges. The ids of the dataset that is there are
    kept, or those of `dictionary`; `fresh` forgets them. `features` has files with the features of featurized types.
    `memory` bounds names and buffers, in bytes. `progress` is `True` for a bar (with tqdm), or a function that gets what
    is done, how much, and of how much.

    Gives the report that `pbg-host import --json` prints. Raises `DataError` with file and line where an edge is wrong;
    the dataset is then as it was.
    """
    native = config_of(config, keys)._native
    if not isinstance(edges, Mapping):
        raise UsageError("edges: a dictionary of edge sets by name is wanted, as in {'train': 'train.tsv'}")
    spool: list[_native.Spool] = []
    spooled: dict[str, str] = {}

    def files(name: str, source: EdgeSource) -> Iterator[_native.Path]:
        label = f"edges[{name!r}]"
        for item in _files_and_tables(label, source):
            if isinstance(item, (str, os.PathLike)):
                yield item
                continue
            if not spool:
                spool.append(_native.Spool(native))
            path = spool[0].begin(f"{len(spooled)}.parquet")
            spooled[os.fspath(path)] = label
            if _spooled(spool[0], label, item):
                yield path

    def all_of(name: str, source: EdgeSource) -> list[_native.Path]:
        found = list(files(name, source))
        if not found:
            raise DataError(f"edges[{name!r}]: there are none")
        return found

    sets = [(name, all_of(name, source)) for name, source in edges.items()]
    options = {
        "columns": _columns(columns),
        "entity_min_count": whole("entity_min_count", entity_min_count, 0),
        "relation_min_count": whole("relation_min_count", relation_min_count, 0),
        "dictionary": dictionary,
        "fresh": fresh,
        "features": list((features or {}).items()),
        "threads": whole_or_none("threads", threads),
        "memory": whole_or_none("memory", memory),
    }
    with contextlib.closing(Bar(progress is True)) as bar:
        heard = progress if callable(progress) else bar.show
        with _named(spooled):
            told = _native.import_edges(native, sets, as_json(options), heard)
    report: dict[str, Any] = json.loads(told)
    return report


@contextlib.contextmanager
def _named(spooled: Mapping[str, str]) -> Iterator[None]:
    """Errors name what was handed in, and not the files that it was written to meanwhile."""

    def of(text: str) -> str:
        for path, label in spooled.items():
            text = re.sub(f"{re.escape(path)}:(\\d+)", f"{label}, row \\1", text)
            text = text.replace(path, label)
        return text

    try:
        yield
    except PbgError as error:
        error.message, error.causes = of(error.message), tuple(map(of, error.causes))
        raise


def _columns(columns: str | Mapping[str, str] | Sequence[str] | None) -> str | None:
    if columns is None or isinstance(columns, str):
        return columns
    if isinstance(columns, Mapping):
        return ",".join(f"{role}={name}" for role, name in columns.items())
    return ",".join(map(str, columns))


def _is_table(item: object) -> bool:
    speaks_arrow = hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__")
    return speaks_arrow or _is_lazy(item) or isinstance(item, Mapping)


def _is_lazy(item: object) -> bool:
    return hasattr(item, "collect_schema") and hasattr(item, "collect")


def _collected(frame: Any) -> Iterable[Any]:
    """The rows of a lazy frame: in batches, which need not fit into memory together, where its polars has them."""
    if hasattr(frame, "collect_batches"):
        batches: Iterable[Any] = frame.collect_batches()
        return batches
    return [frame.collect()]


def _files_and_tables(label: str, source: EdgeSource) -> Iterator[Any]:
    """Paths, and iterables of tables or tuples between them."""
    if isinstance(source, (str, os.PathLike)):
        yield source
    elif _is_table(source):
        yield [source]
    elif isinstance(source, Iterable):
        items = iter(source)
        for first in items:
            if isinstance(first, (str, os.PathLike)):
                yield first
            else:
                yield chain([first], items)
                return
    else:
        raise UsageError(f"{label}: {type(source).__name__} is neither a file nor a table nor an iterable")


def _spooled(spool: _native.Spool, label: str, items: Iterable[Any]) -> bool:
    """Writes tables and tuples; whether there were any."""
    any_there = _put_all(spool, label, items)
    spool.finish()
    return any_there


def _put_all(spool: _native.Spool, label: str, items: Iterable[Any]) -> bool:
    rest, any_there = iter(items), False
    for first in rest:
        if _is_lazy(first):
            any_there |= _put_all(spool, label, _collected(first))
            continue
        any_there = True
        if hasattr(first, "__arrow_c_stream__"):
            spool.put_stream(first)
        elif hasattr(first, "__arrow_c_array__"):
            spool.put_batch(first)
        elif isinstance(first, Mapping):
            _put_columns(spool, label, first)
        else:
            _put_tuples(spool, label, list(chain([first], islice(rest, _AT_ONCE - 1))))
    return any_there


_ROLES = {
    "lhs": ("lhs", "head", "source", "src", "subject", "from"),
    "rel": ("rel", "relation", "predicate", "label", "type"),
    "rhs": ("rhs", "tail", "target", "dst", "destination", "object", "to"),
    "weight": ("weight",),
}


def names_of_roles(names: Iterable[object]) -> dict[str, Any]:
    """Which of a table's columns has which role, by its name."""
    known = {str(name).lower(): name for name in names}
    return {
        role: known[usual]
        for role, names_of_role in _ROLES.items()
        if (usual := next((name for name in names_of_role if name in known), None)) is not None
    }


def _put_columns(
    spool: _native.Spool, label: str, columns: Mapping[str, Sequence[Any]]
) -> None:
    found = {role: columns[name] for role, name in names_of_roles(columns).items()}
    if "lhs" not in found or "rhs" not in found:
        shown = f"columns {', '.join(map(str, columns))} lack" if columns else "a table without"
        raise DataError(f"{label}: {shown} lhs or rhs")
    lengths = {role: len(column) for role, column in found.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{role} has {length}" for role, length in lengths.items())
        raise DataError(f"{label}: columns of different lengths: {shown}")
    _put(spool, label, found["lhs"], found.get("rel"), found["rhs"], found.get("weight"))


def _put_tuples(spool: _native.Spool, label: str, rows: list[Any]) -> None:
    try:
        widths = {len(row) for row in rows}
    except TypeError:
        raise DataError(
            f"{label}: an edge is a tuple (lhs, rel, rhs), with a weight if it has one"
        ) from None
    if len(widths) > 1 or not widths <= {2, 3, 4}:
        shown = ", ".join(str(width) for width in sorted(widths))
        raise DataError(f"{label}: tuples of {shown} where all have 2, 3 or 4 are wanted")
    columns = list(zip(*rows))
    if len(columns) == 2:
        _put(spool, label, columns[0], None, columns[1], None)
    else:
        weight = columns[3] if len(columns) == 4 else None
        _put(spool, label, columns[0], columns[1], columns[2], weight)


def _put(
    spool: _native.Spool,
    label: str,
    lhs: Sequence[Any],
    rel: Sequence[Any] | None,
    rhs: Sequence[Any],
    weight: Sequence[Any] | None,
) -> None:
    spool.put_columns(
        _names(label, lhs),
        None if rel is None else _names(label, rel),
        _names(label, rhs),
        None if weight is None else [_weight(label, value) for value in weight],
    )


def _names(label: str, values: Sequence[Any]) -> list[str]:
    return [value if type(value) is str else _name(label, value) for value in values]


def _name(label: str, value: Any) -> str:
    try:
        return name_of(label, value)
    except UsageError as error:
        raise DataError(error.message) from None


def _weight(label: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"{label}: weights are numbers, not {value!r}") from None
