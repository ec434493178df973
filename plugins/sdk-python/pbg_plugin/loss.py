"""Losses as formulas.

A loss builds its formula once; the host derives the gradient and computes both at native
speed. A formula is written with ordinary operators on expressions:

    def build(self, scores):
        return softplus(self.margin - scores.positive + scores.negatives).mean()

`scores.positive` has one number per positive, `scores.negatives` one per negative; the result must
have one per positive. There is no operation that mixes rows, and no control flow that depends on
values: `x.select(a, b)` computes both and selects one. Masked negatives are automatically left out
of reductions.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, NoReturn, Tuple, Type, Union

from . import component
from .metadata import Metadata

#: Score of a masked negative.
MASKED = -1e9

_SCALAR, _ROW, _MATRIX = range(3)

#: Operand of an operation: a value of the formula or a number.
Operand = Union["Expr", float]


class Graph:
    """Formula as a list of nodes: tuples of an operation and the indices of its operands."""

    def __init__(self) -> None:
        self.nodes: List[Tuple[Any, ...]] = []
        self.shapes: List[int] = []
        #: Names and values, in the order in which they were named.
        self.parameters: Dict[str, float] = {}
        self.output = 0

    def push(self, shape: int, *node: Any) -> Expr:
        """Adds a node, unless the formula already has it."""
        if node not in self.nodes:
            self.nodes.append(node)
            self.shapes.append(shape)
        return Expr(self, self.nodes.index(node))


class Scores:
    """Inputs of a formula."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        #: Scores of the positives: one number per positive.
        self.positive = graph.push(_ROW, "positive")
        #: Scores of the negatives: one number per negative.
        self.negatives = graph.push(_MATRIX, "negative")

    @property
    def columns(self) -> Expr:
        """Returns the number of negatives per positive, including masked ones."""
        return self._graph.push(_SCALAR, "columns")

    def constant(self, value: float) -> Expr:
        """Returns a constant."""
        return self._graph.push(_SCALAR, "constant", constant(value))

    def parameter(self, name: str, value: float) -> Expr:
        """Returns a number that `update` may change later."""
        self._graph.parameters.setdefault(name, constant(value))
        index = list(self._graph.parameters).index(name)
        return self._graph.push(_SCALAR, "parameter", index)


