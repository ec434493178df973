"""Conversion of PyTorch-BigGraph's folders: reads a graph and a model of PBG, and writes ours for PBG.

    config = pbg_host.pbg.read("configs/fb15k_config.py", dataset="data", checkpoint_path="model")
    pbg_host.Model(config).predict(head="/m/027rn", relation="/location/country/form_of_government")

    pbg_host.pbg.write(pbg_host.Model("model"), "for_pbg")      # torchbiggraph_train for_pbg/config.py

HDF5 files are read and written with `h5py` (`pip install 'pbg-host[pbg]'`), piece by piece: only the names of entities
and one partition have to fit into main memory. PBG stores the state of its optimizers in PyTorch's format. If PyTorch
is not installed, accumulators start at 0, with a warning.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._answers import Floats
from ._config import Config
from ._dataset import dataset_file, names_in, relations_in
from ._edges import import_edges
from ._model import Model, parameters_of, partition_at
from ._pbg_config import ours_of, read_config, theirs_of
from .errors import CheckpointError, DataError, _warn

if TYPE_CHECKING:
    from ._native import Version

_AT_ONCE = 1 << 18
"""Largest number of edges or rows in memory."""

__all__ = ["read", "read_config", "write"]


def read(
    config: str | os.PathLike[str] | Mapping[str, Any],
    /,
    *,
    dataset: str | os.PathLike[str],
    checkpoint_path: str | os.PathLike[str],
    edge_sets: Sequence[str] | Mapping[str, str | os.PathLike[str]] | None = None,
    base: str | os.PathLike[str] | None = None,
    **keys: Any,
) -> Config:
    """Imports PBG's entities and edges into a dataset, and its newest checkpoint, if there is one, into a checkpoint.
    Returns the configuration of both.

    `config` is PBG's configuration: a Python file, which is read as data and not run, or the dictionary that its
    function returns. `edge_sets` are names for its edge paths, or a dictionary from names to folders of edges, which
    replaces these paths. By default, edge sets have the names of their folders if these are among `train`, `valid` and
    `test`, or if there are more than three; otherwise they are named with these three in order. The first set is the
    one that is trained. `base` is the folder that relative paths refer to, by default the working folder, as in PBG.
    `keys` change the returned configuration.
    """
    theirs = dict(config) if isinstance(config, Mapping) else read_config(config)
    root = Path(base) if base is not None else Path()
    entities = root / theirs["entity_path"]
    sets = _edge_sets(theirs["edge_paths"], edge_sets)
    if not sets:
        raise DataError("no edges: edge_paths is empty, and edge_sets names no folders")
    values = ours_of(theirs)
    values.update(dataset=dataset, checkpoint_path=checkpoint_path, edge_sets=list(sets)[:1])
    ours = Config(values, **keys)
    graph = _Graph(theirs, entities)
    edges = {name: graph.edges(root / path) for name, path in sets.items()}
    import_edges(ours, edges=edges, fresh=True)
    folder = root / theirs["checkpoint_path"]
    if (folder / "checkpoint_version.txt").exists():
        _read_checkpoint(ours, graph, folder)
    return ours


def _edge_sets(
    paths: Sequence[str], given: Sequence[str] | Mapping[str, str | os.PathLike[str]] | None
) -> dict[str, Path]:
    """Returns the folders of edges by the names of their sets."""
    if isinstance(given, Mapping):
        return {name: Path(path) for name, path in given.items()}
    found = [Path(path) for path in paths]
    if given is not None:
        if len(given) != len(found):
            raise DataError(
                f"edge_sets has {len(given)} names for the {len(found)} folders of edge_paths; "
                "pass a dictionary to name other folders"
            )
        return dict(zip(given, found))
    usual, folders = ["train", "valid", "test"], [path.name for path in found]
    are_named = set(folders) <= set(usual) and len(set(folders)) == len(folders)
    return dict(zip(folders if are_named or len(found) > len(usual) else usual, found))


class _Graph:
    """The entities and relations of a configuration of PBG."""

    def __init__(self, theirs: Mapping[str, Any], entities: Path) -> None:
        self.types: dict[str, int] = {
            name: about.get("num_partitions", 1) for name, about in theirs["entities"].items()
        }
        self.relations: list[Mapping[str, Any]] = theirs["relations"]
        self.dynamic: list[str] | None = None
        self._entities = entities
        if any(about.get("featurized") for about in theirs["entities"].values()):
            raise DataError("featurized entity types of PBG are not supported")
        if theirs.get("dynamic_relations"):
            self.dynamic = json.loads((entities / "dynamic_rel_names.json").read_text())

    def names(self, entity_type: str, partition: int) -> list[str]:
        file = self._entities / f"entity_names_{entity_type}_{partition}.json"
        try:
            names: list[str] = json.loads(file.read_text())
        except FileNotFoundError:
            # If there are no names, entities are named by their position.
            count = (self._entities / f"entity_count_{entity_type}_{partition}.txt").read_text()
            return [f"{partition}:{row}" for row in range(int(count))]
        return [str(name) for name in names]

    def edges(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Yields the edges of a folder by name, bucket by bucket."""
        for path in sorted(folder.glob("edges_*_*.h5")):
            left, right = (int(part) for part in path.stem.split("_")[1:])
            yield from self._bucket(path, left, right)

    def _bucket(self, path: Path, left: int, right: int) -> Iterator[dict[str, Any]]:
        import h5py

        names: dict[tuple[str, int], Any] = {}

        def named(entity_type: str, partition: int) -> Any:
            partition = partition if self.types[entity_type] > 1 else 0
            if (entity_type, partition) not in names:
                found = self.names(entity_type, partition)
                names[entity_type, partition] = np.array(found, dtype=object)
            return names[entity_type, partition]

        with h5py.File(path, "r") as file:
            for start in range(0, len(file["rel"]), _AT_ONCE):
                lhs, rel, rhs = (file[name][start : start + _AT_ONCE] for name in ("lhs", "rel", "rhs"))
                weight = file["weight"][start : start + _AT_ONCE] if "weight" in file else None
                if self.dynamic is not None:
                    template = self.relations[0]
                    columns = {
                        "lhs": named(template["lhs"], left)[lhs],
                        "rel": np.array(self.dynamic, dtype=object)[rel],
                        "rhs": named(template["rhs"], right)[rhs],
                    }
                    yield columns if weight is None else {**columns, "weight": weight}
                    continue
                columns = {name: np.empty(len(rel), dtype=object) for name in ("lhs", "rel", "rhs")}
                for number in np.unique(rel):
                    about, chosen = self.relations[number], rel == number
                    columns["lhs"][chosen] = named(about["lhs"], left)[lhs[chosen]]
                    columns["rel"][chosen] = about["name"]
                    columns["rhs"][chosen] = named(about["rhs"], right)[rhs[chosen]]
                yield columns if weight is None else {**columns, "weight": weight}


