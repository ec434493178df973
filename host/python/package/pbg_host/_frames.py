"""Tables as DataFrames of the library that is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .errors import UsageError

Frame = Literal["pandas", "polars", "arrow"]
"""Kinds of tables: `pandas.DataFrame`, `polars.DataFrame`, `pyarrow.Table`."""

_MODULES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}


def frame_of(columns: Mapping[str, Any], kind: Frame | None) -> Any:
    """Creates a table from columns, of the given `kind`, or of the first library that is installed: pandas, polars,
    pyarrow."""
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
    raise UsageError(f"frame must be 'pandas', 'polars' or 'arrow', not {chosen!r}")


def rows_frame(rows: Sequence[Mapping[str, Any]], kind: Frame | None) -> Any:
    """Creates a table from rows, with a column for every name that occurs in one of them."""
    names = dict.fromkeys(name for row in rows for name in row)
    return frame_of({name: [row.get(name) for row in rows] for name in names}, kind)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested dictionaries, joining their keys with dots. Lists are not changed."""
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
