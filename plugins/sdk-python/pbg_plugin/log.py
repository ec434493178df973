"""Lines for the host's log. In an ordinary interpreter they are kept, so that a test can take them."""

from __future__ import annotations

from typing import Any, List, Tuple

from . import bindings

_host: Any = bindings.found("wit_world.imports.log")

_lines: List[Tuple[str, str]] = []


def debug(message: object) -> None:
    """Writes one line for the plugin's author."""
    _write("DEBUG", message)


def info(message: object) -> None:
    """Writes one line for the user."""
    _write("INFO", message)


def warn(message: object) -> None:
    """Writes one line about something unexpected, after which training goes on."""
    _write("WARN", message)


def error(message: object) -> None:
    """Writes one line that explains the fault that follows."""
    _write("ERROR", message)


def take() -> List[Tuple[str, str]]:
    """Returns the (level, line) pairs since the last call; only outside the sandbox."""
    lines = list(_lines)
    _lines.clear()
    return lines


def _write(level: str, message: object) -> None:
    if _host is None:
        _lines.append((level, str(message)))
    else:
        _host.write(_host.Level[level], str(message))
