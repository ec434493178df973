"""Losses that are Python formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import pbg_plugin
from pbg_plugin import component, interpret
from pbg_plugin.loss import trace, updated

from . import _native
from ._functions import Finding, Function, answered, decorated, findings, wanted

Formula = Callable[[Any], Any]


class LossFunction(Function):
    """A loss of Python, created by `pbg_host.loss`. Calling it calls the function."""

    kind = "loss"

    @classmethod
    def _base(cls) -> type:
        return pbg_plugin.TracedLoss

    def _of_function(self) -> Any:
        return _Function(self._made_of)

    def __call__(self, scores: Any) -> Any:
        """Returns the formula for scores, which are `pbg_plugin.Scores`."""
        return self._instance().build(scores)

    def evaluate(self, positive: float, negatives: Sequence[float]) -> float:
        """Computes the loss of one positive with its negatives, in Python: for inspection and plots."""
        return float(interpret.evaluate(self._instance(), positive, negatives))

    def native(self, given: Mapping[str, Any] | None = None) -> Any:
        loss = self._instance(given)

        def told() -> Any:
            graph = trace(loss)
            nodes = [(op, [float(operand) for operand in operands]) for op, *operands in graph.nodes]
            every = component.whole(loss.update_every, "update_every")
            return nodes, graph.output, list(graph.parameters.items()), every

        def changed(
            progress: tuple[int, int, float], values: list[float], run: tuple[int, int, int]
        ) -> Any:
            return answered(lambda: updated(loss, pbg_plugin.Progress(*progress), values), run)

        return _native.FunctionLoss(
            self.name, self.version, self._sha256(), lambda: answered(told), changed
        )


class _Function(pbg_plugin.TracedLoss):
    """Wraps a function as a loss of the SDK."""

    def __init__(self, function: Formula) -> None:
        self._function = function

    def build(self, scores: pbg_plugin.Scores) -> Any:
        return self._function(scores)


@overload
def loss(
    make: Any, /, *, name: str | None = None, version: str | None = None, **parameters: Any
) -> LossFunction: ...
@overload
def loss(
    *, name: str | None = None, version: str | None = None, **parameters: Any
) -> Callable[[Any], LossFunction]: ...
def loss(
    make: Any = None, /, *, name: str | None = None, version: str | None = None, **parameters: Any
) -> Any:
    """Creates a loss from a function that returns its formula.

        from pbg_plugin import softplus

        @pbg_host.loss
        def mine(scores):
            return softplus(0.5 - scores.positive + scores.negatives).mean()

        pbg_host.check_loss(mine)
        pbg_host.train("pbg.toml", plugins=[mine])
        pbg_host.build(mine)                      # mine.wasm, for `pbg-host train --plugin` and other machines

    `scores.positive` has one number per positive edge, `scores.negatives` one per negative. The result must have one
    per positive edge (docs/plugins/losses.md). The function is called once: the host derives the gradient and computes
    both at its own speed, so a loss in Python is as fast as one in Rust. Instead of a function, `make` may be a
    subclass of `pbg_plugin.TracedLoss`, with `parameters`, and with an `update` of numbers that change during
    training.
    """
    return decorated(LossFunction, make, name, version, parameters)


def check_loss(loss: LossFunction, /) -> list[Finding]:
    """Checks the contract of a loss on ordinary and extreme scores, as `pbg-host plugin check` does: loss and gradient
    must be finite, rows must not affect each other, the gradient must be that of the loss, and training must raise the
    scores of positives and lower those of negatives. Raises `PluginError` with the first case that breaks the
    contract."""
    checked = wanted(loss, LossFunction)
    return findings(checked.name, _native.check_loss(checked.native()))
