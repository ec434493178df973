"""Comparators that are formulas of Python: in this process, in configurations and checkpoints, and as components."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pbg_host
import pbg_plugin
import pytest
from conftest import Keys, edges
from pbg_host._sources import module_of
from pbg_plugin import Metadata, Parameter, sin, sqrt, testing
from test_train import files


@pbg_host.comparator
def city(left: Any, right: Any) -> Any:
    """Minus the sum of absolute differences."""
    return -abs(left.component(0) - right.component(0)).sum()


@pbg_host.comparator(components=2)
def moduli(left: Any, right: Any) -> Any:
    """Minus the sum of the moduli of complex differences."""
    (a, b), (c, d) = left.components(2), right.components(2)
    re, im = a - c, b - d
    return -sqrt((re * re + im * im).maximum(1e-30)).sum()


class Polar(pbg_plugin.TracedComparator):
    """Minus the distance of moduli and phases (HAKE)."""

    components = 2

    @classmethod
    def metadata(cls) -> Metadata:
        parameters = [Parameter.number("weight", 0.5, "Weight of the phases.", 0)]
        return Metadata("polar", "0.2.0", "Minus the distance of moduli and phases.", parameters)

    def configure(self, parameters: dict[str, Any]) -> None:
        self.weight = parameters["weight"]

    def build(self, left: Any, right: Any) -> Any:
        (m, p), (n, q) = left.components(2), right.components(2)
        distance = sqrt((m - n).dot(m - n).maximum(1e-12))
        return -(distance + self.weight * abs(sin(0.5 * (p - q))).sum())


polar = pbg_host.comparator(Polar, weight=0.25)


@pytest.fixture
def graph(keys: Keys) -> Keys:
    pbg_host.import_edges(keys, edges={"train": edges(2000), "test": edges(100, 2)})
    return keys


def test_comparators_of_python_keep_the_contract() -> None:
    for comparator in (city, moduli, polar):
        assert isinstance(comparator, pbg_host.ComparatorFunction)
        found = {finding.promise: finding.outcome for finding in pbg_host.check_comparator(comparator)}
        assert "kept" in found.values() and "broken" not in found.values(), found
    assert city.evaluate([1.0, 2.0], [0.0, 4.0]) == -3.0
    assert moduli.evaluate([3.0, 4.0], [0.0, 0.0]) == -5.0
    assert polar.evaluate([1.0, math.pi], [1.0, 0.0]) == pytest.approx(-0.25, abs=1e-5)


def test_it_trains_as_the_component_of_the_same_formula(graph: Keys, tmp_path: Path) -> None:
    def bytes_with(name: str, plugins: list[Any], **keys: Any) -> dict[str, bytes]:
        checkpoint = tmp_path / name
        pbg_host.train(graph, plugins=plugins, checkpoint_path=checkpoint, progress=False, **keys)
        return files(checkpoint)

    expected = bytes_with("plugin", [moduli])
    assert expected and bytes_with("key", [], comparator=moduli) == expected
    built = pbg_host.build(moduli, tmp_path / "moduli.wasm")
    assert bytes_with("component", [built]) == expected
    assert bytes_with("other", [city]) != expected


def test_the_checkpoint_and_the_configuration_need_no_plugin(graph: Keys, tmp_path: Path) -> None:
    config = pbg_host.Config(graph, comparator=city, num_epochs=1)
    assert config["comparator"] == "city" and config["formulas"]["city"] == city.formula()
    file = tmp_path / "pbg.toml"
    file.write_text(config.to_toml())
    subprocess.run(["pbg-host", "train", file], check=True, capture_output=True)
    again = pbg_host.train(graph, plugins=[city], num_epochs=1, progress=False)
    assert again.finished
    assert pbg_host.Model(graph["checkpoint_path"]).predict(head="e1", relation="r0", k=2).names
    squares = pbg_host.comparator(
        lambda left, right: left.component(0).dot(right.component(0)), name="city"
    )
    with pytest.raises(pbg_host.CheckpointError, match="formulas.city: differs") as raised:
        pbg_host.train(graph, plugins=[squares], num_epochs=2, progress=False)
    # It says where either comes from.
    assert "though both are from the plugin city 0.1.0" in str(raised.value)


def test_parameters_come_from_the_configuration(graph: Keys, tmp_path: Path) -> None:
    keys = {"plugins.params.polar.weight": 2.0}
    config = pbg_host.Config(graph, comparator=polar, **keys)
    assert config["formulas"]["polar"] == polar.formula(weight=2.0) != polar.formula()
    # A saved configuration has both the formula and its parameters.
    file = tmp_path / "pbg.toml"
    file.write_text(config.to_toml())
    assert pbg_host.Config(file, num_epochs=3)["comparator"] == "polar"
    assert pbg_host.train(config, progress=False).finished
    # Other parameters cannot change a formula that is there.
    for source in (config, file, graph["checkpoint_path"]):
        with pytest.raises(pbg_host.ConfigError, match="plugins.params.polar: has no effect") as raised:
            pbg_host.Config(source, **{"plugins.params.polar.weight": 3.0})
        assert "formulas.polar is the formula as text" in str(raised.value)
        # One that is given makes its formula anew.
        changed: Keys = {"plugins.params.polar.weight": 3.0, "checkpoint_path": tmp_path / "other"}
        assert pbg_host.check(source, plugins=[polar], **changed)["memory"]
        assert pbg_host.train(source, plugins=[polar], progress=False, **changed).finished
        assert pbg_host.Config(tmp_path / "other")["formulas"]["polar"] == polar.formula(weight=3.0)
        shutil.rmtree(tmp_path / "other")


def test_formulas_say_where_they_come_from() -> None:
    told = json.loads(polar.formula(weight=numpy.float32(2)))
    assert told["plugin"] == "polar 0.2.0" and told["params"] == {"weight": 2.0}
    plain = json.loads(city.formula())
    assert plain["plugin"] == "city 0.1.0" and "params" not in plain
    assert told == json.loads(polar.formula(weight=2.0))
    with pytest.raises(pbg_host.UsageError, match="cannot be a value"):
        polar.formula(weight=object())


def test_what_they_do_wrong_is_told_with_its_line(graph: Keys) -> None:
    def called(name: str, build: Any, **keys: Any) -> pbg_host.ComparatorFunction:
        return pbg_host.comparator(build, name=name, **keys)

    @pbg_host.comparator
    def fails(left: Any, right: Any) -> Any:
        raise ValueError("no such thing")

    for comparator, said in (
        (fails, r"fails 0.1.0: build: ValueError: no such thing \(test_comparators.py, line \d+, in fails\)"),
        (called("lone", lambda left, right: left.component(0).sum()), "both"),
        (called("wide", lambda left, right: left.component(0) * right.component(0)), "sum it over"),
        (called("none", lambda left, right: 1.0), "build returns the score"),
        (called("three", city._made_of, components=3), "3"),
        (called("outside", lambda left, right: left.component(1).dot(right.component(0))), "no component 1"),
    ):
        with pytest.raises(pbg_host.PluginError, match=said):
            pbg_host.check_comparator(comparator)
    with pytest.raises(pbg_host.UsageError, match="only one comparator, .* city and moduli"):
        pbg_host.check(graph, plugins=[city, moduli])
    with pytest.raises(pbg_host.UsageError, match='"dot" is that of a built-in comparator'):
        pbg_host.train(graph, plugins=[called("dot", city)], progress=False)
    with pytest.raises(pbg_host.UsageError, match="set `components` in it"):
        pbg_host.comparator(Polar, components=2)
    with pytest.raises(pbg_host.UsageError, match="city .* is not a valid operator"):
        pbg_host.check_operator(city)  # type: ignore[arg-type]
    scales = pbg_host.operator(
        lambda x: [x.component(0) * x.parameter("scale", "one")], name="city"
    )
    [relation] = graph["relations"]
    with pytest.raises(pbg_host.UsageError, match="both called city"):
        pbg_host.Config(graph, comparator=city, relations=[{**relation, "operator": scales}])


def test_a_component_has_what_its_decorator_says() -> None:
    made: dict[str, Any] = {}
    text = module_of(moduli._made_of, "comparator", "m", "3.0.0", {}, moduli.class_body())
    exec(text, made)
    plugin = made["PbgPlugin"]
    assert plugin.components == 2 and plugin.metadata().version == "3.0.0"
    testing.check_traced_comparator(plugin)
    made = {}
    exec(module_of(polar._made_of, "comparator", "p", "0.1.0", polar._parameters), made)
    assert made["PbgPlugin"].metadata().defaults() == {"weight": 0.25}
    assert made["PbgPlugin"].components == 2
    assert json.loads(polar.formula())["components"] == 2
