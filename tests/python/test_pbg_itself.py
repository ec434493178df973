"""Models trained by PyTorch-BigGraph 1.0.0, converted here and back. `cargo xtask wheel --test --pbg` installs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pbg_host
import pytest
from conftest import edges

PBG = os.environ.get("PBG_TEST_PBG")
pytestmark = pytest.mark.skipif(PBG is None, reason="PBG_TEST_PBG names no Python with torchbiggraph")

CONFIG = """
def get_torchbiggraph_config():
    return dict(
        entity_path={folder!r}, edge_paths=[{folder!r} + "/train", {folder!r} + "/test"],
        checkpoint_path={folder!r} + "/model", entities={{"all": {{"num_partitions": 1}}}},
        relations={relations!r}, dynamic_relations={dynamic!r}, global_emb=False,
        dimension=8, comparator="dot", loss_fn="softmax", lr=0.1, num_epochs=4, workers=1, eval_fraction=0,
    )
"""


def pbg(folder: Path, **asked: Any) -> float:
    """Runs PBG with these requests; returns its MRR."""
    file = folder / "asked.json"
    file.write_text(json.dumps(asked, default=str))
    command = [str(PBG), str(Path(__file__).with_name("pbg_itself.py")), str(file)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    (result,) = (line for line in run.stdout.splitlines() if line.startswith("RESULT "))
    return float(json.loads(result.removeprefix("RESULT "))["mrr"])


@pytest.mark.parametrize("operator", ["complex_diagonal", "translation"])
def test_a_model_that_pbg_trained_ranks_the_same_and_goes_back(operator: str, tmp_path: Path) -> None:
    dynamic = operator == "complex_diagonal"
    names = ["all"] if dynamic else ["r0", "r1", "r2"]
    relations = [{"name": name, "lhs": "all", "rhs": "all", "operator": operator} for name in names]
    theirs, ours, back = (tmp_path / name for name in ("theirs", "ours", "back"))
    theirs.mkdir()
    sets = {"train": edges(4000), "test": edges(300, 2)}
    files = []
    for name, found in sets.items():
        files.append(theirs / f"{name}.tsv")
        files[-1].write_text("".join("\t".join(edge) + "\n" for edge in found))
    config = theirs / "config.py"
    config.write_text(CONFIG.format(folder=str(theirs), relations=relations, dynamic=dynamic))
    paths = [theirs / name for name in sets]
    # PBG supports a filter only with a single relation.
    kind = {"filtered": dynamic}
    there = pbg(tmp_path, config=config, edge_paths=paths, edges=files, train=True, **kind)
    assert there > 0.1, "PBG must have learned the ring"

    folders: dict[str, Any] = {"dataset": ours / "data", "checkpoint_path": ours / "model"}
    model = pbg_host.Model(pbg_host.pbg.read(config, edge_sets=list(sets), **folders))

    def mrr(model: pbg_host.Model) -> float:
        return float(model.evaluate("test", filter=list(sets))["filtered" if dynamic else "raw"]["mrr"])

    assert mrr(model) == pytest.approx(there, abs=1e-4)

    written = pbg_host.pbg.write(model, back, edge_sets=list(sets))
    keys = pbg_host.pbg.read_config(written)
    assert keys["edge_paths"] == [str(back / "edges/train")]
    paths = [back / "edges" / name for name in sets]
    same = pbg(back, config=written, edge_paths=paths, train=False, **kind)
    assert same == pytest.approx(there, abs=1e-4)
    on = pbg(back, config=written, edge_paths=paths, train=True, **kind, keys={"num_epochs": keys["num_epochs"] + 1})
    again = pbg_host.pbg.read(
        written, edge_sets=dict(zip(sets, paths)), dataset=tmp_path / "data2", checkpoint_path=tmp_path / "model2"
    )
    assert mrr(pbg_host.Model(again)) == pytest.approx(on, abs=1e-4)


def test_a_model_of_a_preset_is_one_that_pbg_trains_on(tmp_path: Path) -> None:
    config = pbg_host.Config(
        pbg_host.Config.preset("complex"), dimension=16, num_epochs=3, workers=1, global_emb=None,
        dataset=tmp_path / "data", checkpoint_path=tmp_path / "model",
    )  # fmt: skip
    assert config["regularization_coef"] and config["dynamic_relations"] and config["global_emb"] is None
    sets = {"train": edges(4000), "test": edges(300, 2)}
    pbg_host.import_edges(config, edges=sets)
    pbg_host.train(config, progress=False)
    model, back = pbg_host.Model(config), tmp_path / "back"
    with pytest.warns(pbg_host.errors.PbgWarning, match="regularization_coef"):
        written = pbg_host.pbg.write(model, back, edge_sets=["test"])
    paths = [back / "edges" / name for name in sets]
    here = model.evaluate("test", filter=list(sets))["filtered"]["mrr"]
    assert pbg(back, config=written, edge_paths=paths, train=False, filtered=True) == pytest.approx(here, abs=1e-4)
    assert pbg(back, config=written, edge_paths=paths, train=True, filtered=True) > 0.1
