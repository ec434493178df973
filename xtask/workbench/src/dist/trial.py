"""Trains a small graph with the installed package, twice: both models are the same, and answer."""

import platform
import tempfile

import pbg_host

names = [f"e{number}" for number in range(120)]
edges = [(head, "next", tail) for head, tail in zip(names, names[1:])]
edges += [(head, "after next", tail) for head, tail in zip(names, names[2:])]
with tempfile.TemporaryDirectory() as folder:
    found = []
    for run in ("first", "second"):
        config = pbg_host.Config(
            pbg_host.Config.preset("small"),
            dataset=f"{folder}/dataset",
            checkpoint_path=f"{folder}/{run}",
            num_epochs=3,
            workers=1,
            seed=1,
        )
        if not found:
            pbg_host.import_edges(config, edges={"train": edges})
        pbg_host.train(config)
        answers = pbg_host.Model(f"{folder}/{run}").predict(head="e5", relation="next", k=3)
        found.append(str(answers))
assert found[0] == found[1], f"the second run differs from the first: {found}"
print(found[0])
print(f"pbg_host works with Python {platform.python_version()} on {platform.machine()}, {' '.join(platform.libc_ver())}")
