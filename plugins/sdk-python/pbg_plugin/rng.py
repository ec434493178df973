"""Random number generator of plugins, seeded from the arguments."""

from __future__ import annotations

from typing import List, Optional, Sequence, TypeVar

_MASK = (1 << 64) - 1

T = TypeVar("T")


class Rng:
    """xoshiro256++, seeded through SplitMix64; gives the same numbers as the other SDKs."""

    def __init__(self, seed: int) -> None:
        self._state: List[int] = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & _MASK
            z = seed
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
            self._state.append(z ^ (z >> 31))

    def next_u64(self) -> int:
        """Returns 64 random bits."""
        a, b, c, d = self._state
        result = (_rotated((a + d) & _MASK, 23) + a) & _MASK
        t = (b << 17) & _MASK
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= t
        self._state = [a, b, c, _rotated(d, 45)]
        return result

    def below(self, bound: int) -> int:
        """Returns a number in `range(bound)`, each equally likely (Lemire's method)."""
        if bound <= 0:
            raise ValueError(f"below({bound}): the bound must be at least 1")
        while True:
            product = self.next_u64() * bound
            low = product & _MASK
            if low >= bound or low >= ((1 << 64) - bound) % bound:
                return product >> 64

    def unit(self) -> float:
        """Returns a number in [0, 1)."""
        return (self.next_u64() >> 11) * 2.0**-53

    def shuffle(self, items: List[T]) -> None:
        """Puts a list in random order, in place (Fisher and Yates)."""
        for end in range(len(items) - 1, 0, -1):
            other = self.below(end + 1)
            items[end], items[other] = items[other], items[end]

    def weighted(self, weights: Sequence[int]) -> Optional[int]:
        """Returns an index with probability proportional to its weight (whole numbers); None if all
        are 0."""
        total = sum(weights)
        if total == 0:
            return None
        left = self.below(total)
        for index, weight in enumerate(weights):
            if left < weight:
                return index
            left -= weight
        raise AssertionError("the sum of all weights is larger than any number below it")


def _rotated(x: int, by: int) -> int:
    return ((x << by) | (x >> (64 - by))) & _MASK
