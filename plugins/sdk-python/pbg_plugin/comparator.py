"""Comparators as formulas.

A comparator computes the score of two embeddings, after the operator. The host takes the formula once,
derives its gradients and computes all of them at native speed. A formula is written with ordinary
operators on expressions; minus the sum of the moduli of complex differences (RotatE):

    components = 2

    def build(self, left, right):
        (a, b), (c, d) = left.components(2), right.components(2)
        re, im = a - c, b - d
        return -(re * re + im * im).maximum(1e-30).sqrt().sum()

Both embeddings are one component or are split into 2, 4 or 8 components of equal length. `x.sum()` and
`x.dot(y)` are one number, which may be used in further operations, elementwise ones too. A score is one
number. There is no control flow that depends on values; `x.select(a, b)` computes both and selects one.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple, Type

from . import component
from .loss import Expr, constant
from .metadata import Metadata
from .operator import Vector, VectorGraph

# All values have one shape: one number per element, which is the same in every element of a sum.
_VECTOR = 0


class PairFormula(VectorGraph):
    """Formula of a comparator."""

    def __init__(self, components: int) -> None:
        super().__init__()
        #: Number of components of each embedding.
        self.components = components
        #: Index of the score.
        self.score = 0


class ComparedEmbedding:
    """One of the two embeddings that are compared."""

    def __init__(self, formula: PairFormula, first: int) -> None:
        self._formula = formula
        self._first = first

    def component(self, index: int) -> Vector:
        """Returns the component with this index, counted from 0."""
        count = self._formula.components
        if component.whole(index, "a component") >= count:
            raise ValueError(f"there is no component {index}: embeddings have {count} components")
        return self._formula.push(_VECTOR, "component", self._first + index)

    def components(self, count: int) -> List[Vector]:
        """Returns the first `count` components."""
        return [self.component(index) for index in range(count)]

    def constant(self, value: float) -> Vector:
        """Returns a constant."""
        return self._formula.push(_VECTOR, "constant", constant(value))


class TracedComparator:
    """A comparator as a formula on the components of two embeddings."""

    #: Number of components into which each embedding is split: 1, 2, 4 or 8.
    components = 1

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def build(self, left: ComparedEmbedding, right: ComparedEmbedding) -> Expr:
        """Builds the formula and returns the score of a left and a right embedding, which is higher for
        embeddings that fit better. It is one number, such as a sum, and depends on both embeddings."""
        raise NotImplementedError


def trace_comparator(comparator: TracedComparator) -> PairFormula:
    """Returns the formula of a comparator."""
    formula = PairFormula(component.whole(comparator.components, "components"))
    left, right = (ComparedEmbedding(formula, first) for first in (0, formula.components))
    score = comparator.build(left, right)
    if not isinstance(score, Expr):
        raise TypeError("build returns the score, a value of the formula")
    if score._graph is not formula:
        raise TypeError("build returned a value of another formula")
    formula.score = score._at
    return formula


def export_traced_comparator(comparator: Type[TracedComparator]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of comparators:
    `Metadata, ComparatorFormula = export_traced_comparator(MyComparator)`."""

    def built() -> Any:
        return component.lowered_comparator(trace_comparator(component.instance(comparator)))

    class ComparatorFormula(component.Configured):
        make = comparator

        def build(self) -> Any:
            return component.call(built)

    return component.metadata_of(comparator), ComparatorFormula
