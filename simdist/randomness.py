"""Randomness: every stream of random numbers is derived from the seed and its purpose.

A stream belongs to (seed, task, incarnation, purpose). Nothing is shared, so one more fault, or one more task,
does not shift the numbers of another. No function here, nor anywhere in simdist, touches a global generator.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

__all__ = ["step_key", "derive_seed", "generator", "keras_seeds"]

Seeds: TypeAlias = Callable[[str | None], int]


def derive_seed(seed: int, *purpose: object) -> int:
    """An integer of 63 bits that depends on `seed` and on every word of `purpose`, the same on every machine.

    Example:
        >>> derive_seed(0, "worker:1", 0, "shuffle") == derive_seed(0, "worker:1", 0, "shuffle")
        True
        >>> derive_seed(0, "worker:1", 0, "shuffle") == derive_seed(0, "worker:1", 1, "shuffle")
        False
    """
    text = "\x1f".join([str(int(seed)), *map(str, purpose)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, *purpose: object) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *purpose)))


def keras_seeds(seed: int, task: str, incarnation: int) -> Seeds:
    """Seeds for what one incarnation of a task makes without one, in the order of making; Keras wants them small and not 0.

    The function that is returned takes the task as which it draws: another one that has drawn as often has the same seed. None: its own.
    """
    drawn = itertools.count(1)
    return lambda drawing: 1 + derive_seed(seed, drawing or task, incarnation, "keras", next(drawn)) % 1_000_000_000


def step_key(seed: int, task: str, step: int, salt: int, *replica: object) -> np.ndarray:
    """A random key of a step: two uint32, shape (2,).

    Args:
        seed: of the cluster.
        task: that takes the step.
        step: its number.
        salt: which key of the step.
        replica: "replica" and its rank, where several take the step together.
    """
    return np.array([derive_seed(seed, task, step, salt, *replica) & 0xFFFFFFFF, 0], np.uint32)
