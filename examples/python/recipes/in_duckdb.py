"""Answers a question with DuckDB, in SQL over the exported Parquet file.

    pip install duckdb
    python in_duckdb.py model --head american_elm.n.01 --relation hypernym

DuckDB reads the file itself: nothing is loaded before.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
from questions import asked, compared, unknown_metric

# Scores by comparator, of a stored vector and that of the question: higher is better.
SCORES = {
    "dot": "array_inner_product(stored, asked)",
    "cos": "array_cosine_similarity(stored, asked)",
    "l2": "-array_distance(stored, asked)",
    "squared_l2": "-pow(array_distance(stored, asked), 2)",
    "l1": "-list_sum([abs(pair[1] - pair[2]) for pair in list_zip(stored, asked)])",
}


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, float]]:
    """Asks, and returns what was found."""
    search, _ = asked(arguments, __doc__, "parquet")
    if search.comparator not in SCORES:
        raise unknown_metric(search)
    # The functions compare arrays of a fixed length, while Parquet has lists of any.
    array = f"FLOAT[{len(search.vector)}]"
    found = duckdb.execute(
        f"""
        SELECT name, {SCORES[search.comparator]} AS score
        FROM (SELECT name, embedding::{array} AS stored, $vector::{array} AS asked FROM read_parquet($file))
        ORDER BY score DESC
        LIMIT $size
        """,
        {"vector": search.vector.tolist(), "file": str(search.stem.with_suffix(".parquet")), "size": search.size},
    ).fetchall()
    return compared(search, found)


if __name__ == "__main__":
    main()
