"""Operators that are Python formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import pbg_plugin
from pbg_plugin import interpret
from pbg_plugin.operator import trace_operator

from . import _native
from ._functions import Finding, Function, answered, decorated, findings, wanted
from ._load import as_json

Formula = Callable[[Any], Any]


class OperatorFunction(Function):
    """An operator of Python, created by `pbg_host.operator`. Calling it calls the function."""

    kind = "operator"

    @classmethod
    def _base(cls) -> type:
        return pbg_plugin.TracedOperator

    def _of_function(self) -> Any:
        return _Function(self._made_of)

    def __call__(self, x: Any) -> Any:
        """Returns the formula for an embedding, which is a `pbg_plugin.Embedding`."""
        return self._instance().build(x)

    def evaluate(
        self, embedding: Sequence[float], parameters: Mapping[str, Sequence[float]]
    ) -> list[float]:
        """Transforms the embedding of a right entity with the parameters of a relation, by name, in Python: for
        inspection and plots."""
        return [float(x) for x in interpret.apply(self._instance(), embedding, parameters)]

    def evaluate_lhs(
        self, embedding: Sequence[float], parameters: Mapping[str, Sequence[float]]
    ) -> list[float]:
        """Transforms the embedding of a left entity, as `evaluate` does that of a right one."""
        return [float(x) for x in interpret.apply_lhs(self._instance(), embedding, parameters)]

    def formula(self, **parameters: Any) -> str:
        """Returns the formula as a text for the table `formulas` of a configuration, with these parameters of the
        class. A configuration whose relations have this operator contains it already."""
        text: str = self.native(parameters).formula(as_json(parameters))
        return text

    def native(self, given: Mapping[str, Any] | None = None) -> Any:
        operator = self._instance(given)

        def told() -> Any:
            formula = trace_operator(operator)
            nodes = [(op, [float(operand) for operand in operands]) for op, *operands in formula.nodes]
            outputs = (formula.outputs, formula.lhs_outputs)
            return nodes, outputs, list(formula.vectors.items())

        return _native.FunctionOperator(
            self.name, self.version, self._sha256(), lambda: answered(told)
        )


class _Function(pbg_plugin.TracedOperator):
    """Wraps a function as an operator of the SDK."""

    def __init__(self, function: Formula) -> None:
        self._function = function

    def build(self, x: pbg_plugin.Embedding) -> Any:
        return self._function(x)


@overload
def operator(
    make: Any, /, *, name: str | None = None, version: str | None = None, **parameters: Any
) -> OperatorFunction: ...
@overload
def operator(
    *, name: str | None = None, version: str | None = None, **parameters: Any
) -> Callable[[Any], OperatorFunction]: ...
def operator(
    make: Any = None, /, *, name: str | None = None, version: str | None = None, **parameters: Any
) -> Any:
    """Creates an operator from a function that returns what the components of an embedding become.

        from pbg_plugin import cos, sin

        @pbg_host.operator
        def turns(x):
            re, im = x.components(2)
            angle = x.parameter("angle", "angle")
            return [re * cos(angle) - im * sin(angle), re * sin(angle) + im * cos(angle)]

        pbg_host.check_operator(turns)
        pbg_host.train("pbg.toml", plugins=[turns])                    # the operator of all relations
        pbg_host.Config("pbg.toml", relations=[{"name": "*", "lhs": "a", "rhs": "a", "operator": turns}])

    The result is a list of 1, 2, 4 or 8 expressions, and an embedding has as many components of equal length. A parameter
    is a vector of a relation, as long as a component, whose initial values are `"zero"`, `"one"`, `"angle"` or normally
    distributed with a standard deviation (docs/plugins/operators.md). The function is called once: the host derives
    gradients and computes at its own speed. Configurations and checkpoints contain the formula, so no component is
    needed to train, resume or ask a model, not even by the program. Instead of a function, `make` may be a subclass of
    `pbg_plugin.TracedOperator`, with `parameters`.
    """
    return decorated(OperatorFunction, make, name, version, parameters)


def check_operator(operator: OperatorFunction, /) -> list[Finding]:
    """Checks the contract of an operator on ordinary and extreme embeddings, as `pbg-host plugin check` does: results
    must be finite and those of the same formula in double precision, gradients those of the formula, and the embedding
    and every parameter must have an influence. Raises `PluginError` with the first case that breaks the contract."""
    checked = wanted(operator, OperatorFunction)
    return findings(checked.name, _native.check_operator(checked.native()))
