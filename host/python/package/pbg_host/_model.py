"""Trained models: scores, predictions, evaluation and embeddings."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from . import _native
from ._answers import Floats, Scored, ScoredEdges, floats
from ._arguments import name, whole, whole_or_none
from ._config import Config, ConfigLike
from ._dataset import names_in
from ._frames import Frame, frame_of, rows_frame
from ._listed import Listed, blocks_of
from ._load import as_json, load_torch_for
from .errors import DataError, UsageError, _warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._native import Version

    Halves = npt.NDArray[np.uint16]
Edge = tuple[str, str, str]
Comparator = Literal["dot", "cos", "l2", "squared_l2", "l1", "complex_l1"]
IndexedComparator = Literal["dot", "cos", "l2", "squared_l2"]


@dataclass(frozen=True)
class Partition:
    """Embeddings of a partition, mapped from the checkpoint's file."""

    path: Path
    """File of the checkpoint."""
    numbers: Floats | Halves = field(repr=False)
    """Rows of the file, one per entity: a read-only view, of which only accessed parts are read. It stays readable
    when a later commit replaces the file. With `storage = "bf16"` the elements are the bits of bfloat16 as `uint16`,
    since NumPy has no such type: `numbers.view(ml_dtypes.bfloat16)` or
    `torch.from_numpy(numbers.astype("i2")).view(torch.bfloat16)` interprets them."""

    @property
    def rows(self) -> Floats:
        """The rows as `float32`: the view itself, or with `storage = "bf16"` a new array each time."""
        if self.numbers.dtype == np.float32:
            return self.numbers.view(np.float32)
        # bfloat16 is the upper half of a float.
        return (self.numbers.astype("<u4") << 16).view("<f4")


