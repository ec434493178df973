"""Prepares the native half of the package, and loads libtorch where a run needs it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from . import _native, errors

BRIDGES = Path(__file__).with_name("torch_bridges")
"""Folder of the bridges to libtorch, one for each version of PyTorch that the package can use."""

# A plugin is compiled in a separate process: a Python interpreter that loads only the extension, from its file.
_COMPILE = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.ExtensionFileLoader("_native", sys.argv[1])
spec = importlib.util.spec_from_loader("_native", loader)
native = importlib.util.module_from_spec(spec)
loader.exec_module(native)
native.compile_for_parent()
"""


def _start(module: ModuleType) -> None:
    arguments = ["-I", "-S", "-c", _COMPILE, os.path.abspath(_native.__file__)]
    module.start(sys.executable, arguments)


_start(_native)


class TorchError(errors.SystemRefusedError):
    """PyTorch is not installed in a version that half precision and GPUs can use."""


def torch_versions() -> list[tuple[int, int]]:
    """Returns the first two numbers of the versions of PyTorch that the package can use, oldest first."""
    names = (path.stem.removeprefix("torch-").split(".") for path in BRIDGES.glob("torch-*.so"))
    return sorted((int(major), int(minor)) for major, minor in names)


def torch_requirement(versions: list[tuple[int, int]]) -> tuple[str, str]:
    """Returns the requirement of pip for PyTorch in one of `versions`, and the words for them; oldest first."""
    (major, minor), newest = versions[0], versions[-1]
    oldest = f"{major}.{minor}"
    if len(versions) == 1:
        return f"torch=={oldest}.*", f"version {oldest}"
    return f"torch>={oldest},<{newest[0]}.{newest[1] + 1}", f"versions {oldest} to {newest[0]}.{newest[1]}"


def torch_folder() -> Path:
    """Returns the folder of the libraries of the installed PyTorch, which must have a version with a bridge."""
    versions = torch_versions()
    if not versions:
        raise TorchError(
            "this wheel has no bridges to libtorch",
            help="wheels for Linux, x86-64, have them; `cargo xtask wheel` builds one from a clone",
        )
    requirement, usable = torch_requirement(versions)
    install = f"pip install '{requirement}'"
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise TorchError("libtorch comes with PyTorch, which is not installed", help=install) from None
    # What lies between two releases, such as 2.11.0a0+git, may have the interface of neither.
    numbers = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*(\+.*)?", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) not in versions:
        raise TorchError(
            f"PyTorch {version} is installed, and this package can use {usable}", help=install
        )
    spec = importlib.util.find_spec("torch")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise TorchError(
            "the installed PyTorch has no folder", help=f"{install} --force-reinstall"
        )
    return Path(folders[0]) / "lib"


def load_torch_for(config: _native.Config) -> None:
    """Loads libtorch if `config` needs it, for half precision or a GPU."""
    if not config.needs_libtorch:
        return
    try:
        _native.load_libtorch(torch_folder(), BRIDGES)
    except errors.SystemRefusedError as error:
        raise TorchError(
            "half precision and GPUs need libtorch",
            causes=[error.message, *error.causes],
            help=(error.help or "reinstall PyTorch (pip install --force-reinstall torch)")
            + '; fp32 on "cpu" does not need it',
        ) from error


def as_json(value: object) -> str:
    """Converts values of Python and NumPy to JSON."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise errors.UsageError(f"{error}") from None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (tuple, set, frozenset, Iterator)):
        return list(value)
    advice = "; pass functions as plugins=[...]" if callable(value) else ""
    raise TypeError(f"{value!r} cannot be a value of a configuration{advice}")
