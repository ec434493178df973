"""Training, as a function and as an iterator of events."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _native
from ._config import Config, ConfigLike, config_of
from ._functions import PluginLike, natives, sorted_out
from ._load import load_torch_for
from ._progress import Bar, is_watched, say
from .errors import InterruptedRunError, UsageError

_GRAIN = 0.1
"""Interval in seconds at which a wait for events checks for Ctrl-C."""

_running: weakref.WeakSet[Training] = weakref.WeakSet()


_abandoned: list[Training] = []
"""Interrupted runs whose end nobody waits for any more."""

_PATIENCE = 2.0
"""Seconds that are waited after the second Ctrl-C for the end of a bucket or batch and the commit."""


@atexit.register
def _commit_all() -> None:
    """Runs when Python exits: interrupts all runs, which then commit."""
    running = list(_running)
    for training in running:
        training.interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        _settle(running, is_watched())
    if any(not training._is_over_by_now() for training in _abandoned):
        # The interpreter cannot finish while threads run that may call it.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(InterruptedRunError.exit_code)


class Event(Mapping[str, Any]):
    """An event of a run: its `kind`, and its fields by name.

    Kinds and fields are those of `metrics.jsonl` and of `pbg-host train --progress json`: `bucket_finished`,
    `epoch_finished`, `validated`, `committed`, `plugin_log` and so on.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)
        self.kind: str = self._fields.pop("event")

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Event({self.kind}: {self._fields})"


@dataclass(frozen=True)
class TrainResult:
    """Result of a run."""

    finished: bool
    """Whether every epoch is trained. If not, the run was interrupted, and the same call continues it."""
    version: int
    """Version of the checkpoint that contains everything trained so far."""
    checkpoint: str
    """Folder of the checkpoint."""


class Training:
    """A run that trains on separate threads, as an iterator of its events.

        with pbg_host.Training("pbg.toml", num_epochs=10) as training:
            for event in training:
                if event.kind == "validated" and event["ranks"]["mrr"] < 0.1:
                    training.interrupt()
        print(training.result)

    The run continues whether or not its events are taken. Events that are not taken are queued; of consecutive
    `progress` events only the last one is kept. `interrupt` makes the run commit and end after the current bucket, or,
    if the graph has one partition, after the current batches. Leaving the `with` block or exiting Python does the
    same. If the run ended with an error, the iterator raises it.
    """

    def __init__(
        self,
        config: ConfigLike | None = None,
        /,
        *,
        plugins: Sequence[PluginLike] = (),
        allow_plugin_change: bool = False,
        allow_data_change: bool = False,
        **keys: Any,
    ) -> None:
        named, functions = sorted_out(plugins)
        self.config: Config = config_of(config, keys, plugins)
        """The configuration that is trained."""
        self.result: TrainResult | None = None
        """The result, once the run has ended."""
        native = self.config._native
        load_torch_for(native)
        own = natives(functions, self.config)
        self._native = _native.Training(
            native, named, own, allow_plugin_change, allow_data_change
        )
        _running.add(self)

    def next_event(self, timeout: float | None = None) -> Event | None:
        """Returns the next event; `None` if none arrived within `timeout` seconds, or the run has ended."""
        waited = 0.0
        while not self._native.is_over:
            grain = _GRAIN if timeout is None else min(_GRAIN, timeout - waited)
            text = self._native.next(max(grain, 0.0))
            if text is not None:
                return Event(json.loads(text))
            waited += grain
            if timeout is not None and waited >= timeout:
                return None
        self.wait()
        return None

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next_event()) is not None:
            yield event

    def interrupt(self) -> None:
        """Makes the run commit and end after the current bucket, or, if the graph has one partition, after the current
        batches. Returns immediately; any thread may call it."""
        self._native.interrupt()

    def wait(self) -> TrainResult:
        """Waits for the end of the run, ignoring its events, and returns the result."""
        while not self._native.is_over:
            self._native.next(_GRAIN)
        ended = self._native.finish()
        _running.discard(self)
        if ended is not None:
            finished, version = ended
            self.result = TrainResult(finished, version, self.config["checkpoint_path"])
        if self.result is None:
            raise UsageError("the run has failed; its error was raised before")
        return self.result

    def close(self) -> None:
        """Interrupts the run if it still trains, and waits until it has committed. An error of the run is not raised.
        After Ctrl-C, it waits at most 2 seconds longer; after a second one, not at all."""
        self.interrupt()
        _settle([self], is_watched())

    def _is_over_by_now(self) -> bool:
        """Returns whether the run has ended; drops queued events."""
        while self._native.next(0.0) is not None:
            pass
        return bool(self._native.is_over)

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def train(
    config: ConfigLike | None = None,
    /,
    *,
    plugins: Sequence[PluginLike] = (),
    progress: bool = True,
    on_event: Callable[[Event], object] | None = None,
    allow_plugin_change: bool = False,
    allow_data_change: bool = False,
    **keys: Any,
) -> TrainResult:
    """Trains to the last epoch of a configuration, starting from its checkpoint, as `pbg-host train` does.

        pbg_host.train("pbg.toml", num_epochs=10, plugins=["my_order.wasm"])

    `plugins` replace the standard ones: files or names of components, and functions decorated with `pbg_host.order`,
    `pbg_host.loss`, `pbg_host.comparator` or `pbg_host.operator`, which becomes the operator of all relations. `progress` shows a bar (with tqdm) in terminals and notebooks. In other places, such as log files,
    and without tqdm, it prints a line for each epoch and every half minute. `progress=False` shows nothing. `on_event`
    is called with every event; if it returns `False`, the run commits and ends.

    Ctrl-C finishes the current bucket, or, if the graph has one partition, the current batches, commits, and raises
    `KeyboardInterrupt`: the same call continues from there. After a second Ctrl-C this takes at most 2 seconds longer,
    after a third no time: the bucket is then committed only if Python keeps running until it is trained. At most this
    bucket is lost.
    """
    # The bar is created first: its imports take time, and Ctrl-C must find a run that it can interrupt.
    with contextlib.closing(Bar(progress, unit=" edges")) as bar:
        training = Training(
            config,
            plugins=plugins,
            allow_plugin_change=allow_plugin_change,
            allow_data_change=allow_data_change,
            **keys,
        )
        display = _Display(bar, training.config["num_epochs"])
        try:
            for event in training:
                display.show(event)
                if on_event is not None and on_event(event) is False:
                    training.interrupt()
        except BaseException:
            # An error of the run has already ended it; anything else must interrupt it.
            training.interrupt()
            bar.close()
            with contextlib.suppress(KeyboardInterrupt):
                _settle([training], progress)
            raise
    return training.wait()


