"""Relation samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Type

from . import component
from .metadata import Metadata
from .rng import Rng

class Draw(NamedTuple):
    """The next batch: so many edges of one relation."""

    relation: int
    edges: int


@dataclass
class Share:
    """What one worker trains of one bucket."""

    #: Edges of each relation; 0 for those that the share lacks.
    counts: List[int]
    #: Edges that a batch takes at most.
    batch_size: int
    #: Seed for everything random; differs from share to share.
    seed: int

    def rng(self) -> Rng:
        """The generator that belongs to this share."""
        return Rng(self.seed)


class Left:
    """The edges of a share that are left to draw, by relation."""

    def __init__(self, share: Share) -> None:
        self.counts = list(share.counts)
        self.total = sum(self.counts)
        self._batch_size = share.batch_size

    def relations(self) -> List[int]:
        """The relations that have edges left, ascending."""
        return [relation for relation, count in enumerate(self.counts) if count]

    def take(self, relation: int) -> Draw:
        """Draws a batch: as many edges as one takes, or what is left of the relation."""
        edges = min(self.counts[relation], self._batch_size)
        if edges == 0:
            raise ValueError(f"relation {relation} has no edges left")
        self.counts[relation] -= edges
        self.total -= edges
        return Draw(relation, edges)


class Sampler:
    """Chooses the relation of each batch, where all edges of a batch share one.

    One instance serves one worker in one bucket: it is configured, and `begin` starts to draw the
    worker's share. Everything random has to come from the share's seed.
    """

    @classmethod
    def metadata(cls) -> Metadata:
        """Who this is: a `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Takes a dict with every declared parameter, already checked."""

    def begin(self, share: Share) -> Any:
        """An object with `next()`, which gives a `Draw`, or None once every edge was drawn, and,
        if it likes, `observe(relation, mean_loss)`, called after each batch was trained."""
        raise NotImplementedError


def export_sampler(sampler: Type[Sampler]) -> Tuple[type, type, type]:
    """What a component exports for a class of samplers:
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

    # The bindings find it by its name.
    Walk.__name__ = Walk.__qualname__ = "Sampler"
    return component.metadata_of(sampler), RelationSampler, Walk
