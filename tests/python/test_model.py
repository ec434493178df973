"""Queries, numbers and tables of a model, compared with the answers and exports of the program."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas
import pbg_host
import polars
import pyarrow as pa
import pytest
from conftest import edges


@pytest.fixture(scope="module")
def model(trained: pbg_host.Config) -> pbg_host.Model:
    return pbg_host.Model(trained["checkpoint_path"])


def program(*arguments: object) -> Any:
    """Returns the output of the program."""
    command = ["pbg-host", *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def test_answers_are_those_of_the_program(model: pbg_host.Model) -> None:
    folder = model.config["checkpoint_path"]
    near = program("neighbors", folder, "e1", "-k", "4", "--json")
    found = model.neighbors("e1", 4)
    assert [name for name, _ in found] == [answer["name"] for answer in near]
    assert found.scores.dtype == np.float32
    assert found.scores.tolist() == pytest.approx([answer["score"] for answer in near])
    sides: tuple[Literal["tail"], Literal["head"]] = ("tail", "head")
    for asked in sides:
        options = ("--relation", "r0", "--asked", asked, "-k", "4", "--json")
        [by_relation] = program("neighbors", folder, "e1", *options)
        found = model.neighbors("e1", 4, relation="r0", asked=asked)
        assert found.names == [best["name"] for best in by_relation["answers"]]
        scores = [best["score"] for best in by_relation["answers"]]
        assert found.scores.tolist() == pytest.approx(scores)
    tails = model.neighbors("e1", relation="r0", asked="tail")
    assert model.neighbors("e1", relation="r0").names == tails.names
    with pytest.raises(pbg_host.UsageError, match="comparator"):
        model.neighbors("e1", relation="r0", comparator="cos")
    with pytest.raises(pbg_host.UsageError, match="relation"):
        model.neighbors("e1", asked="tail")
    with pytest.raises(pbg_host.UsageError, match="neither"):
        model.neighbors("e1", relation="r0", asked="both")  # type: ignore[arg-type]
    predicted = program("predict", folder, "--head", "e1", "--relation", "r0", "-k", "3", "--json")
    answer = model.predict(head="e1", relation="r0", k=3)
    assert answer.names == [best["name"] for best in predicted["answers"]]
    assert answer.left_out == predicted["left_out"] > 0
    related = program("predict", folder, "--head", "e1", "--tail", "e2", "--json", "--unfiltered")
    relations = model.predict(head="e1", tail="e2", filter=[])
    assert relations.names == [best["name"] for best in related["answers"]]
    assert model.score("e1", relations.names[0], "e2") == relations.scores[0]
    ranked = program("eval", folder, "--edges", "test", "--filter", "train,test", "--json")
    report = model.evaluate("test", filter=["train", "test"])
    assert report["filtered"] == ranked["filtered"]
    assert report["filtered"]["mrr"] > 0.02
    assert pbg_host.evaluate(folder, "test")["raw"] == ranked["raw"]


def test_ranks_are_filtered_by_all_edge_sets_unless_others_are_named(model: pbg_host.Model) -> None:
    by_all = model.evaluate("test", filter=["train", "test"])
    default = model.evaluate("test")
    assert default["filter"] == ["test", "train"] and default["filtered"] == by_all["filtered"]
    assert default["filtered"]["mrr"] > default["raw"]["mrr"] == by_all["raw"]["mrr"]
    assert model.evaluate("test", filter=["test"])["filtered"] != by_all["filtered"]
    # Without a filter, no figures are called filtered.
    raw = model.evaluate("test", filter=[], by="relation")
    assert not [name for name in raw if name.startswith("filtered")] and raw["raw"] == default["raw"]
    assert not [name for name in raw["by"][0] if name.startswith("filtered")]
    folder = model.config["checkpoint_path"]
    assert "filtered" not in program("eval", folder, "--edges", "test", "--json")


def test_what_is_no_edge_set_is_not_ranked(model: pbg_host.Model) -> None:
    asked: Any = 5
    calls: list[Any] = [model.evaluate, lambda edges: pbg_host.evaluate(model.config, edges)]
    for call in calls:
        with pytest.raises(pbg_host.UsageError, match="expected the name of an edge set, .* not 5"):
            call(asked)
    with pytest.raises(pbg_host.DataError, match="no edge set `nope`; it has `test`, `train`"):
        model.evaluate("nope")


def test_a_model_says_that_its_dataset_was_imported_anew(keys: dict[str, Any]) -> None:
    pbg_host.import_edges(keys, edges={"train": edges(2000), "test": edges(100, 2)})
    pbg_host.train(keys, num_epochs=1, progress=False)
    open_before, also = pbg_host.Model(keys), pbg_host.Model(keys)
    before = open_before.neighbors("e1").names
    others = [(f"x{lhs[1:]}", rel, f"x{rhs[1:]}") for lhs, rel, rhs in edges(2000)]
    pbg_host.import_edges(keys, edges={"train": others, "test": others[:100]}, fresh=True)
    calls: list[Any] = [
        also.names,
        also.to_frame,
        lambda: also.neighbors("e1"),
        lambda: also.score("e1", "r0", "e2"),
        lambda: also.predict(head="e1", relation="r0"),
        lambda: also.evaluate("test"),
    ]
    for call in calls:
        with pytest.raises(pbg_host.DataError, match="imported (anew|again) after it was opened"):
            call()
    # Names that were read earlier still belong to the model.
    assert open_before.neighbors("e1").names == before
    with pytest.raises(pbg_host.CheckpointError, match="trained on another dataset"):
        pbg_host.Model(keys)


def test_a_folder_without_manifest_is_no_checkpoint(
    trained: pbg_host.Config, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    config = pbg_host.Config(trained, checkpoint_path=folder)
    pbg_host.train(config, progress=False)
    asked = pbg_host.Model(config)
    (folder / "manifest.json").unlink()
    calls: list[Any] = [
        lambda: pbg_host.Model(folder),
        lambda: pbg_host.Model(config),
        lambda: asked.neighbors("e1"),
        lambda: asked.parameters(),
        lambda: pbg_host.train(config, num_epochs=3, progress=False),
        lambda: pbg_host.train(folder, progress=False),
        lambda: pbg_host.combine("average", [folder, folder], tmp_path / "out"),
        lambda: pbg_host.metrics(tmp_path / "nowhere"),
        lambda: pbg_host.evaluate(config),
    ]
    for call in calls:
        with pytest.raises(pbg_host.CheckpointError, match="is not a (complete )?checkpoint: it has no manifest.json"):
            call()


def test_an_index_finds_what_a_look_at_all_finds(model: pbg_host.Model) -> None:
    with pytest.raises(pbg_host.CheckpointError, match="there is no index"):
        model.neighbors("e1", 4, comparator="cos", index=True)
    report = model.build_index(comparator="cos", recall_queries=5)
    assert report["types"][0]["recall"][-1]["neighbors"] == 1.0
    # The beam is wider than the number of entities.
    near = model.neighbors("e1", 4, comparator="cos")
    found = model.neighbors("e1", 4, comparator="cos", index=True, width=10_000)
    assert (found.names, found.scores.tolist()) == (near.names, near.scores.tolist())
    assert model.build_index()["types"][0]["entities"] > 0
    questions = [("e1", "r0", None), (None, "r1", "e2")]
    exact = model.predict_all(questions, k=3)
    by_index = model.predict_all(questions, k=3, index=True, width=10_000)
    assert [a.scores.tolist() for a in by_index] == [a.scores.tolist() for a in exact]
    assert [a.left_out for a in by_index] == [a.left_out for a in exact]
    with pytest.raises(pbg_host.UsageError, match="comparator"):
        model.build_index(comparator="l3")  # type: ignore[arg-type]
    with pytest.raises(pbg_host.UsageError, match="expected one of dot, cos, l2, squared_l2, not 'l1'"):
        model.build_index(comparator="l1")  # type: ignore[arg-type]


def test_questions_together_are_questions_alone(model: pbg_host.Model) -> None:
    asked = [("e1", "r0", None), (None, "r1", "e2")]
    both = model.predict_all(asked, k=2, filter=[], loops=False)
    assert both[0].names == model.predict(head="e1", relation="r0", k=2, filter=[], loops=False).names
    assert both[1].names == model.predict(relation="r1", tail="e2", k=2, filter=[], loops=False).names
    scores = model.score_all([("e1", "r0", name) for name in both[0].names])
    # Predictions score the side in question, `score` the left side; the results differ only by rounding.
    assert scores.tolist() == pytest.approx(both[0].scores.tolist(), abs=1e-5)
    assert model.score("e1", "r0", both[0].names[0]) == pytest.approx(float(scores[0]))


def test_ranks_by_relation_are_a_table(model: pbg_host.Model) -> None:
    report = model.evaluate("test", by="relation")
    table = pbg_host.breakdown(report, frame="pandas")
    assert len(table) == 3 and isinstance(table, pandas.DataFrame)


def test_views_are_the_files(model: pbg_host.Model, tmp_path: Path) -> None:
    views = model.partitions()
    assert len(views) == 4 and all(isinstance(view.rows, np.memmap) for view in views)
    assert not views[0].rows.flags.writeable
    command = ["pbg-host", "export", model.config["checkpoint_path"], "--format", "npy", "--out"]
    subprocess.run([*command, tmp_path / "out"], capture_output=True, check=True)
    exported = np.load(tmp_path / "out/entities_all.npy")
    names = json.loads((tmp_path / "out/entities_all.names.json").read_text())
    assert model.names() == names
    np.testing.assert_array_equal(model.embeddings(), exported)
    shift = model.global_embedding()
    assert shift is not None
    np.testing.assert_array_equal(views[0].rows + shift, exported[: len(views[0].rows)])
    assert "relations/0/operator/rhs/translation" in model.parameters()


def test_rows_that_lie_there_as_bfloat16(trained: pbg_host.Config, tmp_path: Path) -> None:
    half = pbg_host.Config(trained, checkpoint_path=tmp_path / "model", num_epochs=1, storage="bf16")
    pbg_host.train(half)
    model = pbg_host.Model(tmp_path / "model")
    parts = model.partitions()
    assert len(parts) == 4
    for part in parts:
        assert isinstance(part.numbers, np.memmap) and part.numbers.dtype == np.uint16
        assert part.rows.dtype == np.float32 and part.rows.shape == part.numbers.shape
        # The upper half of each float.
        assert not (part.rows.view(np.uint32) & 0xFFFF).any()
        np.testing.assert_array_equal(part.rows.view(np.uint32) >> 16, part.numbers)
    shift = model.global_embedding()
    assert shift is not None
    rows = np.concatenate([part.rows for part in parts]) + shift
    np.testing.assert_array_equal(model.embeddings(), rows)


def test_a_view_outlives_its_file(trained: pbg_host.Config, tmp_path: Path) -> None:
    again = pbg_host.Config(trained, checkpoint_path=tmp_path / "model", num_epochs=1)
    pbg_host.train(again)
    view = pbg_host.Model(tmp_path / "model").partitions()[0]
    before = view.rows.copy()
    pbg_host.train(again, num_epochs=2)
    assert not view.path.exists()
    np.testing.assert_array_equal(view.rows, before)


def test_a_model_answers_of_the_version_that_is_current(
    trained: pbg_host.Config, tmp_path: Path
) -> None:
    kept = str(tmp_path / "model")
    config = pbg_host.Config(trained, checkpoint_path=kept, num_epochs=1)
    pbg_host.train(config)
    asked = pbg_host.Model(kept)
    before = asked.neighbors("e1", 4).scores.tolist()
    pbg_host.train(config, num_epochs=3)
    fresh = pbg_host.Model(kept)
    after = asked.neighbors("e1", 4).scores.tolist()
    assert after != before
    assert after == fresh.neighbors("e1", 4).scores.tolist()
    assert asked.score("e1", "r0", "e2") == fresh.score("e1", "r0", "e2")


def test_a_model_is_read_beside_a_run_that_commits(trained: pbg_host.Config, tmp_path: Path) -> None:
    """Every call reads a single version, although others are committed meanwhile."""
    folder, file = tmp_path / "model", tmp_path / "pbg.toml"
    config = pbg_host.Config(
        trained, checkpoint_path=folder, num_epochs=1_000_000, checkpoint_interval=0
    )
    file.write_text(config.to_toml())

    def version() -> int:
        manifest: dict[str, int] = json.loads((folder / "manifest.json").read_text())
        return manifest["version"]

    with subprocess.Popen(["pbg-host", "train", str(file), "--progress", "none"]) as run:
        try:
            while not (folder / "manifest.json").exists():
                assert run.poll() is None
                time.sleep(0.01)
            asked, first = pbg_host.Model(folder), version()
            for _ in range(10):
                parts = asked.partitions()
                rows = np.concatenate([part.rows for part in parts])
                assert rows.shape == asked.embeddings().shape
                assert asked.to_arrow().num_rows == len(asked.names()) == len(rows)
                assert len(asked.to_frame(frame="pandas")) == len(rows)
                assert asked.parameters()
                assert len(asked.neighbors("e1", 4).names) == 4
                assert np.isfinite(asked.score("e1", "r0", "e2"))
                assert asked.predict(head="e1", relation="r0", k=3).names
                assert asked.evaluate("test")["version"] >= first
                assert pbg_host.Model(folder).neighbors("e1", 4).names
            asked.build_index(recall_queries=20)
            assert run.poll() is None
            assert version() > first + 10, "there must be commits in between"
        finally:
            run.kill()


def test_whole_types_are_tables(model: pbg_host.Model) -> None:
    rows, names = model.embeddings(), model.names()
    table = model.to_arrow()
    assert table.column_names == ["name", "embedding"] and table["name"].to_pylist() == names
    np.testing.assert_array_equal(np.stack(table["embedding"].to_numpy()), rows)
    frame = model.to_frame(frame="pandas")
    assert isinstance(frame, pandas.DataFrame) and frame["name"].tolist() == names
    np.testing.assert_array_equal(frame["3"], rows[:, 3])
    assert isinstance(model.to_frame(frame="polars"), polars.DataFrame)


def test_what_is_not_there_is_told(model: pbg_host.Model, tmp_path: Path) -> None:
    with pytest.raises(pbg_host.DataError, match="nobody"):
        model.neighbors("nobody")
    with pytest.raises(pbg_host.DataError) as raised:
        model.predict_all([("e1", "r0", None), ("e1", "r9", None)])
    assert "question 2" in str(raised.value)
    with pytest.raises(pbg_host.DataError, match="edge 2"):
        model.score_all([("e1", "r0", "e2"), ("e1", "r0", "nobody")])
    incomplete: list[tuple[str | None, str | None, str | None]] = [
        (None, "r0", None),
        ("e1", None, None),
        ("e1", "r0", "e2"),
    ]
    for head, relation, tail in incomplete:
        with pytest.raises(pbg_host.UsageError, match="all parts of an edge but one"):
            model.predict(head=head, relation=relation, tail=tail)
    with pytest.raises(pbg_host.DataError, match='no entity type "user"'):
        model.partitions("user")
    with pytest.raises(pbg_host.UsageError, match="comparator"):
        model.neighbors("e1", comparator="near")  # type: ignore[arg-type]
    with pytest.raises(pbg_host.CheckpointError):
        pbg_host.Model(tmp_path)
    with pytest.raises(pbg_host.ConfigError) as wrong:
        pbg_host.Model(tmp_path / "nope")
    assert str(wrong.value).startswith(f"there is no file or folder {tmp_path}/nope")
    assert "the folder of a checkpoint" in str(wrong.value)


@pytest.mark.parametrize("k", [0, -1, "3", 2.5, True, None])
def test_a_number_of_answers_is_whole(model: pbg_host.Model, k: Any) -> None:
    for ask in (
        lambda: model.neighbors("e1", k),
        lambda: model.predict(head="e1", relation="r0", k=k),
        lambda: model.predict_all([("e1", "r0", None)], k=k),
    ):
        with pytest.raises(pbg_host.UsageError, match=f"k: expected a whole number .* not {k!r}"):
            ask()


def test_other_arguments_are_told_by_name(model: pbg_host.Model) -> None:
    calls: list[tuple[str, Any]] = [
        ("limit: expected a whole number", lambda: model.evaluate("test", limit=-1)),
        ("candidates: expected a whole number", lambda: model.evaluate("test", candidates=0)),
        ("threads: expected a whole number", lambda: model.predict_all([], threads=0)),
        ("head: names must be text", lambda: model.predict(head=0.5, relation="r0")),  # type: ignore[arg-type]
        ("edges: names must be text", lambda: model.score("e1", None, "e2")),  # type: ignore[arg-type]
        ("comparator: expected one of dot, cos", lambda: model.neighbors("e1", comparator="coss")),  # type: ignore[arg-type]
        ("frame must be 'pandas'", lambda: model.metrics(frame="panda")),  # type: ignore[arg-type]
    ]
    for said, call in calls:
        with pytest.raises(pbg_host.UsageError, match=said):
            call()


def test_edges_to_score_may_be_a_table(model: pbg_host.Model) -> None:
    edges = [("e1", "r0", "e2"), ("e2", "r1", "e4")]
    expected = model.score_all(edges).tolist()
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*edges))))
    for table in (
        pandas.DataFrame(columns),
        pandas.DataFrame(columns)[["tail", "head", "relation"]],
        polars.DataFrame(columns),
        pa.table(columns),
        columns,
        np.array(edges),
    ):
        assert model.score_all(table).tolist() == expected
    with pytest.raises(pbg_host.UsageError, match="expected one column each for head, relation and tail, but the columns are a, tail"):
        model.score_all(pandas.DataFrame({"a": ["e1"], "tail": ["e2"]}))
    twice = {**columns, "predicate": columns["relation"]}
    for table in (twice, pandas.DataFrame(twice)):
        with pytest.raises(pbg_host.UsageError, match="the columns are head, relation, tail, predicate"):
            model.score_all(table)
    for wrong in (["e1"], [("e1", "e2")], [5]):
        with pytest.raises(pbg_host.UsageError, match=r"tuples \(head, relation, tail\), not"):
            model.score_all(wrong)
    with pytest.raises(pbg_host.UsageError, match="questions must be tuples"):
        model.predict_all([("e1", "r0")])  # type: ignore[list-item]


def test_metrics_are_a_table(model: pbg_host.Model) -> None:
    epochs = pbg_host.metrics(model.config["checkpoint_path"], "epoch_finished", frame="pandas")
    assert epochs["epoch"].tolist() == [0, 1]
    assert (epochs["stats.loss"] > 0).all() and epochs["stats.count"].tolist()[0] > 3000
    assert len(model.metrics(frame="arrow")) > 32
    assert model.metrics("validated", frame="arrow").num_rows == 0
    for call in (pbg_host.metrics, lambda _, kind: model.metrics(kind)):
        with pytest.raises(pbg_host.UsageError, match="did you mean `epoch_finished`"):
            call(model.config["checkpoint_path"], "epoch_finish")
    with pytest.raises(pbg_host.CheckpointError):
        pbg_host.metrics("nowhere")


def test_a_report_has_page_and_trace(model: pbg_host.Model, tmp_path: Path) -> None:
    page, trace = tmp_path / "run.html", tmp_path / "run.trace.json"
    told = pbg_host.report(model.config["checkpoint_path"], html=page, trace=trace)
    assert [epoch["epoch"] for epoch in told["epochs"]] == [0, 1]
    assert dict(told["summary"])["dimension"] == str(model.config["dimension"])
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    spans = json.loads(trace.read_text())["traceEvents"]
    trained = [span for span in spans if span["name"].startswith("bucket (")]
    assert len(trained) == len(told["buckets"]) and trained[0]["dur"] > 0
    with pytest.raises(pbg_host.CheckpointError):
        pbg_host.report(tmp_path / "nowhere")


def test_a_folder_for_a_hub_is_a_model(model: pbg_host.Model, tmp_path: Path) -> None:
    written = model.export(tmp_path / "hub", "hub")
    assert all(path.is_file() for path in written)
    loaded = pbg_host.Model(tmp_path / "hub")
    np.testing.assert_array_equal(loaded.embeddings("all"), model.embeddings("all"))
    assert loaded.score("e1", "r0", "e2") == model.score("e1", "r0", "e2")
    assert loaded.predict(head="e1", relation="r0", k=3)
    card = (tmp_path / "hub/README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: pbg-host\n")
    with pytest.raises(pbg_host.UsageError, match="already exists"):
        model.export(tmp_path / "hub", "hub")


def test_models_become_one(keys: dict[str, Any], tmp_path: Path) -> None:
    pbg_host.import_edges(keys, edges={"train": edges(1000)})
    folders = [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(folders):
        own = {"checkpoint_path": folder, "seed": seed, "comparator": "dot"}
        versions_kept = {"num_epochs": 3, "checkpoint_preservation_interval": 1}
        pbg_host.train({**keys, **own, **versions_kept}, progress=False)
    mean = pbg_host.combine("average", folders[0], tmp_path / "mean", last=3)
    versions = [pbg_host.Model(folders[0] / f"epoch_{epoch}") for epoch in (1, 2, 3)]
    rows = [model.embeddings("all") for model in versions]
    found = mean.embeddings("all")
    np.testing.assert_allclose(found, np.mean(rows, axis=0), rtol=1e-4, atol=1e-6)

    both = pbg_host.combine("concatenate", folders, tmp_path / "both")
    edge = ("e1", "r0", "e2")
    expected = sum(pbg_host.Model(folder).score(*edge) for folder in folders)
    assert both.score(*edge) == pytest.approx(expected, rel=1e-4)

    with pytest.raises(pbg_host.UsageError, match="neither"):
        pbg_host.combine("sum", folders, tmp_path / "x")  # type: ignore[arg-type]
    with pytest.raises(pbg_host.UsageError, match="only one model"):
        pbg_host.combine("average", folders[0], tmp_path / "x")
    with pytest.raises(pbg_host.UsageError, match="one run"):
        pbg_host.combine("average", folders, tmp_path / "x", last=2)
    with pytest.raises(pbg_host.CheckpointError, match="has 3 preserved epochs"):
        pbg_host.combine("average", folders[0], tmp_path / "x", last=4)
    with pytest.raises(pbg_host.CheckpointError, match="already"):
        pbg_host.combine("average", folders, tmp_path / "both")
