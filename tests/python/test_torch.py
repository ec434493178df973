"""libtorch comes with the installed PyTorch, of a version that has a bridge. Stand-ins have its libraries and its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pbg_host
import pytest
from conftest import Keys, edges
from packaging.requirements import Requirement
from pbg_host import _load

LIBTORCH = os.environ.get("PBG_TEST_LIBTORCH")
BF16 = any(flag in Path("/proc/cpuinfo").read_text() for flag in (" avx512_bf16", " amx_bf16"))


def stand_in(folder: Path, version: str) -> dict[str, str]:
    """Returns an environment that looks like an installation of PyTorch `version`, with libtorch only."""
    about = folder / f"torch-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    (folder / "torch").mkdir()
    (folder / "torch/__init__.py").write_text("raise ImportError('nobody needs the Python of it')\n")
    (folder / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    if LIBTORCH is not None:
        (folder / "torch/lib").mkdir()
        for library in Path(LIBTORCH).iterdir():
            (folder / "torch/lib" / library.name).symlink_to(library)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(keys: Keys, environment: dict[str, str]) -> list[tuple[int, str]]:
    """Trains in half precision with the program and with the package; returns how both end."""
    file = Path(keys["dataset"]).with_name("pbg.toml")
    file.write_text(pbg_host.Config(keys).to_toml())
    half = "execution.precision=bf16"
    text = "import sys, pbg_host\ntry: pbg_host.train(sys.argv[1], execution={'precision': 'bf16'})\n"
    text += "except pbg_host.PbgError as error: print(error, file=sys.stderr); sys.exit(error.exit_code)"
    ends = []
    for command in (
        ["pbg-host", "train", str(file), "--set", half],
        [sys.executable, "-c", text, str(file)],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        ends.append((done.returncode, done.stderr))
    return ends


@pytest.fixture
def graph(keys: Keys) -> Keys:
    pbg_host.import_edges(keys, edges={"train": edges(1000)})
    return keys


def test_without_pytorch_it_is_asked_for(graph: Keys) -> None:
    for code, said in run(graph, dict(os.environ)):
        assert code == 8 and "pip install 'torch==2.11.*'" in said, said


def test_pip_understands_the_requirement() -> None:
    several, words = _load.torch_requirement([(2, 9), (2, 10), (2, 15)])
    assert words == "versions 2.9 to 2.15"
    specifier = Requirement(several).specifier
    for version, fits in (("2.8.0", False), ("2.9.1", True), ("2.15.3+cu130", True), ("2.16.0", False)):
        assert specifier.contains(version) == fits, version
    one, _ = _load.torch_requirement([(2, 11)])
    assert Requirement(one).specifier.contains("2.11.0")


def test_another_version_is_refused(graph: Keys, tmp_path: Path) -> None:
    for version in ("2.8.0+cpu", "2.11.0a0+git1b2c"):
        for code, said in run(graph, stand_in(tmp_path / version, version)):
            assert code == 8 and "can use version 2.11" in said and f"{version} is installed" in said, said


@pytest.mark.skipif(LIBTORCH is None, reason="no libtorch is named")
def test_libtorch_of_the_installed_pytorch_trains(graph: Keys, tmp_path: Path) -> None:
    for code, said in run(graph, stand_in(tmp_path / "same", "2.11.0+cpu")):
        if BF16:
            assert code == 0, said
        else:
            assert code != 0 and "bf16" in said, said


def test_who_needs_it_is_named(graph: Keys) -> None:
    file = Path(graph["dataset"]).with_name("pbg.toml")
    file.write_text(pbg_host.Config(graph).to_toml())
    done = subprocess.run(
        ["pbg-host", "bench", "train", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 8 and "pip install 'torch==2.11.*'" in done.stderr
    assert "a comparison with libtorch's own matrix product needs libtorch" in done.stderr, done.stderr
