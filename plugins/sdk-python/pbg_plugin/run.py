"""How long the run is that a plugin works for: what a plan that changes over a run is measured by.

It is known where a run calls the plugin while it trains: in `update`, `plan`, `begin` and so on.
Elsewhere, and in tests that `provide` none, there is no run, and all numbers are 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import bindings

_host: Any = bindings.found("wit_world.imports.run")


class RunLength(NamedTuple):
    """The length of a run from its very beginning, as the configuration has it now. A run that is
    resumed with another number of epochs, or whose graph has grown, has another one."""

    #: Epochs; at least 1, as the others.
    epochs: int = 1
    #: Edges that an epoch trains, without those that are held out.
    edges_per_epoch: int = 1
    #: Batches of all epochs, all workers together: what `progress.step` is at the end. Exact where
    #: a batch mixes relations or there is one; otherwise an upper bound, for samplers that fill
    #: their batches.
    batches: int = 1

    def share(self, step: int) -> float:
        """The share of the run that is over after `step` batches, from 0 to 1."""
        return min(step / self.batches, 1.0)


_provided = RunLength()


def length() -> RunLength:
    """The length of the run."""
    if _host is None:
        return _provided
    told = _host.length()
    return RunLength(told.epochs, told.edges_per_epoch, told.batches)


def provide(length: RunLength) -> None:
    """Makes plugins part of a run of this length; only outside the sandbox."""
    global _provided
    _provided = length
