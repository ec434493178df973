"""`pbg-host-torch`: starts the program with the libtorch of the installed PyTorch, for half precision and GPUs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ._load import torch_folder
from .errors import PbgError


def main() -> None:
    """Replaces this process by the program; exits with an error if PyTorch of the right version is not installed."""
    asked: dict[str, str] = {}
    # `pbg-host`, which started this script, names its reason in these variables.
    if (needed := os.environ.get("PBG_HOST_LIBTORCH_FOR")) is not None:
        asked["needed"] = f"{needed} needs"
    if (without := os.environ.get("PBG_HOST_WITHOUT_LIBTORCH")) is not None:
        asked["without"] = without
    try:
        folder = torch_folder(**asked)
    except PbgError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    libraries = os.environ.get("LD_LIBRARY_PATH")
    joined = str(folder) if not libraries else f"{folder}:{libraries}"
    program = Path(__file__).with_name("_bin") / "pbg-host-torch"
    environment = {**os.environ, "LD_LIBRARY_PATH": joined}
    os.execve(program, [sys.argv[0], *sys.argv[1:]], environment)