# Reading of PBG's checkpoints


def _read_checkpoint(config: Config, graph: _Graph, folder: Path) -> None:
    import h5py

    version = int((folder / "checkpoint_version.txt").read_text())
    numbers = _native.Numbers(config._native)
    about = json.loads(numbers.manifest())
    manifest = about["manifest"]
    for name, partitions in graph.types.items():
        # A temporary file of all rows in our order receives PBG's partitions one by one.
        counts = manifest["entities"][name]["counts"]
        dim = config["entities"][name]["dimension"] or config["dimension"]
        scratch = Path(config["checkpoint_path"]) / f".pbg-{name}.tmp"
        try:
            rows = np.memmap(scratch, "<f4", "w+", shape=(max(sum(counts), 1), dim + 1))
            ours = names_in(about, name).to_pylist()
            places = {entity: at for at, entity in enumerate(ours)}
            for partition in range(partitions):
                where = [places.get(entity, -1) for entity in graph.names(name, partition)]
                target = np.array(where, dtype=np.int64)
                file = folder / f"embeddings_{name}_{partition}.v{version}.h5"
                with h5py.File(file, "r") as source:
                    _scatter(source, target, rows)
            start = 0
            for partition, count in enumerate(counts):
                part = rows[start : start + count]
                embeddings, sums = part[:, :dim].tobytes(), part[:, dim].tobytes()
                numbers.write_partition(name, partition, dim, embeddings, sums)
                start += count
        finally:
            scratch.unlink(missing_ok=True)
    with h5py.File(folder / f"model.v{version}.h5", "r") as source:
        numbers.write_parameters(_parameters(source, numbers, graph, relations_in(about)))
    numbers.commit()


def _scatter(source: Any, target: Any, rows: Any) -> None:
    """Copies the rows of a partition to our positions. Entities without edges have none."""
    if len(source["embeddings"]) != len(target):
        raise CheckpointError(
            f"{source.filename}: has {len(source['embeddings'])} rows, but there are {len(target)} names"
        )
    state = _state(source)
    sums = state[0]["sum"] if state else np.zeros(len(target), np.float32)
    for start in range(0, len(target), _AT_ONCE):
        block = source["embeddings"][start : start + _AT_ONCE]
        to = target[start : start + _AT_ONCE]
        known = to >= 0
        rows[to[known], :-1] = block[known]
        rows[to[known], -1] = sums[start : start + _AT_ONCE][known]


