# mypy: ignore-errors
"""Runs PyTorch-BigGraph 1.0.0 with a Python that has it: `pbg_itself.py FILE.json` follows the file and prints JSON.

PBG is not in the tests' own environment, which has another NumPy.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Optional

import attr
from torchbiggraph import schema
from torchbiggraph.config import parse_config
from torchbiggraph.converters.import_from_tsv import convert_input_data
from torchbiggraph.eval import RankingEvaluator, do_eval_and_report_stats
from torchbiggraph.filtered_eval import FilteredRankingEvaluator
from torchbiggraph.train import train
from torchbiggraph.util import SubprocessInitializer


def unpack(type_):
    """Replaces a function of PBG that compares types by identity, which fails in newer versions of Python."""
    arguments = getattr(type_, "__args__", ())
    if not arguments or type_ != Optional[arguments[0]]:
        raise TypeError("Not an optional type")
    return arguments[0]


def main():
    schema.unpack_optional = unpack
    asked = json.loads(Path(sys.argv[1]).read_text())
    keys = runpy.run_path(asked["config"])["get_torchbiggraph_config"]()
    # Trains on the first edge set, and ranks the last one.
    config = parse_config({**keys, "edge_paths": asked["edge_paths"][:1], **asked.get("keys", {})})
    if asked.get("edges"):
        convert_input_data(
            config.entities, config.relations, config.entity_path, asked["edge_paths"],
            [Path(path) for path in asked["edges"]], lhs_col=0, rel_col=1, rhs_col=2,
            dynamic_relations=config.dynamic_relations,
        )
    if asked["train"]:
        train(config, subprocess_init=SubprocessInitializer())
    ranking = attr.evolve(
        config, edge_paths=asked["edge_paths"][-1:], num_uniform_negs=0,
        relations=[attr.evolve(relation, all_negs=True) for relation in config.relations],
    )
    filtered = FilteredRankingEvaluator(ranking, asked["edge_paths"]) if asked["filtered"] else RankingEvaluator()
    *_, last = do_eval_and_report_stats(ranking, evaluator=filtered, subprocess_init=SubprocessInitializer())
    print("RESULT " + json.dumps({"mrr": float(last[-1].metrics["mrr"])}))


if __name__ == "__main__":
    main()
