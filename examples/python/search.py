"""Searches good settings with Optuna: trials with poor ranks after an epoch are pruned, and the search is resumable.

    pip install optuna
    python search.py pbg.toml --trials 20

The configuration needs `[validation] edges`, by whose MRR trials are compared. The study and the checkpoints of its trials
are in the folder `search` next to it. After an interruption the same command continues the search: the interrupted trial
resumes from its last commit.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import optuna
import pbg_host
from optuna.trial import TrialState

ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
WAITING = TrialState.WAITING


def settings(trial: optuna.Trial) -> dict[str, Any]:
    """Suggests the settings of a trial."""
    return {
        "lr": trial.suggest_float("lr", 0.01, 1.0, log=True),
        "num_uniform_negs": trial.suggest_categorical("num_uniform_negs", [50, 100, 500]),
        "regularization_coef": trial.suggest_float("regularization_coef", 1e-6, 1e-2, log=True),
    }


def objective(trial: optuna.Trial, config: pbg_host.Config, folder: Path) -> float:
    """Trains one trial and returns its best MRR on the validation edges; prunes it between two epochs if it is poor."""
    found = settings(trial)
    # An interrupted trial is started again with the same settings, and resumes from its checkpoint.
    checkpoint = folder / "-".join(f"{value:.6g}" for _, value in sorted(found.items()))
    best = 0.0

    def heard(event: pbg_host.Event) -> bool:
        nonlocal best
        if event.kind != "validated":
            return True
        best = max(best, event["ranks"]["mrr"])
        trial.report(event["ranks"]["mrr"], event["epochs"])
        return not trial.should_prune()

    result = pbg_host.train(config, on_event=heard, checkpoint_path=checkpoint, **found)
    if not result.finished:
        raise optuna.TrialPruned()
    ranked = pbg_host.metrics(checkpoint, "validated", frame="pandas")
    return max(best, float(ranked["ranks.mrr"].max()))


def main(arguments: list[str] | None = None) -> optuna.Study:
    """Runs the search, continuing an existing study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("config", type=Path)
    parser.add_argument("--trials", type=int, default=20)
    given = parser.parse_args(arguments)
    config = pbg_host.Config(given.config)
    if config["validation"]["edges"] is None:
        parser.error(f"{given.config} has no [validation], by whose ranks trials are compared")
    folder = given.config.parent / "search"
    folder.mkdir(exist_ok=True)
    study = optuna.create_study(
        study_name="search",
        storage=f"sqlite:///{folder / 'study.db'}",
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
        load_if_exists=True,
    )
    done = [trial for trial in study.trials if trial.state in ENDED]
    known = [trial.params for trial in done]
    waiting = [trial for trial in study.trials if trial.state == WAITING]
    known += [trial.system_attrs.get("fixed_params", {}) for trial in waiting]
    for trial in study.trials:
        # The trial was interrupted by Ctrl-C, or its process was killed.
        if trial.state not in (*ENDED, WAITING) and trial.params not in known:
            study.enqueue_trial(trial.params)
            known.append(trial.params)
    study.optimize(lambda trial: objective(trial, config, folder), max(given.trials - len(done), 0))
    return study


if __name__ == "__main__":
    best = main().best_trial
    print(f"MRR {best.value:.4f} with {best.params}")
