"""Replacements for functions that the sandbox lacks: clock, files, network, random source, input.

In a component, a request to the system would end the call at once, without a message and
without a line. So functions that make such requests are replaced by ones that raise an error.
Nothing is replaced in an ordinary interpreter, in which the author's tests and functions of the
Python package run.

The error is a PermissionError, since Python's own code, such as the search for the source lines of
a traceback, continues without a file that it may not open.
"""

from __future__ import annotations

import builtins
import io
import sys
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, NoReturn, Tuple

from . import log

_FILES = "a plugin has no files except those of granted folders, which pbg_plugin.files reads"
_CLOCK = "a plugin has no clock, so that a repeated run gives the same numbers"
_RANDOM = "a plugin has no randomness except its seeds: draw from pbg_plugin.Rng(seed)"
_NETWORK = "a plugin has no network"
_ANSWER = "a plugin has no standard input: declare parameters instead"
_THREADS = "a plugin has only one thread, so the wait would never end"
_PROCESS = "a plugin cannot end the process: raise an exception"

#: Reason, module and functions. The functions include those that would return a result although a
#: file is missing.
_FUNCTIONS = [
    (_ANSWER, "builtins", "input"),
    (_FILES, "builtins", "open"),
    (_FILES, "io", "open_code"),
    (
        _FILES,
        "os",
        "access chdir chmod close closerange device_encoding dup fdatasync fpathconf fsync "
        "ftruncate isatty link listdir lseek lstat mkdir open pathconf posix_fadvise pread pwrite "
        "read readinto readlink remove rename replace rmdir scandir stat symlink truncate unlink "
        "utime walk write",
    ),
    (_FILES, "os.path", "exists isdir isfile islink ismount lexists"),
    (_FILES, "glob", "glob iglob"),
    (_CLOCK, "os", "times"),
    (
        _CLOCK,
        "time",
        "clock_getres clock_gettime clock_gettime_ns get_clock_info monotonic monotonic_ns "
        "perf_counter perf_counter_ns process_time process_time_ns sleep time time_ns",
    ),
    (_RANDOM, "os", "urandom"),
    (_PROCESS, "os", "_exit abort"),
]

#: Reason, class and methods, for classes that can be changed.
_METHODS = [
    (_FILES, "pathlib.Path", "glob rglob walk"),
    (_THREADS, "threading.Condition", "wait"),
    (_NETWORK, "socket.socket", "__init__"),
]

#: Functions of `time` that use the current time if they get none, and the number of arguments
#: before the time.
_OF_NOW = {"asctime": 0, "ctime": 0, "gmtime": 0, "localtime": 0, "strftime": 1}

#: Places of the functions to replace: the names of a module, one name, and its replacement.
_places: List[Tuple[Dict[str, Any], str, Any]] = []


def find() -> None:
    """Finds the functions to replace, also those imported by name. Called while a component is built,
    after the author's imports; until the component is complete, imports need files."""
    instead = _instead()
    _places.clear()
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        _places.extend(
            (names, name, instead[id(value)][1])
            for name, value in names.items()
            if id(value) in instead
        )


def replace() -> None:
    """Replaces the functions that were found; called in a complete component."""
    for names, name, function in _places:
        names[name] = function
    for why, path, methods in _METHODS:
        module, _, kind = path.rpartition(".")
        if module in sys.modules:
            for method in methods.split():
                called = path if method == "__init__" else f"{path}.{method}"
                setattr(getattr(sys.modules[module], kind), method, _raiser(called, why))
    if "random" in sys.modules:
        _ask_for_seeds(sys.modules["random"])
    if "logging" in sys.modules:
        _log_without_clock(sys.modules["logging"])


class NoInput(io.TextIOBase):
    """Standard input, which raises an error when read."""

    def read(self, size: Any = -1, /) -> NoReturn:
        raise _error("sys.stdin", _ANSWER)

    def readline(self, size: Any = -1, /) -> NoReturn:
        raise _error("sys.stdin", _ANSWER)


