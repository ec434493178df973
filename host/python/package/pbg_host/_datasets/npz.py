"""Edges in NumPy archives."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError

_AT_ONCE = 65536
"""Edges per table."""

_RELATIONS = ("relation", "edge_type", "edge_reltype")
_WEIGHTS = ("weight", "edge_weight")


def read_npz(path: str | os.PathLike[str]) -> Iterator[Mapping[str, list[Any]]]:
    """Yields the edges of an `.npz` archive as tables with the columns `lhs`, `rhs`, and `rel` and `weight` if there are
    such arrays.

    The archive has one of these sets of arrays: `head`, `relation` and `tail`; `edge_index` of the shape [2, edges]; a
    sparse matrix as `scipy.sparse.save_npz` writes it, in the format `coo`, `csr` or `csc`, whose rows are left sides; or
    a single array of the shape [edges, 2] or [edges, 3], with the relation in the middle. Relations may also be in
    `edge_type` or `edge_reltype`, and weights in `weight` or `edge_weight`. Arrays of Python objects are refused.

    Raises `DataError` if the archive is missing or damaged, or has no such arrays.
    """
    path = Path(path)
    columns = _columns(path, _arrays(path))
    edges = len(columns["lhs"])
    for name, column in columns.items():
        if column.ndim != 1 or len(column) != edges:
            raise DataError(f"{path}: the arrays differ in length: {edges} left sides, but {name} has the shape {column.shape}")
        kinds = "fiu" if name == "weight" else "iuU"
        if column.dtype.kind not in kinds:
            raise DataError(f"{path}: {name} has the type {column.dtype}, not numbers or names")
    for start in range(0, edges, _AT_ONCE):
        yield {name: column[start : start + _AT_ONCE].tolist() for name, column in columns.items()}


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: is a single array, not an `.npz` archive")
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, OSError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, FileNotFoundError):
            raise DataError(f"{path}: there is no such file") from None
        raise DataError(f"{path}: is not a complete archive of arrays: {error}") from None


def _columns(path: Path, arrays: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns of the edges."""
    found = _ends(path, arrays)
    for role, names in (("rel", _RELATIONS), ("weight", _WEIGHTS)):
        for name in names:
            if name in arrays and role not in found:
                array = arrays[name]
                found[role] = array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array
    return found


def _ends(path: Path, arrays: dict[str, Any]) -> dict[str, Any]:
    if "head" in arrays and "tail" in arrays:
        return {"lhs": arrays["head"], "rhs": arrays["tail"]}
    if "edge_index" in arrays:
        index = arrays["edge_index"]
        if index.ndim != 2 or index.shape[0] != 2:
            raise DataError(f"{path}: edge_index has the shape {list(index.shape)}, not [2, edges]")
        return {"lhs": index[0], "rhs": index[1]}
    if "shape" in arrays and "format" in arrays:
        return _sparse(path, arrays)
    if len(arrays) == 1:
        (table,) = arrays.values()
        if table.ndim == 2 and table.shape[1] == 2:
            return {"lhs": table[:, 0], "rhs": table[:, 1]}
        if table.ndim == 2 and table.shape[1] == 3:
            return {"lhs": table[:, 0], "rel": table[:, 1], "rhs": table[:, 2]}
    raise DataError(
        f"{path}: has the arrays {', '.join(arrays) or '(none)'}, but neither head and tail, nor edge_index, nor a sparse matrix"
    )


def _sparse(path: Path, arrays: dict[str, Any]) -> dict[str, Any]:
    kind = arrays["format"].item()
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    needed = {"coo": ("row", "col"), "csr": ("indices", "indptr"), "csc": ("indices", "indptr")}.get(kind)
    if needed is None:
        raise DataError(f"{path}: is a sparse matrix in the format {kind}; save it as coo, csr or csc")
    missing = [name for name in (*needed, "data") if name not in arrays]
    if missing:
        raise DataError(f"{path}: is a sparse matrix without the array {missing[0]}")
    if kind == "coo":
        return {"lhs": arrays["row"], "rhs": arrays["col"], "weight": arrays["data"]}
    steps = np.diff(arrays["indptr"])
    if (steps < 0).any() or steps.sum() != len(arrays["indices"]):
        raise DataError(f"{path}: indptr and indices of the sparse matrix contradict each other")
    outer = np.repeat(np.arange(len(steps)), steps)
    lhs, rhs = (outer, arrays["indices"]) if kind == "csr" else (arrays["indices"], outer)
    return {"lhs": lhs, "rhs": rhs, "weight": arrays["data"]}
