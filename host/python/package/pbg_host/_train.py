"""Training: as a call, and as an iterator of events."""

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

from ._config import Config, ConfigLike, config_of
from ._functions import PluginLike, natives, sorted_out
from ._load import native_for
from ._progress import Bar, is_watched, say
from .errors import InterruptedRunError, UsageError

_GRAIN = 0.1
"""Seconds after which a wait for events looks for Ctrl-C."""

_running: weakref.WeakSet[Training] = weakref.WeakSet()


_abandoned: list[Training] = []
"""Runs that were to end and that nobody waited for any longer."""

_PATIENCE = 2.0
"""Seconds that the second Ctrl-C waits for a bucket or batch to end and for all to be saved."""


@atexit.register
def _commit_all() -> None:
    """Python ends: what trains commits what it has."""
    running = list(_running)
    for training in running:
        training.interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        _settle(running, is_watched())
    if any(not training._is_over_by_now() for training in _abandoned):
        # The interpreter cannot come to its end while threads are at work that may call it.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(InterruptedRunError.exit_code)


class Event(Mapping[str, Any]):
    """Something that happened in a run: its `kind`, and what belongs to it by name.

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
    """How a run ended."""

    finished: bool
    """Whether every epoch is trained. If not, it was interrupted, and the same call goes on."""
    version: int
    """The version of the checkpoint that holds everything trained so far."""
    checkpoint: str
    """Its folder."""


class Training:
    """A run that trains on threads of its own, as an iterator of its events.

        with pbg_host.Training("pbg.toml", num_epochs=10) as training:
            for event in training:
                if event.kind == "validated" and event["ranks"]["mrr"] < 0.1:
                    training.interrupt()
        print(training.result)

    It goes on whether or not somebody takes events; those that are not taken wait, but for `progress`, of which only the
    last does. `interrupt` has it commit and end after the bucket that it trains, or, where the graph has one partition, after
    the batches; so does leaving the `with`, and the end of Python. The iterator raises what ended the run, if that was an error.
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
        self.config: Config = config_of(config, keys)
        """What it trains."""
        self.result: TrainResult | None = None
        """How it ended, once it has."""
        module, native = native_for(self.config._native)
        order, loss = natives(functions, module, self.config)
        self._native = module.Training(
            native, named, order, loss, allow_plugin_change, allow_data_change
        )
        _running.add(self)

    def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event; `None` when none came within `timeout` seconds, or the run has ended."""
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
        """Has the run commit and end after the bucket that it trains, or, where the graph has one partition, after the
        batches. Returns at once; any thread may call it."""
        self._native.interrupt()

    def wait(self) -> TrainResult:
        """Waits for the end of the run, without its events."""
        while not self._native.is_over:
            self._native.next(_GRAIN)
        ended = self._native.finish()
        _running.discard(self)
        if ended is not None:
            finished, version = ended
            self.result = TrainResult(finished, version, self.config["checkpoint_path"])
        if self.result is None:
            raise UsageError("the run has failed, as was told before")
        return self.result

    def close(self) -> None:
        """Interrupts the run if it goes on, and waits until it has committed. An error that ended it is not raised. Ctrl-C
        meanwhile waits no longer than 2 seconds, a second one not at all."""
        self.interrupt()
        _settle([self], is_watched())

    def _is_over_by_now(self) -> bool:
        """Whether it has ended; events that wait are dropped."""
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
    """Trains to the last epoch of a configuration, from where its checkpoint stands, as `pbg-host train` does.

        pbg_host.train("pbg.toml", num_epochs=10, plugins=["my_order.wasm"])

    `plugins` are what takes the place of the standard ones: files or names of components, and functions that `pbg_host.order`
    or `pbg_host.loss` decorates. `progress` shows a bar by tqdm in terminals and notebooks; elsewhere, as in log files, and
    without tqdm, a line for each epoch and every half minute. `progress=False` shows nothing. `on_event` hears every event;
    where it returns `False`, the run commits and ends.

    Ctrl-C finishes the bucket that is being trained, or, where the graph has one partition, the batches, commits, and raises
    `KeyboardInterrupt`: the same call goes on from there. A second Ctrl-C waits no longer than 2 seconds for that, a third
    not at all: the bucket is then committed only if Python lives on until it is trained. No more than it is lost.
    """
    # The bar comes first: what it imports takes its time, and Ctrl-C is to find a run that it can end.
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
            # An error of the run has ended it; anything else is to end it.
            training.interrupt()
            bar.close()
            with contextlib.suppress(KeyboardInterrupt):
                _settle([training], progress)
            raise
    return training.wait()


def _settle(trainings: Sequence[Training], shown: bool) -> None:
    """Waits for the commits of runs that were interrupted; an error of theirs does not hide what interrupted them. From
    Ctrl-C on it waits no longer than 2 seconds, and raises it then."""
    left = [training for training in trainings if not training._native.is_over]
    try:
        if shown and left:
            within = all(training._native.stops_within_buckets for training in left)
            first = "stopping at the next batch to go on from" if within else "finishing the current bucket"
            say(f"{first}, then saving; press Ctrl-C again to wait no longer than 2 seconds for it")
        _wait_for(trainings, None)
        for result in (training.result for training in left):
            if shown and result is not None and not result.finished:
                say(f"saved as version {result.version}: the same call goes on from there")
        return
    except KeyboardInterrupt as error:
        pressed = error
    with contextlib.suppress(KeyboardInterrupt):
        if shown:
            say("waiting 2 seconds at most; press Ctrl-C again to stop at once")
        _wait_for(trainings, time.monotonic() + _PATIENCE)
    left = [training for training in trainings if not training._native.is_over]
    for training in left:
        _running.discard(training)
        _abandoned.append(training)
    if shown and left:
        say(
            "stopped before all is saved: what is not when Python ends is lost, and the same call goes on from what is"
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
    """Events as a bar over the edges of an epoch."""

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
            # With those that are held out, which are not trained.
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
                f"({event['best_mrr']:.4f}); Model(..., best=True) is the model of then"
            )

    def _draw(self, edges: int) -> None:
        phase = f"epoch {self._epoch + 1}/{self._epochs}"
        self._bar.show(phase, min(self._before + edges, self._total), self._total)
