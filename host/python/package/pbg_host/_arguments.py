"""What functions ask of their arguments."""

from __future__ import annotations

import operator
from typing import Any

from .errors import UsageError


def whole(what: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise UsageError(f"{what}: a whole number of at least {least} is wanted, not {value!r}")
    return number


def whole_or_none(what: str, value: object, least: int = 1) -> int | None:
    """As `whole`, where nothing stands for a default."""
    return None if value is None else whole(what, value, least)


def name(what: str, value: Any) -> str:
    """The name of an entity or a relation: text, or a whole number."""
    if isinstance(value, str):
        return value
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return str(operator.index(value))
    # Scalars of Arrow.
    if hasattr(value, "as_py"):
        return name(what, value.as_py())
    raise UsageError(f"{what}: names are text or whole numbers, not {value!r}")
