"""Edges of datasets and graphs that other programs have written."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pbg_host
import pytest
from conftest import Keys
from pbg_host import datasets
from pbg_host._datasets.layouts import _lines

CODEX = [("Q928", "P530", "Q41"), ("Q443897", "P101", "Q207628"), ("Q1014", "P530", "Q148")]
"""The first lines of CoDEx-S's validation edges."""

YED = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="label" attr.type="string"/>
  <key id="d1" for="edge" attr.name="relation" attr.type="string"><default>knows</default></key>
  <key id="d2" for="edge" attr.name="since" attr.type="double"/>
  <graph id="G" edgedefault="directed">
    <node id="n0"><data key="d0">Ann</data></node>
    <node id="n1"/>
    <edge id="e0" source="n0" target="n1"><data key="d2">1.5</data></edge>
    <edge source="n1" target="n0"><data key="d1">likes &amp; trusts</data><data key="d2">2</data></edge>
  </graph>
</graphml>
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def lines(rows: Iterable[Iterable[Any]], separator: str = "\t") -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def imported(keys: Keys, **edges: Any) -> dict[str, Any]:
    """Imports edge sets. Returns the number of edges by set, and the number of entities."""
    report = pbg_host.import_edges(edges=edges, fresh=True, **keys)
    found = {one["name"]: one["edges"] for one in report["edge_sets"]}
    return {**found, "entities": report["entity_types"][0]["entities"]}


def entities(keys: Keys) -> list[str]:
    import pyarrow as pa

    names = pa.ipc.open_file(Path(keys["dataset"], "entities_all.arrow")).read_all()["name"]
    return sorted(names.to_pylist())


def test_codex_and_pykeen_texts(tmp_path: Path, keys: Keys) -> None:
    for file in ("train", "valid", "test"):
        write(tmp_path / "codex/data/triples/codex-s" / f"{file}.txt", lines(CODEX))
    found = datasets.load("CoDEx-S", root=tmp_path / "codex")
    assert (found.layout, found.folder.name, sorted(found.edges)) == ("codex", "codex-s", ["test", "train", "valid"])
    assert imported(keys, **found.edges) == {"train": 3, "valid": 3, "test": 3, "entities": 6}
    write(tmp_path / "FB15k_237/train.tsv.gz", lines(CODEX))
    found = datasets.load("fb15k-237", root=tmp_path)
    assert found.layout == "pykeen"
    assert imported(keys, **found.edges) == {"train": 3, "entities": 6}


def test_pykeen_numbers(tmp_path: Path, keys: Keys) -> None:
    for folder in ("training", "testing"):
        write(tmp_path / folder / "numeric_triples.tsv.gz", "head\trelation\ttail\n0\t0\t1\n1\t0\t0\n")
        write(tmp_path / folder / "entity_to_id.tsv.gz", "id\tlabel\n0\tann lee\n1\tbob\n")
        write(tmp_path / folder / "relation_to_id.tsv.gz", "id\tlabel\n0\tknows\n")
    found = datasets.load("anything", root=tmp_path)
    assert list(found.edges["train"]) == [("ann lee", "knows", "bob"), ("bob", "knows", "ann lee")]  # type: ignore[arg-type]
    assert imported(keys, **found.edges) == {"train": 2, "test": 2, "entities": 2}
    assert entities(keys) == ["ann lee", "bob"]


def test_libkge(tmp_path: Path, keys: Keys) -> None:
    folder = tmp_path / "toy"
    write(folder / "dataset.yaml", "dataset:\n  name: toy\n")
    write(folder / "entity_ids.del", "0\tNode 0\n1\tNode 1\n")
    write(folder / "relation_ids.del", "0\tRelation 0\n")
    for file in ("train", "valid", "test"):
        write(folder / f"{file}.del", "0\t0\t1\n")
    found = datasets.load("toy", root=tmp_path)
    assert found.layout == "libkge"
    assert imported(keys, **found.edges) == {"train": 1, "valid": 1, "test": 1, "entities": 2}
    assert entities(keys) == ["Node 0", "Node 1"]
    write(folder / "test.del", "0\t0\t1\n0\t1\t1\n")
    with pytest.raises(pbg_host.DataError, match=r"test.del, line 2: the number '1' is not in relation_ids.del"):
        list(found.edges["test"])  # type: ignore[arg-type]
    write(folder / "train.del", "0\t0\n")
    with pytest.raises(pbg_host.DataError, match="train.del, line 1: expected 3 columns"):
        list(found.edges["train"])  # type: ignore[arg-type]
    (folder / "entity_ids.del").unlink()
    with pytest.raises(pbg_host.DataError, match="entity_ids.del: does not exist"):
        list(found.edges["train"])  # type: ignore[arg-type]


