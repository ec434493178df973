"""The partition loads that a plan asks for."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple


class Traffic(NamedTuple):
    """What a plan costs in partition traffic."""

    #: Partitions read into the buffer.
    loads: int
    #: Those of them that evicted another one: the "swaps" of the literature.
    swaps: int
    #: Bytes of the loads.
    bytes: int


def count(
    needed: Sequence[Sequence[int]], resident: List[int], sizes: Sequence[int], room: int
) -> Traffic:
    """The traffic of buckets that need these partitions, in a buffer with room for so many."""
    next_use, after = _uses(needed, len(sizes))
    loads = swaps = read = 0
    for position, partitions in enumerate(needed):
        # All of a bucket's partitions are in use before any of them is looked for.
        for partition, use in zip(partitions, after[position]):
            next_use[partition] = use
        for partition in partitions:
            if partition in resident:
                continue
            others = [p for p in resident if p not in partitions]
            if len(resident) >= room and others:
                resident.remove(max(others, key=lambda p: (next_use[p], -p)))
                swaps += 1
            resident.append(partition)
            loads += 1
            read += sizes[partition]
    return Traffic(loads, swaps, read)


def _uses(
    needed: Sequence[Sequence[int]], partitions: int
) -> Tuple[List[float], List[List[float]]]:
    """Where each partition is needed first; per position, where its partitions are needed next."""
    first = [float("inf")] * partitions
    after: List[List[float]] = [[] for _ in needed]
    for position in reversed(range(len(needed))):
        after[position] = [first[partition] for partition in needed[position]]
        for partition in needed[position]:
            first[partition] = position
    return first, after
