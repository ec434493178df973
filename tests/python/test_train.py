"""Training: calls and iterators, interruptions that commit, errors of their kinds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pbg_host
import pytest
from conftest import Keys, edges


@pytest.fixture
def graph(keys: Keys) -> Keys:
    pbg_host.import_edges(keys, edges={"train": edges(4000)})
    return keys


def files(folder: Path) -> dict[str, bytes]:
    """Returns the embeddings of a checkpoint."""
    found = sorted(folder.glob("embeddings_*"))
    return {path.name.split(".")[0]: path.read_bytes() for path in found}


def test_events_come_one_by_one(graph: Keys) -> None:
    training = pbg_host.Training(graph)
    events = list(training)
    kinds = [event.kind for event in events]
    assert kinds[0] == "run_started" and kinds[-1] == "run_finished"
    assert kinds.count("bucket_finished") == 2 * 16 and kinds.count("epoch_finished") == 2
    assert events[0]["edges_per_epoch"] == 4000
    assert training.result is not None and training.result.finished
    assert training.wait() == training.result


def test_an_interrupted_run_goes_on_to_the_same_bytes(graph: Keys, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert pbg_host.train(graph, checkpoint_path=whole).finished
    stops = 0

    def stop(event: pbg_host.Event) -> object:
        return not (event.kind == "bucket_finished" and event["position"] == 5)

    while not (result := pbg_host.train(graph, on_event=stop)).finished:
        assert result.version > 0
        stops += 1
    assert stops == 2
    assert files(graph["checkpoint_path"]) == files(whole)


def test_leaving_commits(graph: Keys) -> None:
    with pbg_host.Training(graph, num_epochs=1000) as training:
        for event in training:
            if event.kind == "bucket_finished":
                break
    assert training.result is not None and not training.result.finished
    assert pbg_host.metrics(graph["checkpoint_path"], "bucket_finished", frame="polars").height > 0


def test_another_thread_may_interrupt_while_python_runs_on(graph: Keys) -> None:
    training = pbg_host.Training(graph, num_epochs=100_000)
    ticks = 0
    threading.Timer(0.3, training.interrupt).start()
    while training.result is None:
        training.next_event(timeout=0.01)
        ticks += 1
    assert ticks > 5 and not training.result.finished


def everything_is_committed(graph: Keys) -> None:
    """Asserts that the training is in the checkpoint, whose metrics end with its commit."""
    happened = pbg_host.metrics(graph["checkpoint_path"], frame="polars")["event"].to_list()
    assert "bucket_finished" in happened and happened[-1] == "committed"


CTRL_C = """
import sys, pbg_host
config = pbg_host.Config(sys.argv[1])
def heard(event):
    if event.kind == "bucket_finished":
        print("trains", flush=True)
