"""Checks of arguments."""

from __future__ import annotations

import operator
from typing import Any

from .errors import UsageError


def whole(what: str, value: object, least: int = 1) -> int:
    """Returns `value` as a whole number of at least `least`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise UsageError(f"{what}: expected a whole number of at least {least}, not {value!r}")
    return number


def whole_or_none(what: str, value: object, least: int = 1) -> int | None:
    """Like `whole`, but accepts `None`, which means the default."""
    return None if value is None else whole(what, value, least)


def name(what: str, value: Any) -> str:
    """Returns the name of an entity or a relation, given as text or a whole number."""
    if isinstance(value, str):
        return value
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return str(operator.index(value))
    # Scalars of Arrow.
    if hasattr(value, "as_py"):
        return name(what, value.as_py())
    raise UsageError(f"{what}: names must be text or whole numbers, not {value!r}")
