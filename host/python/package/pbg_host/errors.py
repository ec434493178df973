"""What can go wrong: one class per kind of failure, as `pbg-host` has one exit code per kind.

Every class is a `PbgError`. `str()` of one is what the program would print: what failed, the reasons beneath, advice.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import ClassVar, NamedTuple


_FOLDER = os.path.dirname(__file__) + os.sep


class Problem(NamedTuple):
    """One thing that is wrong with a configuration."""

    path: str
    """Path of the key, as in `entities.user.dimension`; empty for the text as a whole."""
    line: int | None
    """Line of the file, counted from 1; `None` for what did not come from a file."""
    message: str
    """What is wrong, and what to do about it."""


class PbgError(Exception):
    """Whatever pbg-host refuses or fails at."""

    exit_code: ClassVar[int] = 1
    """With what `pbg-host` would end."""

    message: str
    """What failed."""
    causes: tuple[str, ...]
    """The reasons beneath, the nearest first."""
    help: str | None
    """Advice, where there is some."""

    def __init__(
        self,
        message: str,
        *,
        causes: tuple[str, ...] | list[str] = (),
        help: str | None = None,
        problems: list[tuple[str, int | None, str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)
        self.help = help
        self._problems = [Problem(*problem) for problem in problems or ()]

    def __str__(self) -> str:
        lines = [self.message, *(f"caused by: {cause}" for cause in self.causes)]
        if self.help is not None:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)


class InternalError(PbgError):
    """A defect of pbg-host; please report it."""


class UsageError(PbgError, ValueError):
    """What was asked makes no sense."""

    exit_code = 2


class ConfigError(PbgError, ValueError):
    """The configuration is wrong; `problems` has everything at once."""

    exit_code = 3

    @property
    def problems(self) -> list[Problem]:
        """Everything that is wrong, in the order of the file."""
        return self._problems


class DataError(PbgError):
    """Input data or dataset: missing, damaged, or does not fit."""

    exit_code = 4


class CheckpointError(PbgError):
    """Checkpoint: missing, damaged, or of another configuration."""

    exit_code = 5


class PluginError(PbgError):
    """A plugin failed, exceeded its limits or broke a promise."""

    exit_code = 6


class NotFiniteError(PbgError, ArithmeticError):
    """Training produced a value that is not finite."""

    exit_code = 7


class SystemRefusedError(PbgError):
    """The system refused: disk full, permissions, memory."""

    exit_code = 8


class LockedError(PbgError):
    """Another run is using the checkpoint or the dataset."""

    exit_code = 9


class ClusterError(PbgError):
    """Several machines: the others cannot be reached, or refuse this trainer."""

    exit_code = 10


class InterruptedRunError(PbgError):
    """Stopped before it had anything to commit; the same call resumes."""

    exit_code = 130


class PbgWarning(UserWarning):
    """Something odd that does not stop the work."""


BY_EXIT_CODE: dict[int, type[PbgError]] = {
    kind.exit_code: kind
    for kind in (
        InternalError,
        UsageError,
        ConfigError,
        DataError,
        CheckpointError,
        PluginError,
        NotFiniteError,
        SystemRefusedError,
        LockedError,
        ClusterError,
        InterruptedRunError,
    )
}


def _warn(text: str) -> None:
    """Warns whoever called the package: of the line of theirs that did."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDER):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, PbgWarning, stacklevel=level)
