"""Interpreter of formulas for tests, row by row."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .comparator import PairFormula, TracedComparator, trace_comparator
from .loss import MASKED, Graph, TracedLoss, trace
from .operator import Formula, TracedOperator, VectorGraph, trace_operator

_UNARY: Dict[str, Callable[[float], float]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": lambda x: math.exp(x) if x < 700 else math.inf,
    "log": lambda x: math.log(x) if x > 0 else -math.inf if x == 0 else math.nan,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "relu": lambda x: max(x, 0.0),
    "stop_gradient": lambda x: x,
    "sin": math.sin,
    "cos": math.cos,
}

_OTHERS: Dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else math.nan,
    "pow": lambda a, b: a**b,
    "min": min,
    "max": max,
    "less": lambda a, b: float(a < b),
    "less_equal": lambda a, b: float(a <= b),
    "greater": lambda a, b: float(a > b),
    "greater_equal": lambda a, b: float(a >= b),
    "equal": lambda a, b: float(a == b),
    "not_equal": lambda a, b: float(a != b),
    "select": lambda condition, then, otherwise: then if condition else otherwise,
    "clamp": lambda x, low, high: min(max(x, low), high),
}


def _logsumexp(values: List[float]) -> float:
    if not values:
        return -math.inf
    most = max(values)
    return most + math.log(sum(math.exp(v - most) for v in values))


_REDUCTIONS: Dict[str, Callable[[List[float], float], float]] = {
    "reduce_sum": lambda values, columns: sum(values),
    "reduce_mean": lambda values, columns: sum(values) / max(columns, 1),
    "reduce_max": lambda values, columns: max(values, default=-math.inf),
    "reduce_logsumexp": lambda values, columns: _logsumexp(values),
}


def row_loss(
    graph: Graph,
    positive: float,
    negatives: Sequence[float],
    parameters: Optional[Dict[str, float]] = None,
) -> float:
    """Computes the loss of one positive with its negatives, without those that are MASKED."""
    numbers = list((parameters or graph.parameters).values())
    counted = [score for score in negatives if score != MASKED]
    values: List[Any] = []
    for op, *operands in graph.nodes:
        values.append(_node(op, operands, values, positive, counted, len(negatives), numbers))
    return float(values[graph.output])


def _node(
    op: str,
    operands: List[Any],
    values: List[Any],
    positive: float,
    counted: List[float],
    columns: int,
    parameters: List[float],
) -> Any:
    if op == "positive":
        return float(positive)
    if op == "negative":
        return [float(score) for score in counted]
    if op == "columns":
        return float(columns)
    if op == "constant":
        return operands[0]
    if op == "parameter":
        return parameters[operands[0]]
    inputs = [values[at] for at in operands]
    if op in _REDUCTIONS:
        return _REDUCTIONS[op](inputs[0], columns)
    if op == "softmax":
        total = _logsumexp(inputs[0])
        return [math.exp(x - total) for x in inputs[0]]
    function = _UNARY.get(op) or _OTHERS[op]
    if not any(isinstance(x, list) for x in inputs):
        return function(*inputs)
    wide = [x if isinstance(x, list) else [x] * len(counted) for x in inputs]
    return [function(*column) for column in zip(*wide)]


def evaluate(loss: TracedLoss, positive: float, negatives: Sequence[float]) -> float:
    """Computes the loss of one positive with its negatives, as the host does."""
    return row_loss(trace(loss), positive, negatives)


def gradient(
    loss: TracedLoss, positive: float, negatives: Sequence[float], step: float = 1e-5
) -> Tuple[float, List[float]]:
    """Computes the gradient by finite differences: that of the positive, and a list for the negatives.

    If a formula has stop_gradient, it differs from the gradient that training uses."""
    graph = trace(loss)

    def slope(at: int) -> float:
        def moved(by: float) -> float:
            scores = [positive, *negatives]
            scores[at] += by
            return row_loss(graph, scores[0], scores[1:])

        return (moved(step) - moved(-step)) / (2 * step)

    slopes = [0.0 if s == MASKED else slope(at) for at, s in enumerate([positive, *negatives])]
    return slopes[0], slopes[1:]


def apply(
    operator: TracedOperator,
    embedding: Sequence[float],
    parameters: Mapping[str, Sequence[float]],
) -> List[float]:
    """Applies an operator to the embedding of a right entity, with the parameters of a relation by name."""
    formula = trace_operator(operator)
    return _transformed(formula, formula.outputs, embedding, parameters)


def apply_lhs(
    operator: TracedOperator,
    embedding: Sequence[float],
    parameters: Mapping[str, Sequence[float]],
) -> List[float]:
    """Applies an operator to the embedding of a left entity, as `apply` does to that of a right one."""
    formula = trace_operator(operator)
    if not formula.lhs_outputs:
        return [float(x) for x in embedding]
    return _transformed(formula, formula.lhs_outputs, embedding, parameters)


def compare(comparator: TracedComparator, left: Sequence[float], right: Sequence[float]) -> float:
    """Returns the score of a left and a right embedding."""
    return pair_values(trace_comparator(comparator), left, right)[0]


def pair_values(
    formula: PairFormula, left: Sequence[float], right: Sequence[float]
) -> List[float]:
    """Returns the elements of the score, which are equal if it is one number."""
    if len(left) != len(right):
        raise ValueError(f"embeddings of {len(left)} and {len(right)} numbers cannot be compared")
    width = _width(len(left), formula.components)
    return _vectors(formula, width, [*left, *right], [])[formula.score]


def _transformed(
    formula: Formula,
    outputs: List[int],
    embedding: Sequence[float],
    parameters: Mapping[str, Sequence[float]],
) -> List[float]:
    width = _width(len(embedding), len(formula.outputs))
    rows: List[List[float]] = []
    for name in formula.vectors:
        row = [float(x) for x in parameters[name]]
        if len(row) != width:
            raise ValueError(f"parameter {name} has {len(row)} numbers, and a component has {width}")
        rows.append(row)
    values = _vectors(formula, width, embedding, rows)
    return [x for output in outputs for x in values[output]]


def _width(dimension: int, components: int) -> int:
    width, rest = divmod(dimension, components)
    if rest:
        raise ValueError(f"{dimension} numbers cannot be split into {components} components")
    return width


def _vectors(
    formula: VectorGraph, width: int, components: Sequence[float], parameters: List[List[float]]
) -> List[List[float]]:
    """Returns the values of all nodes; the components come one after the other."""
    values: List[List[float]] = []
    for op, *operands in formula.nodes:
        if op == "component":
            first = operands[0] * width
            values.append([float(x) for x in components[first : first + width]])
        elif op == "parameter":
            values.append(parameters[operands[0]])
        elif op == "constant":
            values.append([float(operands[0])] * width)
        elif op == "sum":
            values.append([sum(values[operands[0]])] * width)
        else:
            function = _UNARY.get(op) or _OTHERS[op]
            values.append([function(*row) for row in zip(*(values[at] for at in operands))])
    return values
