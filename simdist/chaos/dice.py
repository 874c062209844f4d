"""Random draws for scenarios, from one derived stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from simdist.randomness import derive_seed, generator

__all__ = ["Dice"]

T = TypeVar("T")


class Dice:
    """A stream of draws for one purpose; `part` gives another for a part of it, which shifts no number of this one.

    Example:
        >>> Dice(7, "cluster").whole(1, 6) == Dice(7, "cluster").whole(1, 6)
        True
    """

    def __init__(self, seed: int, *purpose: object) -> None:
        self.seed = seed
        self.purpose = purpose
        self._stream = generator(seed, "chaos", *purpose)

    def part(self, *purpose: object) -> Dice:
        return Dice(self.seed, *self.purpose, *purpose)

    def number(self) -> int:
        """A seed for something else."""
        return derive_seed(self.seed, "chaos", *self.purpose, "seed") % 1_000_000_007

    def chance(self, probability: float) -> bool:
        return bool(self._stream.random() < probability)

    def real(self, low: float, high: float) -> float:
        return float(self._stream.uniform(low, high))

    def log_real(self, low: float, high: float) -> float:
        """Evenly over the orders of magnitude, rounded to three digits so that people can read it."""
        return float(f"{math.exp(self._stream.uniform(math.log(low), math.log(high))):.3g}")

    def whole(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self._stream.integers(low, high + 1))

    def pick(self, items: Sequence[T], weights: Sequence[float] | None = None) -> T:
        if weights is None:
            return items[self.whole(0, len(items) - 1)]
        total = sum(weights)
        return items[int(self._stream.choice(len(items), p=[weight / total for weight in weights]))]

    def some(self, items: Sequence[T], at_most: int) -> list[T]:
        """Up to so many different ones, in their order."""
        count = min(len(items), self.whole(1, at_most)) if items else 0
        chosen = sorted(self._stream.choice(len(items), size=count, replace=False).tolist()) if count else []
        return [items[int(index)] for index in chosen]
