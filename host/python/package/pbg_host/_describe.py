"""What a dataset holds."""

from __future__ import annotations

import json
from typing import Any

from . import _native
from ._arguments import whole_or_none
from ._config import ConfigLike, config_of


def describe(
    config: ConfigLike | None = None,
    /,
    *,
    memory: int | None = None,
    threads: int | None = None,
    **keys: Any,
) -> dict[str, Any]:
    """What the dataset of a configuration holds: the report that `pbg-host describe --json` prints.

    `edge_sets` counts edges, entities, relations, `duplicates` and `loops`, `also_in` and `reversed_in` by other edge set,
    and `unseen`: what sets that are not trained have that no trained edge has. `entity_types` has the `degrees` of the
    trained edges, `relations` their edges, `components` the connected parts, and `shared_names` the names that several
    types have. `memory` bounds what counting takes, in bytes; what it does not suffice for is in `not_counted`."""
    native = config_of(config, keys)._native
    memory, threads = whole_or_none("memory", memory), whole_or_none("threads", threads)
    description: dict[str, Any] = json.loads(_native.describe(native, memory, threads))
    return description
