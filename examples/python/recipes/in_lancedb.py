"""Answers a question with LanceDB, from the exported Parquet file.

    pip install lancedb
    python in_lancedb.py model --head american_elm.n.01 --relation hypernym --database vectors

Without an index LanceDB compares all vectors. `table.create_index(metric=...)` makes one, which may miss some.
"""

from __future__ import annotations

from collections.abc import Sequence

import lancedb
import pyarrow
import pyarrow.parquet
from questions import asked, compared, unknown_metric

METRICS = {"dot": "dot", "cos": "cosine", "l2": "l2", "squared_l2": "l2"}


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, float]]:
    """Stores the candidates, asks, and returns what was found."""
    search, given = asked(arguments, __doc__, "parquet", "--database")
    if search.comparator not in METRICS:
        raise unknown_metric(search)
    # LanceDB searches columns of lists of a fixed length, while Parquet has lists of any.
    vectors = pyarrow.list_(pyarrow.float32(), len(search.vector))
    schema = pyarrow.schema([("name", pyarrow.string()), ("embedding", vectors)])
    with pyarrow.parquet.ParquetFile(search.stem.with_suffix(".parquet")) as file:
        batches = (pyarrow.Table.from_batches([batch]).cast(schema) for batch in file.iter_batches())
        table = lancedb.connect(given.database).create_table("entities", batches, schema=schema, mode="overwrite")
    asks = table.search(search.vector, vector_column_name="embedding").distance_type(METRICS[search.comparator])
    found = asks.limit(search.size).to_arrow().to_pydict()

    def score(distance: float) -> float:
        if search.comparator in ("dot", "cos"):
            return 1 - distance
        return float(-(distance**0.5)) if search.comparator == "l2" else -distance

    return compared(search, [(name, score(at)) for name, at in zip(found["name"], found["_distance"])])


if __name__ == "__main__":
    main()
