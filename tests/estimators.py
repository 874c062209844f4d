"""A linear problem for Estimators: its data, its model, and what plain numpy makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import simdist as sd

__all__ = ["COLUMNS", "X", "Y", "config", "descended", "input_fn", "regressor", "sharing_input_fn", "weights"]

X = np.random.default_rng(0).random((48, 3), np.float32)
Y = (X @ np.array([1, 2, 3], np.float32)).astype(np.float32)
COLUMNS = [sd.feature_column.numeric_column("x", shape=3)]


def input_fn(batch_size: int = 8, endless: bool = True) -> Callable[[], sd.Dataset]:
    """Batches of all rows, in order."""

    def batches() -> sd.Dataset:
        dataset = sd.Dataset.from_tensor_slices(({"x": X}, Y))
        return (dataset.repeat() if endless else dataset).batch(batch_size)

    return batches


def sharing_input_fn(global_batch_size: int, endless: bool = True) -> Callable[[sd.InputContext], sd.Dataset]:
    """The workers' shares of global batches: worker i has the rows i, i + n, ... of each."""

    def batches(input_context: sd.InputContext) -> sd.Dataset:
        dataset = sd.Dataset.from_tensor_slices(({"x": X}, Y)).shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return (dataset.repeat() if endless else dataset).batch(input_context.get_per_replica_batch_size(global_batch_size))

    return batches


def config(directory: Path | str, **options: Any) -> sd.estimator.RunConfig:
    return sd.estimator.RunConfig(str(directory), **options)


def regressor(directory: Path | str, optimizer: Any = "SGD", **options: Any) -> sd.estimator.LinearRegressor:
    return sd.estimator.LinearRegressor(COLUMNS, optimizer=optimizer, config=config(directory, **options))


def weights(estimator: sd.estimator.Estimator) -> np.ndarray:
    """Those of a linear model and its bias."""
    names = ("linear/linear_model/x/weights", "linear/linear_model/bias_weights")
    return np.concatenate([estimator.get_variable_value(name).ravel() for name in names])


def descended(steps: int, batch_size: int = 16, rate: float = 0.2, momentum: float = 0.0, epoch: bool = False) -> np.ndarray:
    """The same weights after steps of gradient descent, in float64; with `epoch` the last batch of an epoch is smaller."""
    found, velocity = np.zeros(4), np.zeros(4)
    rows = np.column_stack([X, np.ones(len(X))]).astype(np.float64)
    for step in range(steps):
        batch = np.arange(step * batch_size, (step + 1) * batch_size)
        batch = batch[batch < len(X)] if epoch else batch % len(X)
        errors = rows[batch] @ found - Y[batch]
        velocity = momentum * velocity - rate * 2 * rows[batch].T @ errors / len(batch)
        found += velocity
    return found
