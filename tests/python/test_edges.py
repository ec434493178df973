"""Edges from files, Arrow, pandas, polars, dictionaries and iterables: the same dataset each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pbg_host
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Keys, edges, keys_in

EDGES = edges(1000)
COLUMNS = dict(zip(("lhs", "rel", "rhs"), map(list, zip(*EDGES))))


def batches() -> Iterator[pa.RecordBatch]:
    table = pa.table(COLUMNS)
    for start in range(0, len(EDGES), 300):
        yield from table.slice(start, 300).to_batches()


def file_of(folder: Path) -> Path:
    path = folder / "train.tsv"
    path.write_text("".join("\t".join(edge) + "\n" for edge in EDGES))
    return path


class WithoutBatches:
    """A lazy frame of polars before it had `collect_batches`."""

    def collect_schema(self) -> polars.Schema:
        return polars.Schema(dict.fromkeys(COLUMNS, polars.String))

    def collect(self) -> polars.DataFrame:
        return polars.DataFrame(COLUMNS)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "file": file_of,
    "files": lambda folder: [file_of(folder)],
    "table": lambda _: pa.table(COLUMNS),
    "reader": lambda _: pa.RecordBatchReader.from_batches(pa.table(COLUMNS).schema, batches()),
    "batch": lambda _: pa.table(COLUMNS).to_batches()[0],
    "batches": lambda _: batches(),
    "pandas": lambda _: pandas.DataFrame(COLUMNS),
    "categories": lambda _: pandas.DataFrame(COLUMNS).astype({"rel": "category"}),
    "polars": lambda _: polars.DataFrame(COLUMNS),
    "lazy": lambda _: polars.LazyFrame(COLUMNS),
    "lazy frames": lambda _: [polars.LazyFrame(COLUMNS)[:300], polars.LazyFrame(COLUMNS)[300:]],
    "lazy without batches": lambda _: WithoutBatches(),
    "columns": lambda _: COLUMNS,
    "arrays": lambda _: [{name: np.array(column) for name, column in COLUMNS.items()}],
    "tuples": lambda _: iter(EDGES),
    "frames": lambda _: (pandas.DataFrame(COLUMNS)[at : at + 400] for at in range(0, 1000, 400)),
}


def identity(folder: Path) -> str:
    """Returns a checksum that covers every byte of a dataset."""
    manifest: dict[str, str] = json.loads((folder / "manifest.json").read_text())
    return manifest["crc32"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("expected")
    return imported(folder, file_of(folder))


def imported(folder: Path, source: Any) -> str:
    pbg_host.import_edges(keys_in(folder), edges={"train": source})
    left = sorted(path.name for path in folder.iterdir() if path.name != "train.tsv")
    assert left == ["data"], "no other files are left"
    return identity(folder / "data")


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_makes_the_same_dataset(source: str, expected: str, tmp_path: Path) -> None:
    assert imported(tmp_path, SOURCES[source](tmp_path)) == expected


def test_weights_numbers_and_other_names(keys: Keys) -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [2, 3, 1], "w": [0.5, 1.0, 2.0]})
    keys["relations"][0]["name"] = "near"
    columns = {"lhs": "a", "rhs": "b", "weight": "w"}
    report = pbg_host.import_edges(keys, edges={"train": frame}, columns=columns)
    assert report["entity_types"][0]["entities"] == 3
    report = pbg_host.import_edges(keys, edges={"more": [(1, "near", 4, 0.25)]})
    assert report["kept_edge_sets"] == ["train"] and report["entity_types"][0]["entities"] == 4


def test_a_dictionary_is_what_a_table_of_its_columns_is(tmp_path: Path) -> None:
    """`columns` works with both, and columns that it leaves out are not read."""
    columns: dict[str, Any] = {
        "x": ["a", "b"], "kind": ["r", "s"], "y": ["b", "c"], "since": [None, object()], "w": [0.5, 2],
        "lhs": ["not", "meant"],
    }
    ways: list[Any] = [
        {"lhs": "x", "rel": "kind", "rhs": "y", "weight": "w"},
        "lhs=x,rel=kind,rhs=y,weight=w",
        ["lhs", "rel", "rhs", "-", "weight", "-"],
    ]
    found = set()
    for at, given in enumerate(ways):
        for kind in ("table", "dictionary"):
            keys = keys_in(tmp_path / f"{kind}{at}")
            source = {**columns, "since": [None, "then"]}
            table = pandas.DataFrame(source) if kind == "table" else columns
            pbg_host.import_edges(keys, edges={"train": table}, columns=given)
            found.add(identity(keys["dataset"]))
    assert len(found) == 1
    with pytest.raises(pbg_host.DataError, match="edges.'train'.: it has no column `z` but x, kind"):
        pbg_host.import_edges(keys, edges={"train": columns}, columns={"lhs": "z", "rhs": "y"})


def test_a_fourth_column_is_said_to_be_a_weight(keys: Keys, tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("a\tr\tb\t0.5\nb\tr\tc\t2\n")
    with pytest.raises(pbg_host.DataError, match="columns=.lhs,rel,rhs,weight") as raised:
        pbg_host.import_edges(keys, edges={"train": file})
    assert "--columns" not in str(raised.value)
    pbg_host.import_edges(keys, edges={"train": file}, columns="lhs,rel,rhs,weight")


def test_progress_is_heard_and_may_end_it(keys: Keys) -> None:
    heard = []
    pbg_host.import_edges(
        keys, edges={"train": EDGES}, progress=lambda *told: heard.append(told)
    )
    phases = {phase for phase, _, _ in heard}
    told = {phase for phase in phases if "read as: head=" in phase}
    assert len(told) == 1
    assert phases - told == {"reading train", "placing entities", "writing train"}

    def stop(_phase: str, _done: int, _total: int) -> None:
        raise RuntimeError("enough")

    before = identity(keys["dataset"])
    with pytest.raises(RuntimeError, match="enough"):
        pbg_host.import_edges(keys, edges={"train": EDGES[:10]}, progress=stop)
    assert identity(keys["dataset"]) == before, "the dataset changed"


def test_files_are_read_for_what_is_in_them(keys: Keys, tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    path.write_text("a,r,b\nc,s,d\nbad\n")
    with pytest.raises(pbg_host.DataError, match="a header or an edge") as raised:
        pbg_host.import_edges(keys, edges={"train": path}, on_bad_line="skip")
    assert "`header=True`" in str(raised.value) and "`header=False`" in str(raised.value)
    report = pbg_host.import_edges(
        keys, edges={"train": path}, header=False, separator="comma", on_bad_line="skip"
    )
    (said,) = report["read_as"]
    assert said.endswith("separated by commas, no header; read as: head=a, relation=r, tail=b")
    assert report["edge_sets"][0]["edges"] == 2
    assert report["edge_sets"][0]["skipped"]["lines"] == 1
    path.write_text("note\n#a\tr\tb\n")
    with pytest.raises(pbg_host.DataError, match='`comment="none"` for edges'):
        pbg_host.import_edges(keys, edges={"train": path}, skip_lines=1)
    report = pbg_host.import_edges(keys, edges={"train": path}, skip_lines=1, comment="none")
    assert "1 line skipped" in report["read_as"][0]
    for wrong in ({"separator": "::"}, {"comment": "ab"}, {"header": "yes"}, {"on_bad_line": "pass"}):
        with pytest.raises(pbg_host.UsageError, match=next(iter(wrong))):
            pbg_host.import_edges(keys, edges={"train": path}, **wrong)  # type: ignore[arg-type]


def test_terms_of_rdf_are_named_as_told(keys: Keys, tmp_path: Path) -> None:
    path = tmp_path / "people.ttl"
    path.write_text('@prefix a: <http://a/> .\na:ann a:knows a:bob, _:x ; a:age 5 .\n')
    report = pbg_host.import_edges(keys, edges={"train": path}, prefixes={"ex": "http://a/"})
    assert (report["edge_sets"][0]["edges"], report["edge_sets"][0]["skipped"]["literals"]) == (2, 1)
    assert report["read_as"][0].endswith("read as: head=ex:ann, relation=ex:knows, tail=ex:bob")
    options: Any = {"literals": "entities", "blank_nodes": "shared", "file_prefixes": True}
    report = pbg_host.import_edges(keys, edges={"train": path}, fresh=True, **options)
    assert report["edge_sets"][0]["edges"] == 3
    assert report["read_as"][0].endswith("read as: head=a:ann, relation=a:knows, tail=a:bob")
    wrongs: list[Any] = [{"literals": "keep"}, {"blank_nodes": "mine"}, {"prefixes": {"a:b": "http://a/"}}]
    for wrong in wrongs:
        with pytest.raises(pbg_host.UsageError, match=next(iter(wrong))):
            pbg_host.import_edges(keys, edges={"train": path}, **wrong)


@pytest.mark.parametrize("compression", ["brotli", "lz4", "zstd", "none"])
def test_parquet_in_all_compressions(keys: Keys, tmp_path: Path, compression: str) -> None:
    path = tmp_path / "edges"
    pq.write_table(pa.table(COLUMNS), path, compression=compression)
    report = pbg_host.import_edges(keys, edges={"train": path})
    assert report["edge_sets"][0]["edges"] == len(EDGES)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([("a", "r")], None),
        ([("a", "r", "b"), ("a", "b")], "2, 3 or 4 elements, not 2, 3"),
        ([1, 2], "each edge must be a tuple"),
        ([("a", "r", None)], "names must be text"),
        ([("a", "r", "b", "much")], "weights must be numbers, not 'much'"),
        ({"x": ["a"], "y": ["b"]}, "which of its columns x, y are the entities"),
        ({}, "the table has no columns"),
        ({"head": ["a"], "relation": ["r"], "predicate": ["s"], "tail": ["b"]}, "`relation` or `predicate`"),
        (
            pandas.DataFrame({"head": ["a"], "relation": ["r"], "predicate": ["s"], "tail": ["b"]}),
            "`relation` or `predicate`",
        ),
        ({"lhs": ["a"], "rhs": ["b"], "source": ["c"]}, "`lhs` or `source`"),
        ({"lhs": ["a", "b"], "rhs": ["c"]}, "different lengths: lhs has 2, rhs has 1"),
        (pa.table({"x": ["a"], "y": ["b"]}), "which of its columns"),
        (polars.LazyFrame({"x": ["a"], "y": ["b"]}), "which of its columns"),
        ([], "contains no edges"),
        (iter(()), "contains no edges"),
        ("none.tsv", "none.tsv"),
        ([pa.table({"lhs": ["a"], "rhs": ["b"]}), pa.table({"lhs": ["a"]})], "after the first 1"),
    ],
)
def test_what_is_wrong_with_edges_is_told(keys: Keys, source: Any, said: str | None) -> None:
    with pytest.raises(pbg_host.PbgError, match=said):
        pbg_host.import_edges(keys, edges={"train": source})
    assert not keys["dataset"].exists()


def test_errors_speak_of_what_was_handed_in(keys: Keys) -> None:
    nameless = pandas.DataFrame({"x": ["a"], "y": ["b"]})
    with pytest.raises(pbg_host.DataError) as raised:
        pbg_host.import_edges(keys, edges={"train": nameless})
    assert str(raised.value).startswith("edges['train']: which of its columns x, y are")
    assert '`columns={"lhs": NAME, "rel": NAME, "rhs": NAME}`' in str(raised.value)
    with pytest.raises(pbg_host.DataError) as raised:
        pbg_host.import_edges(keys, edges={"train": [("a", "r", "b"), ("", "r", "c")]})
    assert str(raised.value).startswith("edges['train'], row 2: "), raised.value
    with pytest.raises(pbg_host.UsageError, match="cannot be the name of an edge set"):
        pbg_host.import_edges(keys, edges={"tr/ain": [("a", "r", "b")]})


def test_other_things_are_no_edges(keys: Keys) -> None:
    with pytest.raises(pbg_host.UsageError, match="neither a file"):
        pbg_host.import_edges(keys, edges={"train": 5})  # type: ignore[dict-item]


def test_edges_are_not_imported_into_an_object_store(keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pbg_host.UsageError, match="s3://bucket/graph is in an object store"):
        pbg_host.import_edges({**keys, "dataset": "s3://bucket/graph"}, edges={"train": [("a", "near", "b")]})
    assert not (tmp_path / "s3:").exists()
