"""The example notebooks run to their ends, and their stored outputs match."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(path.stem for path in EXAMPLES.glob("notebooks/*.ipynb"))


def notebook(name: str) -> Any:
    path = EXAMPLES / f"notebooks/{name}.ipynb"
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def code_of(found: Any) -> list[Any]:
    return [cell for cell in found.cells if cell.cell_type == "code"]


def test_there_are_three() -> None:
    assert NOTEBOOKS == ["first_graph", "from_pbg", "own_order"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "wordnet").symlink_to(EXAMPLES / "wordnet")
    found = notebook(name)
    stored = code_of(notebook(name))
    folder = {"metadata": {"path": str(tmp_path / "notebooks")}}
    NotebookClient(found, timeout=300, kernel_name="python3", resources=folder).execute()
    for ran, kept in zip(code_of(found), stored):
        assert kinds(ran) == kinds(kept), f"the stored outputs do not match the cell:\n{kept.source}"
        warned = [output for output in ran.outputs if output.get("name") == "stderr"]
        assert not warned, warned


def kinds(cell: Any) -> list[tuple[str, ...]]:
    """Returns the kinds of a cell's outputs: text, tables, figures."""
    return [(output.output_type, *sorted(output.get("data", ()))) for output in cell.outputs]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_is_stored_is_of_one_run_and_of_no_machine(name: str) -> None:
    cells = code_of(notebook(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    text = str([output for cell in cells for output in cell.outputs])
    found = re.findall(r"/(?:home|root|tmp|work|usr|opt|var|mnt)/\S*", text.replace("'work/", "'"))
    assert not found, found
