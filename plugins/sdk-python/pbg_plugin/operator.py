"""Operators as formulas.

An operator says how a relation transforms an embedding before it is compared. The host takes the
formula once, derives its gradients and computes all of them at native speed. A formula is written
with ordinary operators on expressions; complex numbers rotated by an angle of the relation (RotatE):

    def build(self, x):
        re, im = x.components(2)
        angle = x.parameter("angle", "angle")
        return [
            re * cos(angle) - im * sin(angle),
            re * sin(angle) + im * cos(angle),
        ]

An embedding is one component (one output) or is split into 2, 4 or 8 components of equal length (as many
outputs). Parameters are vectors of that length. The formula computes one element from the same element
of each, and from sums over all elements of a vector: `x.sum()` and `x.dot(y)`. There is no control flow
that depends on values; `x.select(a, b)` computes both and selects one. `build_lhs` may transform left
entities as well.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Type, Union

from . import component
from .loss import Expr, Graph, constant
from .metadata import Metadata

# Shapes, as for losses: a parameter is the same for all rows, a component differs.
_PARAMETER, _COMPONENT = range(2)

#: Initial values of the elements of a parameter: "zero", "one", "angle" (uniformly distributed from -pi to
#: pi), or a number: normally distributed with this standard deviation.
Initial = Union[str, float]

_INITIAL = ("zero", "one", "angle")


class Vector(Expr):
    """A value of a formula: a component, a parameter, or the result of an elementwise operation."""

    _many, _one = "embeddings", "a component"

    def _reduced(self, op: str) -> Expr:
        raise TypeError(f"{op} would mix the elements of an embedding; only sum and dot do")

    def sum(self) -> Expr:
        """Returns the sum over all elements of the vector, in every element."""
        return self._unary("sum")

    def dot(self, other: Expr) -> Expr:
        """Returns the inner product with another vector, in every element."""
        product = self * other
        assert isinstance(product, Vector)
        return product.sum()

    def sin(self) -> Expr:
        """Returns the sine of an angle in radians."""
        return self._unary("sin")

    def cos(self) -> Expr:
        """Returns the cosine of an angle in radians."""
        return self._unary("cos")


class VectorGraph(Graph):
    """Formula on vectors as a list of nodes: tuples of an operation and the indices of its operands."""

    def push(self, shape: int, *node: Any) -> Vector:
        """Adds a node, unless the formula already has it."""
        return Vector(self, super().push(shape, *node)._at)


class Formula(VectorGraph):
    """Formula of an operator."""

    def __init__(self) -> None:
        super().__init__()
        #: Names and initial values of parameters, in the order in which they were named.
        self.vectors: Dict[str, Initial] = {}
        #: Index of the result of each component.
        self.outputs: List[int] = []
        #: The same for left entities; empty if the operator leaves them as they are.
        self.lhs_outputs: List[int] = []


class Embedding:
    """Inputs of a formula."""

    def __init__(self, formula: Formula) -> None:
        self._formula = formula

    def component(self, index: int) -> Vector:
        """Returns the component with this index, counted from 0."""
        return self._formula.push(_COMPONENT, "component", component.whole(index, "a component"))

    def components(self, count: int) -> List[Vector]:
        """Returns the first `count` components."""
        return [self.component(index) for index in range(count)]

    def parameter(self, name: str, initial: Initial) -> Vector:
        """Returns a parameter: a vector that belongs to the relation. The same name returns the same parameter."""
        known = isinstance(initial, (int, float)) or initial in _INITIAL
        if not known:
            raise ValueError(f"initial value {initial!r} of {name} is not a number, zero, one or angle")
        self._formula.vectors.setdefault(name, initial)
        index = list(self._formula.vectors).index(name)
        return self._formula.push(_PARAMETER, "parameter", index)

    def constant(self, value: float) -> Vector:
        """Returns a constant, the same in all elements."""
        return self._formula.push(_PARAMETER, "constant", constant(value))


def sin(x: Expr) -> Expr:
    """Returns the sine of an angle in radians."""
    return x._unary("sin")


def cos(x: Expr) -> Expr:
    """Returns the cosine of an angle in radians."""
    return x._unary("cos")


class TracedOperator:
    """An operator as a formula on the components of an embedding and the parameters of a relation."""

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def build(self, x: Embedding) -> Sequence[Expr]:
        """Builds the formula and returns the results for 1, 2, 4 or 8 components. The embedding is that of an
        edge's right entity; with dynamic relations, of the entity that is not replaced."""
        raise NotImplementedError

    def build_lhs(self, x: Embedding) -> Optional[Sequence[Expr]]:
        """Builds the formula of left entities, as `build` does that of right ones; a parameter of the same
        name is the same one. By default, it returns `None`, and left entities stay as they are; an empty list is an
        error. An operator of both sides cannot be used with dynamic relations."""
        return None


def trace_operator(operator: TracedOperator) -> Formula:
    """Returns the formula of an operator."""
    formula = Formula()
    formula.outputs = _indices(formula, "build", operator.build(Embedding(formula)))
    lhs = operator.build_lhs(Embedding(formula))
    if lhs is not None:
        formula.lhs_outputs = _indices(formula, "build_lhs", lhs)
        if not formula.lhs_outputs:
            raise ValueError("build_lhs returned no outputs; return None to leave left entities as they are")
    return formula


def _indices(formula: Formula, function: str, outputs: Any) -> List[int]:
    if isinstance(outputs, Expr) or not all(isinstance(output, Expr) for output in outputs):
        raise TypeError(f"{function} returns a list: what each component becomes")
    if not all(output._graph is formula for output in outputs):
        raise TypeError(f"{function} returned a value of another formula")
    return [output._at for output in outputs]


def export_traced_operator(operator: Type[TracedOperator]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of operators:
    `Metadata, OperatorFormula = export_traced_operator(MyOperator)`."""

    def built() -> Any:
        return component.lowered_operator(trace_operator(component.instance(operator)))

    class OperatorFormula(component.Configured):
        make = operator

        def build(self) -> Any:
            return component.call(built)

    return component.metadata_of(operator), OperatorFormula
