"""Losses that are formulas of Python."""

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
    """A loss of Python; `pbg_host.loss` makes one. Calling it calls the function."""

    kind = "loss"

    @classmethod
    def _base(cls) -> type:
        return pbg_plugin.TracedLoss

    def _of_function(self) -> Any:
        return _Function(self._made_of)

    def __call__(self, scores: Any) -> Any:
        """The formula of scores, which are `pbg_plugin.Scores`."""
        return self._instance().build(scores)

    def evaluate(self, positive: float, negatives: Sequence[float]) -> float:
        """The loss of one positive with its negatives, in Python: to look at and to plot."""
        return float(interpret.evaluate(self._instance(), positive, negatives))

    def native(self, module: Any = _native, given: Mapping[str, Any] | None = None) -> Any:
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

        return module.FunctionLoss(
            self.name, self.version, self._sha256(), lambda: answered(told), changed
        )


class _Function(pbg_plugin.TracedLoss):
    """A function as a loss of the SDK."""

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
    """Makes a loss of a function that writes its formula down.

        from pbg_plugin import softplus

        @pbg_host.loss
        def mine(scores):
            return softplus(0.5 - scores.positive + scores.negatives).mean()

        pbg_host.check_loss(mine)
        pbg_host.train("pbg.toml", plugins=[mine])
        pbg_host.build(mine)                      # mine.wasm, for `pbg-host train --plugin` and other machines

    `scores.positive` has one number per positive edge, `scores.negatives` one per negative; the result must have one per
    positive (docs/plugins/losses.md). The function is called once: the host derives the gradient and computes both at its
    own speed, so a loss in Python costs what one in Rust does. A class of the SDK, `pbg_plugin.TracedLoss`, will do as
    well, with `parameters` and an `update` of numbers that change while training goes on.
    """
    return decorated(LossFunction, make, name, version, parameters)


def check_loss(loss: LossFunction, /) -> list[Finding]:
    """Tries on ordinary and extreme scores what is asked of every loss, as `pbg-host plugin check` does: that loss and
    gradient are finite, that rows do not see each other, that the gradient is that of the loss, and that training with it
    raises the scores of positives and lowers those of negatives. Raises `PluginError` with the first case in which it is not
    so."""
    checked = wanted(loss, LossFunction)
    return findings(checked.name, _native.check_loss(checked.native()))
