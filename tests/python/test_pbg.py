"""Conversion of PyTorch-BigGraph's folders and back. The folders are made by hand; `test_pbg_itself.py` tests with PBG
1.0.0 itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pbg_host
import pytest
from conftest import edges

EDGES = {"train": edges(3000), "test": edges(150, 2)}
NAMES = [[f"e{at}" for at in range(200) if at % 2 == part] for part in range(2)]
RELATIONS = ["r2", "r0", "r1"]
DIM = 8

CONFIG = """
import os
BASE = "entities"
SIZE = os.cpu_count()

def get_torchbiggraph_config():
    sets = ["train", "test"]
    config = dict(
        entity_path=BASE,
        edge_paths=["edges/train", f"edges/{'test'}"],
        checkpoint_path="model",
        entities={"all": {"num_partitions": 2}},
        relations=RELATIONS,
        dimension=2 * 4,
        comparator="dot",
        loss_fn="softmax",
        num_epochs=1,
        workers=1,
        hogwild_delay=2,
    )
    config["lr"] = 0.1
    return config
"""


def folder_of(folder: Path, dynamic: bool) -> tuple[Path, dict[str, np.ndarray[Any, Any]]]:
    """Writes a graph and a model in PBG's formats; returns the configuration file and the numbers."""
    drawn = np.random.default_rng(5)
    for name in ("entities", "model", *(f"edges/{name}" for name in EDGES)):
        (folder / name).mkdir(parents=True)
    numbers: dict[str, np.ndarray[Any, Any]] = {}
    for part, names in enumerate(NAMES):
        (folder / f"entities/entity_names_all_{part}.json").write_text(json.dumps(names))
        (folder / f"entities/entity_count_all_{part}.txt").write_text(f"{len(names)}\n")
        rows = drawn.normal(size=(len(names), DIM)).astype("f4")
        numbers.update(zip(names, rows))
        with h5py.File(folder / f"model/embeddings_all_{part}.v3.h5", "w") as file:
            file.attrs["format_version"] = 1
            file["embeddings"] = rows
    if dynamic:
        (folder / "entities/dynamic_rel_names.json").write_text(json.dumps(RELATIONS))
        relations: list[dict[str, str]] = [{"name": "all", "operator": "diagonal"}]
        shapes: dict[str, tuple[int, ...]] = {f"relations/0/operator/{side}/diagonals": (3, DIM) for side in ("lhs", "rhs")}
    else:
        relations = [{"name": name, "operator": "translation"} for name in RELATIONS]
        shapes = {f"relations/{at}/operator/rhs/translation": (DIM,) for at in range(3)}
        shapes["entities/all/global_embedding"] = (DIM,)
    with h5py.File(folder / "model/model.v3.h5", "w") as file:
        for name, shape in shapes.items():
            numbers[name] = file[f"model/{name}"] = drawn.normal(size=shape).astype("f4")
    (folder / "model/checkpoint_version.txt").write_text("3\n")
    for name, found in EDGES.items():
        write_edges(folder / "edges" / name, found)
    given = [{**about, "lhs": "all", "rhs": "all"} for about in relations]
    text = CONFIG.replace("RELATIONS", repr(given))
    if dynamic:
        text = text.replace("workers=1", "workers=1, dynamic_relations=True, global_emb=False")
    (folder / "config.py").write_text(text)
    return folder / "config.py", numbers


def write_edges(folder: Path, found: list[tuple[str, str, str]]) -> None:
    where = {name: (part, row) for part, names in enumerate(NAMES) for row, name in enumerate(names)}
    buckets: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for left, relation, right in found:
        (i, lhs), (j, rhs) = where[left], where[right]
        buckets.setdefault((i, j), []).append((lhs, RELATIONS.index(relation), rhs))
    for (i, j), rows in buckets.items():
        with h5py.File(folder / f"edges_{i}_{j}.h5", "w") as file:
            file.attrs["format_version"] = 1
            for name, column in zip(("lhs", "rel", "rhs"), np.array(rows).T):
                file[name] = column


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_model_of_pbg_scores_as_there_and_goes_back(dynamic: bool, tmp_path: Path) -> None:
    file, numbers = folder_of(tmp_path / "theirs", dynamic)
    folders: dict[str, Any] = {"dataset": tmp_path / "data", "checkpoint_path": tmp_path / "model"}
    config = pbg_host.pbg.read(file, base=file.parent, edge_sets=list(EDGES), **folders)
    model = pbg_host.Model(config)

    def score(left: str, relation: str, right: str) -> float:
        at = RELATIONS.index(relation)
        if dynamic:
            scale = numbers["relations/0/operator/rhs/diagonals"][at]
            return float(numbers[left] @ (numbers[right] * scale))
        shift = numbers["entities/all/global_embedding"]
        moved = numbers[right] + shift + numbers[f"relations/{at}/operator/rhs/translation"]
        return float((numbers[left] + shift) @ moved)

    asked = EDGES["test"]
    assert model.score_all(asked).tolist() == pytest.approx([score(*edge) for edge in asked], abs=1e-4)
    assert model.evaluate("test", filter=["train", "test"])["filtered"]["count"] == len(asked)

    back = pbg_host.pbg.write(model, tmp_path / "back", edge_sets=["train", "test"])
    theirs = pbg_host.pbg.read_config(back)
    assert [Path(path).name for path in theirs["edge_paths"]] == ["train"], "PBG must not train on the test edges"
    assert theirs["global_emb"] is not dynamic
    operators = [about["operator"] for about in theirs["relations"]]
    assert operators == (["diagonal"] if dynamic else 3 * ["translation"])
    folders = {"dataset": tmp_path / "data2", "checkpoint_path": tmp_path / "model2"}
    written = {name: back.parent / "edges" / name for name in ("train", "test")}
    again = pbg_host.pbg.read(back, edge_sets=written, **folders)
    same = pbg_host.Model(again)
    np.testing.assert_array_equal(same.score_all(asked), model.score_all(asked))
    assert same.evaluate("test")["raw"] == pytest.approx(model.evaluate("test")["raw"])
    result = pbg_host.train(again, num_epochs=1, progress=False)
    assert result.finished and result.version > 1


