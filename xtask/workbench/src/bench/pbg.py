"""Trains PyTorch-BigGraph 1.0.0 and says, as one line of JSON, what an epoch cost.

The first epoch warms up and is left out. Usage: pbg.py FOLDER WORKERS CONFIG.json SHARE RANK
where FOLDER has train.txt, valid.txt and test.txt, and RANK is 1 to rank the test edges, too. Training ends with the
epochs of the configuration, or as soon as start-up took no more than SHARE of the time of those that count.
"""

import json
import os
import sys
import time
from pathlib import Path

import attr
from pbg_shared import SETS, tolerate_new_typing
from torchbiggraph.config import parse_config
from torchbiggraph.converters.import_from_tsv import convert_input_data
from torchbiggraph.eval import do_eval_and_report_stats
from torchbiggraph.filtered_eval import FilteredRankingEvaluator
from torchbiggraph.train import train_and_report_stats
from torchbiggraph.util import SubprocessInitializer


def processes():
    """This process and its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    found, new = {os.getpid()}, True
    while new:
        new = {pid for pid, (parent, _) in parents.items() if parent in found} - found
        found |= new
    return {pid: parents[pid][1] / os.sysconf("SC_CLK_TCK") for pid in found if pid in parents}


def peak_bytes(pids):
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return total


def start_up(marks):
    """CPU-seconds before the first epoch, which took as long as the others."""
    counted = marks[-1][1] - marks[0][1]
    return max(0.0, marks[0][1] - counted / (len(marks) - 1))


def main():
    folder, workers, keys = Path(sys.argv[1]), int(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    share, rank = float(sys.argv[4]), sys.argv[5] == "1"
    tolerate_new_typing()
    paths = [str(folder / "pbg" / name) for name in SETS]
    config = parse_config(
        dict(keys, entity_path=str(folder / "pbg"), edge_paths=paths[:1], checkpoint_path=str(folder / "pbg-model"), workers=workers)
    )
    loaded = sum(processes().values())
    convert_input_data(
        config.entities, config.relations, config.entity_path, paths, [folder / f"{name}.txt" for name in SETS],
        lhs_col=0, rel_col=1, rhs_col=2, dynamic_relations=config.dynamic_relations,
    )
    marks = []
    peak = 0
    converted = sum(processes().values()) - loaded
    for _index, _before, stats, _after in train_and_report_stats(config, subprocess_init=SubprocessInitializer()):
        cpu = processes()
        peak = max(peak, peak_bytes(cpu))
        marks.append((time.time(), sum(cpu.values()) - converted, stats.count))
        if len(marks) > 1 and start_up(marks) <= share * (marks[-1][1] - marks[0][1]):
            break
    (start, cpu, _), (end, cpu_end, _) = marks[0], marks[-1]
    result = {
        "epochs": len(marks) - 1,
        "start_up_cpu_seconds": start_up(marks),
        "edges": sum(count for _, _, count in marks[1:]),
        "cpu_seconds": cpu_end - cpu,
        "wall_seconds": end - start,
        "peak_bytes": peak,
    }
    if rank:
        relations = [attr.evolve(r, all_negs=True) for r in config.relations]
        ranking = attr.evolve(config, edge_paths=paths[2:], relations=relations, num_uniform_negs=0)
        evaluator = FilteredRankingEvaluator(ranking, paths)
        *_, last = do_eval_and_report_stats(ranking, evaluator=evaluator, subprocess_init=SubprocessInitializer())
        result["mrr"] = last[-1].metrics["mrr"]
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