def _parameters(
    source: Any, numbers: _native.Numbers, graph: _Graph, relations: list[str]
) -> list[tuple[str, list[int], bytes]]:
    """Returns PBG's parameters under our names, which are the same. Dynamic relations are permuted into our order."""
    order = None
    if graph.dynamic is not None:
        theirs = {name: at for at, name in enumerate(graph.dynamic)}
        order = np.array([theirs[name] for name in relations], dtype=np.int64)
    given: dict[str, Floats] = {}
    source["model"].visititems(
        lambda name, item: given.update({name: item[...]}) if hasattr(item, "shape") else None
    )
    state = _state(source)
    numbered = sorted(given, key=lambda name: _rank(name, list(graph.types)))
    sums = {name: state[at]["sum"] for at, name in enumerate(numbered) if at in state}
    tensors = []
    for name, shape, first in numbers.parameters():
        now = np.frombuffer(first, "<f4").reshape(shape)
        values = sums if name.endswith(".adagrad") else given
        found = values.get(name.removesuffix(".adagrad"))
        if found is None:
            found = now if name.removesuffix(".adagrad") not in given else np.zeros_like(now)
        elif order is not None and name.startswith("relations/"):
            found = found[order]
        if found.shape != now.shape:
            raise CheckpointError(f"{name} has the shape {found.shape} in PBG, but {now.shape} here")
        tensors.append((name, list(now.shape), np.ascontiguousarray(found, "<f4").tobytes()))
    return tensors


_PARAMETERS = ("diagonal", "linear_transformation", "translation", "real", "imag")


def _rank(name: str, types: Sequence[str]) -> tuple[int, int, int]:
    """Returns the sort key of a parameter in PBG's model, by which the state of its optimizer is numbered: operators
    of left sides, operators of right sides, global embeddings."""
    parts = name.split("/")
    if parts[0] == "entities":
        return 2, types.index(parts[1]), 0
    _, number, _, side, parameter = parts
    return int(side == "rhs"), int(number), _PARAMETERS.index(parameter.removesuffix("s"))


def _state(source: Any) -> dict[int, Any]:
    """Returns the state of the optimizer in a file of PBG, by number of the parameter; empty if there is none."""
    if "optimizer/state_dict" not in source:
        return {}
    try:
        import torch
    except ImportError:
        _warn(
            "PyTorch, which reads the state of PBG's optimizers, is not installed: accumulators start at 0"
        )
        return {}
    stream = io.BytesIO(source["optimizer/state_dict"][...].tobytes())
    state = torch.load(stream, map_location="cpu", weights_only=True)["state"]
    return {
        key: {name: value.numpy() if hasattr(value, "numpy") else value for name, value in of.items()}
        for key, of in state.items()
    }


# Writing of PBG's folders


def write(model: Model, folder: str | os.PathLike[str], /, *, edge_sets: Sequence[str] = ()) -> Path:
    """Writes a model, its entities and edges in PBG's format. Returns the path of a configuration with which PBG
    continues training: `torchbiggraph_train FOLDER/config.py`. The state of the optimizers is written if PyTorch is
    installed. PBG trains on the edge sets of the model's configuration; `edge_sets` are written besides, for
    evaluation. PBG counts the existing model as its first epoch, so `num_epochs` in the written file is one more than
    ours."""
    target = Path(folder).absolute()
    entities, checkpoint = target / "entities", target / "model"
    for path in (entities, checkpoint):
        path.mkdir(parents=True, exist_ok=True)
    trained = list(dict.fromkeys(model.config["edge_sets"]))
    relations = relations_in(model._opened)
    theirs = theirs_of(model.config, relations)
    theirs["num_epochs"] += 1
    # PBG writes a version for every pass over an edge set.
    version = len(trained) * (theirs.get("num_edge_chunks") or 1)
    ours = model._native.version()
    for name in model.entity_types:
        _write_entities(model, ours, name, entities, checkpoint, version)
    if model.config["dynamic_relations"]:
        (entities / "dynamic_rel_names.json").write_text(json.dumps(relations))
        (entities / "dynamic_rel_count.txt").write_text(f"{len(relations)}\n")
    _write_model(model, ours, checkpoint, version)
    for name in dict.fromkeys([*trained, *edge_sets]):
        _write_edges(model, name, target / "edges" / name)
    theirs.update(
        entity_path=str(entities),
        edge_paths=[str(target / "edges" / name) for name in trained],
        checkpoint_path=str(checkpoint),
    )
    (checkpoint / "checkpoint_version.txt").write_text(f"{version}\n")
    config = target / "config.py"
    config.write_text(f"def get_torchbiggraph_config():\n    return {theirs!r}\n")
    return config


