"""Read access to files in the folders that the user granted to this plugin.

`[[plugins.grants]] plugin = "NAME", read = ["FOLDER"]` in a configuration grants folders to the
plugin of that name. Paths are relative to a granted folder and never lead out of it. In an
ordinary interpreter, the files are those that a test provides.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Union

from . import bindings

_host: Any = bindings.found("wit_world.imports.files")

_provided: Dict[str, bytes] = {}


class Entry(NamedTuple):
    """Entry of a folder."""

    name: str
    #: Whether the entry is a folder; every other entry is a file.
    folder: bool
    #: Size of a file in bytes; 0 for a folder.
    bytes: int


def read(path: str) -> bytes:
    """Returns the content of a file. An OSError names the path and the problem."""
    if _host is not None:
        return bytes(_asked(_host.read, path))
    if path not in _provided:
        raise FileNotFoundError(f"{path}: no test has provided it")
    return _provided[path]


def read_text(path: str) -> str:
    """Returns the content of a text file in UTF-8."""
    return read(path).decode()


def entries(path: str = ".") -> List[Entry]:
    """Returns the entries of a folder, sorted by name; "." is the granted folder itself."""
    if _host is not None:
        return [Entry(e.name, e.folder, e.bytes) for e in _asked(_host.list, path)]
    prefix = "" if path == "." else path + "/"
    found = {}
    for name, content in _provided.items():
        if name.startswith(prefix):
            first, _, rest = name[len(prefix) :].partition("/")
            found[first] = Entry(first, bool(rest), 0 if rest else len(content))
    if not found:
        raise FileNotFoundError(f"{path}: no test has provided anything in it")
    return sorted(found.values())


def provide(path: str, content: Union[bytes, str]) -> None:
    """Provides a file that plugins can read; only outside the sandbox."""
    _provided[path] = content.encode() if isinstance(content, str) else content


def _asked(function: Any, path: str) -> Any:
    from .component import Err

    try:
        return function(path)
    except Err as error:
        raise OSError(error.value) from None
