"""Builds of Python functions as sandboxed components."""

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
    "operator": ("OperatorFormula", "export_traced_operator"),
    "comparator": ("ComparatorFormula", "export_traced_comparator"),
}


def build(function: Function, /, path: str | os.PathLike[str] | None = None) -> Path:
    """Builds a sandboxed component from the source of an order, a loss, an operator or a comparator, by default `NAME.wasm` in
    the working folder, and returns its path.

    It contains the function and what the function uses from its module: other functions, plain values, and imports of
    pure Python packages. Packages with compiled code, such as NumPy, are not available in the sandbox. The component
    keeps the name, the version and the parameters from the decorator, the latter as defaults. Needs componentize-py
    0.25.1 (`pip install 'pbg-host[build]'`).
    """
    if only := component_only(function):
        raise UsageError(
            f"{_called(function)} is {only[0]}, but build only makes components of orders, losses, operators and comparators",
            help=as_component(only[1]),
        )
    if not isinstance(function, Function):
        raise UsageError(
            f"{_called(function)} is neither an order nor a loss, an operator or a comparator",
            help="decorate it with @pbg_host.order, @pbg_host.loss, @pbg_host.operator or @pbg_host.comparator",
        )
    name, kind = function.name, function.kind
    target = Path(path if path is not None else f"{name}.wasm").absolute()
    text = module_of(
        function._made_of, kind, name, function.version, function._parameters, function.class_body()
    )
    exported, export = _EXPORTS[kind]
    with tempfile.TemporaryDirectory() as folder, _tools_of_this_python():
        if shutil.which(_COMPONENTIZE) is None:
            raise PluginError(
                f"components are built with {_COMPONENTIZE}, which is not installed",
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
    """Adds the folder of the interpreter to `PATH`, so that its programs are found even if its environment is not
    active."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before
