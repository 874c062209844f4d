"""Gradient descent on the problem of the workloads with numpy, in float64: what training has to give, computed without the engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from simdist.chaos.workloads.regression import FEATURES, INPUTS, LEARNING_RATE, MOMENTUM, ROWS, START, TARGETS

__all__ = ["descend", "descend_locally", "gradient", "rows_of", "update"]


def rows_of(batch_size: int, number: int) -> np.ndarray:
    """The rows of a batch, counted from 0; after the last row comes the first."""
    return np.arange(batch_size * number, batch_size * (number + 1)) % ROWS


def gradient(weights: np.ndarray, rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Of the sum of squares of these rows, divided by the size of the whole batch."""
    x, y = INPUTS[rows].astype(np.float64), TARGETS[rows].astype(np.float64)
    return 2.0 * x.T @ (x @ weights - y) / batch_size


def update(weights: np.ndarray, speed: np.ndarray, found: np.ndarray, momentum: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights and speed after a step with this gradient."""
    speed = (MOMENTUM if momentum else 0.0) * speed + found
    return weights - LEARNING_RATE * speed, speed


def descend(batch_size: int, steps: int, momentum: bool, replicas: int = 1, late: Sequence[Collection[int]] = ()) -> np.ndarray:
    """The weights after so many steps.

    Args:
        batch_size, steps, momentum: of the training.
        replicas: among whom each batch is shared, as evenly as can be.
        late: for each step the replicas whose gradients were dropped, so that those of the others stand for them; default: none.
    """
    weights, speed = START.astype(np.float64), np.zeros((FEATURES, 1))
    for number in range(steps):
        left_out = late[number] if late else ()
        parts = np.array_split(rows_of(batch_size, number), replicas)
        given = [gradient(weights, rows, batch_size) for rank, rows in enumerate(parts) if rank not in left_out]
        weights, speed = update(weights, speed, sum(given, np.zeros_like(speed)) * replicas / len(given), momentum)
    return weights


def descend_locally(batch_size: int, steps: int, momentum: bool, replicas: int, every: int) -> np.ndarray:
    """The mean weights of replicas that step on their parts of each batch alone, and go on from the mean after every so many steps."""
    weights = [START.astype(np.float64)] * replicas
    speeds = [np.zeros((FEATURES, 1))] * replicas
    for number in range(steps):
        for rank, rows in enumerate(np.array_split(rows_of(batch_size, number), replicas)):
            found = gradient(weights[rank], rows, batch_size) * replicas
            weights[rank], speeds[rank] = update(weights[rank], speeds[rank], found, momentum)
        if (number + 1) % every == 0:
            weights = [np.mean(weights, axis=0)] * replicas
    return np.mean(weights, axis=0)