try:
    pbg_host.train(config, num_epochs=100000, on_event=heard, progress=True)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_commits(graph: Keys, tmp_path: Path) -> None:
    file = tmp_path / "pbg.toml"
    file.write_text(pbg_host.Config(graph).to_toml())
    command = [sys.executable, "-c", CTRL_C, str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "trains\n"
        os.kill(process.pid, signal.SIGINT)
        rest, said = process.communicate()
    assert process.returncode == 0 and rest.endswith("interrupted\n")
    assert re.search(r"\nfinishing the current bucket.*\nsaved as version \d+: the same call", said), said
    everything_is_committed(graph)


SLOW = """
import sys, time, pathlib, pbg_host
folder = pathlib.Path(sys.argv[2])

@pbg_host.order
def slow(grid):
    print("plans", flush=True)
    time.sleep(60)
    (folder / "planned").touch()
    return grid.grid()

try:
    pbg_host.train(sys.argv[1], plugins=[slow], progress=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_second_ctrl_c_waits_no_longer_than_2_seconds(graph: Keys, tmp_path: Path) -> None:
    """No part of the run can end while its order plans, however long that takes."""
    file = tmp_path / "pbg.toml"
    file.write_text(pbg_host.Config(graph).to_toml())
    command = [sys.executable, "-c", SLOW, str(file), str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "plans\n"
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.readline()
        assert said.startswith("finishing the current bucket, then saving; press Ctrl-C again")
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr.readline().startswith("waiting at most 2 seconds")
        assert process.stderr.readline().startswith("stopped before everything was saved")
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait() == 130
    assert not (tmp_path / "planned").exists(), "the plan must not have been waited for"


def test_a_log_file_gets_lines_unless_it_is_to_get_none(graph: Keys, capfd: Any) -> None:
    """As in a batch job, whose standard error is not a terminal; tqdm is installed here."""
    pbg_host.train(graph)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[1].startswith("epoch 2/2: 4k edges in "), lines
    pbg_host.train(graph, num_epochs=3, progress=False)
    assert capfd.readouterr().err == ""


def test_a_long_epoch_tells_of_itself_on_the_way(
    graph: Keys, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr("pbg_host._progress._INTERVAL", 0.0)
    pbg_host.train(graph, num_epochs=1)
    lines = capfd.readouterr().err.splitlines()
    assert any(re.match(r"epoch 1/1: \d+(\.\d+)?k? of 4k edges in ", line) for line in lines), lines
    assert lines[-1].startswith("epoch 1/1: 4k edges in ")


def test_what_early_stopping_kept_is_one_word_away(graph: Keys, capfd: Any) -> None:
    pbg_host.import_edges(graph, edges={"valid": edges(200, 3)})
    rules: dict[str, Any] = {"edges": "valid", "filter": ["train", "valid"], "early_stop": 2}
    assert pbg_host.train(graph, num_epochs=200, validation=rules).finished
    assert re.search(r"stopped early after \d+ epochs: .*Model\(..., best=True\)", capfd.readouterr().err)
    folder = Path(graph["checkpoint_path"])
    validated = pbg_host.metrics(folder, "validated", frame="pandas")
    highest = validated["ranks.mrr"].max()
    for source in (folder, pbg_host.Config(folder), str(folder)):
        with pytest.warns(pbg_host.PbgWarning, match="not the one with the highest validation MRR.*`best=True` uses that one"):
            last = pbg_host.Model(source)
        best = pbg_host.Model(source, best=True)
        ranks = [m.evaluate("valid", filter=rules["filter"])["filtered"]["mrr"] for m in (best, last)]
        assert ranks[0] == pytest.approx(highest) and ranks[1] < highest
    assert best.metrics("validated").shape == validated.shape
    ranked = pbg_host.evaluate(folder, "valid", best=True, filter=rules["filter"])["filtered"]["mrr"]
    assert ranked == pytest.approx(highest)
    with pytest.raises(pbg_host.CheckpointError, match="has kept no best model"):
        pbg_host.Model(folder / "best", best=True)


def test_one_changed_key_is_reported_once(graph: Keys) -> None:
    pbg_host.train(graph)
    changed: list[tuple[Keys, str]] = [
        ({"dimension": 4}, "dimension: 4, not 8"),
        ({"lr": 0.5}, "lr: 0.5, not 0.01"),
    ]
    for keys, differs in changed:
        with pytest.raises(pbg_host.CheckpointError) as raised:
            pbg_host.train(graph, num_epochs=3, **keys)
        assert f"differences: {differs}. Set" in str(raised.value), raised.value


def test_without_tqdm_there_are_lines(graph: Keys, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    pbg_host.train(graph, progress=True)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("epoch 1/2: 4k edges in "), lines
    assert re.search(r" s  loss \d", lines[1]), lines
    pbg_host.import_edges(graph, edges={"train": edges(10)}, progress=True)
    assert re.search(r"^reading train: \d+\.\d s$", capfd.readouterr().err, re.MULTILINE)


def test_python_ends_with_a_commit(graph: Keys, tmp_path: Path) -> None:
    file = tmp_path / "pbg.toml"
    file.write_text(pbg_host.Config(graph).to_toml())
    text = "import sys, pbg_host; t = pbg_host.Training(sys.argv[1], num_epochs=100000)\n"
    text += "while t.next_event().kind != 'bucket_finished': pass"
    subprocess.run([sys.executable, "-c", text, str(file)], check=True)
    everything_is_committed(graph)


def test_errors_have_their_kinds(graph: Keys, tmp_path: Path) -> None:
    with pytest.raises(pbg_host.DataError, match="none"):
        pbg_host.train(graph, dataset=tmp_path / "none")
    wrong = tmp_path / "wrong.wasm"
    wrong.write_bytes(b"no component")
    with pytest.raises(pbg_host.PluginError) as raised:
        pbg_host.train(graph, plugins=[wrong])
    assert raised.value.exit_code == 6
    with pytest.raises(pbg_host.ConfigError, match="by itself|distributed run"):
        pbg_host.train(graph, distributed_init_method="file:///tmp/nowhere", num_machines=2)
    with pbg_host.Training(graph, num_epochs=1000):
        time.sleep(0.1)
        with pytest.raises(pbg_host.LockedError):
            pbg_host.train(graph)
    pbg_host.train(graph)
    with pytest.raises(pbg_host.CheckpointError, match="dimension"):
        pbg_host.train(graph, dimension=4)
    with pytest.raises(pbg_host.UsageError, match="a list"):
        pbg_host.train(graph, plugins="random")


def test_what_is_odd_is_a_warning(graph: Keys) -> None:
    graph["relations"][0]["operator"] = "none"
    with pytest.warns(pbg_host.PbgWarning, match="operator") as found:
        pbg_host.train(graph)
    assert {Path(warning.filename).name for warning in found} == {"test_train.py"}


def test_memory_is_known_before(graph: Keys) -> None:
    report = pbg_host.check(graph)
    assert sum(bytes for _, bytes in report["memory"]) > 1 << 20


def test_options_are_called_as_python_calls_them(graph: Keys, tmp_path: Path) -> None:
    pbg_host.train(graph)
    with pytest.raises(pbg_host.CheckpointError, match="to resume anyway, use `allow_plugin_change=True`"):
        pbg_host.train(graph, plugins=["random"], num_epochs=3)
    pbg_host.import_edges(graph, edges={"train": edges(3000)})
    with pytest.raises(pbg_host.CheckpointError, match="to resume anyway, use `allow_data_change=True`"):
        pbg_host.train(graph, num_epochs=3)
    with pytest.raises(pbg_host.UsageError, match="plugins: hilbert: a run has only one bucket order"):
        pbg_host.train(graph, plugins=["random", "hilbert"])
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(pbg_host.DataError, match="`dataset=FOLDER`"):
        pbg_host.Model(graph["checkpoint_path"])
