"""Answers a question with Qdrant, from the exported Parquet file.

    pip install qdrant-client pyarrow
    python in_qdrant.py model --head american_elm.n.01 --relation hypernym

The collection is in the memory of the client, which compares all vectors. `QdrantClient(url="http://localhost:6333")`
is a server, whose index may miss some; `query_points(search_params=SearchParams(exact=True))` compares all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow.parquet
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams
from questions import asked, compared, unknown_metric

METRICS = {
    "dot": Distance.DOT,
    "cos": Distance.COSINE,
    "l2": Distance.EUCLID,
    "squared_l2": Distance.EUCLID,
    "l1": Distance.MANHATTAN,
}


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, float]]:
    """Stores the candidates, asks, and returns what was found."""
    search, _ = asked(arguments, __doc__, "parquet")
    if search.comparator not in METRICS:
        raise unknown_metric(search)
    client = QdrantClient(":memory:")
    metric = VectorParams(size=len(search.vector), distance=METRICS[search.comparator])
    client.create_collection("entities", vectors_config=metric)
    ids = itertools.count()
    with pyarrow.parquet.ParquetFile(search.stem.with_suffix(".parquet")) as file:
        for batch in file.iter_batches(1000):
            # Ids of points are numbers, so that names are stored next to them.
            points = [
                PointStruct(id=next(ids), vector=row["embedding"], payload={"name": row["name"]})
                for row in batch.to_pylist()
            ]
            client.upsert("entities", points)
    vector = search.vector.tolist()
    found = client.query_points("entities", query=vector, limit=search.size, with_payload=["name"]).points
    client.close()

    def score(metric: float) -> float:
        if search.comparator in ("dot", "cos"):
            return metric
        return -metric if search.comparator != "squared_l2" else -metric * metric

    return compared(search, [(str((point.payload or {})["name"]), score(point.score)) for point in found])


if __name__ == "__main__":
    main()
