"""Edges of datasets and graphs that other programs have written.

    import pbg_host

    codex = pbg_host.datasets.load("codex-s", root="codex/data")
    pbg_host.import_edges("pbg.toml", edges=codex.edges)

`load` reads the folders of PyKEEN, LibKGE, OGB and CoDEx. `read_graphml`, `read_npz` and `edges_of` return the edges of a
single graph. All of them can be passed to `pbg_host.import_edges`.
"""

from __future__ import annotations

from ._datasets.download import download
from ._datasets.graphml import read_graphml
from ._datasets.layouts import EdgeSets, load
from ._datasets.networkx import edges_of
from ._datasets.npz import read_npz

__all__ = ["EdgeSets", "download", "edges_of", "load", "read_graphml", "read_npz"]
