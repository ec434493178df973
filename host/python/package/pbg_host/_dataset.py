"""Reads the files of an open dataset with Arrow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import DataError


def names_in(
    opened: Mapping[str, Any], entity_type: str, rows: Sequence[int] | None = None
) -> Any:
    """Returns the names of an entity type as an Arrow array, partition by partition; `rows` limits each partition to
    its first rows."""
    about = opened["manifest"]["entities"][entity_type]
    features = about.get("features")
    file = features["names_file"] if features else about["file"]
    counts = [features["count"]] if features else about["counts"]
    every = dataset_file(opened, file).read_all()["name"]
    parts, start = [], 0
    for count, wanted in zip(counts, counts if rows is None else rows):
        parts.extend(every.slice(start, wanted).chunks)
        start += count
    import pyarrow as pa

    return pa.chunked_array(parts, type=pa.string())


def relations_in(opened: Mapping[str, Any]) -> list[str]:
    """Returns the names of the relations, by id."""
    names: list[str] = dataset_file(opened, "relations.arrow").read_all()["name"].to_pylist()
    return names


def dataset_file(opened: Mapping[str, Any], file: str) -> Any:
    """Opens an Arrow file of the dataset, and checks that the dataset has not been replaced by another import. An open
    file stays readable if that happens later."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(f"reading a dataset needs pyarrow (pip install pyarrow): {error}") from error
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(Path(opened["path"], file))))
    except (OSError, pa.ArrowException):
        _check_is_same(opened)
        raise
    # The check comes after opening, so that it applies to the file that was opened.
    _check_is_same(opened)
    return reader


def _check_is_same(opened: Mapping[str, Any]) -> None:
    """Raises `DataError` if the dataset has been replaced by another import since it was opened."""
    folder = opened["path"]
    try:
        now = json.loads(Path(folder, "manifest.json").read_text())["crc32"]
    except FileNotFoundError:
        raise DataError(f"{folder} is no longer a dataset: it has no manifest.json") from None
    if now != opened["identity"]:
        raise DataError(
            f"the dataset {folder} was imported again after it was opened, and its files have been replaced",
            help="open the model again: pbg_host.Model(...)",
        )