def test_ogb(tmp_path: Path, keys: Keys) -> None:
    raw = tmp_path / "ogbl_toy" / "raw"
    write(raw / "edge.csv.gz", "0,4\n4,2\n2,3\n")
    write(raw / "num-node-list.csv.gz", "5\n")
    write(raw / "num-edge-list.csv.gz", "3\n")
    found = datasets.load("ogbl-toy", root=tmp_path)
    assert found.layout == "ogb"
    one = {**keys, "relations": [{"name": "r", "lhs": "all", "rhs": "all"}]}
    assert imported(one, **found.edges) == {"train": 3, "entities": 4}
    write(raw / "edge_reltype.csv.gz", "1\n0\n1\n")
    found = datasets.load("ogbl-toy", root=tmp_path)
    assert list(found.edges["train"]) == [("0", "1", "4"), ("4", "0", "2"), ("2", "1", "3")]  # type: ignore[arg-type]
    write(raw / "edge_reltype.csv.gz", "1\n0\n")
    found = datasets.load("ogbl-toy", root=tmp_path)
    with pytest.raises(pbg_host.DataError, match="edge_reltype.csv.gz: ends before line 3"):
        list(found.edges["train"])  # type: ignore[arg-type]
    split = tmp_path / "ogbl_toy/split/time"
    split.mkdir(parents=True)
    for name in ("train", "valid"):
        np.savez(split / f"{name}.npz", head=[0, 1], relation=[7, 7], tail=[1, 2])
    found = datasets.load("ogbl-toy", root=tmp_path)
    assert imported(keys, **found.edges) == {"train": 2, "valid": 2, "entities": 3}


