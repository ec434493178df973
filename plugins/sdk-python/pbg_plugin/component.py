"""Connects the generated bindings, which exist only in a component, with the author's classes."""

from __future__ import annotations

import io
import operator
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NoReturn, Tuple, TypeVar

from . import bindings, forbidden, log

if TYPE_CHECKING:
    from .comparator import PairFormula
    from .loss import Graph
    from .operator import Formula
    from .metadata import Parameter

# Both exist only in a component.
Err: Any = getattr(bindings.found("componentize_py_types"), "Err", None)
wit_metadata: Any = bindings.found("wit_world.exports.metadata")

# Folder of the author's modules.
PROJECT = __file__.rpartition("pbg_plugin/")[0]

T = TypeVar("T")

_instances: Dict[Any, Any] = {}


def instance(make: Callable[[], T]) -> T:
    """Returns the only instance of a class in this component, created on first use."""
    if make not in _instances:
        _instances[make] = make()
    made: T = _instances[make]
    return made


def call(function: Callable[..., T], *arguments: Any) -> T:
    """Calls the author's code. An exception becomes a text for the user, and its traceback becomes
    log lines: an exception that leaves the component would be a trap without a message."""
    from . import Refused

    try:
        return _called(function, *arguments)
    except Refused as refused:
        raise Err(str(refused)) from None
    except BaseException as error:
        raise Err(_told(error)) from None


def tell(function: Callable[..., T], *arguments: Any) -> T:
    """Calls the author's code where the host expects no result: an exception is a fault."""
    try:
        return _called(function, *arguments)
    except BaseException as error:
        log.error(_told(error))
        raise


def _called(function: Callable[..., T], *arguments: Any) -> T:
    _enter()
    try:
        return function(*arguments)
    finally:
        # Write an incomplete line, since it belongs to this call.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Printed):
                stream.flush()


def whole(number: Any, what: str) -> int:
    """Converts `number` to an int; an error that names `what` if it is not one, or is too large for the host."""
    try:
        found = operator.index(number)
    except TypeError:
        raise TypeError(f"{what} is {number!r}, not a whole number") from None
    if not 0 <= found < 1 << 32:
        raise ValueError(f"{what} is {found}, not a number from 0 to {(1 << 32) - 1}")
    return found


def pair(value: Any, what: str, names: Tuple[str, str]) -> Tuple[int, int]:
    """Converts `value` to two whole numbers; an error that names `what` if it is something else."""
    try:
        first, second = value
    except (TypeError, ValueError):
        raise TypeError(f"{what} is {value!r}, not ({', '.join(names)})") from None
    return whole(first, f"{names[0]} of {what}"), whole(second, f"{names[1]} of {what}")


def _told(error: BaseException) -> str:
    """Describes an exception and its innermost line of the author's code. The lines of the traceback
    are logged. Sources cannot be read in the sandbox, so only line numbers are given."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    theirs = [frame for frame in frames if "pbg_plugin/" not in frame[0]]
    for place in theirs:
        log.error("at " + _place(place))
    if isinstance(error, SystemExit):
        text = f"it called sys.exit({'' if error.code is None else error.code!r})"
    else:
        text = f"{type(error).__name__}: {error}"
    authors = [frame for frame in theirs if frame[0].startswith(PROJECT)] or theirs
    return f"{text} ({_place(authors[-1])})" if authors else text


def _place(frame: Tuple[str, int, str]) -> str:
    path, line, function = frame
    return f"{path.rpartition('/')[2]}, line {line}, in {function}"


class _Printed(io.TextIOBase):
    """Writes standard output or error as log lines, since the sandbox has neither."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write
        self._begun = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._write(line)
        return len(text)

    def flush(self) -> None:
        if self._begun:
            self._write(self._begun)
            self._begun = ""


