"""`pbg-host-torch`: what `pbg-host` becomes for half precision and GPUs, with the libtorch of the installed PyTorch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ._load import torch_folder
from .errors import PbgError


def main() -> None:
    """Becomes the program; ends with an error where there is no PyTorch of its version."""
    asked: dict[str, str] = {}
    # The program that becomes this script says for what.
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
