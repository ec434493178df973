"""Negative selectors: the negatives of each chunk of edges, chosen by code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Type, Union

from . import bindings, component
from .metadata import Metadata
from .rng import Rng


class Entities(NamedTuple):
    """Negatives: the entities themselves, as many as `chunk.negatives`, each below `chunk.entities`."""

    entities: List[int]


class Weights(NamedTuple):
    """Negatives that the host draws: a weight for each candidate, at least 0 and finite, not all 0.

    The host draws without replacement, in proportion to the weights. If fewer candidates than negatives have a weight
    above 0, it begins again with all of them.
    """

    weights: List[float]


@dataclass
class CandidateScores:
    """Scores by the model as it is before the batch. All are finite."""

    #: Score of each edge of the chunk.
    positives: List[float]
    #: Mean score of each candidate over the edges of the chunk, without those that have the candidate itself on the side
    #: that is replaced; -1e9 if all have it.
    means: List[float]
    #: Highest of these scores; -1e9 if there are none.
    highest: List[float]


@dataclass
class Chunk:
    """Edges that share negatives, and the entities that may replace one of their sides."""

    #: Side of the edges that is replaced: "lhs" or "rhs".
    side: str
    entity_type: str
    partition: int
    #: Number of entities in the partition. Entities are numbered from 0 within it.
    entities: int
    #: Partition of the other side.
    kept_partition: int
    #: Relation of each edge: its index in the dataset.
    relations: List[int]
    #: Entity of each edge on the other side, which is kept.
    kept: List[int]
    #: Entity of each edge on the side that is replaced.
    replaced: List[int]
    #: Entities drawn uniformly and independently: one may occur several times.
    candidates: List[int]
    #: Scores, if they are required.
    scores: Optional[CandidateScores]
    #: Number of negatives to select.
    negatives: int
    #: Position of the pass: epoch, edge set and edge chunk, counted from 0.
    position: Tuple[int, int, int] = (0, 0, 0)
    #: Seed for everything random in this selection.
    seed: int = field(default=0)

    @classmethod
    def example(cls, seed: int = 0) -> "Chunk":
        """Returns a chunk for tests: 5 edges, 10 negatives and 40 scored candidates of 100 entities."""
        rng = Rng(seed)
        entities = [rng.below(100) for _ in range(50)]
        numbers = [4 * rng.below(1000) / 1000 - 2 for _ in range(45)]
        means = numbers[5:]
        scores = CandidateScores([x + 2 for x in numbers[:5]], means, [x + 1 for x in means])
        kept, replaced, candidates = entities[:5], entities[5:10], entities[10:]
        return cls("rhs", "entity", 0, 100, 0, [0] * 5, kept, replaced, candidates, scores, 10, seed=seed)


class NegativeSelector:
    """Chooses the negatives of every chunk of a batch."""

    #: Number of candidates for each negative that is selected, from 1 to 64. May be set in `configure`.
    candidates_per_negative: int = 1
    #: Whether the current model scores the candidates. Needs training on the processor cores.
    scores: bool = False

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def select(self, chunk: Chunk) -> Union[Entities, Weights]:
        """Returns the negatives of a chunk. They must be the same for the same arguments."""
        raise NotImplementedError


def export_negative_selector(selector: Type[NegativeSelector]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of negative selectors:
    `Metadata, NegativeSelection = export_negative_selector(MySelector)`."""

    def required() -> Any:
        wit = bindings.found("wit_world.exports.negative_selection")
        made = component.instance(selector)
        return wit.Requirements(int(made.candidates_per_negative), bool(made.scores))

    def selected(given: Any) -> Any:
        return lowered_selection(component.instance(selector).select(lifted_chunk(given)))

    class NegativeSelection(component.Configured):
        make = selector

        def require(self) -> Any:
            return component.call(required)

        def select(self, chunk: Any) -> Any:
            return component.call(selected, chunk)

    return component.metadata_of(selector), NegativeSelection


def lifted_chunk(given: Any) -> Chunk:
    """Converts a chunk to the class that authors use."""
    scores = given.scores
    if scores is not None:
        scores = CandidateScores(list(scores.positives), list(scores.means), list(scores.highest))
    position = given.position
    return Chunk(
        given.side.name.lower(),
        given.entity_type,
        given.partition,
        given.entities,
        given.kept_partition,
        list(given.relations),
        list(given.kept),
        list(given.replaced),
        list(given.candidates),
        scores,
        given.negatives,
        (position.epoch, position.edge_set, position.edge_chunk),
        given.seed,
    )


def lowered_selection(selection: Any) -> Any:
    """Converts a selection to the host's type."""
    wit = bindings.found("wit_world.exports.negative_selection")
    if isinstance(selection, Entities):
        return wit.Selection_Entities([int(entity) for entity in selection.entities])
    if isinstance(selection, Weights):
        return wit.Selection_Weights([float(weight) for weight in selection.weights])
    raise TypeError(f"select returned {selection!r}, not Entities or Weights")
