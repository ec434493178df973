"""Configurations from files, dictionaries and keyword arguments, with the program's errors."""

from __future__ import annotations

import copy
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pbg_host
import pytest
from conftest import Keys, edges


def test_without_a_name_it_is_that_of_the_working_folder(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pbg_host.ConfigError, match="the working folder has no pbg.toml") as raised:
        pbg_host.train()
    assert "pbg-host train" not in str(raised.value)
    (tmp_path / "pbg.toml").write_text(pbg_host.Config(keys).to_toml())
    assert pbg_host.Config() == pbg_host.Config("pbg.toml") == pbg_host.Config(keys)
    assert pbg_host.Config(num_epochs=7)["num_epochs"] == 7
    assert pbg_host.Config(**{**keys, "dimension": 12})["dimension"] == 12
    pbg_host.import_edges(edges={"train": edges(500)})
    assert pbg_host.train(num_epochs=1).finished
    assert pbg_host.Model().config["num_epochs"] == 2
    with pytest.raises(pbg_host.ConfigError, match="dimension: missing|dimension"):
        pbg_host.Config(entities=keys["entities"])


def test_other_things_are_no_configuration() -> None:
    calls: list[Any] = [pbg_host.train, pbg_host.Model, pbg_host.check, pbg_host.evaluate, pbg_host.Config]
    for call in calls:
        with pytest.raises(pbg_host.UsageError, match="must be the path of a file, .* not 5"):
            call(5)


def test_it_is_pickled_and_copied(keys: Keys) -> None:
    config = pbg_host.Config(keys)
    for other in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert isinstance(other, pbg_host.Config) and other == config
        assert other.to_toml() == config.to_toml()


def test_sources_make_the_same_configuration(keys: Keys, tmp_path: Path) -> None:
    config = pbg_host.Config(keys, lr=0.5)
    file = tmp_path / "pbg.toml"
    file.write_text(pbg_host.Config(keys).to_toml())
    for same in (
        pbg_host.Config(file, lr=0.5),
        pbg_host.Config(str(file), lr=np.float32(0.5)),
        pbg_host.Config({**keys, "lr": 0.5}),
        pbg_host.Config(config),
        pbg_host.Config(pbg_host.Config(keys), lr=0.5),
    ):
        assert same.to_dict() == config.to_dict()
    assert config["lr"] == 0.5 and "lr" in config and len(config) == len(list(config))


def test_keys_change_tables_key_by_key(keys: Keys) -> None:
    config = pbg_host.Config(keys, execution={"prefetch": False})
    config = pbg_host.Config(config, **{"execution.buckets_ahead": 0, "validation": {"limit": 7}})
    assert config["execution"]["prefetch"] is False
    assert config["execution"]["buckets_ahead"] == 0
    assert config["validation"]["limit"] == 7
    config = pbg_host.Config(config, **{"entities.all.num_partitions": 2, "validation.limit": None})
    assert config["entities"]["all"]["num_partitions"] == 2
    assert config["validation"]["limit"] is None
    config = pbg_host.Config(config, plugins={"params": {"beta": {"assignment": "random"}}})
    assert config["plugins"]["params"]["beta"] == {"assignment": "random"}


def test_presets_start_a_configuration(tmp_path: Path) -> None:
    config = pbg_host.Config(pbg_host.Config.preset("complex"), dataset=tmp_path, dimension=10)
    assert config["relations"][0]["operator"] == "complex_diagonal"
    assert config["dataset"] == str(tmp_path)
    with pytest.raises(pbg_host.UsageError, match="transe, rotate, small, pbg"):
        pbg_host.Config.preset("nope")
    with pytest.raises(pbg_host.UsageError, match="did you mean `complex`"):
        pbg_host.Config.preset("ComplEx")
    assert pbg_host.Config.preset("rotate")["relations"][0]["operator"] == "rotate"


def test_everything_that_is_wrong_is_told_as_the_program_does(keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(pbg_host.ConfigError) as raised:
        pbg_host.Config(keys, lr="much", nope=1, relations=[{"name": "*", "lhs": "al", "rhs": "all"}])
    error = raised.value
    assert [problem.path for problem in error.problems] == ["lr", "nope", "relations.0.lhs"]
    assert error.exit_code == 3 and isinstance(error, ValueError)
    assert "--set" not in str(error)
    file = tmp_path / "wrong.toml"
    file.write_text("lr = 'much'\n")
    program = subprocess.run(["pbg-host", "check", file], capture_output=True, text=True, check=False)
    with pytest.raises(pbg_host.ConfigError) as raised:
        pbg_host.Config(file)
    assert program.returncode == 3
    told = raised.value.message.splitlines()
    assert [line.strip() for line in program.stderr.splitlines()][: len(told)] == [
        f"error: {told[0]}",
        *(line.strip() for line in told[1:]),
    ]
    assert raised.value.problems[0].line == 1


def test_what_is_no_configuration_is_refused(keys: Keys, tmp_path: Path) -> None:
    for wrong in (object(), float("nan")):
        with pytest.raises(pbg_host.PbgError):
            pbg_host.Config(keys, lr=wrong)
    with pytest.raises(pbg_host.ConfigError, match="cannot read"):
        pbg_host.Config(tmp_path / "none.toml")
    with pytest.raises(pbg_host.ConfigError):
        pbg_host.Config({})
