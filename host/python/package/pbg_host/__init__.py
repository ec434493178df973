"""Embeddings of graphs larger than memory.

    import pbg_host

    config = pbg_host.Config(pbg_host.Config.preset("complex"), dataset="data", checkpoint_path="model")
    pbg_host.import_edges(config, edges={"train": "train.tsv.gz", "test": "test.tsv.gz"})
    pbg_host.train(config)
    model = pbg_host.Model("model")
    model.evaluate("test")["filtered"]["mrr"]
    model.predict(head="asp.n.02", relation="hypernym")

All functions call the same code as the program `pbg-host`. docs/python.md is the tour.
"""

from pbg_plugin import Pass

from . import datasets, errors, orders, pbg
from ._build import build
from ._check import check
from ._combine import combine
from ._config import Config, ConfigLike
from ._describe import describe
from ._edges import EdgeSource, import_edges
from ._functions import Finding, PluginLike
from ._metrics import metrics, report
from ._answers import Scored, ScoredEdges
from ._model import Model, Partition, breakdown, evaluate
from ._native import __version__
from ._own_comparators import ComparatorFunction, check_comparator, comparator
from ._own_losses import LossFunction, check_loss, loss
from ._own_operators import OperatorFunction, check_operator, operator
from ._own_orders import OrderFunction, check_order, order
from ._split import Split, split
from ._train import Event, Training, TrainResult, train
from .errors import (
    CheckpointError,
    ClusterError,
    ConfigError,
    DataError,
    InternalError,
    InterruptedRunError,
    LockedError,
    NotFiniteError,
    PbgError,
    PbgWarning,
    PluginError,
    SystemRefusedError,
    UsageError,
)

__all__ = [
    "CheckpointError",
    "ClusterError",
    "ComparatorFunction",
    "Config",
    "ConfigError",
    "ConfigLike",
    "DataError",
    "EdgeSource",
    "Event",
    "Finding",
    "InternalError",
    "InterruptedRunError",
    "LockedError",
    "LossFunction",
    "Model",
    "NotFiniteError",
    "OperatorFunction",
    "OrderFunction",
    "Partition",
    "Pass",
    "PbgError",
    "PbgWarning",
    "PluginError",
    "PluginLike",
    "Scored",
    "ScoredEdges",
    "Split",
    "SystemRefusedError",
    "TrainResult",
    "Training",
    "UsageError",
    "__version__",
    "breakdown",
    "build",
    "check",
    "check_comparator",
    "check_loss",
    "check_operator",
    "check_order",
    "combine",
    "comparator",
    "datasets",
    "describe",
    "errors",
    "evaluate",
    "import_edges",
    "loss",
    "metrics",
    "operator",
    "order",
    "orders",
    "pbg",
    "report",
    "split",
    "train",
]
