"""Assertions for a plugin's tests: the contracts that the host enforces, checked in an ordinary interpreter."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import List, Type, TypeVar, Union

from .comparator import TracedComparator, trace_comparator
from .interpret import apply, apply_lhs, compare, evaluate, gradient, pair_values
from .loss import MASKED, TracedLoss
from .negatives import REQUIRED, Candidates, Counted, Listed, NegativeSampler, Nothing, Part
from .operator import TracedOperator, trace_operator
from .order import Bucket, Order, Pass
from .sampler import Draw, Sampler, Share
from .schedule import Position, RateSchedule
from .selection import CandidateScores, Chunk, Entities, NegativeSelector, Weights

__all__ = ["check_order", "check_plan", "check_sampler", "check_traced_loss", "evaluate"]
__all__ += ["check_distribution", "check_negatives"]
__all__ += ["apply", "apply_lhs", "check_traced_operator", "draws_of", "gradient", "with_defaults"]
__all__ += ["check_traced_comparator", "compare"]
__all__ += ["check_factor", "check_schedule"]
__all__ += ["check_negative_selector", "check_selection"]

GRIDS = [(1, 1), (1, 5), (5, 1), (2, 2), (3, 5), (5, 3), (4, 4), (16, 16)]


P = TypeVar(
    "P",
    Order,
    Sampler,
    TracedLoss,
    TracedOperator,
    TracedComparator,
    NegativeSampler,
    NegativeSelector,
    RateSchedule,
)

N = TypeVar("N", int, float)


def with_defaults(plugin: Type[P]) -> P:
    """Creates an instance with default parameters, as the host does if the configuration sets none."""
    made = plugin()
    made.configure(plugin.metadata().defaults())
    return made


def check_plan(order: Type[Order], grid_pass: Pass) -> List[Bucket]:
    """Asserts the contract of an order for one pass, and returns the plan."""
    made = with_defaults(order)
    plan = [Bucket(*bucket) for bucket in made.plan(grid_pass)]
    assert sorted(plan) == grid_pass.grid(), f"not a permutation of the grid of {grid_pass}"
    assert list(made.plan(grid_pass)) == plan, f"a second plan differs for {grid_pass}"
    fresh = list(with_defaults(order).plan(grid_pass))
    assert fresh == plan, f"the plan of another instance differs for {grid_pass}"
    half = len(plan) // 2
    picked = made.pick(grid_pass, plan[:half], plan[half:])
    assert 0 <= picked < len(plan) - half, f"pick returned index {picked} for {grid_pass}"
    return plan


def check_order(order: Type[Order]) -> None:
    """Asserts the contract of an order for grids of many shapes, buffers and seeds."""
    for lhs, rhs in GRIDS:
        for seed in (0, 1, 2**64 - 1):
            for shared, buffer_partitions in ((lhs == rhs, 2), (lhs == rhs, 6), (False, 3)):
                grid_pass = Pass.uniform(lhs, rhs, seed)
                grid_pass.shared = shared
                grid_pass.buffer_partitions = buffer_partitions
                check_plan(order, grid_pass)


SHARES: List[List[int]] = [[], [0, 0], [1], [7, 0, 3], [1000, 1, 200, 50], [5] * 40]


def draws_of(sampler: Type[Sampler], share: Share) -> List[Draw]:
    """Returns all draws of a sampler for a share, and checks each of them."""
    walk = with_defaults(sampler).begin(share)
    left = list(share.counts)
    draws: List[Draw] = []
    while (draw := walk.next()) is not None:
        relation, edges = draw
        assert 1 <= edges <= min(left[relation], share.batch_size), f"{draw} of {left}"
        left[relation] -= edges
        draws.append(Draw(relation, edges))
        if hasattr(walk, "observe"):
            walk.observe(relation, 0.5)
    assert not any(left), f"it ended before all edges were drawn: {left} remain"
    return draws


def check_sampler(sampler: Type[Sampler]) -> None:
    """Asserts that a sampler draws every edge of many shares once, and that its draws are reproducible."""
    for counts in SHARES:
        for batch_size in (1, 3, 100):
            share = Share(counts, batch_size, seed=7)
            draws = draws_of(sampler, share)
            assert draws_of(sampler, share) == draws, f"the draws of a second instance differ for {share}"


def check_distribution(sampler: Type[NegativeSampler], candidates: Candidates) -> List[Part]:
    """Asserts the contract of a negative sampler for some candidates, and returns the distribution."""
    made = with_defaults(sampler)
    parts = [Part(*part) for part in made.distribution(candidates)]
    fresh = [Part(*part) for part in with_defaults(sampler).distribution(candidates)]
    assert fresh == parts, f"the answers of two instances differ for {candidates}"
    assert parts, f"no part for {candidates}"
    kinds = []
    for fraction, weights in parts:
        assert 0 < fraction < math.inf, f"a fraction of {fraction} for {candidates}"
        kind = "uniform"
        if isinstance(weights, Counted):
            kind = weights.edges
            assert abs(weights.power) <= 16, f"a power of {weights.power}"
        if isinstance(weights, Listed):
            kind = "names"
            assert len(set(weights.names)) == len(weights.names), "a name is listed twice"
            assert len(weights.weights) in (0, len(weights.names)), "not one weight per name"
        if isinstance(weights, Nothing):
            kind = "nothing"
        is_free = kind in ("uniform", "nothing")
        assert is_free or kind in made.required, f"{kind} is used, but not required"
        kinds.append(kind)
    assert kinds != ["nothing"], f"all draws are left out for {candidates}"
    assert len(set(kinds)) == len(kinds), f"two parts of one kind for {candidates}"
    return parts


def check_negatives(sampler: Type[NegativeSampler]) -> None:
    """Asserts the contract of a negative sampler for relations with no, few and many candidates."""
    assert set(sampler.required) <= set(REQUIRED), f"required is {sampler.required}"
    for entities, edges, seen in ((1, 0, 0), (1, 1, 1), (100, 50, 20), (1000000, 9, 9)):
        for side in ("lhs", "rhs"):
            given = Candidates(0, "likes", side, "entity", 0, entities, edges, seen)
            check_distribution(sampler, given)


def check_selection(selector: Type[NegativeSelector], chunk: Chunk) -> Union[Entities, Weights]:
    """Asserts the contract of a negative selector for a chunk, and returns the selection.

    The candidates of the chunk are repeated or cut to the number that the plugin requires, and scores are left out if it
    requires none.
    """
    made = with_defaults(selector)
    pool = chunk.negatives * made.candidates_per_negative

    def fit(values: List[N]) -> List[N]:
        return [values[at % len(values)] for at in range(pool)]

    scores = chunk.scores if made.scores else None
    if scores is not None:
        scores = CandidateScores(scores.positives, fit(scores.means), fit(scores.highest))
    chunk = replace(chunk, candidates=fit(chunk.candidates), scores=scores)
    selection = made.select(chunk)
    assert made.select(chunk) == selection, f"a second selection differs for {chunk}"
    fresh = with_defaults(selector).select(chunk)
    assert fresh == selection, f"the selection of another instance differs for {chunk}"
    if isinstance(selection, Entities):
        assert len(selection.entities) == chunk.negatives, f"{len(selection.entities)} entities for {chunk}"
        assert all(0 <= entity < chunk.entities for entity in selection.entities), f"{selection} for {chunk}"
    else:
        assert len(selection.weights) == pool, f"{len(selection.weights)} weights for {chunk}"
        assert all(0 <= weight < math.inf for weight in selection.weights), f"{selection} for {chunk}"
        assert any(weight > 0 for weight in selection.weights), f"all weights are 0 for {chunk}"
    return selection


def check_negative_selector(selector: Type[NegativeSelector]) -> None:
    """Asserts the contract of a negative selector for chunks with few and many entities."""
    required = with_defaults(selector).candidates_per_negative
    assert 1 <= required <= 64, f"candidates_per_negative is {required}, not from 1 to 64"
    for seed in range(10):
        for entities in (1, 2, 100):
            chunk = Chunk.example(seed)
            replaced = [entity % entities for entity in chunk.replaced]
            candidates = [entity % entities for entity in chunk.candidates]
            check_selection(selector, replace(chunk, entities=entities, replaced=replaced, candidates=candidates))


def check_factor(schedule: Type[RateSchedule], position: Position) -> float:
    """Asserts the contract of a schedule for one position, and returns the factor."""
    factor = with_defaults(schedule).factor(position)
    assert 0 <= factor <= 1000, f"a factor of {factor} for {position}, not from 0 to 1000"
    fresh = with_defaults(schedule).factor(position)
    assert fresh == factor, f"the factors of two instances differ for {position}"
    return factor


def check_schedule(schedule: Type[RateSchedule]) -> None:
    """Asserts the contract of a schedule in runs of different lengths, with and without a warm-up."""
    for start in (0.0, 0.5, 3.0):
        for end in (4.0, 30.0, 1000.0):
            middles = [n + 0.5 for n in range(int(end)) if n + 0.5 >= start]
            for epoch in [start, *middles, end]:
                check_factor(schedule, Position(epoch, start, end))


def check_traced_loss(loss: Type[TracedLoss]) -> None:
    """Asserts that a loss is finite for ordinary and extreme scores, and without negatives."""
    made = with_defaults(loss)
    extreme = [0.0, 1.0, -1.0, 1e9, -1e8]
    for positive in extreme:
        for negatives in ([], [0.0], [positive] * 3, extreme, [MASKED, 1.0], [MASKED]):
            found = evaluate(made, positive, negatives)
            assert math.isfinite(found), f"loss {found} for {positive} and {negatives}"


def check_traced_operator(operator: Type[TracedOperator]) -> None:
    """Asserts that components, parameters and outputs of an operator are consistent, and that the
    results for ordinary embeddings are finite."""
    made = with_defaults(operator)
    formula = trace_operator(made)
    count = len(formula.outputs)
    assert count in (1, 2, 4, 8), f"the formula has {count} outputs; it must have 1, 2, 4 or 8"
    of_lhs = len(formula.lhs_outputs)
    assert of_lhs in (0, count), f"{of_lhs} outputs of the left side and {count} of the right side"
    for op, *operands in formula.nodes:
        assert op != "component" or operands[0] < count, f"component {operands[0]} of {count}"
    assert formula.vectors, "the formula has no parameters"
    begin = {"zero": 0.0, "one": 1.0, "angle": 2.0}
    for by in (-0.3, 0.0, 0.3):
        values = {
            name: [begin.get(str(initial), 0.1) + by] * 3
            for name, initial in formula.vectors.items()
        }
        embedding = [0.5 - 0.2 * at for at in range(3 * count)]
        found = apply(made, embedding, values) + apply_lhs(made, embedding, values)
        assert all(math.isfinite(x) for x in found), f"{found} with {values}"


def check_traced_comparator(comparator: Type[TracedComparator]) -> None:
    """Asserts that the score of a comparator is one number that depends on both embeddings, and that it is
    finite for ordinary ones."""
    formula = trace_comparator(with_defaults(comparator))
    count = formula.components
    assert count in (1, 2, 4, 8), f"embeddings have {count} components; it must be 1, 2, 4 or 8"

    def score(left: List[float], right: List[float]) -> float:
        found = pair_values(formula, left, right)
        assert all(math.isfinite(x) for x in found), f"{found} for {left} and {right}"
        assert len(set(found)) == 1, "the score differs from element to element: sum it over the vector"
        return found[0]

    here, there = ([math.sin(0.9 * at + by) for at in range(3 * count)] for by in (0.3, 1.7))
    first = score(here, there)
    assert score(there, there) != first, "the score does not depend on the left embedding"
    assert score(here, here) != first, "the score does not depend on the right embedding"
