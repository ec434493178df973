"""The files of a dataset that was opened, read with Arrow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import DataError


def names_in(
    opened: Mapping[str, Any], entity_type: str, rows: Sequence[int] | None = None
) -> Any:
    """The names of a type in the dataset that was opened, as an array of Arrow: by partition, of each the first `rows`."""
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
    """The names of the relations in the dataset that was opened, by id."""
    names: list[str] = dataset_file(opened, "relations.arrow").read_all()["name"].to_pylist()
    return names


def dataset_file(opened: Mapping[str, Any], file: str) -> Any:
    """An Arrow file of the dataset that was opened, which stays readable; not one of another import since."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(f"datasets are read with pyarrow (pip install pyarrow): {error}") from error
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(Path(opened["path"], file))))
    except (OSError, pa.ArrowException):
        _check_is_same(opened)
        raise
    # Afterwards, so that it is true of the file that was opened.
    _check_is_same(opened)
    return reader


def _check_is_same(opened: Mapping[str, Any]) -> None:
    """Raises where the dataset that was opened has been replaced by another import."""
    folder = opened["path"]
    try:
        now = json.loads(Path(folder, "manifest.json").read_text())["crc32"]
    except FileNotFoundError:
        raise DataError(f"{folder} is no dataset any more: it has no manifest.json") from None
    if now != opened["identity"]:
        raise DataError(
            f"the dataset {folder} was imported anew after it was opened, and its files are others now",
            help="open the model again: pbg_host.Model(...)",
        )
