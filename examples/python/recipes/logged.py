"""What a run reports to a tracker of experiments; the callbacks next to this file import it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pbg_host


def given(arguments: Sequence[str] | None, doc: str | None, *options: str) -> argparse.Namespace:
    """Reads the arguments of a recipe: a configuration, an edge set to rank at the end, and the recipe's `options`."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("config")
    parser.add_argument("--test", help="edge set to rank when training has finished")
    for option in options:
        parser.add_argument(option, required=True)
    return parser.parse_args(arguments)


def parameters(config: pbg_host.Config) -> dict[str, Any]:
    """Returns the keys of a configuration that are set, by their paths, as in `entities.user.num_partitions`."""
    return dict(_flat("", config.to_dict()))


def metrics(event: pbg_host.Event) -> tuple[int, dict[str, float]] | None:
    """Returns the number of finished epochs and the figures of an event by name, or `None` if it has none to log: the
    loss per edge, the regularization per edge and the edges per second of an epoch, or the ranks of validation edges."""
    if event.kind == "epoch_finished":
        stats, seconds = event["stats"], event["seconds"]
        edges = max(stats["count"], 1)
        return event["epoch"] + 1, {
            "loss": stats["loss"] / edges,
            "regularization": stats["reg"] / edges,
            "edges_per_second": stats["count"] / seconds if seconds > 0 else 0.0,
        }
    if event.kind == "validated":
        return event["epochs"], {f"validated/{name}": value for name, value in event["ranks"].items() if name in RANKS}
    return None


def results(config: pbg_host.Config, edges: str | None) -> dict[str, float]:
    """Returns the filtered ranks of an edge set by the trained model, by name; nothing without a set."""
    if edges is None:
        return {}
    ranks = pbg_host.Model(config).evaluate(edges)["filtered"]
    return {f"{edges}/{name}": ranks[name] for name in RANKS}


RANKS = ("mrr", "mean_rank", "hits_at_1", "hits_at_3", "hits_at_10")


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        entries: Any = value.items()
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        entries = enumerate(value)
    else:
        if value is not None:
            yield path, value
        return
    for key, entry in entries:
        yield from _flat(f"{path}.{key}" if path else str(key), entry)
