"""Common parts of strategies that are Python functions: orders, losses, operators and comparators of this process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeVar, Union

import pbg_plugin

from . import _native
from ._load import as_json
from ._sources import ClassBody, source_of, told_of
from .errors import PluginError, UsageError, _warn

Kind = Literal["order", "loss", "operator", "comparator"]
Native = Any


class Function:
    """A strategy of Python: a function, or a class of the SDK."""

    kind: ClassVar[Kind]

    def __init__(
        self, make: Any, name: str | None, version: str | None, parameters: Mapping[str, Any]
    ) -> None:
        if isinstance(make, Function):
            make = make._made_of
        self._made_of: Any = make
        self._is_class = isinstance(make, type)
        if not callable(make):
            raise UsageError(f"pbg_host.{self.kind}: {make!r} is neither a function nor a class")
        if name is None and not hasattr(make, "__name__"):
            raise UsageError(f"pbg_host.{self.kind}: {make!r} has no name; pass one: name=...")
        if parameters and not self._is_class:
            raise UsageError(
                f"a function cannot have parameters: write a subclass of pbg_plugin.{self._base().__name__}"
            )
        if self._is_class and not issubclass(make, self._base()):
            raise UsageError(f"{make.__name__} is not a subclass of pbg_plugin.{self._base().__name__}")
        about = make.metadata() if self._is_class else None
        self._parameters = dict(parameters)
        self.name: str = name or (about.name if about else make.__name__)
        """Name in runs and tables."""
        self.version: str = version or (about.version if about else "0.1.0")
        self.__doc__ = make.__doc__

    @classmethod
    def _base(cls) -> type:
        """Returns the base class in the SDK."""
        raise NotImplementedError

    def _instance(self, given: Mapping[str, Any] | None = None) -> Any:
        """Returns a configured instance. Parameters come from `given`, from the decorator, or from their defaults, in
        this order."""
        parameters = self._made_of.metadata().parameters if self._is_class else []
        declared = as_json([_declared(parameter) for parameter in parameters])
        values = as_json({**self._parameters, **(given or {})})
        completed = _native.parameters(f"{self.name} {self.version}", declared, values)
        if not self._is_class:
            return self._of_function()
        made = self._made_of()
        made.configure(json.loads(completed))
        return made

    def _of_function(self) -> Any:
        raise NotImplementedError

    def class_body(self) -> ClassBody:
        """Returns what a class of the SDK needs besides the function."""
        return {}

    def native(self, given: Mapping[str, Any] | None = None) -> Native:
        """Returns the strategy as an object of the host; `given` are parameters from a configuration."""
        raise NotImplementedError

    def parameter_names(self) -> list[str]:
        """Returns the names of the parameters that a configuration may set."""
        return [p.name for p in self._made_of.metadata().parameters] if self._is_class else []

    def _sha256(self) -> str:
        """Returns a hash that distinguishes this strategy from others with its name, so that a run is resumed with the
        same one."""
        try:
            text = told_of(self._made_of)
        except UsageError:
            # If it cannot be written as a module, only its own source is hashed.
            text = source_of(self._made_of) or _code(self._made_of)
        told = f"{self.kind}\n{text}\n{sorted(self._parameters.items())}"
        if body := self.class_body():
            told += f"\n{sorted(body.items())}"
        return hashlib.sha256(told.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"<pbg_host.{self.kind} {self.name} {self.version}>"


F = TypeVar("F", bound=Function)


def decorated(
    function: type[F],
    make: Any,
    name: str | None,
    version: str | None,
    parameters: Mapping[str, Any],
) -> Any:
    """Returns the result of a decorator, used with or without arguments."""

    def made(make: Any) -> F:
        return function(make, name, version, parameters)

    return made if make is None else made(make)


PluginLike = Union[str, "os.PathLike[str]", Function]
"""A plugin: the file or the name of a component, or a function decorated with `pbg_host.order`, `pbg_host.loss`,
`pbg_host.operator` or `pbg_host.comparator`. It replaces a standard plugin, the operator of all relations, the comparator, or the
learning rate schedule."""


def wanted(thing: Any, kind: type[F]) -> F:
    """Returns `thing` if it is a function of this kind; otherwise raises `UsageError`."""
    if isinstance(thing, kind):
        return thing
    raise undecorated(thing, kind.kind)


def undecorated(thing: Any, kind: Kind) -> UsageError:
    """Returns the error for `thing`, which is not of this `kind`."""
    help = f"decorate it with @pbg_host.{kind}" if callable(thing) else None
    if isinstance(thing, Function):
        help = None
    if only := component_only(thing):
        help = as_component(only[1])
    return UsageError(f"{_called(thing)} is not a valid {kind}", help=help)


_ONLY_COMPONENTS = {
    pbg_plugin.Sampler: ("a relation sampler", "sampler"),
    pbg_plugin.NegativeSampler: ("a negative sampler", "negatives"),
    pbg_plugin.NegativeSelector: ("a negative selector", "negative-selector"),
    pbg_plugin.RateSchedule: ("a learning rate schedule", "schedule"),
}


def component_only(thing: Any) -> tuple[str, str] | None:
    """If `thing` can run only as a component, not in Python's process, returns its kind: in words, and as an argument
    of `plugin new`."""
    kind = thing if isinstance(thing, type) else type(thing)
    return next((names for base, names in _ONLY_COMPONENTS.items() if issubclass(kind, base)), None)


def as_component(kind: str) -> str:
    """Returns advice for making a component of a class."""
    return (
        f"make a component of it: `pbg-host plugin new mine --kind {kind} --lang python`, put the class into mine/mine.py, "
        "`pbg-host plugin build mine`, and name the file: plugins=['mine/mine.wasm']"
    )


_PER_RELATION = "give relations their own: relations=[{'name': ..., 'operator': first}, ...]"


def sorted_out(
    plugins: Sequence[PluginLike],
) -> tuple[list[str], dict[Kind, Function]]:
    """Splits plugins into files and names, and the function of each kind."""
    if isinstance(plugins, (str, os.PathLike, Function)) or not isinstance(plugins, Sequence):
        raise UsageError("plugins: expected a list of files, names, orders, losses, operators or comparators")
    named: list[str] = []
    functions: dict[Kind, Function] = {}
    for plugin in plugins:
        if isinstance(plugin, Function):
            if first := functions.get(plugin.kind):
                whats = {
                    "order": "bucket order",
                    "loss": "loss",
                    "operator": "operator of all relations",
                    "comparator": "comparator",
                }
                raise UsageError(
                    f"plugins: a run has only one {whats[plugin.kind]}, but there are two: {first.name} and "
                    f"{plugin.name}",
                    help=_PER_RELATION if plugin.kind == "operator" else None,
                )
            functions[plugin.kind] = plugin
        elif isinstance(plugin, (str, os.PathLike)):
            named.append(os.fspath(plugin))
        elif only := component_only(plugin):
            raise UsageError(
                f"plugins: {_called(plugin)} is {only[0]}, but only orders, losses, operators and comparators can run in "
                "Python's process",
                help=as_component(only[1]),
            )
        else:
            raise UsageError(
                f"plugins: {_called(plugin)} is neither a file nor a name",
                help="decorate a function with @pbg_host.order, @pbg_host.loss, @pbg_host.operator or @pbg_host.comparator",
            )
    return named, functions


def natives(
    functions: Mapping[Kind, Function], config: Mapping[str, Any]
) -> tuple[Native | None, Native | None, Native | None, Native | None]:
    """Returns the order, the loss, the operator and the comparator as objects of the host, with their parameters from
    the configuration."""

    def native(kind: Kind) -> Native | None:
        function = functions.get(kind)
        if function is None:
            return None
        given = dict(config["plugins"]["params"].get(function.name, {}))
        margin = config.get("margin")
        if kind == "loss" and margin is not None:
            if "margin" in function.parameter_names():
                given.setdefault("margin", margin)
            else:
                _warn(f"margin: the loss {function.name} {function.version} has no such parameter")
        return function.native(given)

    return native("order"), native("loss"), native("operator"), native("comparator")


@dataclass(frozen=True)
class Finding:
    """Result of checking one promise of a strategy, or useful information about it."""

    promise: str
    outcome: str
    """`kept`, `broken` or `note`."""
    detail: str


def findings(name: str, told: str) -> list[Finding]:
    """Returns the findings of a check, or raises the first promise that is broken."""
    found = [Finding(**finding) for finding in json.loads(told)]
    for finding in found:
        if finding.outcome == "broken":
            raise PluginError(f"plugin {name}: {finding.promise}: {finding.detail}")
    return found


def answered(answer: Callable[[], Any], run: tuple[int, int, int] = (1, 1, 1)) -> Any:
    """Returns an answer, or an error message with the line at fault. `pbg_plugin.run.length` returns `run`
    meanwhile."""
    before = pbg_plugin.run.length()
    pbg_plugin.run.provide(pbg_plugin.RunLength(*run))
    try:
        return answer()
    except Exception as error:  # noqa: BLE001 - the host tells it
        own = (os.path.dirname(__file__), os.path.dirname(_file(pbg_plugin)))
        place, trace = "", error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if not code.co_filename.startswith(own):
                file = os.path.basename(code.co_filename)
                place = f" ({file}, line {trace.tb_lineno}, in {code.co_name})"
            trace = trace.tb_next
        return f"{type(error).__name__}: {error}{place}"
    finally:
        pbg_plugin.run.provide(before)


def _declared(parameter: Any) -> dict[str, Any]:
    """Converts a parameter for the host."""
    fields = dataclasses.asdict(parameter)
    fields["type"] = fields.pop("kind")
    return fields


def _called(thing: Any) -> str:
    return getattr(thing, "__name__", None) or repr(thing)


def _code(make: Any) -> str:
    code = getattr(make, "__code__", None)
    return repr(make) if code is None else f"{code.co_code!r} {code.co_names} {code.co_varnames}"


def _file(module: ModuleType) -> str:
    return module.__file__ or ""
