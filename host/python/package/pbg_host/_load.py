"""The native half of the package: the extension without libtorch, and the one with it where that is needed."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import _native, errors

if TYPE_CHECKING:
    from ._native import Config as NativeConfig

TORCH = "2.11.0"
"""The version of PyTorch whose libtorch the extension was built with."""

# A plugin is compiled in a process of its own: Python, which loads the extension from its file and nothing else.
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
    """There is no PyTorch of the version that half precision and GPUs need."""


def torch_folder(
    needed: str = "half precision and GPUs need", without: str = 'fp32 on "cpu" does without'
) -> Path:
    """The folder of the libraries of the installed PyTorch, which has to be of the version built with. Errors say who
    `needed` it, and what does `without`."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise TorchError(
            f"{needed} libtorch, which comes with PyTorch, and that is not installed",
            help=f"pip install 'pbg-host[torch]', which is torch=={TORCH}; {without}",
        ) from None
    if version.partition("+")[0] != TORCH:
        raise TorchError(
            f"{needed} the libtorch of PyTorch {TORCH}, and {version} is installed",
            help=f"pip install 'torch=={TORCH}'; {without}",
        )
    spec = importlib.util.find_spec("torch")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise TorchError("the installed PyTorch has no folder", help=f"pip install 'torch=={TORCH}'")
    return Path(folders[0]) / "lib"


@functools.cache
def native_torch() -> Any:
    """The extension with libtorch."""
    folder = torch_folder()
    try:
        # The extension names these libraries and finds the ones that are loaded by then.
        for name in ("libc10.so", "libtorch_cpu.so"):
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        module = importlib.import_module("._native_torch", __package__)
    except (ImportError, OSError) as error:
        raise TorchError(
            f"the libtorch in {folder} cannot be loaded",
            causes=[str(error)],
            help=f"pip install --force-reinstall 'torch=={TORCH}'",
        ) from error
    _start(module)
    return module


def native_for(config: NativeConfig) -> tuple[Any, Any]:
    """The extension that computes what `config` asks for, and the configuration as that extension has it."""
    if not config.needs_libtorch:
        return _native, config
    module = native_torch()
    return module, module.Config.from_toml(config.to_toml())


def as_json(value: object) -> str:
    """Values of Python and NumPy as JSON."""
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
    advice = "; functions are given as plugins=[...]" if callable(value) else ""
    raise TypeError(f"{value!r} is no value of a configuration{advice}")
