"""Operators of Python as values of configurations, which contain their formulas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from . import _native
from ._own_operators import OperatorFunction
from .errors import UsageError


def read_with_formulas(
    keys: Mapping[str, Any], read: Callable[[dict[str, Any]], _native.Config]
) -> _native.Config:
    """Reads a configuration from `keys`, whose relations may have operators of Python: `read` gets their names, and
    their formulas in the table `formulas`. Parameters of operators come from the configuration that results."""
    found: list[OperatorFunction] = []
    named = _named(keys, found)
    if not found:
        return read(named)
    config = read({**named, "formulas": _formulas(named, found, {})})
    params = json.loads(config.to_json())["plugins"]["params"]
    if not any(operator.name in params for operator in found):
        return config
    return read({**named, "formulas": _formulas(named, found, params)})


def _named(values: Mapping[str, Any], found: list[OperatorFunction]) -> dict[str, Any]:
    """Replaces operators by their names, and adds them to `found`."""

    def named(key: str, value: Any) -> Any:
        if isinstance(value, OperatorFunction) and key.rpartition(".")[2] == "operator":
            found.append(value)
            return value.name
        if isinstance(value, Mapping):
            return {of: named(str(of), inner) for of, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [named("", inner) for inner in value]
        return value

    return {key: named(key, value) for key, value in values.items()}


def _formulas(
    keys: Mapping[str, Any], found: list[OperatorFunction], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the table `formulas` with the formulas of operators, whose parameters `params` has by name."""
    made: dict[str, str] = {}
    for operator in found:
        formula = operator.formula(**params.get(operator.name, {}))
        if made.setdefault(operator.name, formula) != formula:
            raise UsageError(
                f"relations: two operators with different formulas are called {operator.name}",
                help="name one of them: pbg_host.operator(..., name=...)",
            )
    return {**(keys.get("formulas") or {}), **made}
