"""Relation samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Type

from . import component
from .metadata import Metadata
from .rng import Rng

class Draw(NamedTuple):
    """The next batch: a number of edges of one relation."""

    relation: int
    edges: int


@dataclass
class Share:
    """Share of a bucket that one worker trains."""

    #: Number of edges of each relation; 0 for relations that the share lacks.
    counts: List[int]
    #: Maximum number of edges of a batch.
    batch_size: int
    #: Seed for everything random; differs from share to share.
    seed: int

    def rng(self) -> Rng:
        """Returns the random number generator of this share."""
        return Rng(self.seed)


class Left:
    """Remaining edges of a share, by relation."""

    def __init__(self, share: Share) -> None:
        self.counts = list(share.counts)
        self.total = sum(self.counts)
        self._batch_size = share.batch_size

    def relations(self) -> List[int]:
        """Returns the relations with remaining edges, ascending."""
        return [relation for relation, count in enumerate(self.counts) if count]

    def take(self, relation: int) -> Draw:
        """Draws a full batch, or all remaining edges of the relation."""
        edges = min(self.counts[relation], self._batch_size)
        if edges == 0:
            raise ValueError(f"relation {relation} has no edges left")
        self.counts[relation] -= edges
        self.total -= edges
        return Draw(relation, edges)


class Sampler:
    """Chooses the relation of each batch, where all edges of a batch have the same relation.

    One instance serves one worker in one bucket: it is configured, and `begin` starts to draw the
    worker's share. Everything random must come from the share's seed.
    """

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def begin(self, share: Share) -> Any:
        """Returns an object with `next()`, which returns a `Draw`, or None once every edge has been drawn,
        and optionally `observe(relation, mean_loss)`, called after each batch is trained."""
        raise NotImplementedError


def export_sampler(sampler: Type[Sampler]) -> Tuple[type, type, type]:
    """Returns the exports of a component for a class of samplers:
    `Metadata, RelationSampler, Sampler = export_sampler(MySampler)`."""

    def drawn(draws: Any) -> Any:
        draw = draws.next()
        if draw is None:
            return None
        names = ("relation", "edges")
        return component.sampler_types().Draw(*component.pair(draw, "a draw", names))

    class RelationSampler(component.Configured):
        make = sampler

    class Walk:
        draws: Any

        @classmethod
        def create(cls, counts: List[int], batch_size: int, seed: int) -> Any:
            walk = cls()
            share = Share(counts, batch_size, seed)
            walk.draws = component.call(lambda: component.instance(sampler).begin(share))
            return walk

        def next(self) -> Any:
            return component.call(drawn, self.draws)

        def observe(self, relation: int, mean_loss: float) -> None:
            if hasattr(self.draws, "observe"):
                component.tell(self.draws.observe, relation, mean_loss)

    # The bindings look it up by this name.
    Walk.__name__ = Walk.__qualname__ = "Sampler"
    return component.metadata_of(sampler), RelationSampler, Walk
