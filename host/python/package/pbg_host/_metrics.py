"""What happened in a run, from its checkpoint."""

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
    """The events of a run, also while it goes on: a table with a row for each, in the order in which they happened.

        pbg_host.metrics("model", "epoch_finished")[["epoch", "stats.loss"]]

    `kind` leaves only those of one kind, such as `bucket_finished`, `epoch_finished`, `validated` or `committed`. Fields
    within fields have names with dots.
    """
    if kind is not None:
        _native.known_event(kind)
    events = json.loads(_native.metrics(checkpoint))
    chosen = [event for event in events if kind is None or event["event"] == kind]
    return rows_frame([flat(event) for event in chosen], frame)
