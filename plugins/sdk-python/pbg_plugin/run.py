"""Length of the run, for strategies that change over a run.

It is known in functions that are called during training: `update`, `plan`, `begin` and so on.
In other functions, and in tests that `provide` none, all numbers are 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import bindings

_host: Any = bindings.found("wit_world.imports.run")


class RunLength(NamedTuple):
    """Length of a run from its beginning, according to the current configuration. It changes if the run
    is resumed with another number of epochs or with a grown graph."""

    #: Number of epochs; at least 1, as are the other numbers.
    epochs: int = 1
    #: Number of edges trained per epoch, without held-out edges.
    edges_per_epoch: int = 1
    #: Number of batches of all epochs and workers: the value of `progress.step` at the end. Exact if
    #: batches mix relations or there is only one; otherwise an upper bound for samplers that fill
    #: their batches.
    batches: int = 1

    def share(self, step: int) -> float:
        """Returns the share of the run that is finished after `step` batches, from 0 to 1."""
        return min(step / self.batches, 1.0)


_provided = RunLength()


def length() -> RunLength:
    """Returns the length of the run."""
    if _host is None:
        return _provided
    told = _host.length()
    return RunLength(told.epochs, told.edges_per_epoch, told.batches)


def provide(length: RunLength) -> None:
    """Sets the length of the run for plugins; only outside the sandbox."""
    global _provided
    _provided = length
