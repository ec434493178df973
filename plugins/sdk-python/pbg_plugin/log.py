"""Lines for the host's log. In an ordinary interpreter they are kept for a test to look at."""

from __future__ import annotations

from typing import Any, List, Tuple

from . import bindings

_host: Any = bindings.found("wit_world.imports.log")

_lines: List[Tuple[str, str]] = []


def debug(message: object) -> None:
    """One line for the plugin's author."""
    _write("DEBUG", message)


def info(message: object) -> None:
    """One line for whoever trains."""
    _write("INFO", message)


def warn(message: object) -> None:
    """Something is odd, and training goes on."""
    _write("WARN", message)


def error(message: object) -> None:
    """Explains the fault that follows."""
    _write("ERROR", message)


def take() -> List[Tuple[str, str]]:
    """The (level, line) pairs since the last call; only outside the sandbox."""
    lines = list(_lines)
    _lines.clear()
    return lines


def _write(level: str, message: object) -> None:
    if _host is None:
        _lines.append((level, str(message)))
    else:
        _host.write(_host.Level[level], str(message))
