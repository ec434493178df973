"""Writes the source of a function, with everything that it uses, as a separate module."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import sys
import textwrap
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .errors import UsageError

ClassBody = Mapping[str, Any]
"""Attributes of a class, with their values."""

_PLAIN = (bool, int, float, str, bytes, type(None))


def source_of(thing: Any) -> str | None:
    """Returns the source of a function or a class without its decorators; `None` if it cannot be read."""
    try:
        text = textwrap.dedent(inspect.getsource(thing))
        node = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        node.decorator_list = []
        return ast.unparse(node)
    return None


_BASES = {
    "order": ("Order", "plan", "grid_pass"),
    "loss": ("TracedLoss", "build", "scores"),
    "operator": ("TracedOperator", "build", "x"),
    "comparator": ("TracedComparator", "build", "left, right"),
}
"""For each kind of strategy: its class in the SDK, the method that a function replaces, and the names of its
arguments."""


def told_of(make: Any) -> str:
    """Returns the sources of the function or class `make` and of everything that it uses."""
    parts: dict[str, str] = {}
    _collect(make, parts)
    return "\n\n".join(parts.values())


def module_of(
    make: Any,
    kind: str,
    name: str,
    version: str,
    parameters: Mapping[str, Any],
    body: ClassBody | None = None,
) -> str:
    """Returns the source of a module with the function or class `make`, everything that it uses, and the strategy
    `PbgPlugin`, whose parameters have the given values as defaults. The class of a function has the attributes in
    `body`."""
    base, method, given = _BASES[kind]
    if isinstance(make, type):
        plugin = (
            f"class PbgPlugin({make.__name__}):\n"
            "    @classmethod\n"
            "    def metadata(cls):\n"
            "        about = super().metadata()\n"
            f"        about.name, about.version = {name!r}, {version!r}\n"
            "        for parameter in about.parameters:\n"
            f"            parameter.default = {dict(parameters)!r}.get(parameter.name, parameter.default)\n"
            "        return about\n"
        )
    else:
        about = (inspect.getdoc(make) or "A function of Python.").splitlines()[0]
        attributes = [f"    {key} = {value!r}\n" for key, value in (body or {}).items()]
        plugin = (
            f"class PbgPlugin({base}):\n{''.join(attributes)}"
            "    @classmethod\n"
            "    def metadata(cls):\n"
            f"        return Metadata({name!r}, {version!r}, {about!r})\n\n"
            f"    def {method}(self, {given}):\n"
            f"        return {make.__name__}({given})\n"
        )
    imports = f"from __future__ import annotations\n\nfrom pbg_plugin import Metadata, {base}"
    return f"{imports}\n\n{told_of(make)}\n\n\n{plugin}"


def _collect(thing: Any, parts: dict[str, str]) -> None:
    """Adds the source of `thing`, after those of everything that it uses."""
    own = thing.__name__
    text = source_of(thing)
    if text is None:
        raise UsageError(
            f"the source of {own} cannot be read", help="define it in a file or a cell of a notebook"
        )
    parts[own] = ""
    for name, value in _used(thing):
        if name not in parts:
            _add(own, name, value, parts)
    # It must come after everything that it uses.
    del parts[own]
    parts[own] = text


def _add(user: str, name: str, value: Any, parts: dict[str, str]) -> None:
    # For another strategy, its function or class is called.
    value = getattr(value, "_made_of", value)
    module = getattr(value, "__module__", None)
    if isinstance(value, ModuleType):
        parts[name] = f"import {value.__name__} as {name}"
    elif module is not None and module.partition(".")[0] == "pbg_plugin":
        # Import from the module that defines it: `ln` is called `log` there.
        parts[name] = f"from {module} import {value.__name__} as {name}"
    elif isinstance(value, (FunctionType, type)) and _is_beside(user, value):
        if value.__name__ not in parts:
            _collect(value, parts)
        if name != value.__name__:
            parts[name] = f"{name} = {value.__name__}"
    elif module is not None and hasattr(value, "__name__"):
        parts[name] = f"from {module} import {value.__name__} as {name}"
    elif _is_plain(value):
        parts[name] = f"{name} = {value!r}"
    else:
        raise UsageError(
            f"{user} uses {name}, a {type(value).__name__}, which cannot be written into a component",
            help="create it inside the function, or replace it by a number, a text, or a list of these",
        )


def _is_beside(user: str, value: Any) -> bool:
    """Returns whether a function or class was written by the user, not installed."""
    try:
        file = inspect.getsourcefile(value) or ""
    except TypeError:
        return False
    return "site-packages" not in file and "/lib/python" not in file and bool(user)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return isinstance(value, _PLAIN)


def _used(thing: Any) -> list[tuple[str, Any]]:
    """Returns the global and nonlocal names that the code of `thing` uses, with their values."""
    functions, globals_ = [thing], getattr(thing, "__globals__", {})
    if isinstance(thing, type):
        plain = [getattr(value, "__func__", value) for value in vars(thing).values()]
        functions = [value for value in plain if isinstance(value, FunctionType)]
        globals_ = vars(sys.modules[thing.__module__])
    found: dict[str, Any] = {}

    def add(names: Iterable[str], values: Mapping[str, Any]) -> None:
        for name in names:
            # Test runners and other tools add names that no source can contain.
            if name in values and name.isidentifier() and not hasattr(builtins, name):
                found[name] = values[name]

    add(_outside_of_bodies(ast.parse(source_of(thing) or "").body), globals_)
    for function in functions:
        add(_names(function.__code__), function.__globals__)
        found.update(inspect.getclosurevars(function).nonlocals)
    return [(name, value) for name, value in found.items() if not _is(value, thing)]


def _is(value: Any, thing: Any) -> bool:
    """Returns whether `value` is `thing`, decorated or not."""
    return value is thing or getattr(value, "_made_of", None) is thing


def _outside_of_bodies(statements: Iterable[ast.AST]) -> set[str]:
    """Returns the names used when a function or a class is defined: bases, defaults, and class-level statements."""
    names: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if isinstance(node, ast.FunctionDef):
            defaults = [value for value in node.args.kw_defaults if value is not None]
            names |= _outside_of_bodies([*node.decorator_list, *node.args.defaults, *defaults])
        elif isinstance(node, ast.AnnAssign):
            names |= _outside_of_bodies([] if node.value is None else [node.value])
        else:
            names |= _outside_of_bodies(ast.iter_child_nodes(node))
    return names


def _names(code: CodeType) -> set[str]:
    """Returns the names that code looks up outside its function."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
