"""Trains and logs the run to Weights & Biases: parameters, loss and speed by epoch, ranks of validation edges, final ranks.

    pip install wandb
    WANDB_MODE=offline python log_to_wandb.py pbg.toml --project graph --test test

Offline, nothing is sent: the run is in the folder `wandb`, and `wandb sync` uploads it later. If training raises or is
interrupted, the run ends as failed. The same command then resumes training, and logs the rest as another run.
"""

from __future__ import annotations

from collections.abc import Sequence

import pbg_host
import wandb
from logged import given, metrics, parameters, results


def main(arguments: Sequence[str] | None = None) -> str:
    """Trains, and returns the id of the run in Weights & Biases."""
    options = given(arguments, __doc__, "--project")
    config = pbg_host.Config(options.config)
    # Leaving the block ends the run, as failed after an exception.
    with wandb.init(project=options.project, config=parameters(config)) as run:
        # Figures of training and of validation after the same epoch come one after the other.
        run.define_metric("epoch")
        run.define_metric("*", step_metric="epoch")

        def log(event: pbg_host.Event) -> None:
            found = metrics(event)
            if found is not None:
                epochs, figures = found
                run.log({**figures, "epoch": epochs})

        trained = pbg_host.train(config, on_event=log)
        run.summary.update({**results(config, options.test), "checkpoint_version": trained.version})
        return str(run.id)


if __name__ == "__main__":
    main()
