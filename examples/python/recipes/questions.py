"""Questions to a model as searches for the nearest vectors; the recipes next to this file import it.

A vector store holds the embeddings of entities and ranks them by a metric of its own. `asked` returns what a store needs
for a question: the vector to search with, and the exported embeddings. `compared` compares what a store has found with
the answer of the model itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pbg_host

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

Format = Literal["npy", "parquet"]
TOLERANCE = 1e-4
"""Difference of two scores, relative to the larger one or to 1, up to which they count as equal: stores add in another
order, and some of them store other numbers than they were given, such as vectors of length 1."""


@dataclass(frozen=True)
class Search:
    """A question as a search, and the answer of the model."""

    question: str
    comparator: str
    vector: Floats
    """The vector to search with, [d]."""
    shift: float
    """Number to add to the comparison of the vector with a stored one, which makes it the score."""
    stem: Path
    """Path of the exported embeddings of the candidates, [n, d], without its ending."""
    left_out: str | None
    """Entity that is stored but no candidate."""
    answer: pbg_host.Scored
    """The best candidates by the model itself."""

    @property
    def size(self) -> int:
        """Number of vectors that the store has to find."""
        return len(self.answer) + (self.left_out is not None)


def asked(
    arguments: Sequence[str] | None, doc: str | None, format: Format, *options: str
) -> tuple[Search, argparse.Namespace]:
    """Reads the arguments of a recipe, exports the model as `format`, and returns the search. `options` are further
    options of the recipe, with a text each."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("model", type=Path, help="folder of a checkpoint, or a configuration")
    parser.add_argument("--head")
    parser.add_argument("--tail")
    parser.add_argument("--relation", help="without one, the nearest entities are asked for")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--export", type=Path, default=Path("exported"), help="folder for the exported model")
    for option in options:
        parser.add_argument(option, required=True)
    given = parser.parse_args(arguments)
    if (given.head is None) == (given.tail is None):
        parser.error("name the head or the tail, and a relation")
    model = pbg_host.Model(given.model)
    model.export(given.export, format, overwrite=True)
    return search(model, given.export, given.head, given.relation, given.tail, given.k), given


def search(
    model: pbg_host.Model, exported: Path, head: str | None, relation: str | None, tail: str | None, k: int
) -> Search:
    """Returns the search for `(head, relation, ?)` or `(?, relation, tail)`, or, without a relation, for the nearest
    entities of one.

    Raises `ValueError` if no vector of the model's comparator and operator gives the order of the scores.
    """
    config, known = model.config, head or tail or ""
    if config["bias"]:
        raise ValueError("bias: the first number of an embedding is added to its scores, which no metric does")
    if relation is None:
        # Raises if there is no such entity, or one in several types.
        answer = model.neighbors(known, k)
        of_type = next(of for of in model.entity_types if known in model.names(of))
        vector = model.embeddings(of_type)[model.names(of_type).index(known)]
        question, shift, left_out = known, 0.0, known
    else:
        row = _row(model, relation)
        of_type = row["lhs"] if head is None else row["rhs"]
        vector, shift = query(model, head, relation, tail)
        question, left_out = f"({head or '?'}, {relation}, {tail or '?'})", None
        # Stores know no edges, so known ones are not left out.
        answer = model.predict(head=head, relation=relation, tail=tail, k=k, filter=[])
    stem = exported / f"entities_{of_type}"
    return Search(question, config["comparator"], vector, shift, stem, left_out, answer)


def query(model: pbg_host.Model, head: str | None, relation: str, tail: str | None) -> tuple[Floats, float]:
    """Returns the vector whose comparison with the embedding of a candidate, plus the number, is the candidate's score.

    With dynamic relations, and for heads, the operator transforms the entity that is known. With static relations it
    transforms tails: if these are asked for, the vector is transformed instead, where comparator and operator allow it.
    """
    vector = model.query_vector(head=head, relation=relation, tail=tail)
    operator, comparator = _row(model, relation)["operator"], model.config["comparator"]
    if model.config["dynamic_relations"] or head is None or operator == "none":
        return vector, 0.0
    of = model.operator(relation)
    if comparator == "dot":
        if operator == "translation":
            return vector, float(vector @ of["translation"])
        if operator == "diagonal":
            return vector * of["diagonal"], 0.0
        if operator == "linear":
            return of["linear_transformation"].T @ vector, 0.0
        if operator == "affine":
            return of["linear_transformation"].T @ vector, float(vector @ of["translation"])
        if operator == "complex_diagonal":
            turned = _complex(vector) * _complex(of["real"], of["imag"]).conj()
            return np.concatenate([turned.real, turned.imag]), 0.0
    elif comparator in ("l2", "squared_l2", "l1") and operator == "translation":
        return vector - of["translation"], 0.0
    raise ValueError(
        f"with static relations, the operator {operator!r} and the comparator {comparator!r}, each relation needs "
        "transformed candidates: train with dynamic_relations, or ask with `pbg_host.Model.predict`"
    )


def compared(search: Search, found: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Prints the names and scores that a store has found, best first, next to the answer of the model, and returns them.

    Raises `ValueError` if they differ. Entities whose scores differ by less than `TOLERANCE` may change places.
    """
    answer = search.answer
    kept = [(name, score + search.shift) for name, score in found if name != search.left_out][: len(answer)]
    print(search.question)
    for rank, ((name, score), (own, own_score)) in enumerate(zip(kept, answer), 1):
        print(f"{rank:3}  {score:10.4f}  {name:30}  {own_score:10.4f}  {own}")
    scores = dict(answer)
    last = min(scores.values())
    for (name, score), own_score in zip(kept, scores.values()):
        for expected in (own_score, scores.get(name, last)):
            if abs(score - expected) > TOLERANCE * max(1.0, abs(expected)):
                raise ValueError(f"{name} has the score {score:.6f} where the model has {expected:.6f}")
    if len(kept) != len(answer):
        raise ValueError(f"{len(kept)} entities were found, not {len(answer)}")
    print(f"the same {len(kept)} as by pbg_host")
    return kept


def unknown_metric(search: Search) -> ValueError:
    """Returns the error for a comparator that a store cannot compute."""
    return ValueError(f"this store has no metric for the comparator {search.comparator!r}")


def _row(model: pbg_host.Model, relation: str) -> Any:
    """Returns the entry of a relation in the configuration."""
    entries = {entry["name"]: entry for entry in model.config["relations"]}
    if model.config["dynamic_relations"]:
        return next(iter(entries.values()))
    return entries[relation] if relation in entries else entries["*"]


def _complex(*numbers: Floats) -> npt.NDArray[np.complex64]:
    """Returns complex numbers of their real and imaginary parts, which are two arrays or the halves of one."""
    re, im = numbers if len(numbers) == 2 else np.split(numbers[0], 2)
    return (re + 1j * im).astype(np.complex64)
