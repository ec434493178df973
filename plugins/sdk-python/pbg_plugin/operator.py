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

An embedding is one component (one output) or is split into 2 or 4 components of equal length (as many
outputs). Parameters are vectors of that length. The formula computes one element from the same element
of each: there is no operation that mixes elements, and no control flow that depends on values;
`x.select(a, b)` computes both and selects one.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple, Type, Union

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
        raise TypeError(f"{op} would mix the elements of an embedding; there is no such operation")

    def sin(self) -> Expr:
        """Returns the sine of an angle in radians."""
        return self._unary("sin")

    def cos(self) -> Expr:
        """Returns the cosine of an angle in radians."""
        return self._unary("cos")


class Formula(Graph):
    """Formula as a list of nodes: tuples of an operation and the indices of its operands."""

    def __init__(self) -> None:
        super().__init__()
        #: Names and initial values of parameters, in the order in which they were named.
        self.vectors: Dict[str, Initial] = {}
        #: Index of the result of each component.
        self.outputs: List[int] = []

    def push(self, shape: int, *node: Any) -> Vector:
        """Adds a node, unless the formula already has it."""
        return Vector(self, super().push(shape, *node)._at)


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
        """Builds the formula and returns the results for 1, 2 or 4 components."""
        raise NotImplementedError


def trace_operator(operator: TracedOperator) -> Formula:
    """Returns the formula of an operator."""
    formula = Formula()
    outputs = operator.build(Embedding(formula))
    if isinstance(outputs, Expr) or not all(isinstance(output, Expr) for output in outputs):
        raise TypeError("build returns a list: what each component becomes")
    if not all(output._graph is formula for output in outputs):
        raise TypeError("build returned a value of another formula")
    formula.outputs = [output._at for output in outputs]
    return formula


def export_traced_operator(operator: Type[TracedOperator]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of operators:
    `Metadata, OperatorTraced = export_traced_operator(MyOperator)`."""

    def built() -> Any:
        return component.lowered_operator(trace_operator(component.instance(operator)))

    class OperatorTraced(component.Configured):
        make = operator

        def build(self) -> Any:
            return component.call(built)

    return component.metadata_of(operator), OperatorTraced
