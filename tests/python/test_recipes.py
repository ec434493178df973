"""The recipes for vector stores and trackers of runs do what docs/recipes.md says, with the packages themselves.

`PBG_TEST_RECIPES=in_lancedb,in_pgvector` adds the stores that the test command does not install; the latter needs
`PBG_TEST_POSTGRES`, the URL of a database.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pbg_host
import pytest
from conftest import Keys, edges, keys_in

RECIPES = Path(__file__).parents[2] / "examples/python/recipes"
STORES = ["in_faiss", "in_duckdb", "in_qdrant"]
STORES += [name for name in os.environ.get("PBG_TEST_RECIPES", "").split(",") if name]
# Comparators, and an operator that changes answers under each.
DYNAMIC = {"dot": "complex_diagonal", "cos": "linear", "l2": "translation", "squared_l2": "diagonal", "l1": "translation"}
# Operators that transform candidates of tails, by comparators under which the vector can be transformed instead.
STATIC = [("dot", of) for of in ("none", "translation", "diagonal", "linear", "affine", "complex_diagonal")]
STATIC += [(of, "translation") for of in ("l2", "squared_l2", "l1")]
LACKS = {"in_lancedb": "l1"}
"""Comparators that a store lacks."""


@pytest.fixture(autouse=True)
def beside_the_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets recipes import what is in their folder, as when they are started there, and keeps trackers off the network."""
    monkeypatch.syspath_prepend(str(RECIPES))
    for name, value in (("DO_NOT_TRACK", "true"), ("WANDB_MODE", "offline"), ("WANDB_ERROR_REPORTING", "false")):
        monkeypatch.setenv(name, value)


