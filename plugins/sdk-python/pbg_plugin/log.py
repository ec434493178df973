"""Lines for the host's log. In an ordinary interpreter they are kept for a test to look at."""

try:
    from wit_world.imports import log as _host
except ImportError:
    _host = None

_lines = []


def debug(message):
    """One line for the plugin's author."""
    _write("DEBUG", message)


def info(message):
    """One line for whoever trains."""
    _write("INFO", message)


def warn(message):
    """Something is odd, and training goes on."""
    _write("WARN", message)


def error(message):
    """Explains the fault that follows."""
    _write("ERROR", message)


def take():
    """The (level, line) pairs since the last call; only outside the sandbox."""
    lines = list(_lines)
    _lines.clear()
    return lines


def _write(level, message):
    if _host is None:
        _lines.append((level, str(message)))
    else:
        _host.write(_host.Level[level], str(message))
