"""Exceptions: one class per kind of failure, as `pbg-host` has one exit code per kind.

Every class is a `PbgError`. `str()` of an exception is what the program would print: what failed, its causes, and
advice.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import ClassVar, NamedTuple


_FOLDER = os.path.dirname(__file__) + os.sep


class Problem(NamedTuple):
    """An error in a configuration."""

    path: str
    """Path of the key, as in `entities.user.dimension`; empty for the text as a whole."""
    line: int | None
    """Line of the file, counted from 1; `None` for a value that did not come from a file."""
    message: str
    """What is wrong, and what to do about it."""


class PbgError(Exception):
    """Base class of all errors of pbg-host."""

    exit_code: ClassVar[int] = 1
    """Exit code of `pbg-host` for this kind of failure."""

    message: str
    """What failed."""
    causes: tuple[str, ...]
    """Underlying causes, the nearest first."""
    help: str | None
    """Advice, or `None`."""

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
    """A bug in pbg-host; please report it."""


class UsageError(PbgError, ValueError):
    """Invalid arguments."""

    exit_code = 2


class ConfigError(PbgError, ValueError):
    """Invalid configuration; `problems` lists all errors."""

    exit_code = 3

    @property
    def problems(self) -> list[Problem]:
        """All errors in the configuration, in the order of the file."""
        return self._problems


class DataError(PbgError):
    """The input data or the dataset are missing or damaged, or do not match."""

    exit_code = 4


class CheckpointError(PbgError):
    """The checkpoint is missing or damaged, or belongs to another configuration."""

    exit_code = 5


class PluginError(PbgError):
    """A plugin failed, exceeded its limits or broke its contract."""

    exit_code = 6


class NotFiniteError(PbgError, ArithmeticError):
    """Training produced a value that is not finite."""

    exit_code = 7


class SystemRefusedError(PbgError):
    """The operating system refused a request: the disk is full, permissions or memory are missing."""

    exit_code = 8


class LockedError(PbgError):
    """Another run is using the checkpoint or the dataset."""

    exit_code = 9


class ClusterError(PbgError):
    """Other trainers or their server cannot be reached, or they rejected this trainer."""

    exit_code = 10


class InterruptedRunError(PbgError):
    """Interrupted before there was anything to commit; the same call resumes the run."""

    exit_code = 130


class PbgWarning(UserWarning):
    """A problem that does not stop the work."""


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
    """Issues a warning with the location of the caller's line outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDER):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, PbgWarning, stacklevel=level)
