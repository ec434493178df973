"""Partition loads of a plan, counted as the host counts them."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple


class Traffic(NamedTuple):
    """Partition traffic of a plan."""

    #: Number of partitions loaded into the buffer.
    loads: int
    #: Number of loads that evicted another partition: the "swaps" of the literature.
    swaps: int
    #: Bytes loaded.
    bytes: int


def count(
    needed: Sequence[Sequence[int]], resident: List[int], sizes: Sequence[int], room: int
) -> Traffic:
    """Counts the traffic of buckets that need these partitions, in a buffer with room for `room` partitions."""
    next_use, after = _uses(needed, len(sizes))
    loads = swaps = read = 0
    for position, partitions in enumerate(needed):
        # Update the next use of all partitions of the bucket before choosing a victim.
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
    """Returns the first use of each partition, and for each position the next uses of its partitions."""
    first = [float("inf")] * partitions
    after: List[List[float]] = [[] for _ in needed]
    for position in reversed(range(len(needed))):
        after[position] = [first[partition] for partition in needed[position]]
        for partition in needed[position]:
            first[partition] = position
    return first, after
