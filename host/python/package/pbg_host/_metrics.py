"""Events and report of a run, from its checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
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


def report(
    checkpoint: str | os.PathLike[str],
    /,
    *,
    html: str | os.PathLike[str] | None = None,
    trace: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Returns the report of a run, as `pbg-host report --json` prints it: facts about the model, plans, buckets, epochs
    and validations. Also works while the run goes on.

        epochs = pandas.DataFrame(pbg_host.report("model", html="run.html")["epochs"])

    `html` writes the report with figures as one page that needs no network. `trace` writes when buckets were leased,
    waited for, trained and settled, in the trace event format that Perfetto and Chromium show.
    """
    told, page, spans = _native.report(checkpoint, html is not None, trace is not None)
    for path, text in ((html, page), (trace, spans)):
        if path is not None and text is not None:
            Path(path).write_text(text, encoding="utf-8")
    found: dict[str, Any] = json.loads(told)
    return found
