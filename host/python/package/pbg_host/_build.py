"""Sandboxed components of functions."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import _native
from ._functions import Function, Kind, _called, as_component, component_only
from ._sources import module_of
from .errors import PluginError, UsageError

_COMPONENTIZE = "componentize-py"

_EXPORTS: dict[Kind, tuple[str, str]] = {
    "order": ("BucketOrder", "export_order"),
    "loss": ("LossTraced", "export_traced_loss"),
}


def build(function: Function, /, path: str | os.PathLike[str] | None = None) -> Path:
    """Makes a sandboxed component of the source of an order or a loss, by default `NAME.wasm` in the working folder, and
    gives its path.

    It has the function and what that uses of its module: other functions, plain values and imports of pure Python. Packages
    with compiled code, such as NumPy, are not in the sandbox. What the decorator says is in it: name, version, and
    parameters as defaults. Needs componentize-py 0.25.1 (`pip install 'pbg-host[build]'`).
    """
    if only := component_only(function):
        raise UsageError(
            f"{_called(function)} is {only[0]}, and build makes components of orders and losses",
            help=as_component(only[1]),
        )
    if not isinstance(function, Function):
        raise UsageError(
            f"{_called(function)} is no order and no loss",
            help="decorate it with @pbg_host.order or @pbg_host.loss",
        )
    name, kind = function.name, function.kind
    target = Path(path if path is not None else f"{name}.wasm").absolute()
    text = module_of(function._made_of, kind, name, function.version, function._parameters)
    exported, export = _EXPORTS[kind]
    with tempfile.TemporaryDirectory() as folder, _tools_of_this_python():
        if shutil.which(_COMPONENTIZE) is None:
            raise PluginError(
                f"a component is made by {_COMPONENTIZE}, which is not installed",
                help="pip install 'pbg-host[build]'",
            )
        project = Path(folder) / name
        _native.create_project(name, kind, project)
        (project / f"{name}.py").write_text(text)
        (project / "component.py").write_text(
            f"from {name} import PbgPlugin\nfrom pbg_plugin import {export}\n\n"
            f"Metadata, {exported} = {export}(PbgPlugin)\n"
        )
        target.write_bytes(Path(_native.build_project(project)).read_bytes())
    return target


@contextlib.contextmanager
def _tools_of_this_python() -> Iterator[None]:
    """Programs beside the interpreter are found, whether or not its environment is active."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before
