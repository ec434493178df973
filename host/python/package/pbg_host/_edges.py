"""Import of edges from files, tables and iterables."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Literal, Protocol, Union

from . import _native
from ._arguments import name as name_of, whole, whole_or_none
from ._config import ConfigLike, config_of
from ._datasets.networkx import edges_of, is_graph
from ._load import as_json
from ._progress import Bar
from .errors import DataError, PbgError, UsageError


class LazyFrame(Protocol):
    """A `polars.LazyFrame`."""

    def collect(self) -> Any:
        """Returns all rows as a table."""

    def collect_schema(self) -> Any:
        """Returns the schema; distinguishes lazy frames from other objects with `collect`."""


EdgeSource = Union[
    str,
    "os.PathLike[str]",
    "_native.ArrowStream",
    "_native.ArrowBatch",
    "LazyFrame",
    Mapping[str, Sequence[Any]],
    Iterable[Any],
]
"""Source of edges: a file (text or Parquet, plain or compressed), a folder of files or a pattern of file names; a
table that supports Arrow's C stream (`pyarrow.Table` and `RecordBatchReader`, `pandas.DataFrame`, `polars.DataFrame`,
a DuckDB result, ...); a `polars.LazyFrame`; a dictionary of columns; a graph of NetworkX; or an iterable of any of these or of tuples
`(lhs, rel, rhs)`, `(lhs, rel, rhs, weight)` or `(lhs, rhs)`."""

_AT_ONCE = 65536
"""Largest number of tuples in memory."""


def import_edges(
    config: ConfigLike | None = None,
    /,
    *,
    edges: Mapping[str, EdgeSource],
    columns: str | Mapping[str, str] | Sequence[str] | None = None,
    header: bool | None = None,
    header_file: str | os.PathLike[str] | None = None,
    separator: str | None = None,
    comment: str | None = None,
    skip_lines: int = 0,
    on_bad_line: Literal["error", "skip"] = "error",
    literals: Literal["skip", "entities"] = "skip",
    blank_nodes: Literal["per-file", "shared"] = "per-file",
    prefixes: Mapping[str, str] | None = None,
    file_prefixes: bool = False,
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
    """Imports edges into the dataset that a configuration names, as `pbg-host import` does.

    `edges` maps the names of edge sets to their sources. Edges that are not in a file are first written to a temporary
    file next to the dataset, so that memory stays bounded however many edges an iterable yields.

        pbg_host.import_edges("pbg.toml", edges={"train": "train.tsv.gz", "test": frame})

    `columns` names the columns, either by name, as in `{"lhs": "head", "rhs": "tail"}`, or by position, as in `["lhs",
    "-", "rhs"]`. Common column names, such as `lhs`, `rel`, `rhs`, `weight`, `head`, `relation` and `tail`, are
    recognized. The format of a text file is detected from its first lines, whatever its name. `header`, `header_file`
    (a file with the header of all files, which have none themselves), `separator` ("tab", "comma", "semicolon", "pipe",
    "space" or a character; "ntriples", "nquads" or "turtle"), `comment` (a character, or "none") and `skip_lines` set
    it explicitly. The report lists the detected formats, each with the first edge, under `read_as`.
    `on_bad_line="skip"` skips lines that are not edges, and counts them in the report.

    In RDF files, triples whose object is a literal are skipped and counted, or each literal is an entity
    (`literals="entities"`). A label of a blank node in two files is two entities, or one (`blank_nodes="shared"`).
    IRIs are shortened by `prefixes`, as in `{"ex": "http://example.org/"}`, and by those that Turtle files declare if
    `file_prefixes` is true.

    `entity_min_count` and `relation_min_count` drop entities and relations that occur in fewer edges. Ids are kept
    from the existing dataset, or from `dictionary`; `fresh` assigns new ones. `features` maps featurized entity types
    to files with their features. `memory` limits the memory for names and buffers, in bytes. `progress` is `True` for
    a bar (with tqdm), or a function that is called with the phase, the amount done, and the total.

    Returns the report that `pbg-host import --json` prints. If an edge is invalid, raises `DataError` with its file
    and line, and the dataset is not changed.
    """
    native = config_of(config, keys)._native
    if not isinstance(edges, Mapping):
        raise UsageError("edges: expected a dictionary of edge sets by name, such as {'train': 'train.tsv'}")
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
            if _Spooled(spool[0], label, given).put_all_of(item):
                yield path

    def all_of(name: str, source: EdgeSource) -> list[_native.Path]:
        found = list(files(name, source))
        if not found:
            raise DataError(f"edges[{name!r}]: contains no edges")
        return found

    given = _columns(columns)
    sets = [(name, all_of(name, source)) for name, source in edges.items()]
    options = {
        "columns": given,
        "header": _yes_or_no("header", header),
        "header_file": header_file,
        "separator": separator,
        "comment": comment,
        "skip_lines": whole("skip_lines", skip_lines, 0),
        "on_bad_line": on_bad_line,
        "literals": literals,
        "blank_nodes": blank_nodes,
        "prefixes": list((prefixes or {}).items()),
        "file_prefixes": file_prefixes,
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
    report["read_as"] = [_of(spooled, line) for line in report["read_as"]]
    return report


@contextlib.contextmanager
def _named(spooled: Mapping[str, str]) -> Iterator[None]:
    """Makes errors name the argument with the edges, instead of the temporary file to which they were written."""
    try:
        yield
    except PbgError as error:
        error.message = _of(spooled, error.message)
        error.causes = tuple(_of(spooled, cause) for cause in error.causes)
        raise


def _of(spooled: Mapping[str, str], text: str) -> str:
    """Replaces paths of temporary files in a text by the arguments with the edges."""
    for path, label in spooled.items():
        text = re.sub(f"{re.escape(path)}, line (\\d+)", f"{label}, row \\1", text)
        text = text.replace(path, label)
    return text


def _yes_or_no(argument: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise UsageError(f"{argument} must be True, False or None, not {value!r}")


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
    """Returns the rows of a lazy frame: in batches, which need not fit into memory together, if this version of polars
    supports them."""
    if hasattr(frame, "collect_batches"):
        batches: Iterable[Any] = frame.collect_batches()
        return batches
    return [frame.collect()]


def _files_and_tables(label: str, source: EdgeSource) -> Iterator[Any]:
    """Yields paths, and iterables of tables or tuples."""
    if isinstance(source, (str, os.PathLike)):
        yield source
    elif _is_table(source):
        yield [source]
    elif is_graph(source):
        yield edges_of(source)
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


class _Spooled:
    """Writes the edges of the argument `label` to a file; `given` names their columns."""

    def __init__(self, spool: _native.Spool, label: str, given: str | None) -> None:
        self._spool = spool
        self._label = label
        self._given = given

    def put_all_of(self, items: Iterable[Any]) -> bool:
        """Writes tables and tuples. Returns whether there were any."""
        any_there = self._put_all(items)
        self._spool.finish()
        return any_there

    def _put_all(self, items: Iterable[Any]) -> bool:
        rest, any_there = iter(items), False
        for first in rest:
            if _is_lazy(first):
                any_there |= self._put_all(_collected(first))
                continue
            any_there = True
            if hasattr(first, "__arrow_c_stream__"):
                self._spool.put_stream(first)
            elif hasattr(first, "__arrow_c_array__"):
                self._spool.put_batch(first)
            elif isinstance(first, Mapping):
                self._put_columns(first)
            else:
                self._put_tuples(list(chain([first], islice(rest, _AT_ONCE - 1))))
        return any_there

    def _put_columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        if not columns:
            raise DataError(f"{self._label}: the table has no columns")
        try:
            roles = _native.column_roles(self._given, list(map(str, columns)))
        except DataError as error:
            raise DataError(f"{self._label}: {error.message}") from None
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise DataError(f"{self._label}: its columns have different lengths: {shown}")
        self._put(zip(map(str, columns), roles, columns.values()), next(iter(lengths.values())))

    def _put_tuples(self, rows: list[Any]) -> None:
        try:
            widths = {len(row) for row in rows}
        except TypeError:
            raise DataError(
                f"{self._label}: each edge must be a tuple (lhs, rel, rhs), with a weight if it has one"
            ) from None
        if len(widths) > 1 or not widths <= {2, 3, 4}:
            shown = ", ".join(str(width) for width in sorted(widths))
            raise DataError(f"{self._label}: expected tuples that all have 2, 3 or 4 elements, not {shown}")
        roles = ("lhs", "rhs") if widths == {2} else ("lhs", "rel", "rhs", "weight")
        self._put(zip(roles, roles, zip(*rows)), len(rows))

    def _put(self, columns: Iterable[tuple[str, str, Sequence[Any]]], rows: int) -> None:
        """Writes columns with their names and roles."""
        self._spool.put_columns([self._column(*column) for column in columns], rows)

    def _column(
        self, name: str, role: str, values: Sequence[Any]
    ) -> tuple[str, list[str] | None, list[float] | None]:
        if role == "weight":
            return name, None, [_weight(self._label, value) for value in values]
        return name, None if role == "-" else _names(self._label, values), None


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
        raise DataError(f"{label}: weights must be numbers, not {value!r}") from None
