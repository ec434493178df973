"""Bucket orders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple, Type

from . import component
from .metadata import Metadata
from .rng import Rng
from .traffic import Traffic, count


class Bucket(NamedTuple):
    """The edges from left partition `lhs` to right partition `rhs`."""

    lhs: int
    rhs: int


@dataclass
class Pass:
    """One pass over the grid of buckets."""

    lhs_partitions: int
    rhs_partitions: int
    #: Whether left partition p and right partition p hold the same entities.
    shared: bool
    #: Number of edges of each bucket, row by row: index lhs * rhs_partitions + rhs.
    edges: List[int]
    #: Bytes read when each partition is loaded; 0 for partitions that always stay in memory.
    lhs_bytes: List[int]
    rhs_bytes: List[int]
    #: Number of partitions that fit the buffer, at least 2.
    buffer_partitions: int
    #: Partitions in the buffer before the first bucket, as in ("lhs", 3); all "lhs" if shared.
    resident: Set[Tuple[str, int]] = field(default_factory=set)
    epoch: int = 0
    edge_set: int = 0
    edge_chunk: int = 0
    #: Seed for everything random in this plan; differs from pass to pass.
    seed: int = 0

    @classmethod
    def uniform(cls, lhs_partitions: int, rhs_partitions: int, seed: int = 0) -> Pass:
        """Creates a pass for tests: 1000 edges per bucket, 1 MiB per partition, a buffer of two."""
        return cls(
            lhs_partitions,
            rhs_partitions,
            lhs_partitions == rhs_partitions,
            [1000] * (lhs_partitions * rhs_partitions),
            [1 << 20] * lhs_partitions,
            [1 << 20] * rhs_partitions,
            2,
            seed=seed,
        )

    def grid(self) -> List[Bucket]:
        """Returns all buckets, row by row."""
        return [
            Bucket(lhs, rhs)
            for lhs in range(self.lhs_partitions)
            for rhs in range(self.rhs_partitions)
        ]

    def edges_of(self, bucket: Bucket) -> int:
        """Returns the number of edges of a bucket."""
        return self.edges[bucket.lhs * self.rhs_partitions + bucket.rhs]

    def in_common(self, a: Bucket, b: Bucket) -> int:
        """Returns the number of partitions that two buckets share, which can stay in the buffer."""
        if not self.shared:
            return (a.lhs == b.lhs) + (a.rhs == b.rhs)
        return len({a.lhs, a.rhs} & {b.lhs, b.rhs})

    def bytes_to_load(self, bucket: Bucket) -> int:
        """Returns the bytes of a bucket's partitions that are not resident; 0 if it has no edges."""
        if not self.edges_of(bucket):
            return 0
        keys = {("lhs", bucket.lhs), ("lhs" if self.shared else "rhs", bucket.rhs)}
        sizes = {"lhs": self.lhs_bytes, "rhs": self.rhs_bytes}
        return sum(sizes[side][p] for side, p in keys - set(self.resident))

    def partitions(self) -> int:
        """Returns the number of partitions: those of one side if shared, otherwise those of both."""
        return self.lhs_partitions + (0 if self.shared else self.rhs_partitions)

    def needs(self, bucket: Bucket) -> List[int]:
        """Returns the partitions that a bucket needs in the buffer.

        They are numbered below `partitions()`, left ones first, without those that always stay in
        memory. There are none for a bucket without edges.
        """
        if not self.edges_of(bucket):
            return []
        lhs, rhs = bucket.lhs, bucket.rhs if self.shared else self.lhs_partitions + bucket.rhs
        ends = [lhs] if lhs == rhs else [lhs, rhs]
        return [partition for partition in ends if self.bytes(partition)]

    def bytes(self, partition: int) -> int:
        """Returns the bytes read when a partition is loaded; 0 if it always stays in memory."""
        if partition < self.lhs_partitions:
            return self.lhs_bytes[partition]
        return self.rhs_bytes[partition - self.lhs_partitions]

    def traffic(self, plan: Sequence[Tuple[int, int]]) -> Traffic:
        """Returns the traffic of a plan, counted as the host counts it.

        The partition whose next use is furthest away is evicted (Belady 1966).
        """
        right = 0 if self.shared else self.lhs_partitions
        resident = [p if side == "lhs" else p + right for side, p in sorted(self.resident)]
        needed = [self.needs(Bucket(*bucket)) for bucket in plan]
        sizes = [self.bytes(partition) for partition in range(self.partitions())]
        return count(needed, resident, sizes, self.buffer_partitions)

    def rng(self) -> Rng:
        """Returns the random number generator of this pass."""
        return Rng(self.seed)


