"""Combination of several models into one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Union, get_args

from . import _native
from ._arguments import whole_or_none
from ._model import Model
from .errors import UsageError

How = Literal["average", "concatenate"]
Folder = Union[str, "os.PathLike[str]"]


def combine(
    how: How, checkpoints: Folder | Sequence[Folder], /, out: Folder, *, last: int | None = None
) -> Model:
    """Combines several models into one, writes it as a checkpoint to the folder `out`, and returns it.

    `"average"` takes the mean of embeddings and parameters. It is for versions of one run, which
    `checkpoint_preservation_interval` keeps; `last` is the number of versions to average. `"concatenate"` concatenates
    embeddings, so that scores are sums of scores. It is for models that were trained separately, with different seeds.

        pbg_host.combine("average", "model", "mean", last=8)
        pbg_host.combine("concatenate", ["mean_1", "mean_2", "mean_3"], "sum").evaluate("test")
    """
    if how not in get_args(How):
        raise UsageError(f'combine: {how!r} is neither "average" nor "concatenate"')
    if isinstance(checkpoints, (str, os.PathLike)):
        checkpoints = [checkpoints]
    count = whole_or_none("last", last, 2)
    _native.combine(how == "average", [os.fspath(c) for c in checkpoints], count, os.fspath(out))
    return Model(os.fspath(out))
