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
    """One walk over the grid of buckets."""

    lhs_partitions: int
    rhs_partitions: int
    #: Whether left partition p and right partition p are the same entities.
    shared: bool
    #: Edges of each bucket, row by row: index lhs * rhs_partitions + rhs.
    edges: List[int]
    #: Bytes that loading each partition reads; 0 for what always stays in memory.
    lhs_bytes: List[int]
    rhs_bytes: List[int]
    #: How many partitions fit the buffer, at least 2.
    buffer_partitions: int
    #: What is in the buffer before the first bucket: ("lhs", 3); all "lhs" where shared.
    resident: Set[Tuple[str, int]] = field(default_factory=set)
    epoch: int = 0
    edge_set: int = 0
    edge_chunk: int = 0
    #: Seed for everything random in this plan; differs from pass to pass.
    seed: int = 0

    @classmethod
    def uniform(cls, lhs_partitions: int, rhs_partitions: int, seed: int = 0) -> Pass:
        """For tests: 1000 edges per bucket, 1 MiB per partition, a buffer of two."""
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
        """All buckets, row by row."""
        return [
            Bucket(lhs, rhs)
            for lhs in range(self.lhs_partitions)
            for rhs in range(self.rhs_partitions)
        ]

    def edges_of(self, bucket: Bucket) -> int:
        """Number of edges of a bucket."""
        return self.edges[bucket.lhs * self.rhs_partitions + bucket.rhs]

    def in_common(self, a: Bucket, b: Bucket) -> int:
        """How many partitions two buckets have in common: what stays in the buffer."""
        if not self.shared:
            return (a.lhs == b.lhs) + (a.rhs == b.rhs)
        return len({a.lhs, a.rhs} & {b.lhs, b.rhs})

    def bytes_to_load(self, bucket: Bucket) -> int:
        """Bytes of a bucket's partitions that are not resident; 0 where it has no edges."""
        if not self.edges_of(bucket):
            return 0
        keys = {("lhs", bucket.lhs), ("lhs" if self.shared else "rhs", bucket.rhs)}
        sizes = {"lhs": self.lhs_bytes, "rhs": self.rhs_bytes}
        return sum(sizes[side][p] for side, p in keys - set(self.resident))

    def partitions(self) -> int:
        """How many partitions there are to load: those of one side where shared, else of both."""
        return self.lhs_partitions + (0 if self.shared else self.rhs_partitions)

    def needs(self, bucket: Bucket) -> List[int]:
        """The partitions that training a bucket needs in the buffer.

        They are numbered below `partitions()`, left ones first. None for a bucket without edges
        and for what always stays in memory.
        """
        if not self.edges_of(bucket):
            return []
        lhs, rhs = bucket.lhs, bucket.rhs if self.shared else self.lhs_partitions + bucket.rhs
        ends = [lhs] if lhs == rhs else [lhs, rhs]
        return [partition for partition in ends if self.bytes(partition)]

    def bytes(self, partition: int) -> int:
        """What loading a partition reads; 0 for what always stays in memory."""
        if partition < self.lhs_partitions:
            return self.lhs_bytes[partition]
        return self.rhs_bytes[partition - self.lhs_partitions]

    def traffic(self, plan: Sequence[Tuple[int, int]]) -> Traffic:
        """What a plan loads, counted as the host counts it.

        Evicted is what is needed again latest (Belady 1966).
        """
        right = 0 if self.shared else self.lhs_partitions
        resident = [p if side == "lhs" else p + right for side, p in sorted(self.resident)]
        needed = [self.needs(Bucket(*bucket)) for bucket in plan]
        sizes = [self.bytes(partition) for partition in range(self.partitions())]
        return count(needed, resident, sizes, self.buffer_partitions)

    def rng(self) -> Rng:
        """The generator that belongs to this pass."""
        return Rng(self.seed)


class Order:
    """Decides in which order the buckets of a pass are trained.

    It must be a pure function of its arguments: the same pass, the same plan, or a run that was
    resumed would differ from one that was not stopped.
    """

    @classmethod
    def metadata(cls) -> Metadata:
        """Who this is: a `Metadata`."""
        raise NotImplementedError

    def configure(self, parameters: Dict[str, Any]) -> None:
        """Takes a dict with every declared parameter, already checked."""

    def plan(self, grid_pass: Pass) -> Iterable[Tuple[int, int]]:
        """Every bucket of `grid_pass.grid()` exactly once, in the order of training."""
        raise NotImplementedError

    def pick(self, grid_pass: Pass, held: List[Bucket], free: List[Bucket]) -> int:
        """Several trainers share one grid: index of the bucket of `free` to train next."""
        plan = self.plan(replace(grid_pass, resident=set()))
        return pick_by_plan(grid_pass, plan, free)


def pick_by_plan(
    grid_pass: Pass, plan: Iterable[Tuple[int, int]], free: Sequence[Bucket]
) -> int:
    """The free bucket with fewest bytes to load, then first in `plan`."""
    position = {tuple(bucket): at for at, bucket in enumerate(plan)}

    def rank(index: int) -> Tuple[int, int]:
        return grid_pass.bytes_to_load(free[index]), position[free[index]]

    return min(range(len(free)), key=rank)


def export_order(order: Type[Order]) -> Tuple[type, type]:
    """What a component exports for a class of orders:
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
