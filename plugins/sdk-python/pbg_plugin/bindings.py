"""What the build generates for a component. It is nowhere else, and no type checker sees it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def found(module: str) -> Any:
    """A generated module; None outside of a component."""
    try:
        return import_module(module)
    except ImportError:
        return None
