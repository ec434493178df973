"""Edges with candidates that are listed for each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Union

from ._arguments import name
from .errors import DataError, UsageError

Side = Literal["head", "tail"]
ListedEdge = tuple[str, str, str, Side, Sequence[str]]
"""An edge, its side that is ranked, and the candidates for this side."""
Listed = Union[str, "os.PathLike[str]", Iterable[ListedEdge]]
"""Edges with candidates: a file, whose lines have head, relation, tail, `head` or `tail`, and the candidates, separated
by tabs; or an iterable of tuples `(head, relation, tail, "tail", candidates)`."""

_Row = tuple[str, str, str, str, bool, list[str]]

_HELP = (
    "each line has the left entity, the relation, the right entity, `head` or `tail` for the side that is ranked, and at "
    "least one candidate for it, separated by tabs"
)


def blocks_of(listed: Listed) -> Callable[[int, int, int], list[_Row]]:
    """Returns a function that returns the next edges: at most the given numbers of edges, of candidates and of bytes,
    and one more edge; none at the end."""
    rows = _lines(listed) if isinstance(listed, (str, os.PathLike)) else _tuples(listed)

    def block(edges: int, candidates: int, size: int) -> list[_Row]:
        found: list[_Row] = []
        while len(found) < edges and candidates > 0 and size > 0:
            row = next(rows, None)
            if row is None:
                break
            found.append(row)
            candidates -= len(row[-1])
            size -= sum(map(len, row[-1]))
        return found

    return block


def _lines(path: str | os.PathLike[str]) -> Iterator[_Row]:
    try:
        # Names may contain other line separators than "\n".
        with open(path, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                line = line.removesuffix("\n").removesuffix("\r")
                if line:
                    yield _line(f"{os.fspath(path)}, line {number}", line.split("\t"))
    except OSError as error:
        raise DataError(f"cannot read {os.fspath(path)}", causes=[str(error)]) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{os.fspath(path)}: is not text in UTF-8", causes=[str(error)]) from None


def _line(place: str, columns: list[str]) -> _Row:
    if len(columns) < 4:
        raise DataError(f"{place}: has {len(columns)} columns instead of at least 5", help=_HELP)
    head, relation, tail, side, *candidates = columns
    if side not in ("head", "tail"):
        raise DataError(f"{place}: the side is `{side}` instead of `head` or `tail`", help=_HELP)
    if not candidates:
        raise DataError(f"{place}: has no candidates", help=_HELP)
    return place, head, relation, tail, side == "head", candidates


def _tuples(listed: Iterable[Any]) -> Iterator[_Row]:
    if not isinstance(listed, Iterable):
        raise UsageError(
            "candidates: expected a number, a file or an iterable of tuples (head, relation, tail, side, candidates), "
            f"not {listed!r}"
        )
    for number, edge in enumerate(listed):
        place = f"candidates[{number}]"
        try:
            head, relation, tail, side, of = edge
        except (TypeError, ValueError):
            raise UsageError(
                f"{place}: expected a tuple (head, relation, tail, side, candidates), not {edge!r}"
            ) from None
        if side not in ("head", "tail"):
            raise UsageError(f"{place}: the side is {side!r} instead of 'head' or 'tail'")
        if isinstance(of, str):
            raise UsageError(f"{place}: its candidates are {of!r} instead of a list of names")
        names = [name(place, candidate) for candidate in of]
        if not names:
            raise UsageError(f"{place}: has no candidates")
        first, by, last = (name(place, part) for part in (head, relation, tail))
        yield place, first, by, last, side == "head", names
