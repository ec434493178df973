"""Answers of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._frames import Frame, frame_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
else:
    # NumPy has types of arrays since 1.21.
    Floats = np.ndarray


@dataclass(frozen=True)
class Scored:
    """Names with their scores, best first."""

    names: list[str]
    scores: Floats
    left_out: int = 0
    """Number of entities that were excluded because they complete a known edge."""
    probabilities: Floats | None = None
    """Probabilities of a calibrated model, if they were asked for."""

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(zip(self.names, self.scores.tolist()))

    def to_frame(self, frame: Frame | None = None) -> Any:
        """Returns a table with columns `name` and `score`, and `probability` if there are probabilities."""
        columns: dict[str, Any] = {"name": self.names, "score": self.scores}
        if self.probabilities is not None:
            columns["probability"] = self.probabilities
        return frame_of(columns, frame)


@dataclass(frozen=True)
class ScoredEdges:
    """Edges with their scores, best first; with a selection for each relation, relation by relation."""

    heads: list[str]
    relations: list[str]
    tails: list[str]
    scores: Floats
    ranks: npt.NDArray[np.uint32]
    """Ranks from 1, among all edges or those of their relation."""

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """Returns the edges `(head, relation, tail)`."""
        return iter(zip(self.heads, self.relations, self.tails))

    def to_frame(self, frame: Frame | None = None) -> Any:
        """Returns a table with columns `rank`, `score`, `head`, `relation` and `tail`."""
        columns = {
            "rank": self.ranks,
            "score": self.scores,
            "head": self.heads,
            "relation": self.relations,
            "tail": self.tails,
        }
        return frame_of(columns, frame)


def floats(values: Iterable[float]) -> Floats:
    """Returns numbers as an array."""
    return np.asarray(list(values), dtype=np.float32)
