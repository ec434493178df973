"""Comparators that are Python formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import pbg_plugin
from pbg_plugin import interpret
from pbg_plugin.comparator import trace_comparator

from . import _native
from ._functions import Finding, Function, answered, findings, wanted
from ._load import as_json
from ._sources import ClassBody
from .errors import UsageError

Formula = Callable[[Any, Any], Any]


class ComparatorFunction(Function):
    """A comparator of Python, created by `pbg_host.comparator`. Calling it calls the function."""

    kind = "comparator"
    _components: int | None

    def __init__(
        self,
        make: Any,
        name: str | None,
        version: str | None,
        parameters: Mapping[str, Any],
        components: int | None = None,
    ) -> None:
        super().__init__(make, name, version, parameters)
        if components is None and isinstance(make, ComparatorFunction):
            components = make._components
        if self._is_class and components is not None:
            raise UsageError(f"components: {self.name} is a class; set `components` in it")
        self._components = components

    @classmethod
    def _base(cls) -> type:
        return pbg_plugin.TracedComparator

    def _of_function(self) -> Any:
        return _Function(self._made_of, self._components or 1)

    def class_body(self) -> ClassBody:
        return {} if self._is_class else {"components": self._components or 1}

    def __call__(self, left: Any, right: Any) -> Any:
        """Returns the formula for two embeddings, which are `pbg_plugin.ComparedEmbedding`."""
        return self._instance().build(left, right)

    def evaluate(self, left: Sequence[float], right: Sequence[float]) -> float:
        """Returns the score of a left and a right embedding, computed in Python: for inspection and plots."""
        return float(interpret.compare(self._instance(), left, right))

    def formula(self, **parameters: Any) -> str:
        """Returns the formula as a text for the table `formulas` of a configuration, with these parameters of the
        class. A configuration with this comparator contains it already."""
        text: str = self.native(parameters).formula(as_json(parameters))
        return text

    def native(self, given: Mapping[str, Any] | None = None) -> Any:
        comparator = self._instance(given)

        def told() -> Any:
            formula = trace_comparator(comparator)
            nodes = [(op, [float(operand) for operand in operands]) for op, *operands in formula.nodes]
            return nodes, formula.score, formula.components

        return _native.FunctionComparator(
            self.name, self.version, self._sha256(), lambda: answered(told)
        )


class _Function(pbg_plugin.TracedComparator):
    """Wraps a function as a comparator of the SDK."""

    def __init__(self, function: Formula, components: int) -> None:
        self._function = function
        self.components = components

    def build(self, left: pbg_plugin.ComparedEmbedding, right: pbg_plugin.ComparedEmbedding) -> Any:
        return self._function(left, right)


@overload
def comparator(
    make: Any,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    components: int | None = None,
    **parameters: Any,
) -> ComparatorFunction: ...
@overload
def comparator(
    *,
    name: str | None = None,
    version: str | None = None,
    components: int | None = None,
    **parameters: Any,
) -> Callable[[Any], ComparatorFunction]: ...
def comparator(
    make: Any = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    components: int | None = None,
    **parameters: Any,
) -> Any:
    """Creates a comparator from a function that returns the score of a left and a right embedding.

        from pbg_plugin import sqrt

        @pbg_host.comparator(components=2)
        def moduli(left, right):
            (a, b), (c, d) = left.components(2), right.components(2)
            re, im = a - c, b - d
            return -sqrt((re * re + im * im).maximum(1e-30)).sum()

        pbg_host.check_comparator(moduli)
        pbg_host.train("pbg.toml", plugins=[moduli])
        pbg_host.Config("pbg.toml", comparator=moduli)

    The result is one number, higher for embeddings that fit better, and must depend on both. Embeddings are one
    component, or are split into 2, 4 or 8 of equal length (`components`; docs/plugins/comparators.md). The function is
    called once: the host derives gradients and computes at its own speed. Configurations and checkpoints contain the
    formula, so no component is needed to train, resume or ask a model, not even by the program. Instead of a function,
    `make` may be a subclass of `pbg_plugin.TracedComparator`, with `parameters`.
    """

    def made(make: Any) -> ComparatorFunction:
        return ComparatorFunction(make, name, version, parameters, components)

    return made if make is None else made(make)


def check_comparator(comparator: ComparatorFunction, /) -> list[Finding]:
    """Checks the contract of a comparator on ordinary and extreme pairs of embeddings, as `pbg-host plugin check` does:
    scores must be finite and those of the same formula in double precision, gradients those of the formula, and both
    embeddings must have an influence. Raises `PluginError` with the first case that breaks the contract."""
    checked = wanted(comparator, ComparatorFunction)
    return findings(checked.name, _native.check_comparator(checked.native()))
