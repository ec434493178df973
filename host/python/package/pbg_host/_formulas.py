"""Operators and comparators of Python as values of configurations, which contain their formulas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Union

from . import _native
from ._own_comparators import ComparatorFunction
from ._own_operators import OperatorFunction
from .errors import UsageError

FormulaFunction = Union[OperatorFunction, ComparatorFunction]

_STAND_INS = {"operator": "diagonal", "comparator": "dot"}
"""Built-in ones, with which a configuration is read for its other keys."""


def read_with_formulas(
    keys: Mapping[str, Any], read: Callable[[dict[str, Any]], _native.Config]
) -> _native.Config:
    """Reads a configuration from `keys`, whose relations may have operators of Python, as its comparator may be one:
    `read` gets their names, and their formulas in the table `formulas`. Their parameters come from the configuration
    that results."""
    found: list[FormulaFunction] = []
    named = _named(keys, found, lambda function: function.name)
    if not found:
        return read(named)
    params: Mapping[str, Any] = {}
    if any(function.parameter_names() for function in found):
        # The formulas depend on parameters that a file may contain.
        config = read(_named(keys, [], lambda function: _STAND_INS[function.kind]))
        params = json.loads(config.to_json())["plugins"]["params"]
    return read({**named, "formulas": _formulas(named, found, params)})


def _named(
    values: Mapping[str, Any],
    found: list[FormulaFunction],
    name: Callable[[FormulaFunction], str],
) -> dict[str, Any]:
    """Replaces operators and comparators by names, and adds them to `found`."""

    def named(key: str, value: Any) -> Any:
        last = key.rpartition(".")[2]
        if isinstance(value, (OperatorFunction, ComparatorFunction)) and value.kind == last:
            found.append(value)
            return name(value)
        if isinstance(value, Mapping):
            return {of: named(str(of), inner) for of, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [named("", inner) for inner in value]
        return value

    return {key: named(key, value) for key, value in values.items()}


def _formulas(
    keys: Mapping[str, Any], found: list[FormulaFunction], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the table `formulas` with the formulas of `found`, whose parameters `params` has by name."""
    made: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for function in found:
        name = function.name
        formula = function.formula(**params.get(name, {}))
        if kinds.setdefault(name, function.kind) != function.kind:
            raise UsageError(
                f"an operator and the comparator are both called {name}",
                help="name one of them: pbg_host.comparator(..., name=...)",
            )
        if made.setdefault(name, formula) != formula:
            raise UsageError(
                f"relations: two operators with different formulas are called {name}",
                help="name one of them: pbg_host.operator(..., name=...)",
            )
    return {**(keys.get("formulas") or {}), **made}