def constant(value: Any) -> float:
    """Converts `value` to a constant of a formula; raises an error if it is not a finite number."""
    if isinstance(value, Expr):
        raise TypeError("a constant is a number, not a value of the formula")
    if isinstance(value, str):
        raise TypeError(f"a formula takes numbers and its own values, not the text {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"a formula takes finite numbers, not {number}")
    return number


class Expr:
    """A value of a formula."""

    # Names of values in messages.
    _many, _one = "scores", "a score"

    def __init__(self, graph: Graph, at: int) -> None:
        self._graph = graph
        self._at = at

    def _operand(self, other: Operand) -> Expr:
        if not isinstance(other, Expr):
            return self._graph.push(_SCALAR, "constant", constant(other))
        if other._graph is not self._graph:
            raise TypeError("a value of another formula: every call of build makes its own")
        return other

    def _unary(self, op: str) -> Expr:
        return self._graph.push(self._graph.shapes[self._at], op, self._at)

    def _joined(self, op: str, *others: Operand) -> Expr:
        values = [self] + [self._operand(other) for other in others]
        shape = max(self._graph.shapes[v._at] for v in values)
        return self._graph.push(shape, op, *(v._at for v in values))

    def _reduced(self, op: str) -> Expr:
        if self._graph.shapes[self._at] != _MATRIX:
            raise TypeError(f"{op} is for values with one number per negative")
        return self._graph.push(_ROW, op, self._at)

    def __add__(self, other: Operand) -> Expr:
        return self._joined("add", other)

    def __sub__(self, other: Operand) -> Expr:
        return self._joined("sub", other)

    def __mul__(self, other: Operand) -> Expr:
        return self._joined("mul", other)

    def __truediv__(self, other: Operand) -> Expr:
        return self._joined("div", other)

    def __pow__(self, other: Operand) -> Expr:
        return self._joined("pow", other)

    def __radd__(self, other: Operand) -> Expr:
        return self._operand(other) + self

    def __rsub__(self, other: Operand) -> Expr:
        return self._operand(other) - self

    def __rmul__(self, other: Operand) -> Expr:
        return self._operand(other) * self

    def __rtruediv__(self, other: Operand) -> Expr:
        return self._operand(other) / self

    def __rpow__(self, other: Operand) -> Expr:
        return self._operand(other) ** self

    def __neg__(self) -> Expr:
        return self._unary("neg")

    def __abs__(self) -> Expr:
        return self._unary("abs")

    def __lt__(self, other: Operand) -> Expr:
        return self._joined("less", other)

    def __le__(self, other: Operand) -> Expr:
        return self._joined("less_equal", other)

    def __gt__(self, other: Operand) -> Expr:
        return self._joined("greater", other)

    def __ge__(self, other: Operand) -> Expr:
        return self._joined("greater_equal", other)

    # Without these two, Python would compare the identity of the objects.
    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return self._joined("equal", other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return self._joined("not_equal", other)

    __hash__ = object.__hash__

    def _unknown(self) -> NoReturn:
        raise TypeError(
            f"{self._many} are not known while the formula is built, so `if`, `and`, `or`, `in`, "
            "`min`, `max` and `math` cannot use them; use select, minimum, maximum, exp and the "
            f"other methods of {self._one}"
        )

    def __bool__(self) -> bool:
        self._unknown()

    def __float__(self) -> float:
        self._unknown()

    def __int__(self) -> int:
        self._unknown()

    def exp(self) -> Expr:
        """Returns e to the power of the value."""
        return self._unary("exp")

    def log(self) -> Expr:
        """Returns the natural logarithm."""
        return self._unary("log")

    def sqrt(self) -> Expr:
        """Returns the square root."""
        return self._unary("sqrt")

    def sigmoid(self) -> Expr:
        """Returns 1 / (1 + exp(-x))."""
        return self._unary("sigmoid")

    def softplus(self) -> Expr:
        """Returns log(1 + exp(x)), which is finite also where exp(x) overflows."""
        return self._unary("softplus")

    def relu(self) -> Expr:
        """Returns max(x, 0)."""
        return self._unary("relu")

    def stop_gradient(self) -> Expr:
        """Returns the same value as a constant: no gradient flows back through it."""
        return self._unary("stop_gradient")

    def minimum(self, other: Operand) -> Expr:
        """Returns the smaller of both."""
        return self._joined("min", other)

    def maximum(self, other: Operand) -> Expr:
        """Returns the larger of both."""
        return self._joined("max", other)

    def equal(self, other: Operand) -> Expr:
        """Returns 1 where both are equal, 0 elsewhere."""
        return self._joined("equal", other)

    def not_equal(self, other: Operand) -> Expr:
        """Returns 1 where both differ, 0 elsewhere."""
        return self._joined("not_equal", other)

    def clamp(self, low: Operand, high: Operand) -> Expr:
        """Returns min(max(x, low), high)."""
        return self._joined("clamp", low, high)

    def select(self, then: Operand, otherwise: Operand) -> Expr:
        """Returns `then` where this value is not 0, `otherwise` elsewhere."""
        return self._joined("select", then, otherwise)

    def sum(self) -> Expr:
        """Returns the sum over the negatives of each positive."""
        return self._reduced("reduce_sum")

    def mean(self) -> Expr:
        """Returns the sum divided by the number of columns."""
        return self._reduced("reduce_mean")

    def max(self) -> Expr:
        """Returns the largest of the negatives."""
        return self._reduced("reduce_max")

    def logsumexp(self) -> Expr:
        """Returns log(sum(exp(x))), without overflow."""
        return self._reduced("reduce_logsumexp")

    def softmax(self) -> Expr:
        """Returns exp(x) divided by the row's sum of exp(x)."""
        self._reduced("reduce_sum")
        return self._unary("softmax")


def exp(x: Expr) -> Expr:
    """Returns e to the power of x."""
    return x.exp()


def log(x: Expr) -> Expr:
    """Returns the natural logarithm."""
    return x.log()


def sqrt(x: Expr) -> Expr:
    """Returns the square root."""
    return x.sqrt()


def sigmoid(x: Expr) -> Expr:
    """Returns 1 / (1 + exp(-x))."""
    return x.sigmoid()


def softplus(x: Expr) -> Expr:
    """Returns log(1 + exp(x)), which is finite also where exp(x) overflows."""
    return x.softplus()


def relu(x: Expr) -> Expr:
    """Returns max(x, 0)."""
    return x.relu()


class Progress(NamedTuple):
    """Progress of training, for `update`."""

    #: Number of batches since the beginning of the run.
    step: int
    #: Number of edges since the last update.
    edges: int
    #: Mean loss of these edges.
    mean_loss: float


class TracedLoss:
    """A loss as a formula on the scores of one row."""

    #: Number of batches between two calls of `update`; 0: never.
    update_every = 0

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def build(self, scores: Scores) -> Expr:
        """Builds the formula: the loss of each positive."""
        raise NotImplementedError

    def update(self, progress: Progress, values: Dict[str, float]) -> None:
        """Changes the dict of `scores.parameter` values. `progress` has `step`, `edges` and
        `mean_loss`. The result must depend only on these, the configuration and `run.length()`."""


def trace(loss: TracedLoss) -> Graph:
    """Returns the graph of a loss."""
    graph = Graph()
    result = loss.build(Scores(graph))
    if not isinstance(result, Expr) or graph.shapes[result._at] != _ROW:
        raise TypeError("a loss is one number per positive: reduce it over the negatives")
    if result._graph is not graph:
        raise TypeError("build returned a value of another formula")
    graph.output = result._at
    return graph


def updated(made: TracedLoss, progress: Any, values: List[float]) -> List[float]:
    """Returns the values of a loss's parameters after its `update`."""
    names = list(trace(made).parameters)
    named = dict(zip(names, values))
    # Without type checks, authors may return the dict.
    answer: Any = made.update(progress, named)  # type: ignore[func-returns-value]
    if answer is not None and answer is not named:
        raise TypeError(f"update returned {answer!r}; it changes the dict that it gets")
    for name in named:
        if name not in names:
            raise ValueError(f"update set {name}; the formula has {', '.join(names) or 'no parameters'}")
    for name in names:
        if not isinstance(named.get(name), (int, float)):
            raise TypeError(f"update left {named.get(name)!r} as {name}, not a number")
    return [float(named[name]) for name in names]


def export_traced_loss(loss: Type[TracedLoss]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of losses:
    `Metadata, LossTraced = export_traced_loss(MyLoss)`."""

    def built() -> Any:
        made = component.instance(loss)
        every = component.whole(made.update_every, "update_every")
        return component.lowered(trace(made), every)

    class LossTraced(component.Configured):
        make = loss

        def build(self) -> Any:
            return component.call(built)

        def update(self, progress: Any, values: List[float]) -> Any:
            return component.call(lambda: updated(component.instance(loss), progress, values))

    return component.metadata_of(loss), LossTraced
