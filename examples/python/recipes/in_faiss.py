"""Answers a question with FAISS, from exported npy files.

    pip install faiss-cpu
    python in_faiss.py model --head american_elm.n.01 --relation hypernym

The index compares all vectors, so the answer is that of the model. `faiss.IndexHNSWFlat(d, 32, metric)` takes the place
of `IndexFlat` where that is too slow; it may miss some.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import faiss
import numpy as np
from questions import asked, compared, unknown_metric

METRICS = {
    "dot": faiss.METRIC_INNER_PRODUCT,
    "cos": faiss.METRIC_INNER_PRODUCT,
    "l2": faiss.METRIC_L2,
    "squared_l2": faiss.METRIC_L2,
    "l1": faiss.METRIC_L1,
}


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, float]]:
    """Stores the candidates, asks, and returns what was found."""
    search, _ = asked(arguments, __doc__, "npy")
    if search.comparator not in METRICS:
        raise unknown_metric(search)
    names = json.loads(search.stem.with_suffix(".names.json").read_text(encoding="utf-8"))
    vectors, query = np.load(search.stem.with_suffix(".npy")), search.vector[None].copy()
    if search.comparator == "cos":
        # The inner product of vectors of length 1 is the cosine of the angle between them.
        faiss.normalize_L2(vectors)
        faiss.normalize_L2(query)
    index = faiss.IndexFlat(vectors.shape[1], METRICS[search.comparator])
    index.add(vectors)
    distances, rows = index.search(query, search.size)
    if search.comparator == "l2":
        # METRIC_L2 is the square.
        distances = np.sqrt(distances)
    sign = 1.0 if search.comparator in ("dot", "cos") else -1.0
    return compared(search, [(names[row], sign * float(at)) for row, at in zip(rows[0], distances[0])])


if __name__ == "__main__":
    main()
