"""The recipes for vector stores do what docs/recipes.md says, with the packages themselves.

`PBG_TEST_RECIPES=in_lancedb,in_pgvector` adds the stores that the test command does not install; the latter needs
`PBG_TEST_POSTGRES`, the URL of a database.
"""

from __future__ import annotations

import importlib.util
import os
import re
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
    """Lets recipes import what is in their folder, as when they are started there."""
    monkeypatch.syspath_prepend(str(RECIPES))


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


def test_the_document_has_every_recipe_and_package() -> None:
    document = (RECIPES.parents[2] / "docs/recipes.md").read_text(encoding="utf-8")
    for path in RECIPES.iterdir():
        if path.suffix == ".py":
            assert f"(../examples/python/recipes/{path.name})" in document, path.name
            text = path.read_text(encoding="utf-8")
            for package in re.findall(r"pip install '?([a-z-]+)", text):
                assert f"| `{package}` | " in document, package