def _settle(trainings: Sequence[Training], shown: bool) -> None:
    """Waits for the commits of interrupted runs. Their errors do not hide the exception that interrupted them. After
    Ctrl-C, it waits at most 2 seconds longer, and then raises `KeyboardInterrupt`."""
    left = [training for training in trainings if not training._native.is_over]
    try:
        if shown and left:
            within = all(training._native.stops_within_buckets for training in left)
            first = "stopping at the next batch that it can resume from" if within else "finishing the current bucket"
            say(f"{first}, then saving; press Ctrl-C again to wait at most 2 seconds longer")
        _wait_for(trainings, None)
        for result in (training.result for training in left):
            if shown and result is not None and not result.finished:
                say(f"saved as version {result.version}: the same call continues from there")
        return
    except KeyboardInterrupt as error:
        pressed = error
    with contextlib.suppress(KeyboardInterrupt):
        if shown:
            say("waiting at most 2 seconds; press Ctrl-C again to stop immediately")
        _wait_for(trainings, time.monotonic() + _PATIENCE)
    left = [training for training in trainings if not training._native.is_over]
    for training in left:
        _running.discard(training)
        _abandoned.append(training)
    if shown and left:
        say(
            "stopped before everything was saved: what is not saved when Python exits is lost, and the same call "
            "continues from the last saved version"
        )
    raise pressed


def _wait_for(trainings: Sequence[Training], until: float | None) -> None:
    for training in trainings:
        while not training._native.is_over:
            if until is not None and time.monotonic() >= until:
                return
            training._native.next(_GRAIN)
        with contextlib.suppress(Exception):
            training.wait()
        _running.discard(training)


class _Display:
    """Shows events as a progress bar over the edges of an epoch."""

    def __init__(self, bar: Bar, epochs: int) -> None:
        self._bar = bar
        self._epochs = epochs
        self._total = 0
        self._epoch = 0
        self._before = 0

    def show(self, event: Event) -> None:
        kind = event.kind
        if kind == "run_started":
            self._total = event["edges_per_epoch"]
        elif kind == "bucket_started":
            if event["epoch"] != self._epoch:
                self._epoch, self._before = event["epoch"], 0
            self._draw(0)
        elif kind == "progress":
            self._bar.note(loss=f"{event['loss']:.4g}")
            self._draw(event["edges"])
        elif kind == "bucket_finished":
            self._before += event["stats"]["count"]
            self._draw(0)
        elif kind == "epoch_finished":
            # Includes held-out edges, which are not trained.
            self._before = self._total
            stats = event["stats"]
            self._bar.note(loss=f"{stats['loss'] / max(stats['count'], 1):.4g}")
            self._draw(0)
        elif kind == "validated":
            self._bar.note(mrr=f"{event['ranks']['mrr']:.4f}")
        elif kind == "stopped_early":
            self._bar.close()
            self._bar.say(
                f"stopped early after {event['epochs']} epochs: MRR was highest after {event['best_epoch']} "
                f"({event['best_mrr']:.4f}); Model(..., best=True) opens the best model"
            )

    def _draw(self, edges: int) -> None:
        phase = f"epoch {self._epoch + 1}/{self._epochs}"
        self._bar.show(phase, min(self._before + edges, self._total), self._total)
