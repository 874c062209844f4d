"""One program under plain Keras and under a strategy: the same losses, metrics and weights (class E2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras as plain
import numpy as np

import simdist as sd
from simdist import keras

__all__ = ["STRATEGIES", "require_those_of_keras", "trained"]

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "one worker": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
}


def trained(make: Callable[[Any], Any], strategy: str, x: Any, y: Any, **options: Any) -> list[tuple[Any, dict[str, list[float]]]]:
    """The model and its history under plain Keras, and those under a strategy; both begin with the same weights."""
    options = {"batch_size": 8, "epochs": 3, "shuffle": False, "verbose": 0} | options
    first = jax.tree_util.tree_map(lambda leaf: leaf[:8], x)  # as many rows as a batch has: the programs are needed again
    expected = make(plain)
    with STRATEGIES[strategy]().scope():
        model = make(keras)
    for one in (expected, model):
        one.predict(first, verbose=0)
    model.set_weights(expected.get_weights())
    return [(one, one.fit(x, y, **options).history) for one in (expected, model)]


def require_those_of_keras(
    make: Callable[[Any], Any], strategy: str, x: Any, y: Any, rtol: float = 1e-4, **options: Any
) -> dict[str, list[float]]:
    """Train both; compare histories, weights, and what is evaluated and predicted. Returns the history."""
    (expected, history), (model, found) = trained(make, strategy, x, y, **options)
    assert list(found) == list(history)
    for name, values in history.items():
        np.testing.assert_allclose(found[name], values, rtol=rtol, atol=1e-6, err_msg=name)
    for one, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=10 * rtol)
    one, other = (each.predict(x, batch_size=8, verbose=0) for each in (model, expected))
    for part, wanted in zip(jax.tree_util.tree_leaves(one), jax.tree_util.tree_leaves(other), strict=True):
        np.testing.assert_allclose(part, wanted, rtol=10 * rtol, atol=10 * rtol)
    return found
