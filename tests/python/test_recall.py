"""Indexes that find too few of the best: queries are exact then, or give a warning."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pbg_host
import pytest
from conftest import keys_in

QUESTIONS = [("e1", "r0", None), (None, "r1", "e2")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pbg_host.Model:
    """Trains embeddings that point in all directions, few of which an index with few links reaches."""
    drawn = random.Random(1)
    keys = keys_in(tmp_path_factory.mktemp("recall"))
    keys.update(dimension=48, num_epochs=1, lr=0.001, entities={"all": {"num_partitions": 1}})
    edges = [(f"e{at}", f"r{at % 3}", f"e{drawn.randrange(9000)}") for at in range(9000)]
    pbg_host.import_edges(keys, edges={"train": edges})
    pbg_host.train(keys, progress=False)
    return pbg_host.Model(keys)


def test_an_index_that_finds_too_little_is_not_used_and_says_so(model: pbg_host.Model) -> None:
    with pytest.warns(pbg_host.PbgWarning, match="walks find 0.* of the ten best .* unless `width=` is given"):
        report = model.build_index(links=4, build_width=4, recall_queries=40)
    recall = report["types"][0]["recall"][-1]
    assert recall["neighbors"] < 0.95 and recall["predictions"] < 0.95, recall
    wanted = [answer.names for answer in model.predict_all(QUESTIONS)]
    with pytest.warns(pbg_host.PbgWarning, match="required 0.95, so all entities are compared; `width=512`") as found:
        answers = model.predict_all(QUESTIONS, index=True)
    assert [answer.names for answer in answers] == wanted
    assert {Path(warning.filename).name for warning in found} == {"test_recall.py"}
    with pytest.warns(pbg_host.PbgWarning, match="so all entities are compared"):
        near = model.neighbors("e1", index=True)
    assert near.names == model.neighbors("e1").names


def test_a_width_that_finds_too_little_is_a_warning(model: pbg_host.Model) -> None:
    with pytest.warns(pbg_host.PbgWarning):
        model.build_index(links=4, build_width=4, recall_queries=40)
    # The recall at a larger width applies to smaller ones, too.
    for width in (32, 20):
        calls: list[Any] = [
            lambda: model.neighbors("e1", index=True, width=width),
            lambda: model.predict_all(QUESTIONS, index=True, width=width),
            lambda: model.predict(head="e1", relation="r0", index=True, width=width),
        ]
        for call in calls:
            with pytest.warns(pbg_host.PbgWarning, match=r"recall@10 .*; without `width=`"):
                call()


def test_an_index_that_was_not_measured_is_not_trusted(model: pbg_host.Model) -> None:
    model.build_index(recall_queries=0)
    with pytest.warns(pbg_host.PbgWarning, match="was not measured when the index was built"):
        near = model.neighbors("e1", index=True)
    assert near.names == model.neighbors("e1").names


@pytest.mark.filterwarnings("error")
def test_an_index_that_finds_nearly_all_is_used_without_a_word(model: pbg_host.Model) -> None:
    report = model.build_index(links=64, build_width=300, recall_queries=40)
    assert report["types"][0]["recall"][-1]["neighbors"] >= 0.95, report
    found = model.neighbors("e1", index=True)
    assert len(found) == 10
