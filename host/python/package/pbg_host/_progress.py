"""Progress of long operations: bars (with tqdm) in terminals and notebooks; lines in log files, or if tqdm is not
installed."""

from __future__ import annotations

import sys
import time
from typing import Any


_INTERVAL = 30.0
"""Seconds between two lines about the same phase."""


def _bars() -> Any:
    if not is_watched():
        return _Line
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line
    return tqdm


class _Line:
    """Replaces a bar: prints one line for each phase when it is done, and further lines meanwhile if it takes long."""

    def __init__(self, *, total: int, desc: str, unit: str, unit_scale: bool) -> None:
        self.n = 0
        self._total, self._phase, self._unit = total, desc, unit
        self._notes: dict[str, str] = {}
        self._begin = self._told = time.monotonic()

    def update(self, more: int) -> None:
        self.n += more
        now = time.monotonic()
        if now - self._told >= _INTERVAL and self.n < self._total:
            self._told = now
            self._say()

    def set_postfix(self, values: dict[str, str], refresh: bool) -> None:
        self._notes.update(values)

    def close(self) -> None:
        self._say()

    def _say(self) -> None:
        seconds = time.monotonic() - self._begin
        # Without a unit, the count only shows that something moves.
        part = "" if self.n >= self._total else f" of {_short(self._total)}"
        done = f"{_short(self.n)}{part}{self._unit} in " if self._unit else ""
        notes = "".join(f"  {name} {value}" for name, value in self._notes.items())
        say(f"{self._phase}: {done}{seconds:.1f} s{notes}")


def _short(number: float) -> str:
    for unit in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}T"


class Bar:
    """A bar for work in phases; `contextlib.closing` leaves it on the screen."""

    def __init__(self, wanted: bool, unit: str = "") -> None:
        self._make = _bars() if wanted else None
        self._unit = unit
        self._bar: Any = None
        self._phase = ""

    def show(self, phase: str, done: int, total: int) -> None:
        """Shows that `done` of `total` of a phase are done. A new phase starts a new bar."""
        if self._make is None:
            return
        if self._bar is None or phase != self._phase:
            self.close()
            self._phase = phase
            self._bar = self._make(total=total, desc=phase, unit=self._unit, unit_scale=True)
        self._bar.update(done - self._bar.n)

    def note(self, **values: str) -> None:
        """Shows values behind the bar."""
        if self._bar is not None:
            self._bar.set_postfix(values, refresh=False)

    def say(self, text: str) -> None:
        """Prints a line next to the bar, if progress is shown."""
        if self._make is not None:
            say(text)

    def close(self) -> None:
        """Ends the bar and leaves it on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def is_watched() -> bool:
    """Returns whether somebody watches, in a terminal or a notebook. Otherwise, as in the log file of a batch job,
    lines are printed."""
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def say(text: str) -> None:
    """Prints a line to standard error."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)
