"""Losses that are formulas of Python: in this process, checked, and as components of the same source."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pbg_host
import pbg_plugin
import pytest
from conftest import Keys, edges
from pbg_host._sources import module_of
from pbg_plugin import Metadata, Parameter, ln, softplus, testing
from pbg_plugin.loss import trace
from test_train import files

SHARPNESS = 2.0


def hard(negatives: Any) -> Any:
    """The mean of the negatives, the larger ones counting more."""
    return ((SHARPNESS * negatives).softmax().stop_gradient() * negatives).sum()


@pbg_host.loss
def soft(scores: Any) -> Any:
    return softplus(hard(scores.negatives) - scores.positive)


named_otherwise = soft


@pbg_host.loss
def softer(scores: Any, margin: float = SHARPNESS / 4) -> Any:
    """Softplus of the excess of a soft maximum of the negatives."""
    excess = hard(scores.negatives) - scores.positive
    return softplus(margin + excess) + 0.1 * ln(1 + named_otherwise(scores))


class Widening(pbg_plugin.TracedLoss):
    """A margin that grows while training goes on."""

    update_every = 3

    @classmethod
    def metadata(cls) -> Metadata:
        parameters = [Parameter.number("margin", 0.1, "Distance at the beginning.", 0)]
        return Metadata("widening", "0.3.0", "A margin that grows.", parameters)

    def configure(self, parameters: dict[str, Any]) -> None:
        self.margin = parameters["margin"]

    def build(self, scores: pbg_plugin.Scores) -> Any:
        margin = scores.parameter("margin", self.margin)
        return (margin - scores.positive + scores.negatives).relu().mean()

    def update(self, progress: pbg_plugin.Progress, values: dict[str, float]) -> None:
        assert progress.step > 0 and progress.edges > 0
        values["margin"] = min(self.margin + progress.step / 100, 1.0)


widening = pbg_host.loss(Widening, margin=0.25)


@pytest.fixture
def graph(keys: Keys) -> Keys:
    pbg_host.import_edges(keys, edges={"train": edges(2000)})
    return keys


def test_losses_of_python_keep_the_contract() -> None:
    for loss in (softer, widening):
        assert isinstance(loss, pbg_host.LossFunction)
        found = {finding.promise: finding.outcome for finding in pbg_host.check_loss(loss)}
        assert found["finite"] == found["deterministic"] == found["rows"] == "kept"
    # This loss stops a gradient on purpose.
    assert found["gradient"] == "kept"
    assert widening.evaluate(1.0, [1.0, 0.5, 2.0]) == pytest.approx((0.25 + 0.0 + 1.25) / 3)
    assert softer.evaluate(0.0, [0.0]) == pytest.approx(
        math.log1p(math.exp(0.5)) + 0.1 * math.log(1 + math.log(2))
    )


def test_a_component_of_the_same_source_trains_to_the_same_bytes(
    graph: Keys, tmp_path: Path
) -> None:
    path = pbg_host.build(softer, tmp_path / "built.wasm")
    runs = []
    for name, plugin in (("function", softer), ("component", path)):
        checkpoint = tmp_path / name
        assert pbg_host.train(graph, plugins=[plugin], checkpoint_path=checkpoint).finished
        runs.append(files(checkpoint))
    assert runs[0] and runs[0] == runs[1]
    assert pbg_host.train(graph).finished
    assert files(graph["checkpoint_path"]) != runs[0], "the standard loss must give another model"


def test_a_component_of_a_class_has_what_its_decorator_says() -> None:
    """Creates the module from which a component would be built, without building one, which takes long."""
    named = pbg_host.loss(Widening, name="renamed", version="9.0.0", margin=0.75)
    for loss, said in (
        (widening, ("widening", "0.3.0", {"margin": 0.25})),
        (named, ("renamed", "9.0.0", {"margin": 0.75})),
    ):
        made: dict[str, Any] = {}
        text = module_of(loss._made_of, "loss", loss.name, loss.version, loss._parameters)
        exec(text, made)
        plugin = made["PbgPlugin"]
        about = plugin.metadata()
        assert (about.name, about.version, about.defaults()) == said
        assert trace(testing.with_defaults(plugin)).nodes == trace(loss._instance()).nodes


def test_a_loss_and_an_order_train_together_and_resume(graph: Keys, tmp_path: Path) -> None:
    order = pbg_host.order(lambda grid: grid.grid(), name="plain")
    plugins = [widening, order]
    whole = tmp_path / "whole"
    assert pbg_host.train(graph, plugins=plugins, checkpoint_path=whole).finished

    def stop(event: pbg_host.Event) -> object:
        return not (event.kind == "bucket_finished" and event["position"] == 5)

    stops = 0
    while not pbg_host.train(graph, plugins=plugins, on_event=stop).finished:
        stops += 1
    assert stops == 2 and files(graph["checkpoint_path"]) == files(whole)
    assert any("widening" in part for part, _ in pbg_host.check(graph, plugins=plugins)["memory"])


def test_parameters_come_from_the_configuration_too(graph: Keys, tmp_path: Path) -> None:
    def bytes_with(loss: Any, **keys: Any) -> dict[str, bytes]:
        checkpoint = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        pbg_host.train(graph, plugins=[loss], checkpoint_path=checkpoint, **keys)
        return files(checkpoint)

    wide = pbg_host.loss(Widening, margin=0.7)
    expected = bytes_with(wide)
    assert bytes_with(widening, **{"plugins.params.widening.margin": 0.7}) == expected
    assert bytes_with(widening, margin=0.7) == expected
    with pytest.raises(pbg_host.ConfigError, match="margin is -1.0, must be a number of at least 0"):
        pbg_host.check_loss(pbg_host.loss(Widening, margin=-1.0))
    with pytest.raises(pbg_host.ConfigError, match="did you mean margin"):
        pbg_host.check_loss(pbg_host.loss(Widening, margn=1.0))
    with pytest.warns(pbg_host.PbgWarning, match="margin: the loss softer 0.1.0 has no such parameter"):
        bytes_with(softer, margin=0.5)


def test_what_they_do_wrong_is_told_with_its_line(graph: Keys) -> None:
    @pbg_host.loss
    def fails(scores: Any) -> Any:
        raise ValueError("no such thing")

    @pbg_host.loss
    def decides(scores: Any) -> Any:
        return scores.positive if scores.positive > 0 else -scores.positive

    @pbg_host.loss
    def compares(scores: Any) -> Any:
        return scores.positive if scores.positive == 0 else -scores.positive

    @pbg_host.loss
    def long(scores: Any) -> Any:
        total = scores.positive
        for step in range(2000):
            total = total + step
        return total + scores.negatives.sum()

    for loss, said in (
        (fails, r"ValueError: no such thing \(test_losses.py, line \d+, in fails\)"),
        (decides, "scores are not known while the formula is built"),
        (compares, "scores are not known while the formula is built"),
        (long, "nodes"),
        (pbg_host.loss(lambda scores: scores.negatives, name="odd"), "one number per positive"),
        (pbg_host.loss(lambda scores: 1.0, name="one"), "one number per positive"),
        (pbg_host.loss(lambda scores: (1 / scores.positive), name="div"), "finite: zeros"),
        (pbg_host.loss(lambda scores: scores.positive, name="up"), "direction: the loss rises with the score"),
        (pbg_host.loss(lambda scores: -scores.positive, name="half"), "no gradient reaches the negatives"),
    ):
        with pytest.raises(pbg_host.PluginError, match=said):
            pbg_host.check_loss(loss)
    with pytest.raises(pbg_host.PluginError, match="plugin fails 0.1.0: build: ValueError"):
        pbg_host.train(graph, plugins=[fails])
    with pytest.raises(pbg_host.UsageError, match="one loss, but there are two: fails and decides"):
        pbg_host.train(graph, plugins=[fails, decides])


def test_a_loss_is_told_how_long_the_run_is(graph: Keys) -> None:
    told = set()

    class Following(Widening):
        def update(self, progress: pbg_plugin.Progress, values: dict[str, float]) -> None:
            length = pbg_plugin.run.length()
            told.add(length)
            values["margin"] = length.share(progress.step)

    run = pbg_host.train(
        graph, plugins=[pbg_host.loss(Following)], num_epochs=3, eval_fraction=0.0
    )
    assert run.finished
    (length,) = told
    assert (length.epochs, length.edges_per_epoch) == (3, 2000) and length.batches > 3
    assert pbg_plugin.run.length() == (1, 1, 1), "the run is over"


def test_an_update_that_fails_ends_the_run(graph: Keys) -> None:
    class Broken(Widening):
        def update(self, progress: Any, values: dict[str, float]) -> None:
            values["margin"] = math.nan

    with pytest.raises(pbg_host.PluginError, match="update: returned NaN for the parameter `margin`"):
        pbg_host.train(graph, plugins=[pbg_host.loss(Broken)])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda values: values.update(margn=3.0), "update set margn; the formula has margin, heat"),
        (lambda _: {"margin": 3.0}, "update returned .*; it changes the dict that it gets"),
        (lambda values: values.update(heat="hot"), "update left 'hot' as heat, not a number"),
        (lambda values: values.update(margin=math.nan), "returned NaN for the parameter `margin`"),
        (lambda values: values.update(heat=0.0), "after 3 batches, .* `update` returned margin 0.25, heat 0: "),
        # Valid for some time, so a check of a single call does not find the fault.
        (lambda values: values.update(heat=values["heat"] - 0.125), "after 24 batches, .* heat 0: "),
    ],
)
def test_updates_are_tried(changed: Any, said: str) -> None:
    class Changing(Widening):
        def build(self, scores: pbg_plugin.Scores) -> Any:
            excess = scores.parameter("margin", self.margin) - scores.positive + scores.negatives
            return softplus(excess / scores.parameter("heat", 1.0)).mean()

        def update(self, progress: pbg_plugin.Progress, values: dict[str, float]) -> None:
            answer: None = changed(values)
            return answer

    with pytest.raises(pbg_host.PluginError, match=said):
        pbg_host.check_loss(pbg_host.loss(Changing, margin=0.25))