def test_a_model_of_pbg_is_stored_as_the_keys_say_and_goes_back(tmp_path: Path) -> None:
    file, numbers = folder_of(tmp_path / "theirs", True)
    folders: dict[str, Any] = {"dataset": tmp_path / "data", "checkpoint_path": tmp_path / "model"}
    stored: dict[str, Any] = {"storage": "bf16", "optimizer": "adagrad"}
    config = pbg_host.pbg.read(file, base=file.parent, edge_sets=list(EDGES), **folders, **stored)
    model = pbg_host.Model(config)
    assert all(part.numbers.dtype == np.uint16 for part in model.partitions())
    for name, row in zip(model.names(), model.embeddings()):
        np.testing.assert_allclose(row, numbers[name], rtol=1 / 128)
    assert pbg_host.train(config, num_epochs=1, progress=False).finished
    model = pbg_host.Model(config)
    back = pbg_host.pbg.write(model, tmp_path / "back", edge_sets=["train", "test"])
    for number, part in enumerate(model.partitions()):
        path = next((back.parent / "model").glob(f"embeddings_all_{number}.v*.h5"))
        with h5py.File(path) as theirs:
            np.testing.assert_array_equal(theirs["embeddings"][...], part.rows)


def test_edge_sets_are_called_like_their_folders_or_by_position(tmp_path: Path) -> None:
    file, _ = folder_of(tmp_path, False)
    theirs = pbg_host.pbg.read_config(file)
    folders: dict[str, Any] = {"dataset": tmp_path / "data", "checkpoint_path": tmp_path / "ours"}
    assert [Path(path).name for path in theirs["edge_paths"]] == ["train", "test"]
    assert set(sets_of(pbg_host.pbg.read(file, base=tmp_path, **folders))) == {"train", "test"}
    (tmp_path / "edges/test").rename(tmp_path / "edges/others")
    theirs["edge_paths"][1] = theirs["edge_paths"][1].replace("test", "others")
    (tmp_path / "ours").rename(tmp_path / "before")
    assert set(sets_of(pbg_host.pbg.read(theirs, base=tmp_path, **folders))) == {"train", "valid"}
    with pytest.raises(pbg_host.errors.DataError, match="1 names for the 2 folders"):
        pbg_host.pbg.read(theirs, base=tmp_path, edge_sets=["train"], **folders)


def sets_of(config: pbg_host.Config) -> list[str]:
    manifest = json.loads((Path(str(config["dataset"])) / "manifest.json").read_text())
    return list(manifest["edge_sets"])


def test_a_graph_without_a_model_is_a_dataset(tmp_path: Path) -> None:
    file, _ = folder_of(tmp_path, False)
    (tmp_path / "model/checkpoint_version.txt").unlink()
    folders: dict[str, Any] = {"dataset": tmp_path / "data", "checkpoint_path": tmp_path / "ours"}
    config = pbg_host.pbg.read(file, base=tmp_path, num_epochs=1, **folders)
    assert config["edge_sets"] == ["train"] and not (tmp_path / "ours").exists()
    assert pbg_host.train(config).finished


def test_a_configuration_is_data(tmp_path: Path) -> None:
    file = tmp_path / "config.py"
    file.write_text(CONFIG.replace("RELATIONS", "[]"))
    config = pbg_host.pbg.read_config(file)
    assert config["dimension"] == 8 and config["lr"] == 0.1
    assert config["edge_paths"] == ["edges/train", "edges/test"]
    for wrong, said in (
        ("return dict(lr=open('/etc/passwd'))", "line 2.*cannot be read as data"),
        ("return [1]", "returns no dictionary"),
        ("return {", "never closed|invalid"),
        ("x = __import__('os')\n    return {}", "line 2"),
    ):
        file.write_text(f"def get_torchbiggraph_config():\n    {wrong}\n")
        with pytest.raises(pbg_host.ConfigError, match=said):
            pbg_host.pbg.read_config(file)


def test_keys_without_a_counterpart_are_told(tmp_path: Path) -> None:
    file, _ = folder_of(tmp_path, False)
    file.write_text(file.read_text().replace("hogwild_delay=2", "shiny=2"))
    folders: dict[str, Any] = {"dataset": tmp_path / "data", "checkpoint_path": tmp_path / "ours"}
    with pytest.warns(pbg_host.PbgWarning, match="shiny") as found:
        pbg_host.pbg.read(file, base=tmp_path, **folders)
    assert {Path(warning.filename).name for warning in found} == {"test_pbg.py"}
    with (
        pytest.warns(pbg_host.PbgWarning),
        pytest.raises(pbg_host.CheckpointError, match="already"),
    ):
        pbg_host.pbg.read(file, base=tmp_path, **folders)
