"""Folders of datasets, as PyKEEN, LibKGE, OGB and CoDEx have them."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from ..errors import DataError, UsageError
from .download import download
from .npz import read_npz

EdgeFile = Union[Path, "NumberedTriples", "OgbSplit"]
"""Source of the edges of a set; an iterable that can be read again, or a file."""

_SETS = {"train": "training", "valid": "validation", "test": "testing"}
"""Edge sets, and the names that PyKEEN gives their folders."""

_TEXTS = (".txt", ".tsv", ".txt.gz", ".tsv.gz", ".nt", ".nt.gz")


@dataclass(frozen=True)
class EdgeSets:
    """Edge sets of a dataset."""

    name: str
    """Name of the dataset."""
    folder: Path
    """Folder with its files."""
    layout: str
    """Layout that the folder was taken for: `pykeen`, `libkge`, `ogb` or `codex`."""
    edges: dict[str, EdgeFile] = field(default_factory=dict)
    """Sources of edges by the names `train`, `valid` and `test`, for `pbg_host.import_edges`."""


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    url: str | None = None,
    sha256: str | None = None,
) -> EdgeSets:
    """Returns the edge sets of the dataset `name`, which is in the folder `root`, or in a folder of its name there.

    `root` defaults to the current folder. Names of folders are compared without case, hyphens and underscores. The
    layouts are:

    * PyKEEN and CoDEx: `train.txt`, `valid.txt` and `test.txt` (or `.tsv`, also with `.gz`) with a triple per line;
      CoDEx has them in `triples/NAME`.
    * PyKEEN's `to_directory_binary`: `training`, `validation` and `testing`, each with `numeric_triples.tsv.gz`,
      `entity_to_id.tsv.gz` and `relation_to_id.tsv.gz`.
    * LibKGE: `train.del`, `valid.del` and `test.del` with numbers, whose names are in `entity_ids.del` and
      `relation_ids.del`.
    * OGB: `raw/edge.csv.gz`, with relations in `raw/edge_reltype.csv.gz` if there are any, or splits of edges as `.npz`
      files with the arrays `head`, `relation` and `tail` in a folder below `split`.

    If there is no such folder, and `url` and `sha256` are given, the archive is downloaded to `root` first, provided
    that it has this checksum (see `download`).

    Raises `DataError` if the folder has none of these layouts or a file is damaged.
    """
    if not isinstance(name, str):
        raise UsageError(f"expected the name of a dataset, not {type(name).__name__}")
    if (url is None) != (sha256 is None):
        raise UsageError("url and sha256 belong together: without a checksum, nothing is downloaded")
    root = Path(root if root is not None else ".").expanduser()
    found = _found(name, root)
    if found is None and url is not None and sha256 is not None:
        download(url, root / name, sha256=sha256)
        found = _found(name, root)
    if found is None:
        raise DataError(
            f"{root}: contains no dataset {name!r} in the layout of PyKEEN, LibKGE, OGB or CoDEx; give its folder as root, "
            "or url and sha256 of an archive"
        )
    return found


def _found(name: str, root: Path) -> EdgeSets | None:
    for folder in _candidates(name, root):
        for layout, read in _LAYOUTS.items():
            edges = read(folder)
            if edges:
                return EdgeSets(name, folder, layout, edges)
    return None


def _candidates(name: str, root: Path) -> Iterator[Path]:
    """Yields folders that may contain the dataset: those of its name, and then the root, unless it contains others."""
    wanted = _key(name)
    for parent in (root, root / "triples", root / "data" / "triples", root / "data"):
        for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
            if folder.is_dir() and _key(folder.name) == wanted:
                yield folder
                # Archives often contain one folder.
                yield from (inner for inner in sorted(folder.iterdir()) if inner.is_dir())
    if root.is_dir():
        yield root


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _texts(folder: Path) -> dict[str, EdgeFile]:
    """Returns `train.txt` and its like."""
    found: dict[str, EdgeFile] = {}
    for name in _SETS:
        files = [folder / (name + ending) for ending in _TEXTS]
        files = [file for file in files if file.is_file()]
        if len(files) > 1:
            raise DataError(f"{folder}: contains both {files[0].name} and {files[1].name}; remove one")
        if files:
            found[name] = files[0]
    return found if "train" in found else {}


def _codex(folder: Path) -> dict[str, EdgeFile]:
    return _texts(folder) if folder.parent.name == "triples" else {}


def _pykeen(folder: Path) -> dict[str, EdgeFile]:
    found: dict[str, EdgeFile] = {}
    for name, inner in _SETS.items():
        triples = folder / inner / "numeric_triples.tsv.gz"
        if triples.is_file():
            ids = (folder / inner / "entity_to_id.tsv.gz", folder / inner / "relation_to_id.tsv.gz")
            found[name] = NumberedTriples(triples, *ids, header=True)
    return found or _texts(folder)


def _libkge(folder: Path) -> dict[str, EdgeFile]:
    files = {name: folder / f"{name}.del" for name in _SETS}
    ids = (folder / "entity_ids.del", folder / "relation_ids.del")
    if not files["train"].is_file():
        return {}
    return {name: NumberedTriples(file, *ids) for name, file in files.items() if file.is_file()}


def _ogb(folder: Path) -> dict[str, EdgeFile]:
    for split in sorted(folder.glob("split/*/train.npz")):
        files = {name: split.parent / f"{name}.npz" for name in _SETS}
        return {name: OgbSplit(file) for name, file in files.items() if file.is_file()}
    for raw in (folder / "raw", folder):
        edges = _either(raw / "edge.csv.gz", raw / "edge.csv")
        if edges is not None and _either(raw / "num-node-list.csv.gz", raw / "num-node-list.csv"):
            relations = _either(raw / "edge_reltype.csv.gz", raw / "edge_reltype.csv")
            return {"train": edges if relations is None else OgbSplit(edges, relations)}
        if (raw / "relations").is_dir():
            raise DataError(
                f"{raw}: has edges in a folder for each kind of relation, as OGB's graphs with several kinds of nodes; only "
                "those with one edge.csv.gz are read; pass (head, relation, tail) with names of your own to import_edges"
            )
    return {}


def _either(*paths: Path) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


_LAYOUTS: dict[str, Callable[[Path], dict[str, EdgeFile]]] = {
    "libkge": _libkge,
    "ogb": _ogb,
    "codex": _codex,
    "pykeen": _pykeen,
}


@dataclass(frozen=True)
class NumberedTriples:
    """Triples of numbers in a file, whose names are in other files, each with a number and a name per line."""

    triples: Path
    entities: Path
    relations: Path
    header: bool = False
    """Whether each file begins with a line of column names."""

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        entities, relations = self._names(self.entities), self._names(self.relations)
        for line, cells in self._lines(self.triples, 3):
            try:
                lhs, rel, rhs = cells
                yield entities[lhs], relations[rel], entities[rhs]
            except KeyError as error:
                known = self.relations if cells[1] == error.args[0] else self.entities
                raise DataError(f"{self.triples}, line {line}: the number {error} is not in {known.name}") from None

    def _names(self, path: Path) -> dict[str, str]:
        names: dict[str, str] = {}
        for line, (number, name) in self._lines(path, 2):
            if names.setdefault(number, name) != name:
                raise DataError(f"{path}, line {line}: the number {number} has two names")
        return names

    def _lines(self, path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
        for number, line in _lines(path):
            if self.header and number == 1:
                continue
            cells = line.split("\t", width - 1) if width == 2 else line.split("\t")
            if len(cells) != width or not all(cells):
                raise DataError(f"{path}, line {number}: expected {width} columns separated by tabs")
            yield number, cells


@dataclass(frozen=True)
class OgbSplit:
    """Edges of OGB: an `.npz` file, or a file of pairs with a file of relations in the same order."""

    edges: Path
    relations: Path | None = None

    def __iter__(self) -> Iterator[Any]:
        if self.relations is None:
            yield from read_npz(self.edges)
            return
        relations = _lines(self.relations)
        for number, line in _lines(self.edges):
            _, rel = next(relations, (0, None))
            cells = line.split(",")
            if rel is None:
                raise DataError(f"{self.relations}: ends before line {number}, which {self.edges.name} has")
            if len(cells) != 2 or not all(cell.strip().isdigit() for cell in (*cells, rel)):
                raise DataError(f"{self.edges}, line {number}: expected two whole numbers, and one in {self.relations.name}")
            yield cells[0].strip(), rel.strip(), cells[1].strip()
        if next(relations, None) is not None:
            raise DataError(f"{self.relations}: has more lines than {self.edges.name}")


_LONGEST = 1 << 20
"""Longest line in characters."""


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text that are not blank, with their numbers."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            number = 0
            while line := file.readline(_LONGEST):
                number += 1
                if len(line) == _LONGEST:
                    raise DataError(f"{path}, line {number}: is longer than {_LONGEST} characters")
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except FileNotFoundError:
        raise DataError(f"{path}: does not exist, but the files beside it need it") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
