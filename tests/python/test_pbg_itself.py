"""What PyTorch-BigGraph 1.0.0 itself has trained, here and back. `cargo xtask wheel --test --pbg` installs it."""

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
    """The MRR by PBG, after it was asked for something."""
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
    # PBG ranks with a filter where all relations are one.
    kind = {"filtered": dynamic}
    there = pbg(tmp_path, config=config, edge_paths=paths, edges=files, train=True, **kind)
    assert there > 0.1, "it has learned the ring"

    folders: dict[str, Any] = {"dataset": ours / "data", "checkpoint_path": ours / "model"}
    model = pbg_host.Model(pbg_host.pbg.read(config, edge_sets=list(sets), **folders))

    def mrr(model: pbg_host.Model) -> float:
        return float(model.evaluate("test", filter=list(sets))["filtered" if dynamic else "raw"]["mrr"])

    assert mrr(model) == pytest.approx(there, abs=1e-4)

    written = pbg_host.pbg.write(model, back, edge_sets=list(sets))
    keys = pbg_host.pbg.read_config(written)
    assert [Path(path).name for path in keys["edge_paths"]] == list(sets)
    paths = [Path(path) if Path(path).is_absolute() else back / path for path in keys["edge_paths"]]
    same = pbg(back, config=written, edge_paths=paths, train=False, **kind)
    assert same == pytest.approx(there, abs=1e-4)
    on = pbg(back, config=written, edge_paths=paths, train=True, **kind, keys={"num_epochs": keys["num_epochs"] + 1})
    again = pbg_host.pbg.read(
        written, edge_sets=list(sets), dataset=tmp_path / "data2", checkpoint_path=tmp_path / "model2"
    )
    assert mrr(pbg_host.Model(again)) == pytest.approx(on, abs=1e-4)
