"""Reads the edges of GraphML files, one by one."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Union
from xml.etree import ElementTree

from ..errors import DataError

Row = Union[tuple[str, str], tuple[str, str, str], tuple[str, str, str, float]]
"""Edge: `(lhs, rhs)`, `(lhs, rel, rhs)` or `(lhs, rel, rhs, weight)`."""

RELATIONS = ("relation", "predicate", "label", "type")
"""Attributes of edges that are relations if the caller names none, the first that all edges have."""


_MOST_IDS = 100_000
"""Number of ids that are remembered. Keys of a multigraph repeat early."""


def read_graphml(
    path: str | os.PathLike[str], *, relation: str | None = None, weight: str | None = None
) -> Iterator[Row]:
    """Yields the edges of a GraphML file, plain or compressed with gzip, with one edge in memory at a time.

    `relation` names the attribute of edges that is the relation, and `weight` the one that is the weight. Without
    `relation`, it is the first of `relation`, `predicate`, `label` and `type` that the file declares for edges; if there
    is none, the edges have no relation. NetworkX writes the keys of a multigraph as the ids of its edges, which
    `relation="id"` takes as relations. Undirected edges are yielded in the direction in which they are written.

    Raises `DataError` if the file is missing or not GraphML, an edge lacks the attribute, or edges without relations
    share ids that are words, so that they may be relations.
    """
    path = Path(path)
    try:
        opened = _opened(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    with opened as file:
        yield from _edges(path, file, relation, weight)


def _opened(path: Path) -> IO[bytes]:
    file = path.open("rb")
    if file.read(2) == b"\x1f\x8b":
        file.close()
        return gzip.open(path, "rb")  # type: ignore[return-value]
    file.seek(0)
    return file


def _edges(path: Path, file: IO[bytes], relation: str | None, weight: str | None) -> Iterator[Row]:
    keys = _Keys(path, relation, weight)
    try:
        events = ElementTree.iterparse(file, events=("start", "end"))
        root: ElementTree.Element | None = None
        parents: list[ElementTree.Element] = []
        count = 0
        for event, element in events:
            tag = _plain(element.tag)
            if root is None:
                root = element
                if tag != "graphml":
                    raise DataError(f"{path}: is not GraphML: its root is `{tag}`, not `graphml`")
            if event == "start":
                parents.append(element)
                continue
            parents.pop()
            if tag == "key":
                keys.add(element)
            elif tag == "edge":
                count += 1
                yield keys.row(element, count)
            if tag in ("node", "edge", "graph", "key") and parents:
                # What has been read is not needed any more.
                parents[-1].remove(element)
    except ElementTree.ParseError as error:
        raise DataError(f"{path}: is not complete XML: {error}") from None
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


class _Keys:
    """Attributes that a GraphML file declares for its edges."""

    def __init__(self, path: Path, relation: str | None, weight: str | None) -> None:
        self._path = path
        self._relation = relation
        self._weight = weight
        self._names: dict[str, str] = {}
        self._defaults: dict[str, str] = {}
        self._ids: set[str] = set()

    def add(self, key: ElementTree.Element) -> None:
        """Adds a declaration, `<key id="d0" for="edge" attr.name="relation"/>`."""
        if key.get("for", "all") not in ("edge", "all"):
            return
        name = key.get("attr.name", key.get("id", ""))
        self._names[key.get("id", "")] = name
        default = next((child.text for child in key if _plain(child.tag) == "default"), None)
        if default is not None:
            self._defaults[name] = default

    def row(self, edge: ElementTree.Element, number: int) -> Row:
        """Returns the names of an edge."""
        source, target = edge.get("source"), edge.get("target")
        if source is None or target is None:
            raise DataError(f"{self._path}: edge {number} has no source or no target")
        values = {"id": edge.attrib["id"]} if "id" in edge.attrib else {}
        values.update(self._defaults)
        for data in edge:
            if _plain(data.tag) == "data":
                key = data.get("key", "")
                values[self._names.get(key, key)] = data.text or ""
        relation, weight = self._relation or self._usual(), self._weight
        if relation is None:
            if weight is not None:
                raise DataError(f"{self._path}: its edges have no relation; name its attribute with `relation`")
            self._note_id(edge.get("id", ""), number)
            return source, target
        rel = self._value(values, relation, number)
        if weight is None:
            return source, rel, target
        text = self._value(values, weight, number)
        try:
            return source, rel, target, float(text)
        except ValueError:
            raise DataError(f"{self._path}: edge {number} has the weight {text!r}, which is not a number") from None

    def _note_id(self, id: str, number: int) -> None:
        """Refuses the id of an earlier edge, unless it is a number: it may be the key of a multigraph."""
        if not id or id.isdigit():
            return
        if id in self._ids:
            raise DataError(
                f"{self._path}: edge {number} has the id {id!r} of an earlier edge, as NetworkX writes the keys of a "
                "multigraph; if the ids are the relations, pass relation='id'; otherwise make them differ"
            )
        if len(self._ids) < _MOST_IDS:
            self._ids.add(id)

    def _usual(self) -> str | None:
        names = self._names.values()
        return next((name for name in RELATIONS if name in names), None)

    def _value(self, values: dict[str, str], name: str, number: int) -> str:
        value = values.get(name)
        if value is None:
            raise DataError(f"{self._path}: edge {number} has no attribute `{name}`")
        return value


def _plain(tag: Any) -> str:
    """Returns the name of an element without its namespace."""
    return str(tag).rpartition("}")[2]
