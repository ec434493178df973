"""Access to the modules that the build generates. They exist only in a component, and type checkers do not know them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def found(module: str) -> Any:
    """Returns a generated module; None outside a component."""
    try:
        return import_module(module)
    except ImportError:
        return None