def _error(called: str, why: str) -> PermissionError:
    return PermissionError(f"{called}: {why}")


def _raiser(called: str, why: str) -> Callable[..., NoReturn]:
    def forbidden(*arguments: Any, **named: Any) -> NoReturn:
        raise _error(called + "()", why)

    return forbidden


def _instead() -> Dict[int, Tuple[Any, Any]]:
    """Returns objects and their replacements, by identity, since some of the objects cannot be hashed."""
    pairs: List[Tuple[Any, Any]] = []
    for why, module, functions in _FUNCTIONS:
        owner = sys.modules.get(module)
        prefix = "" if owner is builtins else module + "."
        for function in functions.split():
            if hasattr(owner, function):
                pairs.append((getattr(owner, function), _raiser(prefix + function, why)))
    if "time" in sys.modules:
        for name, before in _OF_NOW.items():
            function = getattr(sys.modules["time"], name)
            pairs.append((function, _with_time(function, "time." + name, before)))
    dates: Any = sys.modules.get("datetime")
    if dates:
        pairs.append((dates.datetime, _without_now(dates.datetime, "now today utcnow")))
        pairs.append((dates.date, _without_now(dates.date, "today")))
    random: Any = sys.modules.get("random")
    if random:
        # The changed class requires a seed.
        pairs.append((random.seed, lambda *given, **named: random._inst.seed(*given, **named)))
    return {id(function): (function, other) for function, other in pairs}


def _with_time(function: Callable[..., Any], called: str, before: int) -> Callable[..., Any]:
    """Wraps a function of `time` so that it requires a time."""

    def told(*arguments: Any) -> Any:
        if len(arguments) <= before or arguments[before] is None:
            raise _error(f"{called}() without a time", _CLOCK)
        return function(*arguments)

    return told


def _without_now(kind: Any, methods: str) -> Any:
    """Returns a replacement for a class of `datetime`, which cannot be changed, without methods that use
    the current time. An instance of the original class is an instance of the replacement."""
    made: Any = None

    class Kind(type):
        def __instancecheck__(cls, thing: Any) -> bool:
            return isinstance(thing, kind) if cls is made else super().__instancecheck__(thing)

        def __subclasscheck__(cls, other: Any) -> bool:
            return issubclass(other, kind) if cls is made else super().__subclasscheck__(other)

    called = f"datetime.{kind.__name__}"
    raisers = {name: staticmethod(_raiser(f"{called}.{name}", _CLOCK)) for name in methods.split()}
    # The name is also used by the repr of instances.
    made = Kind(called, (kind,), raisers)
    return made


def _ask_for_seeds(random: Any) -> None:
    """Makes the generators of `random` require a seed."""
    plain_new, plain_seed = random.Random.__new__, random.Random.seed

    def new(cls: Any, *arguments: Any, **named: Any) -> Any:
        # Without this seed, the system would be asked for one before `seed` is called.
        return plain_new(cls, 0)

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is None:
            raise _error("random without a seed", _RANDOM)
        plain_seed(self, a, version)

    random.Random.__new__, random.Random.seed = new, seed


def _log_without_clock(logging: Any) -> None:
    """Sets the time of `logging` records to 0, and sends records for standard output or error to the
    host's log, by level."""
    plain_emit = logging.StreamHandler.emit
    # Handlers that were created while the component was built have the streams of that time.
    system = (sys.__stdout__, sys.__stderr__)

    def emit(self: Any, record: Any) -> None:
        if self.stream not in (sys.stdout, sys.stderr, *system):
            plain_emit(self, record)
            return
        write = log.debug
        for least, other in ((20, log.info), (30, log.warn), (40, log.error)):
            write = other if record.levelno >= least else write
        for line in self.format(record).splitlines():
            write(line)

    still = {"time": lambda: 0.0, "time_ns": lambda: 0}
    logging.time = SimpleNamespace(**{**vars(logging.time), **still})
    logging._startTime = 0
    logging.StreamHandler.emit = emit
