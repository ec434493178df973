"""Computation of what a run needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import _native
from ._config import ConfigLike, config_of
from ._functions import PluginLike, natives, sorted_out
from ._load import load_torch_for


def check(
    config: ConfigLike | None = None,
    /,
    *,
    plugins: Sequence[PluginLike] = (),
    **keys: Any,
) -> dict[str, Any]:
    """Returns the memory and disk space that training needs at most, in bytes and by part, as `pbg-host check` prints
    them: `memory`, `disk`, `execution` and `slices`. Nothing is started."""
    named, functions = sorted_out(plugins)
    checked = config_of(config, keys, plugins)
    load_torch_for(checked._native)
    own = natives(functions, checked)
    report: dict[str, Any] = json.loads(_native.check(checked._native, named, own))
    return report
