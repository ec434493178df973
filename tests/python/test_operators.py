"""Operators that are formulas of Python: in this process, in configurations and checkpoints, and as components."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pbg_host
import pbg_plugin
import pytest
from conftest import Keys, edges
from pbg_host._sources import module_of
from pbg_plugin import Metadata, Parameter, cos, sin, testing
from test_train import files

SPREAD = 0.5


@pbg_host.operator
def scales(x: Any) -> Any:
    """Scales an embedding and moves it."""
    return [x.component(0) * x.parameter("scale", "one") + x.parameter("shift", SPREAD)]


@pbg_host.operator
def turns(x: Any) -> Any:
    """Complex numbers, each turned by an angle."""
    re, im = x.components(2)
    angle = x.parameter("angle", "angle")
    return [re * cos(angle) - im * sin(angle), re * sin(angle) + im * cos(angle)]


class Diagonal(pbg_plugin.TracedOperator):
    """The product with a diagonal that begins at a number."""

    @classmethod
    def metadata(cls) -> Metadata:
        parameters = [Parameter.number("factor", 1.0, "Constant factor.", 0)]
        return Metadata("product", "0.2.0", "A product.", parameters)

    def configure(self, parameters: dict[str, Any]) -> None:
        self.factor = parameters["factor"]

    def build(self, x: pbg_plugin.Embedding) -> Any:
        return [x.component(0) * x.parameter("diagonal", "one") * self.factor]


product = pbg_host.operator(Diagonal, factor=2.0)


class Projection(pbg_plugin.TracedOperator):
    """Both sides without their part along a vector (TransH); the right one is moved."""

    @classmethod
    def metadata(cls) -> Metadata:
        return Metadata("projection", "0.1.0", "Projections of both sides.")

    def build_lhs(self, x: pbg_plugin.Embedding) -> Any:
        value, along = x.component(0), x.parameter("along", 1.0)
        return [value - along * along.dot(value) / along.dot(along)]

    def build(self, x: pbg_plugin.Embedding) -> Any:
        [projected] = self.build_lhs(x)
        return [projected - x.parameter("shift", "zero")]


projection = pbg_host.operator(Projection)


@pytest.fixture
def graph(keys: Keys) -> Keys:
    pbg_host.import_edges(keys, edges={"train": edges(2000), "test": edges(100, 2)})
    return keys


def with_operator(keys: Keys, operator: object) -> Keys:
    [relation] = keys["relations"]
    return {**keys, "relations": [{**relation, "operator": operator}]}


def test_operators_of_python_keep_the_contract() -> None:
    for operator in (scales, turns, product, projection):
        assert isinstance(operator, pbg_host.OperatorFunction)
        found = {finding.promise: finding.outcome for finding in pbg_host.check_operator(operator)}
        promised = ("finite", "exact", "gradient", "embedding", "parameters")
        assert [found[promise] for promise in promised] == ["kept"] * 5
    assert scales.evaluate([1.0, 2.0], {"scale": [3.0, 0.5], "shift": [1.0, 0.0]}) == [4.0, 1.0]
    assert product.evaluate([3.0], {"diagonal": [0.5]}) == [3.0]
    vectors = {"along": [0.0, 2.0], "shift": [1.0, 1.0]}
    assert projection.evaluate([3.0, 4.0], vectors) == [2.0, -1.0]
    assert projection.evaluate_lhs([3.0, 4.0], vectors) == [3.0, 0.0]
    assert turns.evaluate([1.0, 0.0], {"angle": [math.pi / 2]}) == pytest.approx([0.0, 1.0])


def test_it_trains_as_the_standard_operator_of_the_same_formula(
    graph: Keys, tmp_path: Path
) -> None:
    def bytes_with(name: str, config: Keys, plugins: list[Any]) -> dict[str, bytes]:
        checkpoint = tmp_path / name
        pbg_host.train(config, plugins=plugins, checkpoint_path=checkpoint, progress=False)
        return files(checkpoint)

    expected = bytes_with("standard", with_operator(graph, "rotate"), [])
    assert expected and bytes_with("plugin", graph, [turns]) == expected
    assert bytes_with("relation", with_operator(graph, turns), []) == expected
    assert bytes_with("other", graph, [scales]) != expected


def test_the_checkpoint_and_the_configuration_need_no_plugin(graph: Keys, tmp_path: Path) -> None:
    config = pbg_host.Config(with_operator(graph, scales), num_epochs=1)
    formula = config["formulas"]["scales"]
    assert formula == scales.formula() and config["relations"][0]["operator"] == "scales"
    assert [p["name"] for p in json.loads(formula)["parameters"]] == ["scale", "shift"]
    # The program trains it from a file, without a component.
    file = tmp_path / "pbg.toml"
    file.write_text(config.to_toml())
    subprocess.run(["pbg-host", "train", file], check=True, capture_output=True)
    trained = files(graph["checkpoint_path"])
    # Python continues what the program began, with the operator as a plugin of all relations.
    again = pbg_host.train(graph, plugins=[scales], num_epochs=1, progress=False)
    assert again.finished and files(graph["checkpoint_path"]) == trained
    model = pbg_host.Model(graph["checkpoint_path"])
    assert model.predict(head="e1", relation="r0", k=2).names
    assert {"relations/0/operator/rhs/scale", "relations/0/operator/rhs/shift"} <= set(model.parameters())
    with pytest.raises(pbg_host.CheckpointError, match="formulas.scales: differs"):
        moved = pbg_host.operator(
            lambda x: [x.component(0) * x.parameter("scale", "one") - x.parameter("shift", SPREAD)],
            name="scales",
        )
        pbg_host.train(graph, plugins=[moved], num_epochs=2, progress=False)


def test_a_file_of_the_same_name_does_not_replace_it(
    graph: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scales.wasm").write_bytes(b"no component")
    monkeypatch.setenv("PBG_PLUGIN_PATH", str(tmp_path))
    config = pbg_host.Config(with_operator(graph, scales))
    assert config["relations"][0]["operator"] == "scales"
    assert pbg_host.train(config, progress=False).finished


def test_relations_may_have_different_operators(graph: Keys) -> None:
    relations: list[Keys] = [
        {"name": "r0", "lhs": "all", "rhs": "all", "operator": turns},
        {"name": "r1", "lhs": "all", "rhs": "all", "operator": product},
        {"name": "*", "lhs": "all", "rhs": "all", "operator": "diagonal"},
    ]
    keys = {**graph, "relations": relations}
    pbg_host.import_edges(keys, edges={"train": edges(2000), "test": edges(100, 2)}, fresh=True)
    config = pbg_host.Config(keys, **{"plugins.params.product.factor": 3.0})
    assert set(config["formulas"]) == {"turns", "product"}
    assert config["formulas"]["product"] == product.formula(factor=3.0) != product.formula()
    assert pbg_host.train(config, progress=False).finished
    assert any("turns" in key or "angle" in key for key in pbg_host.Model(config).parameters())
    twice = [relations[0], {**relations[1], "operator": pbg_host.operator(scales, name="turns")}]
    with pytest.raises(pbg_host.UsageError, match="different formulas are called turns"):
        pbg_host.Config({**graph, "relations": twice})


def test_a_component_of_the_same_source_trains_to_the_same_bytes(
    graph: Keys, tmp_path: Path
) -> None:
    path = pbg_host.build(scales, tmp_path / "built.wasm")
    runs = []
    for name, plugin in (("function", scales), ("component", path)):
        checkpoint = tmp_path / name
        pbg_host.train(graph, plugins=[plugin], checkpoint_path=checkpoint, progress=False)
        runs.append(files(checkpoint))
    assert runs[0] and runs[0] == runs[1]
    # Python's interpreter imports the interface for files, which this operator does not use.
    shown = subprocess.run(
        ["pbg-host", "plugin", "inspect", path], capture_output=True, text=True, check=True
    )
    assert "asks for  files" in shown.stdout and "interpreter" in shown.stdout, shown.stdout
    with pytest.raises(pbg_host.UsageError, match="there are two: scales and .*built.wasm"):
        pbg_host.train(graph, plugins=[scales, path], progress=False)


def test_a_component_of_a_class_has_what_its_decorator_says() -> None:
    made: dict[str, Any] = {}
    text = module_of(product._made_of, "operator", "renamed", "9.0.0", product._parameters)
    exec(text, made)
    plugin = made["PbgPlugin"]
    about = plugin.metadata()
    assert (about.name, about.version, about.defaults()) == ("renamed", "9.0.0", {"factor": 2.0})
    testing.check_traced_operator(plugin)


def test_what_they_do_wrong_is_told_with_its_line(graph: Keys) -> None:
    @pbg_host.operator
    def fails(x: Any) -> Any:
        raise ValueError("no such thing")

    @pbg_host.operator
    def decides(x: Any) -> Any:
        return [x.component(0) * x.parameter("a", "one")] if x.component(0) > 0 else []

    def called(name: str, build: Any) -> pbg_host.OperatorFunction:
        return pbg_host.operator(build, name=name)

    for operator, said in (
        (fails, r"fails 0.1.0: build: ValueError: no such thing \(test_operators.py, line \d+, in fails\)"),
        (decides, r"embeddings are not known while .* \(test_operators.py, line \d+, in decides\)"),
        (called("bare", lambda x: x.component(0) * x.parameter("a", "one")), "build returns a list"),
        (called("idle", lambda x: [x.component(0)]), "parameter"),
        (called("fixed", lambda x: [x.parameter("a", "one")]), "depend"),
        (called("three", lambda x: x.components(3)), "3"),
        (called("odd", lambda x: [x.component(0) + x.parameter("a", "two")]), "initial value 'two' of a"),
        (called("div", lambda x: [x.parameter("a", "one") / x.component(0)]), "finite: zeros"),
    ):
        with pytest.raises(pbg_host.PluginError, match=said):
            pbg_host.check_operator(operator)
    with pytest.raises(pbg_host.PluginError, match="plugin fails 0.1.0: build: ValueError"):
        pbg_host.train(graph, plugins=[fails], progress=False)
    with pytest.raises(pbg_host.PluginError, match="plugin fails 0.1.0: build: ValueError"):
        pbg_host.Config(with_operator(graph, fails))
    with pytest.raises(pbg_host.UsageError, match="one operator of all relations, .* scales and turns") as two:
        pbg_host.check(graph, plugins=[scales, turns])
    assert "relations=[" in str(two.value)
    with pytest.raises(pbg_host.UsageError, match='"diagonal" is that of a built-in operator'):
        pbg_host.train(graph, plugins=[called("diagonal", scales)], progress=False)
    with pytest.raises(pbg_host.UsageError, match='"<lambda>" must consist of letters'):
        pbg_host.Config(with_operator(graph, pbg_host.operator(lambda x: scales(x))))
    with pytest.raises(pbg_host.UsageError, match="scales .* is not a valid loss"):
        pbg_host.check_loss(scales)  # type: ignore[arg-type]
    with pytest.raises(pbg_host.UsageError, match=r"pass functions as plugins=\[...\]"):
        pbg_host.Config(graph, loss_fn=scales)


def test_the_documented_formula_is_one(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/plugins/operators.md"
    lines = page.read_text().splitlines()
    begin = lines.index("    [formulas]") - 6
    end = next(at for at in range(begin, len(lines)) if lines[at].endswith("}'''"))
    text = "\n".join(line.removeprefix("    ") for line in lines[begin : end + 1])
    file = tmp_path / "pbg.toml"
    head = 'dataset = "data"\ncheckpoint_path = "model"\ndimension = 8\n'
    file.write_text(f"{head}[entities.entity]\nnum_partitions = 1\n{text}\n")
    config = pbg_host.Config(file)
    made = json.loads(scales.formula())
    assert made.pop("plugin") == f"scales {scales.version}"
    assert len(made.pop("sha256")) == 64
    assert json.loads(config["formulas"]["scales"]) == made
