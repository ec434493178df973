"""Learning rate schedules: factors of the learning rates."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple, Type

from . import component
from .metadata import Metadata


class Position(NamedTuple):
    """Position of a pass in a schedule. Epochs are counted from the beginning of the run."""

    #: Number of epochs until the middle of the pass, from `start` to `end`: 0.5, 1.5, ... where an epoch is one pass.
    #: For passes after the end of the schedule it is `end`.
    epoch: float
    #: Number of epochs after which the schedule begins: those of the warm-up, in which the host does not ask it.
    start: float
    #: Number of epochs after which the schedule ends: those of the run, unless the configuration says otherwise.
    end: float

    @property
    def elapsed(self) -> float:
        """Number of epochs since the beginning of the schedule."""
        return self.epoch - self.start

    @property
    def length(self) -> float:
        """Number of epochs from the beginning of the schedule to its end."""
        return self.end - self.start

    @property
    def share(self) -> float:
        """Share of the schedule that has passed, from 0 to 1."""
        return self.elapsed / self.length if self.epoch < self.end else 1.0


class RateSchedule:
    """Decides by which factor the learning rates are multiplied in each pass of a run."""

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def factor(self, position: Position) -> float:
        """Returns the factor, from 0 to 1000; 1 stands for the rates of the configuration."""
        raise NotImplementedError


def number(answer: Any) -> float:
    """Returns what `factor` has returned as a number. Texts and truth values are none."""
    try:
        if isinstance(answer, (bool, str, bytes)):
            raise TypeError
        return float(answer)
    except (TypeError, ValueError):
        raise TypeError(f"factor returned {answer!r}, not a number") from None


def export_schedule(schedule: Type[RateSchedule]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of schedules:
    `Metadata, LearningRateSchedule = export_schedule(MySchedule)`."""

    def asked(given: Any) -> float:
        position = Position(given.epoch, given.start, given.end)
        return number(component.instance(schedule).factor(position))

    class LearningRateSchedule(component.Configured):
        make = schedule

        def factor(self, position: Any) -> float:
            return component.call(asked, position)

    return component.metadata_of(schedule), LearningRateSchedule
