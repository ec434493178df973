"""Small graph and configurations for the tests of the Python package."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pbg_host
import pytest

Keys = dict[str, Any]


def edges(count: int, seed: int = 1) -> list[tuple[str, str, str]]:
    """Returns edges of a ring with shortcuts, most of which join near entities."""
    drawn = random.Random(seed)
    found = []
    for _ in range(count):
        left = drawn.randrange(200)
        found.append((f"e{left}", f"r{drawn.randrange(3)}", f"e{(left + drawn.randrange(5)) % 200}"))
    return found


def keys_in(folder: Path) -> Keys:
    """Returns a configuration whose dataset and checkpoint are in `folder`."""
    return {
        "dataset": folder / "data",
        "checkpoint_path": folder / "model",
        "dimension": 8,
        "entities": {"all": {"num_partitions": 4}},
        "relations": [{"name": "*", "lhs": "all", "rhs": "all", "operator": "translation"}],
        "num_epochs": 2,
        "workers": 1,
    }


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return keys_in(tmp_path)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pbg_host.Config:
    """Returns a configuration whose model is trained."""
    config = pbg_host.Config(keys_in(tmp_path_factory.mktemp("trained")))
    pbg_host.import_edges(config, edges={"train": edges(4000), "test": edges(200, 2)})
    assert pbg_host.train(config, progress=False).finished
    return config
