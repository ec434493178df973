"""Descriptions of datasets, and entities and relations of held-out edges that no trained edge has."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pbg_host
import pytest
from conftest import Keys, edges

UNSEEN = {"edges": 2, "entities": 1, "relations": 1}


@pytest.fixture
def config(keys: Keys) -> pbg_host.Config:
    return pbg_host.Config(keys)


def imported(config: pbg_host.Config) -> dict[str, Any]:
    test = [*edges(20, 2), ("e1", "r1", "stranger"), ("e1", "unheard", "e2")]
    return pbg_host.import_edges(config, edges={"train": edges(4000), "test": test})


def test_a_description_is_that_of_the_program(config: pbg_host.Config, tmp_path: Path) -> None:
    report = imported(config)
    assert report["unseen"] == {"test": UNSEEN}
    assert report["shared_names"] == {"count": 0, "examples": []}
    found = pbg_host.describe(config, threads=1)
    written = tmp_path / "described.toml"
    written.write_text(config.to_toml(), encoding="utf-8")
    command = ["pbg-host", "describe", str(written), "--json"]
    printed = subprocess.run(command, capture_output=True, check=True)
    assert found == json.loads(printed.stdout)
    train, test = found["edge_sets"]
    assert (train["name"], train["edges"], test["unseen"]) == ("train", 4000, UNSEEN)
    assert found["components"]["count"] == 1


def test_ranks_without_what_was_not_trained(config: pbg_host.Config) -> None:
    imported(config)
    pbg_host.train(config, progress=False)
    model = pbg_host.Model(config)
    ranked, seen = model.evaluate("test"), model.evaluate("test", seen=True)
    assert ranked["unseen"] == seen["unseen"] == UNSEEN
    assert (ranked["raw"]["count"], seen["raw"]["count"]) == (22, 20)
    assert seen["without_trained_edge"] == 2


def test_what_cannot_be_described_is_told(config: pbg_host.Config) -> None:
    with pytest.raises(pbg_host.DataError, match="is not a dataset"):
        pbg_host.describe(config)
    imported(config)
    with pytest.raises(pbg_host.SystemRefusedError, match="MiB"):
        pbg_host.describe(config, memory=1 << 20)
