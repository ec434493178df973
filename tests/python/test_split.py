"""Division of edges: what is held out is seen in training, and is no copy or inverse of a trained edge."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pandas
import pbg_host
import polars
import pyarrow as pa
import pytest
from conftest import Keys, edges

Edge = tuple[str, str, str]
COLUMNS = ("head", "relation", "tail")


def with_inverses(count: int = 1500) -> list[Edge]:
    """Returns a ring with shortcuts, whose edges have inverses, and some entities with one edge only."""
    plain = edges(count)
    inverses = [(tail, f"inverse_{relation}", head) for head, relation, tail in plain[::2]]
    leaves = [(f"leaf{at}", "r0", f"e{at}") for at in range(40)]
    return [*plain, *inverses, *leaves, ("e1", "rare", "e2")]


def rows_of(table: Any) -> list[Edge]:
    if isinstance(table, list):
        return table
    if isinstance(table, (pa.Table, dict)):
        table = pandas.DataFrame({name: list(map(str, table[name])) for name in COLUMNS})
    return list(zip(*(list(table[name]) for name in COLUMNS)))


def check(split: pbg_host.Split, *, together: bool = True) -> None:
    """Asserts the rules of every split."""
    trained = rows_of(split["train"])
    entities = {name for head, _, tail in trained for name in (head, tail)}
    relations = {relation for _, relation, _ in trained}
    pairs: list[set[frozenset[str]]] = []
    for name in split:
        here = rows_of(split[name])
        assert {head for head, _, _ in here} | {tail for _, _, tail in here} <= entities
        assert {relation for _, relation, _ in here} <= relations
        pairs.append({frozenset((head, tail)) for head, _, tail in here})
    if together:
        assert sum(map(len, pairs)) == len(set().union(*pairs))


FORMS: dict[str, Callable[[list[Edge]], Any]] = {
    "tuples": list,
    "columns": lambda all: dict(zip(COLUMNS, map(list, zip(*all)))),
    "pandas": lambda all: pandas.DataFrame(all, columns=list(COLUMNS)),
    "polars": lambda all: polars.DataFrame(dict(zip(COLUMNS, zip(*all)))),
    "arrow": lambda all: pa.table(dict(zip(COLUMNS, map(list, zip(*all))))),
}


@pytest.mark.parametrize("form", FORMS)
def test_shares_of_every_form_are_honest(form: str) -> None:
    all_edges = with_inverses()
    source = FORMS[form](all_edges)
    split = pbg_host.split(source, valid=0.1, test=0.2, seed=3)
    assert list(split) == ["train", "valid", "test"]
    assert all(type(split[name]) is type(source) for name in split)
    check(split)
    parts = {name: rows_of(split[name]) for name in split}
    assert sorted(sum(parts.values(), [])) == sorted(all_edges) and not rows_of(split.left_out)
    wanted = {"valid": 0.1 * len(all_edges), "test": 0.2 * len(all_edges)}
    for name, count in wanted.items():
        assert len(parts[name]) == pytest.approx(count, abs=0.05 * count)
    # The same seed draws the same edges from every form.
    same = pbg_host.split(list(all_edges), valid=0.1, test=0.2, seed=3)
    assert rows_of(same["test"]) == parts["test"]
    assert rows_of(pbg_host.split(source, seed=4)["test"]) != parts["test"]


@pytest.mark.filterwarnings("ignore::pbg_host.PbgWarning")
def test_random_graphs_are_split_honestly() -> None:
    drawn = random.Random(7)
    for _ in range(60):
        names, count = drawn.randrange(2, 40), drawn.randrange(1, 200)

        def entity() -> str:
            return f"e{drawn.randrange(names)}"

        graph = [(entity(), f"r{drawn.randrange(3)}", entity()) for _ in range(count)]
        together = drawn.random() < 0.5
        options: dict[str, Any] = {"valid": drawn.random() * 0.5, "test": drawn.random() * 0.45}
        split = pbg_host.split(graph, seed=drawn.randrange(99), pairs_together=together, **options)
        check(split, together=together)
        assert sorted(sum(split.values(), [])) == sorted(graph)
        timed = [(*edge, at // 3) for at, edge in enumerate(graph)]
        try:
            split = pbg_host.split(timed, time=3, pairs_together=together, **options)
        except pbg_host.DataError:
            continue
        check(split, together=together)
        assert sorted([*sum(split.values(), []), *split.left_out]) == sorted(graph)


def test_the_latest_edges_are_held_out() -> None:
    graph = [(head, relation, tail, at // 7) for at, (head, relation, tail) in enumerate(edges(2000))]
    # An entity that only comes at the end, and a late inverse of a trained edge.
    late = [("new", "r0", "e1", 10**6), (graph[0][2], "r1", graph[0][0], 10**6)]
    drawn = random.Random(1)
    mixed = drawn.sample([*graph, *late], len(graph) + 2)
    frame = pandas.DataFrame(mixed, columns=[*COLUMNS, "at"])
    split = pbg_host.split(frame, time="at", pairs_together=False)
    check(split, together=False)
    train, valid, test = (split[name]["at"] for name in split)
    assert train.max() < valid.min() and valid.max() < test.min()
    assert len(valid) + len(test) == pytest.approx(400, abs=20)
    assert list(split.left_out["head"]) == ["new"]
    apart = pbg_host.split(mixed, time=3)
    check(apart)
    gone = set(apart.left_out)
    assert {late[0][:3], late[1][:3]} <= gone and len(apart["test"]) < len(test)
    # The position of the time is not that of a weight.
    assert all(len(edge) == 3 for edge in apart["train"])
    with pytest.raises(pbg_host.DataError, match="too many edges have the same time"):
        pbg_host.split([(*edge, 1) for edge in edges(20)], time=3)


def test_too_few_edges_that_may_be_held_out_are_told() -> None:
    path = [(f"e{at}", "r", f"e{at + 1}") for at in range(20)]
    with pytest.warns(pbg_host.PbgWarning, match="test: has . edges instead of 10, since other edges"):
        split = pbg_host.split(path, valid=0, test=0.5)
    check(split)
    assert list(split) == ["train", "test"]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("edges.tsv", {}, "not a str\n?.*read files into a table"),
        (iter([]), {}, "not a list_iterator"),
        ([("a", "r", "b"), ("a", "b")], {}, "all of the same length"),
        ([("a", "r", "b")], {"valid": 1.5}, "valid: expected a share"),
        ([("a", "r", "b")], {"valid": 0, "test": 0}, "valid and test: expected shares"),
        ([("a", "r", "b")], {"valid": 0.6, "test": 0.6}, "less than 1 together"),
        ([("a", "r", "b")], {"time": "at"}, "name the position"),
        ([("a", "r", "b")], {"time": 3}, "with a time at position 3"),
        ([("a", "r", "b", 3)], {"time": 0}, "that of an entity"),
        ({"head": ["a"], "tail": ["b"]}, {"time": "at"}, "there is no column 'at'"),
    ],
)
def test_what_cannot_be_split_is_told(source: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(pbg_host.UsageError, match=said):
        pbg_host.split(source, **options)


def test_data_without_edges_or_times_is_told() -> None:
    for source, options, said in (
        ([], {}, "there are no edges"),
        ({"x": ["a"], "y": ["b"]}, {}, "which of its columns x, y are the entities"),
        ([("a", "r", "b", 1), ("a", "r", "c", None)], {"time": 3}, "edge 1 has no time"),
        ([("a", "r", "b", 1), ("a", "r", "c", "x")], {"time": 3}, "cannot be compared"),
    ):
        with pytest.raises(pbg_host.DataError, match=said):
            pbg_host.split(source, **options)  # type: ignore[arg-type]


def test_a_table_of_ranks_by_relation_takes_few_lines(keys: Keys) -> None:
    frame = pandas.DataFrame(with_inverses(), columns=list(COLUMNS))
    pbg_host.import_edges(keys, edges=pbg_host.split(frame))
    pbg_host.train(keys, progress=False)
    table = pbg_host.breakdown(pbg_host.evaluate(keys, by="relation"), frame="pandas")
    assert len(table) > 3 and table["filtered.mrr"].between(0, 1).all()
