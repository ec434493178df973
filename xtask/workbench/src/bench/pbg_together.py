"""One of several PyTorch-BigGraph 1.0.0 trainers, as `torchbiggraph_train` starts it, or what all of them read.

Usage: pbg_together.py import FOLDER CONFIG.json, where FOLDER has train.txt, valid.txt and test.txt, writes
FOLDER/pbg and FOLDER/pbg_config.py; pbg_together.py FOLDER/pbg_config.py --rank N trains.
"""

import json
import sys
from pathlib import Path

from pbg_shared import SETS, tolerate_new_typing
from torchbiggraph import train
from torchbiggraph.config import parse_config
from torchbiggraph.converters.import_from_tsv import convert_input_data


def prepare(folder, keys):
    paths = [str(folder / "pbg" / name) for name in SETS]
    keys.update(entity_path=str(folder / "pbg"), edge_paths=paths[:1])
    config = parse_config(keys)
    convert_input_data(
        config.entities, config.relations, config.entity_path, paths, [folder / f"{name}.txt" for name in SETS],
        lhs_col=0, rel_col=1, rhs_col=2, dynamic_relations=config.dynamic_relations,
    )
    text = f"def get_torchbiggraph_config():\n    return {keys!r}\n"
    (folder / "pbg_config.py").write_text(text)


def main():
    tolerate_new_typing()
    if sys.argv[1] == "import":
        prepare(Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))
    else:
        train.main()


if __name__ == "__main__":
    main()
