"""Rows as DataFrames of whichever library is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .errors import UsageError

Frame = Literal["pandas", "polars", "arrow"]
"""Kinds of tables: `pandas.DataFrame`, `polars.DataFrame`, `pyarrow.Table`."""

_MODULES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}


def frame_of(columns: Mapping[str, Any], kind: Frame | None) -> Any:
    """A table of columns; of `kind`, or of what is installed: pandas, else polars, else pyarrow."""
    chosen = kind if kind is not None else _installed()
    if chosen == "pandas":
        import pandas

        return pandas.DataFrame(columns)
    if chosen == "polars":
        import polars

        return polars.DataFrame(columns)
    if chosen == "arrow":
        import pyarrow

        return pyarrow.table(dict(columns))
    raise UsageError(f"frame is 'pandas', 'polars' or 'arrow', not {chosen!r}")


def rows_frame(rows: Sequence[Mapping[str, Any]], kind: Frame | None) -> Any:
    """A table of rows, with a column for every name that one of them has."""
    names = dict.fromkeys(name for row in rows for name in row)
    return frame_of({name: [row.get(name) for row in rows] for name in names}, kind)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values with their names joined by dots; lists stay."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _installed() -> str:
    for kind, module in _MODULES.items():
        if importlib.util.find_spec(module) is not None:
            return kind
    raise ImportError("tables need pandas, polars or pyarrow: pip install 'pbg-host[frames]'")
