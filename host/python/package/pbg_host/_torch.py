"""`pbg-host-libtorch`: tells the program where the libtorch of the installed PyTorch is, for half precision and GPUs."""

from __future__ import annotations

import json

from ._load import BRIDGES, TorchError, torch_folder


def main() -> None:
    """Prints as JSON the folder of the bridges, and that of libtorch or why there is none and what to do."""
    try:
        found = {"libraries": str(torch_folder())}
    except TorchError as error:
        found = {"error": error.message, "help": error.help or ""}
    print(json.dumps({"bridges": str(BRIDGES), **found}))
