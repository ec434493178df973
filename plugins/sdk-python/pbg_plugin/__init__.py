"""SDK for pbg-host plugins in Python.

A plugin is a class:

    class Rows(Order):
        @classmethod
        def metadata(cls):
            return Metadata("rows", "0.1.0", "Row by row.")

        def plan(self, grid_pass):
            return grid_pass.grid()

The module `component` of a project exports it to the host:

    Metadata, BucketOrder = export_order(Rows)

The same class runs in an ordinary interpreter: `pbg_plugin.testing` has assertions for tests.

The message and line of an exception are shown to the user, and `print` writes to the host's log.

Rules of the sandbox: no network, no clock, no files except those of granted folders, which `files`
reads; code that uses anything else raises a PermissionError. Python's `random` gives the same numbers in
every run and every pass, so draw from `Rng(grid_pass.seed)`. Packages with compiled code, such as
numpy, cannot be used. `log` and `logging` write to the host's log; times of `logging` are 0. The natural
logarithm in a formula is `ln`, or the method `log` of a value.
"""

from . import files, log, run
from .comparator import ComparedEmbedding, TracedComparator, export_traced_comparator
from .metadata import Metadata, Parameter
from .loss import Progress, Scores, TracedLoss, export_traced_loss
from .loss import exp, log as ln, relu, sigmoid, softplus, sqrt
from .negatives import (
    Candidates,
    Counted,
    Listed,
    NegativeSampler,
    Nothing,
    Part,
    Uniform,
    export_negatives,
    mixed,
)
from .operator import Embedding, TracedOperator, cos, export_traced_operator, sin
from .order import Bucket, Order, Pass, export_order, pick_by_plan
from .rng import Rng
from .run import RunLength
from .sampler import Draw, Left, Sampler, Share, export_sampler
from .schedule import Position, RateSchedule, export_schedule
from .selection import (
    CandidateScores,
    Chunk,
    Entities,
    NegativeSelector,
    Weights,
    export_negative_selector,
)
from .traffic import Traffic


class Refused(Exception):
    """Exception for a request that cannot be fulfilled; its text is shown to the user."""


__all__ = [
    "Bucket",
    "CandidateScores",
    "Candidates",
    "Chunk",
    "ComparedEmbedding",
    "Counted",
    "Draw",
    "Embedding",
    "Entities",
    "Left",
    "Listed",
    "Metadata",
    "NegativeSampler",
    "NegativeSelector",
    "Nothing",
    "Order",
    "Parameter",
    "Part",
    "Pass",
    "Position",
    "Progress",
    "RateSchedule",
    "Refused",
    "Rng",
    "RunLength",
    "Sampler",
    "Scores",
    "Share",
    "TracedComparator",
    "TracedLoss",
    "TracedOperator",
    "Traffic",
    "Uniform",
    "Weights",
    "cos",
    "exp",
    "export_negative_selector",
    "export_negatives",
    "export_order",
    "export_sampler",
    "export_schedule",
    "export_traced_comparator",
    "export_traced_loss",
    "export_traced_operator",
    "files",
    "ln",
    "log",
    "mixed",
    "pick_by_plan",
    "relu",
    "run",
    "sigmoid",
    "sin",
    "softplus",
    "sqrt",
]
