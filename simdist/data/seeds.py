"""Randomness of the input pipeline: a seed and an iteration number in, a private generator out.

No global generator exists: every shuffle derives its own stream from (seed, iteration number), so that the same
pipeline gives the same order in every process, and epoch 7 can be rebuilt without running epochs 0 to 6.

`default_seed` is the one hook: it is asked, when ``shuffle(seed=None)`` is called, for the seed of the surroundings.
Without an engine it answers 0, so that a notebook is deterministic too. Replace it as an attribute of this module:
``simdist.data.seeds.default_seed = my_function``.

Taught in lesson 01.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simdist.caches import bounded
from simdist.data.leaves import Array

__all__ = ["EPOCH_BLOCK", "default_seed", "epoch_block", "epochs_in_block", "generator", "permutation", "seed_or_default"]

WORD = (1 << 64) - 1
EPOCH_BLOCK = 1 << 15  # rows of consecutive permutations that are made at once, at most
MOST_EPOCHS = 64  # permutations that are made at once, at most: a short one costs as much as its generator
LARGEST_KEPT = 1 << 16  # longer permutations are worth their time, and not worth their memory


def zero(purpose: str) -> int:
    """The seed of a process without an engine: 0, whatever the purpose."""
    return 0


default_seed: Callable[[str], int] = zero


def seed_or_default(seed: int | None, purpose: str) -> int:
    """The given seed, or what the hook answers for this purpose (``"shuffle"``)."""
    return int(default_seed(purpose) if seed is None else seed)


def generator(seed: int, iteration: int) -> np.random.Generator:
    """A generator of its own for one iteration over one shuffle.

    Args:
        seed: any integer; only its lowest 64 bits count.
        iteration: number of the iteration, from 0.

    Returns:
        A counter-based (Philox) generator whose key is the pair.

    Example:
        >>> bool(generator(3, 0).random() == generator(3, 0).random())
        True
        >>> bool(generator(3, 0).random() == generator(3, 1).random())
        False
    """
    key = np.array([seed & WORD, iteration & WORD], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def permutation(seed: int, iteration: int, length: int) -> Array:
    """The full permutation of `length` elements, int32 of shape [length], for one iteration.

    Many workers shuffle the same data with the same seed, each for itself: recent orders are therefore kept.
    """
    return (kept_permutation if length <= LARGEST_KEPT else fresh_permutation)(seed, iteration, length)


def fresh_permutation(seed: int, iteration: int, length: int) -> Array:
    order = generator(seed, iteration).permutation(length).astype(np.int32)
    order.flags.writeable = False
    return order


kept_permutation = bounded("permutations", size=64)(fresh_permutation)


def epochs_in_block(length: int) -> int:
    """How many iterations of `length` rows one block holds."""
    return min(MOST_EPOCHS, EPOCH_BLOCK // length)


@bounded("blocks of permutations", size=64)
def epoch_block(seed: int, block: int, length: int) -> Array:
    """The permutations of many consecutive iterations one after another, int32.

    Block b holds the iterations from ``b * epochs_in_block(length)`` on. A worker that keeps one row in a thousand
    passes many epochs for one batch, and its neighbours pass the same ones.
    """
    epochs = epochs_in_block(length)
    orders = np.concatenate([fresh_permutation(seed, block * epochs + epoch, length) for epoch in range(epochs)])
    orders.flags.writeable = False
    return orders