def test_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(pbg_host.DataError, match="contains no dataset 'fb15k'"):
        datasets.load("fb15k", root=tmp_path)
    (tmp_path / "ogbl_biokg/raw/relations").mkdir(parents=True)
    with pytest.raises(pbg_host.DataError, match="a folder for each kind of relation"):
        datasets.load("ogbl-biokg", tmp_path)
    with pytest.raises(pbg_host.UsageError, match="the name of a dataset, not NoneType"):
        datasets.load(None, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(pbg_host.UsageError, match="belong together"):
        datasets.load("fb15k", root=tmp_path, url="https://example.org/fb15k.zip")
    write(tmp_path / "train.txt", lines(CODEX))
    write(tmp_path / "train.tsv", lines(CODEX))
    with pytest.raises(pbg_host.DataError, match="both train.txt and train.tsv"):
        datasets.load("fb15k", root=tmp_path)


def archive(path: Path, *members: tuple[str, bytes]) -> tuple[str, str]:
    """Writes an archive. Returns its address and checksum."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return path.as_uri(), hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_download_is_verified(tmp_path: Path) -> None:
    text = lines(CODEX).encode()
    url, sha256 = archive(tmp_path / "toy.tar.gz", ("toy/train.txt", text), ("toy/test.txt", text))
    with pytest.raises(pbg_host.DataError, match="has the SHA-256"):
        datasets.load("toy", root=tmp_path / "sets", url=url, sha256="0" * 64)
    assert list((tmp_path / "sets").iterdir()) == []
    found = datasets.load("toy", root=tmp_path / "sets", url=url, sha256=sha256)
    assert sorted(found.edges) == ["test", "train"]
    # It is there now.
    assert datasets.load("toy", root=tmp_path / "sets", url="https://nowhere.invalid/", sha256=sha256) == found
    url, sha256 = archive(tmp_path / "bad.tar.gz", ("../outside.txt", text))
    with pytest.raises(pbg_host.DataError, match="outside of its folder"):
        datasets.load("bad", root=tmp_path / "sets", url=url, sha256=sha256)
    assert not (tmp_path / "outside.txt").exists() and not (tmp_path / "sets/bad").exists()
    damaged = tmp_path / "damaged.tar.gz"
    damaged.write_bytes((tmp_path / "toy.tar.gz").read_bytes()[:60])
    with pytest.raises(pbg_host.DataError, match="not a complete archive"):
        datasets.download(damaged.as_uri(), tmp_path / "new", sha256=hashlib.sha256(damaged.read_bytes()).hexdigest())


def test_damaged_gzip(tmp_path: Path) -> None:
    """A byte of a compressed file that is wrong, or that is missing, is an error of the package wherever it is."""

    def harm(path: Path) -> Iterator[Path]:
        whole = path.read_bytes()
        for at in range(2, len(whole), 3):
            damaged = path.with_name(f"damaged-{path.name}")
            damaged.write_bytes(whole[:at])
            yield damaged
            damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
            yield damaged

    def tries(path: Path, read: Callable[[Path], object]) -> int:
        refused = 0
        for damaged in harm(path):
            try:
                read(damaged)
            except pbg_host.DataError as error:
                refused += 1
                assert str(damaged.name) in str(error)
        return refused

    graph = write(tmp_path / "yed.graphml.gz", YED)
    assert tries(graph, lambda path: list(datasets.read_graphml(path))) > 50
    (tmp_path / "lines").mkdir()
    pairs = write(tmp_path / "lines" / "edge.csv.gz", lines([(str(at), str(at * 7 % 11)) for at in range(60)]))
    assert tries(pairs, lambda path: list(_lines(path))) > 50
    text = lines(CODEX).encode()
    archive(tmp_path / "toy.tar.gz", ("toy/train.txt", text), ("toy/test.txt", text))

    def fetch(path: Path) -> None:
        new = tmp_path / "new"
        datasets.download(path.as_uri(), new, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        shutil.rmtree(new)

    assert tries(tmp_path / "toy.tar.gz", fetch) > 50


def test_graphml(tmp_path: Path, keys: Keys) -> None:
    path = write(tmp_path / "yed.graphml", YED)
    expected = [("n0", "knows", "n1"), ("n1", "likes & trusts", "n0")]
    assert list(datasets.read_graphml(path)) == expected
    assert list(datasets.read_graphml(write(tmp_path / "yed.graphml.gz", YED))) == expected
    weighted = datasets.read_graphml(path, weight="since")
    assert list(weighted) == [("n0", "knows", "n1", 1.5), ("n1", "likes & trusts", "n0", 2.0)]
    assert imported(keys, train=datasets.read_graphml(path)) == {"train": 2, "entities": 2}
    for text, message in (
        (YED[:-40], "not complete XML"),
        ("<html/>", "is not GraphML: its root is `html`"),
        (YED.replace(' source="n1"', ""), "edge 2 has no source"),
        ("", "not complete XML"),
    ):
        with pytest.raises(pbg_host.DataError, match=message):
            list(datasets.read_graphml(write(tmp_path / "bad.graphml", text)))
    with pytest.raises(pbg_host.DataError, match="edge 1 has no attribute `kind`"):
        list(datasets.read_graphml(path, relation="kind"))
    with pytest.raises(pbg_host.DataError, match="weight 'knows', which is not a number"):
        list(datasets.read_graphml(path, weight="relation"))
    with pytest.raises(pbg_host.DataError, match="there is no such file"):
        list(datasets.read_graphml(tmp_path / "missing.graphml"))


def test_graphml_of_a_multigraph(tmp_path: Path) -> None:
    edges = [("a", "likes", "b"), ("b", "likes", "c"), ("a", "knows", "b")]
    graph = networkx.MultiDiGraph()
    for lhs, rel, rhs in edges:
        graph.add_edge(lhs, rhs, key=rel)
    path = tmp_path / "keys.graphml"
    networkx.write_graphml(graph, path)
    with pytest.raises(pbg_host.DataError, match="'likes' of an earlier edge.*relation='id'"):
        list(datasets.read_graphml(path))
    assert sorted(datasets.read_graphml(path, relation="id")) == sorted(edges)
    # Numbers are no relations: NetworkX gives them to edges whose keys nobody chose.
    networkx.write_graphml(networkx.MultiDiGraph([("a", "b"), ("a", "b"), ("b", "c")]), path)
    assert list(datasets.read_graphml(path)) == [("a", "b"), ("a", "b"), ("b", "c")]


def test_networkx_writes_what_is_read(tmp_path: Path, keys: Keys) -> None:
    graph = networkx.MultiDiGraph()
    for lhs, rel, rhs in CODEX:
        graph.add_edge(lhs, rhs, key=rel, weight=2.0)
    assert sorted(datasets.edges_of(graph)) == sorted(CODEX)
    assert all(row[3] == 2.0 for row in datasets.edges_of(graph, weight="weight"))  # type: ignore[misc]
    assert imported(keys, train=graph) == {"train": 3, "entities": 6}
    simple = networkx.DiGraph()
    for lhs, rel, rhs in CODEX:
        simple.add_edge(lhs, rhs, relation=rel)
    networkx.write_graphml(simple, tmp_path / "g.graphml")
    assert sorted(datasets.read_graphml(tmp_path / "g.graphml")) == sorted(CODEX)
    assert sorted(datasets.edges_of(simple)) == sorted(CODEX)
    plain = networkx.path_graph(4)
    assert list(datasets.edges_of(plain)) == [("0", "1"), ("1", "2"), ("2", "3")]
    simple.add_edge("Q1", "Q2")
    with pytest.raises(pbg_host.DataError, match="'Q1', 'Q2' has no attribute `relation`"):
        list(datasets.edges_of(simple))
    with pytest.raises(pbg_host.UsageError, match="not list"):
        list(datasets.edges_of([("a", "b")]))


def test_npz(tmp_path: Path, keys: Keys) -> None:
    path = tmp_path / "edges.npz"

    def read() -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for table in datasets.read_npz(path):
            columns = [table[name] for name in ("lhs", "rel", "rhs", "weight") if name in table]
            rows.extend(zip(*columns))
        return rows

    np.savez(path, edge_index=np.array([[0, 1], [1, 2]]), edge_reltype=np.array([[5], [6]]))
    assert read() == [(0, 5, 1), (1, 6, 2)]
    assert imported(keys, train=datasets.read_npz(path)) == {"train": 2, "entities": 3}
    np.savez(path, head=["a", "b"], tail=["b", "c"], relation=["r", "r"], weight=[0.5, 1.0])
    assert read() == [("a", "r", "b", 0.5), ("b", "r", "c", 1.0)]
    np.savez(path, np.array([[0, 3, 1], [1, 3, 2]]))
    assert read() == [(0, 3, 1), (1, 3, 2)]
    # As scipy.sparse.save_npz writes a matrix with 2 in (0, 1) and 3 in (1, 0).
    shape, data = np.array([2, 2]), np.array([2.0, 3.0])
    np.savez(path, row=[0, 1], col=[1, 0], data=data, shape=shape, format=b"coo")
    assert read() == [(0, 1, 2.0), (1, 0, 3.0)]
    np.savez(path, indices=[1, 0], indptr=[0, 1, 2], data=data, shape=shape, format=b"csr")
    assert read() == [(0, 1, 2.0), (1, 0, 3.0)]


def test_damaged_npz(tmp_path: Path) -> None:
    with pytest.raises(pbg_host.DataError, match="there is no such file"):
        list(datasets.read_npz(tmp_path / "missing.npz"))
    path = tmp_path / "edges.npz"

    def fails(message: str) -> None:
        with pytest.raises(pbg_host.DataError, match=message):
            list(datasets.read_npz(path))

    np.savez(path, edge_index=np.arange(1000).reshape(2, 500))
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    fails("not a complete archive")
    path.write_bytes(whole[:300] + b"\xff" * 20 + whole[320:])
    fails("not a complete archive")
    np.savez(path, edge_index=np.zeros((3, 4), dtype=int))
    fails(r"shape \[3, 4\]")
    np.savez(path, head=[1], tail=[1, 2])
    fails("differ in length")
    np.savez(path, head=np.array([{}], dtype=object), tail=[1])
    fails("not a complete archive")
    np.savez(path, x=[1], y=[2])
    fails("has the arrays x, y")
    np.savez(path, indices=[1, 0], indptr=[0, 5, 2], data=[1, 1], shape=[2, 2], format=b"csr")
    fails("contradict each other")
    path.write_bytes(json.dumps({}).encode())
    fails("not a complete archive")