def _write_entities(
    model: Model, ours: Version, name: str, entities: Path, checkpoint: Path, version: int
) -> None:
    import h5py

    all_names, start = model._names(ours, name).to_pylist(), 0
    for number, place in enumerate(ours.places(name)):
        path, rows, dimension, _, (offset, width) = place
        part = all_names[start : start + rows]
        (entities / f"entity_names_{name}_{number}.json").write_text(json.dumps(part))
        (entities / f"entity_count_{name}_{number}.txt").write_text(f"{rows}\n")
        start += rows
        sums = np.zeros(0, "<f4")
        if rows > 0:
            # PBG accumulates the mean of a row's squared gradients.
            state = np.memmap(path, "<f4", "r", offset, shape=(rows, width))
            sums = _sums_of_adam(state) if width > max(dimension, 1) else state.mean(axis=1)
        with h5py.File(checkpoint / f"embeddings_{name}_{number}.v{version}.h5", "w") as file:
            file.attrs["format_version"] = 1
            file.create_dataset("embeddings", data=partition_at(place).rows)
            _write_state(file, [sums], model.config["lr"], rows=True)


def _sums_of_adam(state: Floats) -> Floats:
    """Estimates row-Adagrad's sums from Adam's state: averages of gradients and of their squares, and a count."""
    dimension = state.shape[1] // 2
    updates = state[:, -1].astype(np.float64)
    # As the program has it, in single precision.
    weight = np.where(updates > 0, 1 - float(np.float32(0.999)) ** updates, 1)
    means: Floats = state[:, dimension : 2 * dimension].mean(axis=1) * updates / weight
    return means.astype("<f4")


def _write_model(model: Model, ours: Version, checkpoint: Path, version: int) -> None:
    import h5py

    parameters = parameters_of(ours)
    with h5py.File(checkpoint / f"model.v{version}.h5", "w") as file:
        file.attrs["format_version"] = 1
        group = file.create_group("model", track_order=True)
        names = [name for name in parameters if not name.endswith(".adagrad")]
        names.sort(key=lambda name: _rank(name, list(model.config["entities"])))
        for name in names:
            group.create_dataset(name, data=parameters[name]).attrs["state_dict_key"] = _private(name)
        lr = model.config["relation_lr"]
        lr = model.config["lr"] if lr is None else lr
        _write_state(file, [parameters[f"{name}.adagrad"] for name in names], lr, rows=False)


def _private(name: str) -> str:
    """Returns PBG's internal name of a parameter."""
    parts = name.split("/")
    if parts[0] == "entities":
        return f"global_embs.emb_{parts[1]}"
    _, number, _, side, parameter = parts
    return f"{side}_operators.{number}.{parameter}"


def _write_state(file: Any, sums: list[Floats], lr: float, *, rows: bool) -> None:
    """Writes the state of an optimizer of PBG, for the rows of a partition or for parameters, if PyTorch is
    installed."""
    try:
        import torch
    except ImportError:
        return
    step = 0 if rows else torch.tensor(0.0)
    state = {
        at: {"step": step, "sum": torch.from_numpy(np.array(values))} for at, values in enumerate(sums)
    }
    group = {"lr": lr, "lr_decay": 0, "weight_decay": 0, "params": list(state)}
    if not rows:
        group.update(eps=1e-10, initial_accumulator_value=0)
        group.update(foreach=None, maximize=False, differentiable=False)
    stream = io.BytesIO()
    torch.save({"state": state, "param_groups": [group]}, stream)
    file.create_dataset("optimizer/state_dict", data=np.frombuffer(stream.getvalue(), "V1"))


def _write_edges(model: Model, name: str, folder: Path) -> None:
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    about = model._manifest["edge_sets"].get(name)
    if about is None:
        raise DataError(f"the dataset has no edge set {name!r}")
    reader = dataset_file(model._opened, about["file"])
    columns = ["lhs", "rel", "rhs"] + (["weight"] if about["has_weight"] else [])
    for left in range(about["lhs_partitions"]):
        for right in range(about["rhs_partitions"]):
            with h5py.File(folder / f"edges_{left}_{right}.h5", "w") as file:
                file.attrs["format_version"] = 1
                kinds = {"weight": "<f4"}
                made = {
                    column: file.create_dataset(
                        column, (0,), kinds.get(column, "<i8"), maxshape=(None,), chunks=(_AT_ONCE,)
                    )
                    for column in columns
                }
                for at, batch in enumerate(about["batches"]):
                    if (batch["lhs"], batch["rhs"]) == (left, right):
                        _append(made, reader.get_batch(at))


def _append(datasets: Mapping[str, Any], batch: Any) -> None:
    for column, dataset in datasets.items():
        values = batch.column(column).to_numpy(zero_copy_only=False)
        dataset.resize((len(dataset) + len(values),))
        dataset[-len(values) :] = values