def recipe(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns a function that trains a model, or returns the one that is trained."""
    trained: dict[tuple[str, str, bool], pbg_host.Model] = {}

    def model(comparator: str, operator: str, dynamic: bool) -> pbg_host.Model:
        key = (comparator, operator, dynamic)
        if key not in trained:
            keys = keys_in(tmp_path_factory.mktemp("-".join(map(str, key))))
            keys |= {"comparator": comparator, "dynamic_relations": dynamic, "num_epochs": 4, "lr": 0.1}
            keys["relations"][0] |= {"operator": operator, "name": "any" if dynamic else "*"}
            pbg_host.import_edges(keys, edges={"train": edges(2000)})
            pbg_host.train(keys, progress=False)
            trained[key] = pbg_host.Model(keys)
        return trained[key]

    return model


def ask(store: str, model: pbg_host.Model, folder: Path, *question: str) -> list[tuple[str, float]]:
    """Asks a store, as its program does, which compares its answer with that of the model."""
    arguments = [str(model.config["checkpoint_path"]), "--export", str(folder / "exported"), *question]
    if store == "in_lancedb":
        arguments += ["--database", str(folder / "vectors")]
    elif store == "in_pgvector":
        arguments += ["--database", os.environ["PBG_TEST_POSTGRES"]]
    found: list[tuple[str, float]] = recipe(store).main(arguments)
    return found


@pytest.mark.parametrize("comparator", DYNAMIC)
@pytest.mark.parametrize("store", STORES)
def test_a_store_gives_the_answers_of_the_model(
    store: str, comparator: str, models: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = models(comparator, DYNAMIC[comparator], True)
    if LACKS.get(store) == comparator:
        with pytest.raises(ValueError, match="no metric"):
            ask(store, model, tmp_path, "--head", "e7", "--relation", "r1")
        return
    for question in (["--head", "e7", "--relation", "r1"], ["--tail", "e7", "--relation", "r2"], ["--head", "e7"]):
        found = ask(store, model, tmp_path, *question, "-k", "5")
        assert "the same 5 as by pbg_host" in capsys.readouterr().out
        if "--relation" not in question:
            expected = model.neighbors("e7", 5)
        elif "--head" in question:
            expected = model.predict(head="e7", relation="r1", k=5, filter=[])
        else:
            expected = model.predict(relation="r2", tail="e7", k=5, filter=[])
        assert [name for name, _ in found] == expected.names, question
        np.testing.assert_allclose([score for _, score in found], expected.scores, rtol=1e-4, atol=1e-4)


# Without an operator, relations cannot be told apart, which a run warns about.
@pytest.mark.filterwarnings("ignore::pbg_host.PbgWarning")
@pytest.mark.parametrize(("comparator", "operator"), STATIC)
def test_static_relations_transform_the_question(comparator: str, operator: str, models: Any, tmp_path: Path) -> None:
    model = models(comparator, operator, False)
    for question in (["--head", "e7", "--relation", "r1"], ["--tail", "e7", "--relation", "r2"]):
        found = ask("in_faiss", model, tmp_path, *question, "-k", "5")
        assert len(found) == 5
    with_operator = model.predict(head="e7", relation="r1", k=5, filter=[])
    if operator != "none":
        # The operator matters: the embedding of the head alone is answered with other scores.
        assert not np.allclose(with_operator.scores, model.neighbors("e7", 5).scores, atol=1e-2)


def test_candidates_are_those_of_the_open_side(keys: Keys, tmp_path: Path) -> None:
    keys |= {"dynamic_relations": True, "lr": 0.1}
    keys["entities"] = {"user": {"num_partitions": 1}, "item": {"num_partitions": 2}}
    keys["relations"] = [{"name": "any", "lhs": "user", "rhs": "item", "operator": "rotate"}]
    pbg_host.import_edges(keys, edges={"train": [(f"u{head[1:]}", of, tail) for head, of, tail in edges(2000)]})
    pbg_host.train(keys, progress=False)
    model = pbg_host.Model(keys)
    for question, kind in (
        (["--head", "u7", "--relation", "r1"], "e"),
        (["--tail", "e7", "--relation", "r1"], "u"),
        (["--head", "u7"], "u"),
        (["--head", "e7"], "e"),
    ):
        found = ask("in_duckdb", model, tmp_path, *question)
        assert {name[0] for name, _ in found} == {kind}, question
    with pytest.raises(pbg_host.errors.DataError, match="nobody"):
        ask("in_duckdb", model, tmp_path, "--head", "nobody")


def test_what_no_vector_can_ask_is_refused(models: Any, tmp_path: Path, keys: Keys) -> None:
    diagonal = models("cos", "diagonal", False)
    with pytest.raises(ValueError, match="transformed candidates"):
        ask("in_faiss", diagonal, tmp_path, "--head", "e7", "--relation", "r1")
    assert len(ask("in_faiss", diagonal, tmp_path, "--tail", "e7", "--relation", "r1")) == 10
    keys |= {"bias": True, "num_epochs": 1}
    pbg_host.import_edges(keys, edges={"train": edges(500)})
    pbg_host.train(keys, progress=False)
    with pytest.raises(ValueError, match="bias"):
        ask("in_faiss", pbg_host.Model(keys), tmp_path, "--head", "e7")


def test_a_wrong_answer_is_noticed(models: Any, tmp_path: Path) -> None:
    questions = recipe("questions")
    model = models("dot", "complex_diagonal", True)
    model.export(tmp_path, "npy")
    search = questions.search(model, tmp_path, "e7", "r1", None, 3)
    right = list(search.answer)
    assert questions.compared(search, right) == right
    worst = (right[-1][0], right[-1][1] - 1)
    other, swapped = ("e199", worst[1]), [right[1], right[0], right[2]]
    for wrong in (right[:-1], [*right[:-1], worst], [*right[:-1], other], swapped):
        with pytest.raises(ValueError, match="score|found"):
            questions.compared(search, wrong)


@pytest.fixture
def to_train(keys: Keys, tmp_path: Path) -> Path:
    """Returns the file of a configuration of two epochs with validation."""
    pbg_host.import_edges(keys, edges={"train": edges(2000), "valid": edges(100, 2), "test": edges(100, 3)})
    file = tmp_path / "pbg.toml"
    file.write_text(pbg_host.Config(keys, validation={"edges": "valid"}).to_toml())
    return file


def check(history: dict[str, list[float]], last: dict[str, Any], file: Path) -> None:
    """Compares the figures by epoch, and those of the end, with what the run itself has recorded and with its model."""
    config = pbg_host.Config(file)
    recorded = {
        kind: pbg_host.metrics(config["checkpoint_path"], kind, frame="pandas") for kind in ("epoch_finished", "validated")
    }
    epochs, validated = recorded["epoch_finished"], recorded["validated"]
    assert history["epoch"] == [1, 2]
    assert history["loss"] == pytest.approx((epochs["stats.loss"] / epochs["stats.count"]).tolist())
    assert history["edges_per_second"] == pytest.approx((epochs["stats.count"] / epochs["seconds"]).tolist())
    assert history["validated/mrr"] == pytest.approx(validated["ranks.mrr"].tolist())
    ranks = pbg_host.evaluate(config, "test")["filtered"]
    assert last["test/mrr"] == pytest.approx(ranks["mrr"])
    assert last["test/hits_at_10"] == pytest.approx(ranks["hits_at_10"])
    assert int(last["checkpoint_version"]) == max(pbg_host.metrics(config["checkpoint_path"], "committed")["version"])


def test_mlflow_has_the_run(to_train: Path, tmp_path: Path) -> None:
    import mlflow

    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    main, client = recipe("log_to_mlflow").main, mlflow.MlflowClient(store)
    run = client.get_run(main([str(to_train), "--store", store, "--test", "test"]))
    assert run.info.status == "FINISHED"
    assert run.data.params["relations.0.operator"] == "translation"
    logged = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    history = {name: [at.value for at in values] for name, values in logged.items()}
    history["epoch"] = [at.step for at in logged["loss"]]
    assert [at.step for at in logged["validated/mrr"]] == history["epoch"]
    check(history, {**run.data.metrics, **run.data.tags}, to_train)

    for error, status in ((pbg_host.errors.NotFiniteError, "FAILED"), (KeyboardInterrupt, "KILLED")):
        fails(error, to_train, tmp_path, lambda file: main([str(file), "--store", store]))
        (last, *_) = client.search_runs([run.info.experiment_id], max_results=1)
        assert last.info.status == status
        assert last.data.params["num_epochs"] == "2"


def test_wandb_has_the_run(to_train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    main = recipe("log_to_wandb").main
    written = records(tmp_path, main([str(to_train), "--project", "graph", "--test", "test"]))
    rows = [values(record.history.item) for record in written if record.HasField("history")]
    history: dict[str, list[float]] = {}
    for row in rows:
        for key, value in row.items():
            history.setdefault(key, []).append(value)
    assert [row["epoch"] for row in rows if "validated/mrr" in row] == [1, 2]
    history["epoch"] = [row["epoch"] for row in rows if "loss" in row]
    last: dict[str, Any] = {}
    for record in written:
        last |= values(record.summary.update)
    check(history, last, to_train)
    (started,) = [record.run for record in written if record.HasField("run")]
    assert values(started.config.update)["relations.0.operator"] == "translation"
    assert [record.exit.exit_code for record in written if record.HasField("exit")] == [0]

    for error in (pbg_host.errors.NotFiniteError, KeyboardInterrupt):
        fails(error, to_train, tmp_path, lambda file: main([str(file), "--project", "failed"]))
        newest = max(tmp_path.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns)
        written = records(tmp_path, newest.stem.partition("-")[2])
        (code,) = [record.exit.exit_code for record in written if record.HasField("exit")]
        assert code != 0


def fails(error: type[BaseException], file: Path, folder: Path, main: Callable[[Path], object]) -> None:
    """Runs a callback over training that raises an error."""
    failing = folder / "failing.toml"
    with pytest.MonkeyPatch.context() as patch:
        if error is KeyboardInterrupt:
            train = pbg_host.train

            def interrupted(*given: Any, on_event: Callable[[pbg_host.Event], object], **named: Any) -> Any:
                def raises(event: pbg_host.Event) -> None:
                    on_event(event)
                    if event.kind == "epoch_finished":
                        raise KeyboardInterrupt

                return train(*given, on_event=raises, **named)

            patch.setattr(pbg_host, "train", interrupted)
        keys = {"lr": 1e38} if error is not KeyboardInterrupt else {}
        config = pbg_host.Config(file, checkpoint_path=folder / error.__name__, **keys)
        failing.write_text(config.to_toml())
        with pytest.raises(error):
            main(failing)


def records(folder: Path, run: str) -> list[Any]:
    """Returns what Weights & Biases has written for a run: records in blocks of 32 KiB, in the format of LevelDB's logs."""
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    # Ends the process that writes the file, which keeps some of it in memory.
    wandb.teardown()
    (path,) = folder.glob(f"wandb/offline-run-*/run-{run}.wandb")
    data, at, found, part = path.read_bytes(), 7, [], b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            # The rest of a block that has no room for a header.
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        # Whole, or the last piece of one.
        if kind in (1, 4):
            found.append(Record.FromString(part))
            part = b""
    return found


def values(items: Any) -> dict[str, Any]:
    """Returns the values of a record by name."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def test_the_document_has_every_recipe_and_package() -> None:
    document = (RECIPES.parents[2] / "docs/recipes.md").read_text(encoding="utf-8")
    for path in RECIPES.iterdir():
        if path.suffix == ".py":
            assert f"(../examples/python/recipes/{path.name})" in document, path.name
            text = path.read_text(encoding="utf-8")
            for package in re.findall(r"pip install '?([a-z-]+)", text):
                assert f"| `{package}` | " in document, package
