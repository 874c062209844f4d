"""Randomness of the input pipeline: a seed and an iteration number in, a private generator out.

No global generator exists: every shuffle derives its own stream from (seed, iteration number), so that the same
pipeline gives the same order in every process, and epoch 7 can be rebuilt without running epochs 0 to 6.

A ``shuffle(seed=None)`` draws its seed from the stream of the task that makes it. In a notebook the seed is 0, so that it is
deterministic too; so it is where launched mains read parts of one dataset, which needs one order.

Taught in lesson 08.
"""

from __future__ import annotations

import numpy as np

from simdist.caches import bounded
from simdist.data.leaves import Array
from simdist.process_state import current_seed

__all__ = ["COMMON_SEED", "EPOCH_BLOCK", "epoch_block", "epochs_in_block", "generator", "permutation", "seed_or_default"]

WORD = (1 << 64) - 1
COMMON_SEED = 0  # of what is shuffled without a seed, in programs that know of no other one
EPOCH_BLOCK = 1 << 15  # rows of consecutive permutations that are made at once, at most
MOST_EPOCHS = 64  # permutations that are made at once, at most: a short one costs as much as its generator
LARGEST_KEPT = 1 << 16  # longer permutations are worth their time, and not worth their memory


def seed_or_default(seed: int | None) -> int:
    """The given seed, or a fresh one of the task that runs now; 0 where none has a stream of seeds."""
    return (current_seed() or COMMON_SEED) if seed is None else int(seed)


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
