"""Answers a question with PostgreSQL and its extension pgvector, from the exported Parquet file.

    pip install 'psycopg[binary]' pyarrow
    python in_pgvector.py model --head american_elm.n.01 --relation hypernym --database postgresql:///graph

The table `pbg_entities` of the database is replaced. Without an index PostgreSQL compares all vectors. An index, as
`CREATE INDEX ON pbg_entities USING hnsw (embedding vector_ip_ops)` makes it, may miss some; `vector_cosine_ops`,
`vector_l2_ops` and `vector_l1_ops` are those of the other operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
import pyarrow.parquet
from questions import asked, compared, unknown_metric

# Operators by comparator: lower is better, since PostgreSQL uses indexes in ascending order only.
OPERATORS = {"dot": "<#>", "cos": "<=>", "l2": "<->", "squared_l2": "<->", "l1": "<+>"}


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, float]]:
    """Stores the candidates, asks, and returns what was found."""
    search, given = asked(arguments, __doc__, "parquet", "--database")
    if search.comparator not in OPERATORS:
        raise unknown_metric(search)
    with psycopg.connect(given.database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute("DROP TABLE IF EXISTS pbg_entities")
        cursor.execute(f"CREATE TABLE pbg_entities (name text NOT NULL, embedding vector({len(search.vector)}) NOT NULL)")
        with pyarrow.parquet.ParquetFile(search.stem.with_suffix(".parquet")) as file:
            with cursor.copy("COPY pbg_entities (name, embedding) FROM STDIN") as copy:
                for batch in file.iter_batches():
                    for row in batch.to_pylist():
                        copy.write_row((row["name"], str(row["embedding"])))
        cursor.execute(
            f"SELECT name, embedding {OPERATORS[search.comparator]} %s::vector AS distance "
            "FROM pbg_entities ORDER BY distance LIMIT %s",
            (str(search.vector.tolist()), search.size),
        )
        found = cursor.fetchall()

    def score(distance: float) -> float:
        if search.comparator == "cos":
            return 1 - distance
        return -distance if search.comparator != "squared_l2" else -distance * distance

    return compared(search, [(name, score(distance)) for name, distance in found])


if __name__ == "__main__":
    main()