class Order:
    """Order in which the buckets of a pass are trained.

    It must be a pure function of its arguments: the same pass must give the same plan, otherwise a
    resumed run would differ from an uninterrupted one.
    """

    @classmethod
    def metadata(cls) -> Metadata:
        """Returns the plugin's `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Receives a dict with every declared parameter, already checked."""

    def plan(self, grid_pass: Pass) -> Iterable[Tuple[int, int]]:
        """Returns every bucket of `grid_pass.grid()` exactly once, in the order of training."""
        raise NotImplementedError

    def pick(self, grid_pass: Pass, held: List[Bucket], free: List[Bucket]) -> int:
        """Chooses the next bucket if several trainers share one grid: returns an index into `free`."""
        plan = self.plan(replace(grid_pass, resident=set()))
        return pick_by_plan(grid_pass, plan, free)


def pick_by_plan(
    grid_pass: Pass, plan: Iterable[Tuple[int, int]], free: Sequence[Bucket]
) -> int:
    """Returns the index of the free bucket with the fewest bytes to load, on a tie the first in `plan`."""
    position = {tuple(bucket): at for at, bucket in enumerate(plan)}

    def rank(index: int) -> Tuple[int, int]:
        return grid_pass.bytes_to_load(free[index]), position[free[index]]

    return min(range(len(free)), key=rank)


def export_order(order: Type[Order]) -> Tuple[type, type]:
    """Returns the exports of a component for a class of orders:
    `Metadata, BucketOrder = export_order(MyOrder)`."""

    def planned(grid_pass: Pass) -> Any:
        plan = component.instance(order).plan(grid_pass)
        if plan is None:
            raise TypeError("plan returned None, not a list of buckets")
        names = ("lhs", "rhs")
        pairs = (component.pair(b, f"bucket {at} of the plan", names) for at, b in enumerate(plan))
        return [component.order_types().Bucket(lhs, rhs) for lhs, rhs in pairs]

    def picked(grid_pass: Pass, held: List[Bucket], free: List[Bucket]) -> int:
        pick = component.instance(order).pick(grid_pass, held, free)
        return component.whole(pick, "what pick returned")

    class BucketOrder(component.Configured):
        make = order

        def plan(self, wit_pass: Any) -> Any:
            return component.call(planned, _lifted(wit_pass))

        def pick(self, wit_pass: Any, held: Any, free: Any) -> Any:
            return component.call(picked, _lifted(wit_pass), _buckets(held), _buckets(free))

    return component.metadata_of(order), BucketOrder


def _buckets(wit: Any) -> List[Bucket]:
    return [Bucket(b.lhs, b.rhs) for b in wit]


def _lifted(wit: Any) -> Pass:
    resident = {("lhs", p) for p in wit.resident_lhs} | {("rhs", p) for p in wit.resident_rhs}
    return Pass(
        wit.lhs_partitions,
        wit.rhs_partitions,
        wit.shared,
        wit.edges,
        wit.lhs_bytes,
        wit.rhs_bytes,
        wit.buffer_partitions,
        resident,
        wit.position.epoch,
        wit.position.edge_set,
        wit.position.edge_chunk,
        wit.seed,
    )
