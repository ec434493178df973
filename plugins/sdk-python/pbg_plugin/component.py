"""Between the generated bindings, which exist only in a component, and the author's classes."""

import traceback

from . import log

try:
    from componentize_py_types import Err
    from wit_world.exports import metadata as wit_metadata
except ImportError:
    Err = wit_metadata = None

_instances = {}


def instance(make):
    """The one instance of a class in this component, made on first use."""
    if make not in _instances:
        _instances[make] = make()
    return _instances[make]


def call(function, *arguments):
    """Calls the author's code. What it raises becomes a text for the user, and where it was
    raised a log line: an exception that left the component would be a trap without words."""
    from . import Refused

    try:
        return function(*arguments)
    except Refused as refused:
        raise Err(str(refused)) from None
    except Exception as error:
        for line in traceback.format_exc().splitlines():
            log.error(line)
        raise Err(f"{type(error).__name__}: {error}") from None


def tell(function, *arguments):
    """Calls the author's code where the host expects no answer: what it raises is a fault."""
    try:
        function(*arguments)
    except Exception:
        for line in traceback.format_exc().splitlines():
            log.error(line)
        raise


def order_types():
    """The bindings of buckets; each world has only its own."""
    from wit_world.imports import types

    return types


def sampler_types():
    """The bindings of relation samplers."""
    from wit_world.exports import relation_sampler

    return relation_sampler


def lowered(graph, update_every):
    """A graph as the host takes it."""
    from wit_world.exports import loss_traced as wit

    def node(op, *operands):
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


class Configured:
    """What every kind of strategy exports."""

    make = None

    def configure(self, parameters):
        values = {p.name: p.value.value for p in parameters}
        call(instance(self.make).configure, values)


def metadata_of(plugin):
    """The class that exports a plugin's metadata."""

    class Metadata:
        def describe(self):
            own = plugin.metadata()
            parameters = [
                wit_metadata.Parameter(p.name, p.doc, _kind(p)) for p in own.parameters
            ]
            return wit_metadata.Description(
                own.name, own.version, own.summary, parameters, own.fallback
            )

    return Metadata


def _kind(p):
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
