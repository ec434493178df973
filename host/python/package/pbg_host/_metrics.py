"""Events of a run, from its checkpoint."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _native
from ._frames import Frame, flat, rows_frame


def metrics(
    checkpoint: str | os.PathLike[str],
    /,
    kind: str | None = None,
    *,
    frame: Frame | None = None,
) -> Any:
    """Returns the events of a run as a table, with a row for each event in the order in which they happened. Also
    works while the run goes on.

        pbg_host.metrics("model", "epoch_finished")[["epoch", "stats.loss"]]

    `kind` selects events of one kind, such as `bucket_finished`, `epoch_finished`, `validated` or `committed`. Nested
    fields become columns whose names are joined with dots.
    """
    if kind is not None:
        _native.known_event(kind)
    events = json.loads(_native.metrics(checkpoint))
    chosen = [event for event in events if kind is None or event["event"] == kind]
    return rows_frame([flat(event) for event in chosen], frame)
