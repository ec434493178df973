"""Description of a dataset."""

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
    """Describes the dataset of a configuration. Returns the report that `pbg-host describe --json` prints.

    `edge_sets` counts, for each set, edges, entities, relations, `duplicates` and `loops`; edges that are `also_in` or
    `reversed_in` another edge set; and, for sets that are not trained, `unseen` entities and relations that no trained
    edge has. `entity_types` has the `degrees` of the trained edges, `relations` the number of their edges,
    `components` the connected components, and `shared_names` the names that several types have. `memory` limits the
    memory for counting, in bytes; counts that need more are listed in `not_counted`."""
    native = config_of(config, keys)._native
    memory, threads = whole_or_none("memory", memory), whole_or_none("threads", threads)
    description: dict[str, Any] = json.loads(_native.describe(native, memory, threads))
    return description
