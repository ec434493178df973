"""The recipe for Optuna searches, prunes and resumes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import optuna
import pbg_host
import pytest
from conftest import Keys, edges

RECIPE = Path(__file__).parents[2] / "examples/python/search.py"


def recipe() -> Any:
    spec = importlib.util.spec_from_file_location("search", RECIPE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_search_goes_on(keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pbg_host.import_edges(keys, edges={"train": edges(2000), "valid": edges(100, 2)})
    file = tmp_path / "pbg.toml"
    keys["validation"] = {"edges": "valid"}
    file.write_text(pbg_host.Config(keys).to_toml())
    search = recipe()
    train, calls = pbg_host.train, 0

    def interrupted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            train(*given, **{**named, "on_event": lambda event: event.kind != "epoch_finished"})
            raise KeyboardInterrupt
        return train(*given, **named)

    monkeypatch.setattr(pbg_host, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.main([str(file), "--trials", "3"])
    study = search.main([str(file), "--trials", "3"])
    kinds = [trial.state.name for trial in study.trials]
    assert kinds.count("COMPLETE") + kinds.count("PRUNED") == 3, kinds
    assert 0 < study.best_value < 1
    # The interrupted trial was resumed: there are no more checkpoints than trials.
    assert len([path for path in (tmp_path / "search").iterdir() if path.is_dir()]) == 3
