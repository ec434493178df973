"""Loads the native half of the package: the extension without libtorch, or the one with it where a run needs it."""

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
"""Version of PyTorch with whose libtorch the extension was built."""

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
    """PyTorch is not installed in the version that half precision and GPUs need."""


def torch_folder(
    needed: str = "half precision and GPUs need", without: str = 'fp32 on "cpu" does not need it'
) -> Path:
    """Returns the folder of the libraries of the installed PyTorch, which must have the version `TORCH`. Error
    messages begin with `needed`, and name `without` as the alternative."""
    if importlib.util.find_spec("._native_torch", __package__) is None:
        raise TorchError(
            f"{needed} libtorch, without which this wheel was built",
            help=f"build one with `cargo xtask wheel` from a clone, on Linux, x86-64; {without}",
        )
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise TorchError(
            f"{needed} libtorch, which comes with PyTorch, but PyTorch is not installed",
            help=f"pip install 'pbg-host[torch]', which is torch=={TORCH}; {without}",
        ) from None
    if version.partition("+")[0] != TORCH:
        raise TorchError(
            f"{needed} the libtorch of PyTorch {TORCH}, but {version} is installed",
            help=f"pip install 'torch=={TORCH}'; {without}",
        )
    spec = importlib.util.find_spec("torch")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise TorchError("the installed PyTorch has no folder", help=f"pip install 'torch=={TORCH}'")
    return Path(folders[0]) / "lib"


@functools.cache
def native_torch() -> Any:
    """Returns the extension with libtorch."""
    folder = torch_folder()
    try:
        # The extension needs these libraries, and uses those that are already loaded.
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
    """Returns the extension that `config` needs, and the configuration as an object of that extension."""
    if not config.needs_libtorch:
        return _native, config
    module = native_torch()
    return module, module.Config.from_toml(config.to_toml())


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