class Model:
    """A trained model: it answers the questions of `pbg-host eval`, `predict`, `score` and `neighbors`, and gives
    access to the embeddings and parameters.

    `source` is a configuration, or the folder of a checkpoint. Keys that it does not set have the values of the
    training. A model keeps the tables that questions have used in memory. Each answer uses the current version of the
    checkpoint, so answers may change while training continues.

    With `best` it is the model with the highest validation MRR, which a run with `validation.early_stop` keeps besides
    the last one. Without it, opening a model warns if a better one was kept.

        model = pbg_host.Model("model")
        model.neighbors("piano.n.01", k=5)
        model.predict(head="asp.n.02", relation="hypernym", k=3)
    """

    def __init__(
        self,
        source: ConfigLike | None = None,
        /,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        best: bool = False,
        **keys: Any,
    ) -> None:
        self.config: Config = Config.trained(source, checkpoint=checkpoint, best=best, **keys)
        """The configuration of the model."""
        self._is_best = best
        load_torch_for(self.config._native)
        self._native = _native.Model(self.config._native)
        self._opened: dict[str, Any] = json.loads(self._native.manifest())
        self._manifest: dict[str, Any] = self._opened["manifest"]

    @property
    def entity_types(self) -> list[str]:
        """Names of the entity types."""
        return list(self._manifest["entities"])

    def relations(self) -> list[str]:
        """Returns the names of the relations, by id."""
        names: list[str] = self._native.relations()
        return names

    # Questions

    def score(self, head: str, relation: str, tail: str, /) -> float:
        """Returns the score of an edge. Higher is better; scores are comparable only within a relation."""
        scores: list[float] = self._native.score([_triple((head, relation, tail))])
        return scores[0]

    def score_all(self, edges: Iterable[Edge] | Any, /) -> Floats:
        """Returns the scores of edges `(head, relation, tail)`, in their order, as in `model.score_all(zip(heads,
        relations, tails))`. `edges` may also be a table whose columns have these names, or others that an import
        recognizes."""
        return floats(self._native.score(_triples(edges)))

    def probability(self, head: str, relation: str, tail: str, /) -> float:
        """Returns the probability of an edge, by the curves of `calibrate`. It refers to the mixture of edges and random
        negatives that they were fitted on (docs/predictions.md)."""
        probabilities: list[float] = self._native.probabilities([_triple((head, relation, tail))])
        return probabilities[0]

    def probability_all(self, edges: Iterable[Edge] | Any, /) -> Floats:
        """Returns the probabilities of edges; see `probability` and `score_all`."""
        return floats(self._native.probabilities(_triples(edges)))

    def calibrate(
        self,
        edges: str = "valid",
        /,
        *,
        negatives: int = 1,
        limit: int = 100_000,
        filter: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Fits probabilities to scores on an edge set that was not trained, as `pbg-host calibrate` does: against
        `negatives` random edges for each of its edges, which are in none of the sets `filter`, by default all sets. At
        most `limit` edges are used. The result is stored in the checkpoint's folder, and belongs to its current version.
        Returns the report that `pbg-host calibrate --json` prints, with `reliability`, `brier` and
        `calibration_error`."""
        _check_filter(filter)
        options = {
            "edges": edges,
            "negatives": whole("negatives", negatives),
            "limit": whole("limit", limit),
            "filter": None if filter is None else list(filter),
        }
        text, warning = self._native.calibrate(as_json(options))
        if warning is not None:
            _warn(warning)
        report: dict[str, Any] = json.loads(text)
        return report

    def calibration(self) -> dict[str, Any]:
        """Returns the report of the last `calibrate`. Raises `CheckpointError` if there is none for this version."""
        report: dict[str, Any] = json.loads(self._native.calibration())
        return report

    def neighbors(
        self,
        name: str,
        /,
        k: int = 10,
        *,
        entity_type: str | None = None,
        comparator: Comparator | None = None,
        relation: str | None = None,
        asked: Literal["head", "tail"] | None = None,
        index: bool = False,
        width: int | None = None,
    ) -> Scored:
        """Returns the `k` entities of the same type whose embeddings are nearest to that of `name`, by the model's
        comparator or another one; where the sides matter to it, `name` is on the right. With a `relation`, returns those nearest after its operator was applied, on the side
        `asked`, by default the tail; unlike in `predict`, answers of known edges are included. With `index`, the index
        of `build_index` is searched instead of comparing all entities. The result is nearly the same; a greater
        `width` (the beam width of the search) makes it more accurate."""
        if relation is not None:
            for given, what in ((entity_type, "entity_type"), (comparator, "comparator")):
                if given is not None:
                    raise UsageError(f"{what}: cannot be given with a relation, which determines it")
            return self._neighbors_by(name, relation, asked or "tail", k, index, width)
        if asked is not None:
            raise UsageError("asked: needs a relation, given as relation=...")
        _check_comparator(comparator, get_args(Comparator))
        by = (whole_or_none("width", width),) if index else None
        found, warning = self._native.neighbors(name, whole("k", k), entity_type, comparator, by)
        if warning is not None:
            _warn(warning)
        return Scored([near for near, _ in found], floats(score for _, score in found))

    def _neighbors_by(
        self, name: str, relation: str, asked: str, k: int, index: bool, width: int | None
    ) -> Scored:
        if asked not in ("head", "tail"):
            raise UsageError(f"asked: {asked!r} is neither 'head' nor 'tail'")
        question = (name, relation, None) if asked == "tail" else (None, relation, name)
        answers = self.predict_all([question], k=k, filter=(), loops=False, index=index, width=width)
        return answers[0]

    def build_index(
        self,
        entity_type: str | None = None,
        /,
        *,
        comparator: IndexedComparator | None = None,
        links: int = 32,
        build_width: int = 100,
        recall_queries: int = 200,
        threads: int | None = None,
    ) -> dict[str, Any]:
        """Builds the index that `neighbors` and `predict` use with `index=True`, for one entity type or all, and
        measures how many of the ten nearest entities its searches find, as the command `pbg-host index` does. The
        index is stored in the checkpoint's folder, and is built from the checkpoint's current version. Returns a
        report of what was built and measured."""
        _check_comparator(comparator, get_args(IndexedComparator))
        options = {
            "entity_type": entity_type,
            "comparator": comparator,
            "links": whole("links", links),
            "build_width": whole("build_width", build_width),
            "recall_queries": whole("recall_queries", recall_queries, 0),
            "threads": whole_or_none("threads", threads),
        }
        text, warnings = self._native.build_index(as_json(options))
        for warning in warnings:
            _warn(warning)
        report: dict[str, Any] = json.loads(text)
        return report

    def predict(
        self,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        filter: Sequence[str] | None = None,
        loops: bool = True,
        threads: int | None = None,
        index: bool = False,
        width: int | None = None,
        probability: bool = False,
    ) -> Scored:
        """Returns the `k` entities that best complete `(head, relation, ?)` or `(?, relation, tail)`, or the relations
        that best complete `(head, ?, tail)`, except those that complete an edge of the sets `filter`, by default all
        sets. `loops=False` also excludes the entity of the question. The scores of relations are those of `score`.
        `index` and `width` are those of `neighbors`. With `probability`, the answers of a calibrated model have
        `probabilities`; see `calibrate`."""
        return self.predict_all(
            [(head, relation, tail)],
            k=k,
            filter=filter,
            loops=loops,
            threads=threads,
            index=index,
            width=width,
            probability=probability,
        )[0]

    def predict_all(
        self,
        questions: Iterable[tuple[str | None, str | None, str | None]],
        /,
        *,
        k: int = 10,
        filter: Sequence[str] | None = None,
        loops: bool = True,
        threads: int | None = None,
        index: bool = False,
        width: int | None = None,
        probability: bool = False,
    ) -> list[Scored]:
        """Answers many questions `(head, relation, None)`, `(None, relation, tail)` or `(head, None, tail)` in one
        pass over the partitions; see `predict`. With `index` and without `width`, questions that are answered faster
        by comparing all entities are answered that way, exactly."""
        _check_filter(filter)
        asked = {
            "questions": [_question(question) for question in questions],
            "k": whole("k", k),
            "filter": None if filter is None else list(filter),
            "loops": loops,
            "threads": whole_or_none("threads", threads),
            "index": index,
            "width": whole_or_none("width", width),
            "probability": bool(probability),
        }
        answered = json.loads(self._native.predict(as_json(asked)))
        for warning in answered["warnings"]:
            _warn(warning)
        return [_scored(answer) for answer in answered["answers"]]

    def missing(
        self,
        *,
        k: int = 10,
        relation: str | None = None,
        per_relation: bool = False,
        filter: Sequence[str] | None = None,
        loops: bool = True,
        most_pairs: int = 100_000_000_000,
        threads: int | None = None,
    ) -> ScoredEdges:
        """Returns the `k` edges with the highest scores that the graph lacks: every pair of entities is scored for every
        relation, or for `relation`. With `per_relation`, returns the `k` best of each relation, since training may not
        have made scores of different relations comparable. Edges of the sets `filter`, by default all sets, are not
        missing. `loops=False` excludes edges from an entity to itself. A search of more than `most_pairs` pairs is
        refused."""
        _check_filter(filter)
        if relation is not None and per_relation:
            raise UsageError("per_relation: cannot be combined with a relation")
        options = {
            "k": whole("k", k),
            "relation": relation,
            "per_relation": bool(per_relation),
            "filter": None if filter is None else list(filter),
            "loops": bool(loops),
            "most_pairs": whole("most_pairs", most_pairs),
            "threads": whole_or_none("threads", threads),
        }
        found = json.loads(self._native.missing(as_json(options)))
        ranks = np.asarray(found["ranks"], dtype=np.uint32)
        heads, relations, tails = found["heads"], found["relations"], found["tails"]
        return ScoredEdges(heads, relations, tails, floats(found["scores"]), ranks)

    def evaluate(
        self,
        edges: str | Iterable[Edge] | Any | None = None,
        /,
        *,
        filter: Sequence[str] | None = None,
        candidates: int | Listed | None = None,
        limit: int | None = None,
        by: Literal["relation", "entity_type"] | None = None,
        threads: int | None = None,
        seen: bool = False,
    ) -> dict[str, Any]:
        """Ranks the edges of a set, by default `test`, each side among all entities or among a sample of `candidates`.
        Returns the report that `pbg-host eval --json` prints. `report["raw"]` has `mrr`, `hits_at_1`, `hits_at_10`, `mean_rank`, `auc`
        and so on. `report["filtered"]` has the same, without the other true edges of the sets `filter`, by default all
        sets; with `filter=[]` there is no `"filtered"`. `by` adds the ranks of each relation or entity type.
        `report["unseen"]` counts the edges with an entity or a relation that no trained edge has; with `seen` these
        are excluded.

        `edges` may also be edges at hand, which need not be in the dataset: tuples `(head, relation, tail)` or a table,
        as for `score_all`. Their other true answers are known only from the sets `filter`.

        Benchmarks that give candidates for each edge pass them instead of an edge set, as a file or as tuples:
        `model.evaluate(candidates=[("e1", "r", "e2", "tail", ["e3", "e4"])])` ranks `e2` among `e3` and `e4`, as they
        are listed, with the ranks of OGB's evaluator."""
        if candidates is not None and not hasattr(candidates, "__index__"):
            given = {"edges": edges, "filter": filter, "limit": limit, "by": by, "seen": seen or None}
            for option, value in given.items():
                if value is not None:
                    raise UsageError(
                        f"{option}: cannot be combined with listed candidates",
                        help="they have the edges and all of their candidates; each is ranked as it is listed",
                    )
            threads = whole_or_none("threads", threads)
            listed: dict[str, Any] = json.loads(
                self._native.rank_listed(blocks_of(candidates), threads)
            )
            return listed
        at_hand = None if edges is None or isinstance(edges, str) else _edges_at_hand(edges)
        if at_hand is not None:
            for option, given_too in (("limit", limit is not None), ("seen", seen)):
                if given_too:
                    raise UsageError(f"{option}: applies to edge sets, not to edges at hand")
            if not at_hand:
                raise UsageError("evaluate: there are no edges to rank")
        edges = "edges at hand" if at_hand is not None else edges or "test"
        _check_filter(filter)
        options = {
            "edges": edges,
            "filter": None if filter is None else list(filter),
            "candidates": whole_or_none("candidates", candidates),
            "limit": whole_or_none("limit", limit),
            "by": by,
            "threads": whole_or_none("threads", threads),
            "seen": bool(seen),
        }
        text = (
            self._native.evaluate(as_json(options))
            if at_hand is None
            else self._native.evaluate_given(at_hand, as_json(options))
        )
        report: dict[str, Any] = json.loads(text)
        return report

    def query_vector(
        self, *, head: str | None = None, relation: str, tail: str | None = None
    ) -> Floats:
        """Returns the vector with which the question `(head, relation, ?)` or `(?, relation, tail)` compares its
        candidates: the embedding of the known entity, transformed by the operator of the relation if that applies to its
        side, as the comparator uses it (scaled to length 1 for `cos`). With static relations the operator transforms
        right sides, so for `(head, relation, ?)` it transforms the candidates, not the vector. An operator of both sides
        transforms the vector and the candidates of either question."""
        if (head is None) == (tail is None):
            raise UsageError("query_vector: name the head or the tail, and the relation")
        known = name("head", head) if tail is None else name("tail", tail)
        vector = self._native.query_vector(known, name("relation", relation), tail is not None)
        return floats(vector)

    def operator(self, relation: str, /, asked: Literal["head", "tail"] = "tail") -> dict[str, Floats]:
        """Returns the parameters of the operator of a relation, by name, with which questions for its `asked` side are
        answered; a linear operator has a matrix. With static relations there is one operator for both questions, which
        transforms right sides, or both; with dynamic relations, one for each side, which transforms the side that is
        known."""
        if asked not in ("head", "tail"):
            raise UsageError(f"asked: {asked!r} is neither 'head' nor 'tail'")
        relations = self.relations()
        if relation not in relations:
            raise DataError(f"there is no relation {relation!r}", help=_nearest(relation, relations))
        is_dynamic = bool(self.config["dynamic_relations"])
        index = relations.index(relation)
        side = "lhs" if is_dynamic and asked == "tail" else "rhs"
        prefix = f"relations/{0 if is_dynamic else index}/operator/{side}/"
        found = {
            key.removeprefix(prefix): values
            for key, values in self.parameters().items()
            if key.startswith(prefix) and not key.endswith(".adagrad")
        }
        return {key: values[index] if is_dynamic else values for key, values in found.items()}

    def map(
        self,
        names: Iterable[str] | Mapping[str, str] | None = None,
        /,
        *,
        count: int = 400,
        entity_type: str | None = None,
        html: str | os.PathLike[str] | None = None,
        frame: Frame | None = None,
    ) -> Any:
        """Returns a table with the places of entities in two dimensions, so that entities with similar embeddings are
        near each other: columns `name`, `group`, `x` and `y`, as `pbg-host map --csv` writes them. Without `names`, the
        map has the `count` entities with the most edges. A dictionary maps names to their groups. `html` writes a page
        that needs no network."""
        if isinstance(names, str):
            raise UsageError("names: expected a list of names, or a dictionary from names to groups")
        groups = None
        if isinstance(names, Mapping):
            groups = [str(group) for group in names.values()]
        listed = None if names is None else [name("names", of) for of in dict.fromkeys(names)]
        options = {
            "names": listed,
            "groups": groups,
            "count": whole("count", count, 2),
            "entity_type": entity_type,
        }
        text, page = self._native.map(as_json(options), html is not None)
        if html is not None and page is not None:
            Path(html).write_text(page, encoding="utf-8")
        points = json.loads(text)
        columns = ("name", "group", "x", "y")
        return frame_of({of: [point[of] for point in points] for of in columns}, frame)

    # Numbers

    def export(
        self,
        folder: str | os.PathLike[str],
        /,
        format: Literal["npy", "safetensors", "parquet", "tsv", "hub"] = "npy",
        *,
        overwrite: bool = False,
    ) -> list[Path]:
        """Writes embeddings and parameters for other tools into a folder, as `pbg-host export` does, with one partition
        in memory, and returns the paths of the files. `overwrite` replaces the files of an earlier export. `folder` may
        be the URL of a folder in an object store.

        `"hub"` writes a folder for a model hub, which `Model(folder)` reads: the checkpoint with the names of entities
        and relations, without edges and paths, and a card (`README.md`)."""
        return [Path(path) for path in self._native.export(folder, format, bool(overwrite))]

    def partitions(self, entity_type: str | None = None, /) -> list[Partition]:
        """Returns the embeddings of a type by partition, as views of the checkpoint's files: nothing is copied, and
        nothing is read before it is accessed. `rows` converts bfloat16 to `float32`. The type's global embedding is
        not added; see `global_embedding`."""
        # Held until the files are mapped, so that a commit does not remove them.
        version = self._native.version()
        return [partition_at(place) for place in version.places(self._type(entity_type))]

    def global_embedding(self, entity_type: str | None = None, /) -> Floats | None:
        """Returns the vector that is added to every embedding of a type before it is used; `None` if it has none."""
        name = f"entities/{self._type(entity_type)}/global_embedding"
        return self.parameters().get(name)

    def embeddings(self, entity_type: str | None = None, /) -> Floats:
        """Returns the embeddings of a type as one array in main memory, with its global embedding added, as operators
        and comparators use them and `pbg-host export` writes them. Rows are in the order of `names`."""
        return self._embeddings(self._native.version(), self._type(entity_type))

    def _embeddings(self, version: Version, entity_type: str) -> Floats:
        parts = [partition_at(place).rows for place in version.places(entity_type)]
        rows: Floats = np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
        shift = parameters_of(version).get(f"entities/{entity_type}/global_embedding")
        if shift is not None:
            rows += shift
        return rows

    def names(self, entity_type: str | None = None, /) -> list[str]:
        """Returns the names of a type's entities that have an embedding, ordered by partition and row."""
        names: list[str] = self._names(self._native.version(), self._type(entity_type)).to_pylist()
        return names

    def to_arrow(self, entity_type: str | None = None, /) -> Any:
        """Returns a `pyarrow.Table` of a type, with columns `name` and `embedding`, the latter as in `embeddings`."""
        import pyarrow as pa

        version, entity_type = self._native.version(), self._type(entity_type)
        rows = self._embeddings(version, entity_type)
        values = pa.array(rows.reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(values, max(rows.shape[1], 1))
        return pa.table({"name": self._names(version, entity_type), "embedding": lists})

    def to_frame(self, entity_type: str | None = None, /, *, frame: Frame | None = None) -> Any:
        """Returns a table of a type: a column `name`, and a column for every dimension, called `0`, `1` and so on."""
        version, entity_type = self._native.version(), self._type(entity_type)
        rows = self._embeddings(version, entity_type)
        columns: dict[str, Any] = {"name": self._names(version, entity_type).to_pylist()}
        columns.update((str(at), rows[:, at]) for at in range(rows.shape[1]))
        return frame_of(columns, frame)

    def parameters(self) -> dict[str, Floats]:
        """Returns the parameters of operators and global embeddings by name, with their Adagrad accumulators
        (docs/formats.md)."""
        return parameters_of(self._native.version())

    def metrics(self, kind: str | None = None, /, *, frame: Frame | None = None) -> Any:
        """Returns the events of the model's run; see `pbg_host.metrics`."""
        from ._metrics import metrics

        folder = Path(self.config["checkpoint_path"])
        return metrics(folder.parent if self._is_best else folder, kind, frame=frame)

    def _type(self, entity_type: str | None) -> str:
        if entity_type is not None:
            return entity_type
        if len(self.entity_types) == 1:
            return self.entity_types[0]
        raise DataError(f"name one of the entity types: {', '.join(self.entity_types)}")

    def _names(self, version: Version, entity_type: str) -> Any:
        """Returns the names of the rows that a version has; the dataset may have more by now."""
        rows = [place[1] for place in version.places(entity_type)]
        return names_in(self._opened, entity_type, rows)

    def __repr__(self) -> str:
        return f"<pbg_host.Model in {self.config['checkpoint_path']!r}>"


def parameters_of(version: Version) -> dict[str, Floats]:
    """Returns the parameters of a version by name."""
    return {
        name: np.frombuffer(values, dtype="<f4").reshape(shape)
        for name, shape, values in version.parameters()
    }


def partition_at(place: tuple[str, int, int, tuple[bool, int], tuple[int, int]]) -> Partition:
    """Returns the partition whose numbers are at `place`."""
    path, rows, dim, (is_half, offset), _ = place
    shape, dtype = (rows, dim), "<u2" if is_half else "<f4"
    # A file without rows cannot be mapped.
    view: Floats | Halves = np.zeros(shape, dtype)
    if rows * dim > 0:
        view = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    return Partition(Path(path), view)


def _check_filter(filter: object) -> None:
    if isinstance(filter, str):
        raise UsageError("filter: expected a list of edge sets, such as ['train']")


def _check_comparator(comparator: str | None, known: tuple[str, ...]) -> None:
    if comparator is not None and comparator not in known:
        wanted = ", ".join(known)
        raise UsageError(f"comparator: expected one of {wanted}, not {comparator!r}")


def _triple(edge: Any) -> tuple[str, str, str]:
    """Converts an edge to a tuple of names; whole numbers become names."""
    try:
        head, relation, tail = [] if isinstance(edge, str) else edge
    except (TypeError, ValueError):
        raise UsageError(f"edges must be tuples (head, relation, tail), not {edge!r}") from None
    return name("edges", head), name("edges", relation), name("edges", tail)


def _triples(edges: Any) -> list[tuple[str, str, str]]:
    names = getattr(edges, "column_names", getattr(edges, "columns", None))
    if names is None and isinstance(edges, Mapping):
        names = list(edges)
    if names is None:
        return [_triple(edge) for edge in edges]
    shown = list(map(str, names))
    try:
        roles = dict(zip(_native.column_roles(None, shown), names))
    except DataError:
        roles = {}
    if not {"lhs", "rel", "rhs"} <= set(roles):
        raise UsageError(
            f"edges: expected one column each for head, relation and tail, but the columns are {', '.join(shown)}"
        )
    columns = [list(edges[roles[role]]) for role in ("lhs", "rel", "rhs")]
    return [_triple(edge) for edge in zip(*columns)]


def _edges_at_hand(edges: Any) -> list[tuple[str, str, str]]:
    if not isinstance(edges, Iterable):
        raise UsageError(
            "evaluate: expected the name of an edge set, such as 'test', or edges (head, relation, tail), "
            f"not {edges!r}"
        )
    return _triples(edges)


def _question(question: Any) -> dict[str, Any]:
    if isinstance(question, str) or not isinstance(question, Sequence) or len(question) != 3:
        raise UsageError(
            "questions must be tuples (head, relation, None), (None, relation, tail) or (head, None, tail), "
            f"not {question!r}"
        )
    parts = zip(("head", "relation", "tail"), question)
    return {part: None if of is None else name(part, of) for part, of in parts}


def _scored(answer: Mapping[str, Any]) -> Scored:
    probabilities = answer["probabilities"]
    return Scored(
        answer["names"],
        floats(answer["scores"]),
        answer["left_out"],
        None if probabilities is None else floats(probabilities),
    )


def _nearest(relation: str, relations: list[str]) -> str | None:
    near = difflib.get_close_matches(relation, relations, 1)
    return f"did you mean {near[0]!r}?" if near else None


def evaluate(
    source: ConfigLike | None = None, edges: str | Iterable[Edge] | Any | None = None, /, *, best: bool = False, **options: Any
) -> dict[str, Any]:
    """Opens a model and ranks the edges of a set; see `Model.evaluate`."""
    return Model(source, best=best).evaluate(edges, **options)


def breakdown(report: dict[str, Any], *, frame: Frame | None = None) -> Any:
    """Returns the ranks by relation or entity type as a table, from a report made with `by`."""
    from ._frames import flat

    return rows_frame([flat(row) for row in report.get("by", [])], frame)
