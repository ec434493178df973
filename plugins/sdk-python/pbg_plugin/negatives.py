"""Negative samplers: distributions of the negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Type, Union

from . import bindings, component
from .metadata import Metadata


class Uniform(NamedTuple):
    """All entities are equally likely."""


class Counted(NamedTuple):
    """An entity's number of edges to a power; an entity without such edges has weight 0."""

    #: "side": the edges of all relations that have the entity on the replaced side; "relation": those of the relation.
    edges: str
    #: From -16 to 16. 0: all entities that have such an edge are equally likely.
    power: float = 1.0


class Listed(NamedTuple):
    """Entities by name. Those in other partitions are left out."""

    #: Names, each once.
    names: List[str]
    #: Weight of each name; empty: all are equally likely.
    weights: List[float] = []


class Nothing(NamedTuple):
    """No entity: this fraction of the draws is left out, so each edge has so many fewer negatives on this side."""


class Part(NamedTuple):
    """Part of a distribution, which is a mixture."""

    #: Fraction of the draws that come from this part, relative to the other parts.
    fraction: float
    weights: Union[Uniform, Counted, Listed, Nothing]


@dataclass
class Candidates:
    """Entities of a partition that may replace one side of a relation's edges."""

    #: Index of the relation in the dataset.
    relation: int
    relation_name: str
    #: Side of the edges that is replaced: "lhs" or "rhs".
    side: str
    entity_type: str
    partition: int
    #: Number of entities in the partition.
    entities: int
    #: Number of the relation's edges whose replaced side is in the partition; 0 unless relation counts are required.
    edges: int
    #: Number of different entities on this side of these edges; 0 unless relation counts are required.
    seen: int
    #: Position of the pass: epoch, edge set and edge chunk, counted from 0.
    position: Tuple[int, int, int] = (0, 0, 0)
    #: Number of different entities on the replaced side of all edges of the relation, in all partitions; 0 unless
    #: relation entities are required.
    replaced_entities: int = 0
    #: Number of different entities on the other side of these edges; 0 unless relation entities are required.
    kept_entities: int = 0


def mixed(fraction: float, weights: Union[Counted, Listed]) -> List[Part]:
    """Returns the mixture that draws `fraction` of the negatives, from 0 to 1, by `weights` and the others uniformly."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"the fraction of a mixture is {fraction}, not from 0 to 1")
    parts = [Part(fraction, weights), Part(1.0 - fraction, Uniform())]
    return [part for part in parts if part.fraction > 0]


class NegativeSampler:
    """Decides from which entities negatives are drawn. It returns a distribution; the host draws from it."""

    #: What distributions use: any of "side", "relation" (numbers of edges), "names" and "relation_entities" (numbers of
    #: entities). Without any, draws are uniform.
    required: Tuple[str, ...] = ()

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def distribution(self, candidates: Candidates) -> List[Part]:
        """Returns the distribution among the candidates: at least one part, one of each kind of weights at most."""
        raise NotImplementedError


def export_negatives(sampler: Type[NegativeSampler]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of negative samplers:
    `Metadata, NegativeDistribution = export_negatives(MySampler)`."""

    def required() -> Any:
        wit = bindings.found("wit_world.exports.negative_distribution")
        wanted = component.instance(sampler).required
        unknown = [name for name in wanted if name not in REQUIRED]
        if unknown:
            raise ValueError(f"required names {unknown[0]!r}, not one of {', '.join(REQUIRED)}")
        return wit.RequiredData(*(name in wanted for name in REQUIRED))

    def asked(given: Any) -> Any:
        parts = component.instance(sampler).distribution(lifted(given))
        return [lowered(part) for part in parts]

    class NegativeDistribution(component.Configured):
        make = sampler

        def require(self) -> Any:
            return component.call(required)

        def distribution(self, candidates: Any) -> Any:
            return component.call(asked, candidates)

    return component.metadata_of(sampler), NegativeDistribution


#: What a sampler may require, in the order of the interface.
REQUIRED = ("side", "relation", "names", "relation_entities")


def lifted(given: Any) -> Candidates:
    """Converts candidates to the class that authors use."""
    position = given.position
    return Candidates(
        given.relation,
        given.relation_name,
        given.side.name.lower(),
        given.entity_type,
        given.partition,
        given.entities,
        given.edges,
        given.seen,
        (position.epoch, position.edge_set, position.edge_chunk),
        given.replaced_entities,
        given.kept_entities,
    )


def lowered(part: Any) -> Any:
    """Converts a part to the host's type."""
    wit = bindings.found("wit_world.exports.negative_distribution")
    fraction, weights = part
    if isinstance(weights, Counted):
        edges: Optional[Any] = {
            "side": wit.CountedEdges.OF_SIDE,
            "relation": wit.CountedEdges.OF_RELATION,
        }.get(weights.edges)
        if edges is None:
            raise ValueError(f"counted edges are {weights.edges!r}, not 'side' or 'relation'")
        lower = wit.CandidateWeights_Counted(wit.Counted(edges, float(weights.power)))
    elif isinstance(weights, Listed):
        numbers = [float(weight) for weight in weights.weights]
        lower = wit.CandidateWeights_Listed(wit.Listed(list(weights.names), numbers))
    elif isinstance(weights, Uniform):
        lower = wit.CandidateWeights_Uniform()
    elif isinstance(weights, Nothing):
        lower = wit.CandidateWeights_Nothing()
    else:
        raise TypeError(f"the weights of a part are {weights!r}, not Uniform, Counted, Listed or Nothing")
    return wit.DistributionPart(float(fraction), lower)
