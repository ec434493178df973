"""Trains and logs the run to MLflow: parameters, loss and speed by epoch, ranks of validation edges, final ranks.

    pip install mlflow
    python log_to_mlflow.py pbg.toml --store sqlite:///mlflow.db --test test
    mlflow ui --backend-store-uri sqlite:///mlflow.db

The store may be a file, as here, or the URL of a server. If training raises, the run ends as FAILED, after Ctrl-C as
KILLED. The same command then resumes training, and logs the rest as another run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import mlflow
import pbg_host
from logged import given, metrics, parameters, results


def main(arguments: Sequence[str] | None = None) -> str:
    """Trains, and returns the id of the run in MLflow."""
    options = given(arguments, __doc__, "--store")
    config = pbg_host.Config(options.config)
    mlflow.set_tracking_uri(options.store)
    mlflow.set_experiment("pbg-host")

    def log(event: pbg_host.Event) -> None:
        found = metrics(event)
        if found is not None:
            epochs, figures = found
            mlflow.log_metrics(figures, step=epochs)

    run = mlflow.start_run()
    status = "FAILED"
    try:
        log_parameters(config)
        trained = pbg_host.train(config, on_event=log)
        mlflow.log_metrics(results(config, options.test), step=config["num_epochs"])
        mlflow.set_tag("checkpoint_version", trained.version)
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        mlflow.end_run(status)
    return str(run.info.run_id)


def log_parameters(config: pbg_host.Config) -> None:
    """Logs the keys of a configuration."""
    # MLflow takes at most a hundred parameters at once, and few characters in their names.
    left = iter([(re.sub(r"[^\w\-. :/]", "_", name), value) for name, value in parameters(config).items()])
    while some := dict(itertools.islice(left, 100)):
        mlflow.log_params(some)


if __name__ == "__main__":
    main()