class _Late:
    """Module finder that finds nothing, since files exist only while the component is built."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> NoReturn:
        raise ModuleNotFoundError(
            f"{name} is not in the component: import it at the top of a module; packages with "
            "compiled code, such as numpy, cannot be used",
            name=name,
        )


def _enter() -> None:
    """At the first call, replaces print, import and functions that the sandbox lacks. Modules were imported
    earlier, while the component was built, when all of these still worked as usual."""
    if wit_metadata is None or _Late in sys.meta_path:
        return
    forbidden.replace()
    out, err, nobody = _Printed(log.info), _Printed(log.warn), forbidden.NoInput()
    for name, stream in (("stdout", out), ("stderr", err), ("stdin", nobody)):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    finders: List[Any] = [finder for finder in sys.meta_path if finder is not PathFinder]
    sys.meta_path = finders + [_Late]


def order_types() -> Any:
    """Returns the bindings of bucket orders, which only components of orders have."""
    return bindings.found("wit_world.imports.types")


def sampler_types() -> Any:
    """Returns the bindings of relation samplers."""
    return bindings.found("wit_world.exports.relation_sampler")


def lowered(graph: Graph, update_every: int) -> Any:
    """Converts a graph to the host's type."""
    wit = bindings.found("wit_world.exports.loss_traced")

    def node(op: str, *operands: Any) -> Any:
        if op in ("positive", "negative", "columns"):
            return getattr(wit, "Node_" + op.capitalize())()
        if op in ("constant", "parameter", "softmax"):
            return getattr(wit, "Node_" + op.capitalize())(*operands)
        if op in ("select", "clamp"):
            record = getattr(wit, op.capitalize())(*operands)
            return getattr(wit, "Node_" + op.capitalize())(record)
        if op.startswith("reduce_"):
            reduction = wit.Reduction[op.removeprefix("reduce_").upper()]
            return wit.Node_Reduce(wit.Reduce(reduction, *operands))
        if len(operands) == 1:
            return wit.Node_Unary(wit.Unary(wit.UnaryOp[op.upper()], *operands))
        return wit.Node_Binary(wit.Binary(wit.BinaryOp[op.upper()], *operands))

    parameters = [wit.NamedParameter(*named) for named in graph.parameters.items()]
    nodes = [node(*parts) for parts in graph.nodes]
    return wit.Graph(nodes, graph.output, parameters, update_every)


def _vector_node(wit: Any, op: str, *operands: Any) -> Any:
    """Converts a node of a formula on vectors to the type of an interface."""
    if op in ("component", "parameter", "constant", "sum"):
        return getattr(wit, "Node_" + op.capitalize())(*operands)
    if op in ("select", "clamp"):
        record = getattr(wit, op.capitalize())(*operands)
        return getattr(wit, "Node_" + op.capitalize())(record)
    if len(operands) == 1:
        return wit.Node_Unary(wit.Unary(wit.UnaryOp[op.upper()], *operands))
    return wit.Node_Binary(wit.Binary(wit.BinaryOp[op.upper()], *operands))


def lowered_comparator(formula: PairFormula) -> Any:
    """Converts a formula to the host's type."""
    wit = bindings.found("wit_world.exports.comparator_formula")
    nodes = [_vector_node(wit, *parts) for parts in formula.nodes]
    return wit.Formula(formula.components, nodes, formula.score)


def lowered_operator(formula: Formula) -> Any:
    """Converts a formula to the host's type."""
    wit = bindings.found("wit_world.exports.operator_formula")

    def beginning(initial: Any) -> Any:
        if isinstance(initial, str):
            return getattr(wit, "Initial_" + initial.capitalize())()
        return wit.Initial_Normal(float(initial))

    vectors = formula.vectors.items()
    parameters = [wit.VectorParameter(name, beginning(initial)) for name, initial in vectors]
    nodes = [_vector_node(wit, *parts) for parts in formula.nodes]
    outputs = formula.outputs
    return wit.Formula(len(outputs), parameters, nodes, outputs, formula.lhs_outputs)


class Configured:
    """Exports of every kind of strategy."""

    make: Any = None

    def configure(self, parameters: Any) -> None:
        values = {p.name: p.value.value for p in parameters}
        call(lambda: instance(self.make).configure(values))


def metadata_of(plugin: Any) -> type:
    """Returns the class that exports a plugin's metadata. It must be created as the last export of a component."""
    if wit_metadata is not None:
        forbidden.find()

    def described() -> Any:
        own = plugin.metadata()
        parameters = [wit_metadata.Parameter(p.name, p.doc, _kind(p)) for p in own.parameters]
        return wit_metadata.Description(
            own.name, own.version, own.summary, parameters, own.fallback
        )

    class Metadata:
        def describe(self) -> Any:
            return tell(described)

    return Metadata


def _kind(p: Parameter) -> Any:
    if p.kind == "boolean":
        return wit_metadata.ParameterKind_Boolean(p.default)
    if p.kind == "integer":
        integer = wit_metadata.IntegerParameter(p.default, p.minimum, p.maximum)
        return wit_metadata.ParameterKind_Integer(integer)
    if p.kind == "number":
        bounds = [None if bound is None else float(bound) for bound in (p.minimum, p.maximum)]
        return wit_metadata.ParameterKind_Number(wit_metadata.NumberParameter(p.default, *bounds))
    if p.kind == "text":
        return wit_metadata.ParameterKind_Text(p.default)
    choice = wit_metadata.ChoiceParameter(p.options, p.options.index(p.default))
    return wit_metadata.ParameterKind_Choice(choice)
