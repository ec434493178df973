"""Ranks among listed candidates, missing edges and probabilities, compared with the answers of the program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pbg_host
import pytest
from conftest import edges
from test_model import program


@pytest.fixture(scope="module")
def model(trained: pbg_host.Config) -> pbg_host.Model:
    return pbg_host.Model(trained["checkpoint_path"])


def listed() -> list[tuple[str, str, str, Any, list[str]]]:
    """Returns edges, every other one with candidates for its head."""
    sides = ("head", "tail")
    found = []
    for at, (head, relation, tail) in enumerate(edges(60, 2)):
        names = [f"e{(7 * at + 3 * step) % 200}" for step in range(1 + at % 20)]
        found.append((head, relation, tail, sides[at % 2], names))
    return found


def test_ranks_among_listed_candidates_are_those_of_the_program(
    model: pbg_host.Model, tmp_path: Path
) -> None:
    file = tmp_path / "candidates.tsv"
    lines = ["\t".join([*edge, *names]) for *edge, names in listed()]
    file.write_text("\n".join(lines) + "\n")
    folder = model.config["checkpoint_path"]
    ranked = program("eval", folder, "--candidates", file, "--json")
    for given in (file, str(file), listed(), iter(listed())):
        report = model.evaluate(candidates=given)
        assert {**report, "seconds": 0} == {**ranked, "seconds": 0}
    assert report["candidates"] == sum(len(names) for *_, names in listed())
    assert 0 < report["raw"]["mrr"] < 1
    # The rank of one edge, counted here.
    head, relation, tail, _, names = listed()[21]
    [own, *others] = model.score_all([(head, relation, of) for of in [tail, *names]])
    [above, equal] = [(others > own).sum(), (np.asarray(others) == own).sum()]
    alone = model.evaluate(candidates=[(head, relation, tail, "tail", names)])
    assert alone["raw"]["mean_rank"] == pytest.approx(1 + above + equal / 2)


def test_what_is_wrong_with_listed_candidates_is_told(
    model: pbg_host.Model, tmp_path: Path
) -> None:
    def of_file(text: str) -> Path:
        file = tmp_path / "wrong.tsv"
        file.write_text(text)
        return file

    good: Any = ("e1", "r0", "e2", "tail", ["e3"])
    line = "e1\tr0\te2\ttail\te3\n"
    calls: list[tuple[Any, type[pbg_host.PbgError], str]] = [
        ([good, ("e1", "r0", "e2", "tail", ["nope"])], pbg_host.DataError, r"candidates\[1\].*\n?.*nope"),
        ([good, ("e1", "r9", "e2", "tail", ["e3"])], pbg_host.DataError, r"candidates\[1\](.|\n)*r9"),
        ([("e1", "r0", "e2", ["e3"])], pbg_host.UsageError, r"candidates\[0\]: expected a tuple"),
        ([("e1", "r0", "e2", "left", ["e3"])], pbg_host.UsageError, "instead of 'head' or 'tail'"),
        ([("e1", "r0", "e2", "tail", "e3")], pbg_host.UsageError, "instead of a list of names"),
        ([("e1", "r0", "e2", "tail", [])], pbg_host.UsageError, r"candidates\[0\]: has no candidates"),
        ([], pbg_host.UsageError, "no edges to rank"),
        (3.5, pbg_host.UsageError, "expected a number, a file or an iterable"),
        (tmp_path / "none.tsv", pbg_host.DataError, "cannot read .*none.tsv"),
        (of_file(f"{line}\n{line}e1\tr0\te2\n"), pbg_host.DataError, "wrong.tsv, line 4: has 3 columns"),
    ]
    for given, kind, said in calls:
        with pytest.raises(kind, match=said):
            model.evaluate(candidates=given)
    with pytest.raises(pbg_host.DataError, match=r"wrong.tsv, line 3(.|\n)*e999"):
        model.evaluate(candidates=of_file(f"{line}\ne1\tr0\te2\thead\te999\n"))
    for options in ({"filter": ["test"]}, {"limit": 3}, {"by": "relation"}, {"seen": True}):
        with pytest.raises(pbg_host.UsageError, match="cannot be combined with listed candidates"):
            model.evaluate(candidates=[good], **options)
    with pytest.raises(pbg_host.UsageError, match="edges: cannot be combined"):
        model.evaluate("test", candidates=[good])

    def fails() -> Any:
        yield good
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        model.evaluate(candidates=fails())


def test_missing_edges_are_those_of_the_program(model: pbg_host.Model) -> None:
    def of_program(*options: str) -> list[dict[str, Any]]:
        command = ["pbg-host", "predict", model.config["checkpoint_path"], "--missing", "--json"]
        said = subprocess.run([*command, *options], capture_output=True, check=True, text=True)
        return [json.loads(line) for line in said.stdout.splitlines()]

    for expected, found in (
        (of_program("-k", "7"), model.missing(k=7)),
        (of_program("-k", "3", "--per-relation"), model.missing(k=3, per_relation=True)),
        (
            of_program("-k", "4", "--relation", "r1", "--unfiltered", "--no-loops"),
            model.missing(k=4, relation="r1", filter=[], loops=False),
        ),
    ):
        edges_of = [(row["head"], row["relation"], row["tail"]) for row in expected]
        assert len(found) == len(expected) and list(found) == edges_of
        assert found.ranks.tolist() == [row["rank"] for row in expected]
        assert found.scores.tolist() == pytest.approx([row["score"] for row in expected])
    known = set(edges(4000)) | set(edges(200, 2))
    best = model.missing(k=50)
    assert not known & set(best)
    assert model.score_all(best).tolist() == pytest.approx(best.scores.tolist())
    table = best.to_frame("pandas")
    assert list(table.columns) == ["rank", "score", "head", "relation", "tail"] and len(table) == 50
    with pytest.raises(pbg_host.UsageError, match="120000 pairs, more than the 1000") as refused:
        model.missing(most_pairs=1000)
    assert "most_pairs=120000" in str(refused.value)
    with pytest.raises(pbg_host.DataError, match="r9"):
        model.missing(relation="r9")
    with pytest.raises(pbg_host.UsageError, match="per_relation"):
        model.missing(relation="r1", per_relation=True)


def test_probabilities_are_those_of_the_program(keys: dict[str, Any]) -> None:
    sets = {"train": edges(3000), "valid": edges(200, 3), "test": edges(200, 2)}
    pbg_host.import_edges(keys, edges=sets)
    pbg_host.train(keys, progress=False)
    model = pbg_host.Model(keys["checkpoint_path"])
    for call in (model.calibration, lambda: model.probability("e1", "r0", "e2")):
        with pytest.raises(pbg_host.CheckpointError, match=r"there is none; `model.calibrate\(...\)` makes"):
            call()
    report = model.calibrate()
    assert report["edges"] == "valid" and report["positives"] == 200
    assert 190 < report["negatives"] <= 200
    assert 0 < report["brier"] < 0.3 and len(report["reliability"]) > 1
    assert model.calibration() == report
    folder = keys["checkpoint_path"]
    asked = ("predict", folder, "--head", "e1", "--relation", "r0", "--probability", "--json")
    answers = program(*asked, "-k", "5")["answers"]
    found = model.predict(head="e1", relation="r0", k=5, probability=True)
    assert found.probabilities is not None
    assert found.probabilities.tolist() == pytest.approx([best["probability"] for best in answers])
    assert list(found.to_frame("pandas").columns) == ["name", "score", "probability"]
    assert model.predict(head="e1", relation="r0").probabilities is None
    lines = "".join("\t".join(edge) + "\n" for edge in edges(20, 2))
    command = ["pbg-host", "score", str(folder), "--probability"]
    said = subprocess.run(command, input=lines, capture_output=True, check=True, text=True).stdout
    expected = [float(line.split("\t")[1]) for line in said.splitlines()]
    assert model.probability_all(edges(20, 2)).tolist() == pytest.approx(expected, abs=1e-4)
    assert model.probability(*edges(1, 2)[0]) == pytest.approx(expected[0], abs=1e-4)
    rare = model.calibrate("valid", negatives=9, limit=50)
    assert rare["positives"] == 50 and rare["negatives"] == pytest.approx(450, abs=15)
    with pytest.warns(pbg_host.PbgWarning, match="edge set train is trained"):
        model.calibrate("train", limit=50)
    with pytest.raises(pbg_host.UsageError, match="negatives: expected a whole number"):
        model.calibrate(negatives=0)
    with pytest.raises(pbg_host.DataError, match="no edge set `nope`"):
        model.calibrate("nope")
    # More training makes the curves invalid.
    pbg_host.train(keys, num_epochs=3, progress=False)
    with pytest.raises(pbg_host.CheckpointError, match="since which the model was trained"):
        model.probability("e1", "r0", "e2")


def test_edges_at_hand_are_ranked_as_an_edge_set(model: pbg_host.Model) -> None:
    of_set = model.evaluate("test", by="relation")
    tuples = edges(200, 2)
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*tuples))))
    for given in (tuples, iter(tuples), columns, pandas.DataFrame(columns)):
        report = model.evaluate(given, by="relation")
        for ranks in ("raw", "raw_lhs", "filtered", "filtered_rhs"):
            assert report[ranks] == pytest.approx(of_set[ranks])
        assert [row["name"] for row in report["by"]] == [row["name"] for row in of_set["by"]]
    # An edge that the dataset lacks; its other answers are filtered out.
    best = model.predict(head="e5", relation="r2", k=1)
    assert model.evaluate([("e5", "r2", best.names[0])])["filtered_rhs"]["mean_rank"] == 1.0
    assert pbg_host.evaluate(model.config, tuples, filter=[])["raw"] == pytest.approx(of_set["raw"])
    with pytest.raises(pbg_host.DataError, match=r"edge 2\n.*no entity `nope`"):
        model.evaluate([("e1", "r0", "e2"), ("e1", "r0", "nope")])
    with pytest.raises(pbg_host.DataError, match=r"edge 2\n.*no relation `r9`"):
        model.evaluate([("e1", "r0", "e2"), ("e1", "r9", "e2")])
    with pytest.raises(pbg_host.UsageError, match="no edges to rank"):
        model.evaluate([])
    with pytest.raises(pbg_host.UsageError, match="limit: applies to edge sets"):
        model.evaluate(tuples, limit=5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_vector_of_a_question_gives_its_scores(keys: dict[str, Any], dynamic: bool) -> None:
    relation = {**keys["relations"][0], "operator": "complex_diagonal", "name": "all" if dynamic else "*"}
    keys.update(comparator="dot", relations=[relation], dynamic_relations=dynamic)
    pbg_host.import_edges(keys, edges={"train": edges(2000)})
    pbg_host.train(keys, progress=False)
    model = pbg_host.Model(keys)
    assert model.relations() == sorted(model.relations()) == ["r0", "r1", "r2"]
    embeddings, names = model.embeddings().astype("f8"), model.names()

    def scores(vector: Any) -> dict[str, float]:
        return dict(zip(names, (embeddings @ vector).tolist()))

    found = scores(model.query_vector(relation="r1", tail="e3"))
    assert dict(model.predict(relation="r1", tail="e3", k=200, filter=[])) == pytest.approx(found, abs=1e-5)
    # The same, from the parameters of the operator.
    def turned(known: str, asked: Any) -> Any:
        parameters = model.operator("r1", asked)
        assert set(parameters) == {"real", "imag"}
        row = embeddings[names.index(known)]
        by = parameters["real"] + 1j * parameters["imag"]
        product = (row[:4] + 1j * row[4:]) * by
        return np.concatenate([product.real, product.imag])

    assert found == pytest.approx(scores(turned("e3", "head")), abs=1e-4)
    vector = model.query_vector(head="e3", relation="r1")
    expected = turned("e3", "tail") if dynamic else embeddings[names.index("e3")]
    assert vector == pytest.approx(expected, abs=1e-4)
    if dynamic:
        answers = dict(model.predict(head="e3", relation="r1", k=200, filter=[]))
        assert answers == pytest.approx(scores(vector), abs=1e-5)
    for wrong in ({"relation": "r1"}, {"head": "e1", "relation": "r1", "tail": "e2"}):
        with pytest.raises(pbg_host.UsageError, match="name the head or the tail"):
            model.query_vector(**wrong)
    with pytest.raises(pbg_host.DataError, match="no relation 'r'\n.*did you mean 'r"):
        model.operator("r")


def test_exports_and_maps_are_those_of_the_program(model: pbg_host.Model, tmp_path: Path) -> None:
    folder = model.config["checkpoint_path"]

    def run(*arguments: object) -> None:
        subprocess.run(["pbg-host", *map(str, arguments)], capture_output=True, check=True)

    for format in ("npy", "tsv"):
        run("export", folder, "--format", format, "--out", tmp_path / f"program_{format}")
        written = model.export(tmp_path / format, format)
        others = sorted((tmp_path / f"program_{format}").iterdir())
        assert sorted(path.name for path in written) == [path.name for path in others]
        for path in others:
            assert (tmp_path / format / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(pbg_host.UsageError, match="already exists.*`overwrite=True`"):
        model.export(tmp_path / "npy")
    assert model.export(tmp_path / "npy", overwrite=True)
    with pytest.raises(pbg_host.UsageError, match="unknown format `csv`"):
        model.export(tmp_path / "csv", "csv")  # type: ignore[arg-type]
    run("map", folder, "--count", 30, "--csv", tmp_path / "map.csv", "--html", tmp_path / "map.html")
    points = model.map(count=30, html=tmp_path / "own.html", frame="pandas")
    expected = pandas.read_csv(tmp_path / "map.csv")
    assert list(points["name"]) == list(expected["name"])
    assert list(points["group"]) == list(expected["group"])
    assert points[["x", "y"]].to_numpy() == pytest.approx(expected[["x", "y"]].to_numpy(), abs=1e-3)
    assert (tmp_path / "own.html").read_text() == (tmp_path / "map.html").read_text()
    grouped = model.map({"e1": "odd", "e2": "even", "e3": "odd"}, frame="pandas")
    assert list(grouped["group"]) == ["odd", "even", "odd"]
    for wrong, kind, said in (
        (["e1"], pbg_host.UsageError, "at least 2 entities, not 1"),
        (["e1", "nope"], pbg_host.DataError, "no entity `nope`"),
        ("e1", pbg_host.UsageError, "expected a list of names"),
    ):
        with pytest.raises(kind, match=said):
            model.map(wrong)
    with pytest.raises(pbg_host.UsageError, match="at most 3000 entities, not 4000"):
        model.map(count=4000)
