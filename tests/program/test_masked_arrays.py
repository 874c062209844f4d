"""An array with a mask is refused wherever numbers come in: its mask would be lost, and the numbers below it would count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras

MASKED: list[Any] = [
    np.ma.MaskedArray(np.ones((4, 1), np.float32), [[False], [True], [False], [False]]),
    np.ma.MaskedArray(np.arange(4), [False, False, True, False]),  # would be narrowed
]
ROWS = np.ones((4, 1), np.float32)


def replica_context() -> sd.ReplicaContext:
    context = sd.get_replica_context()
    assert context is not None
    return context


def takes_of(strategy: Any) -> dict[str, Callable[[Any], object]]:
    """What is given an array, by name."""
    with strategy.scope():
        v, optimizer = sd.Variable(ROWS), sd.Optimizer(keras.optimizers.SGD(0.1))
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    step = sd.function(lambda x: x.sum())
    return {
        "a variable": sd.Variable,
        "an assignment": v.assign,
        "a step": lambda x: strategy.run(step, args=(x,)),
        "a dataset": sd.Dataset.from_tensor_slices,
        "a component": lambda x: sd.Dataset.from_tensor_slices({"a": np.ones(4, np.float32), "b": x}),
        "fit": lambda x: model.fit(ROWS, x, verbose=0),
        "evaluate": lambda x: model.evaluate(ROWS, ROWS, sample_weight=x, verbose=0),
        "train_on_batch": lambda x: model.train_on_batch(ROWS, x),
        "a reduction": lambda x: strategy.reduce("mean", x, axis=None),
        "a collective": lambda x: strategy.run(lambda: replica_context().all_reduce("mean", x)),
        "weights of losses": lambda x: sd.compute_average_loss(np.ones(4, np.float32), sample_weight=x, global_batch_size=4),
        "losses": lambda x: sd.compute_average_loss(x, global_batch_size=4),
        "a loss of regularization": sd.scale_regularization_loss,
        "a gradient": lambda x: strategy.run(lambda: optimizer.apply_gradients([(x.reshape(4, 1), v)])),
        "a check": lambda x: sd.check_numerics(x, "x"),
        "ids": lambda x: sd.embedding_lookup(
            v, np.ma.MaskedArray(x.astype(np.int64) * 0, np.ma.getmask(x)) if np.ma.isMaskedArray(x) else [0]
        ),
        "weights of ids": lambda x: sd.embedding_lookup_sparse(v, [[0]] * 4, x.reshape(4, 1) if np.ma.isMaskedArray(x) else None),
    }


@pytest.mark.parametrize("array", MASKED, ids=["float32", "int64"])
@pytest.mark.parametrize("name", takes_of(sd.OneDeviceStrategy()))
def test_a_mask_is_refused_and_what_it_leaves_is_taken(name: str, array: Any) -> None:
    taken = takes_of(sd.OneDeviceStrategy())[name]
    with pytest.raises(sd.errors.InvalidArgumentError, match="has a mask"):
        taken(array)
    taken(ROWS)


def test_jax_refuses_it_too() -> None:
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        jnp.asarray(MASKED[0])


def test_a_plain_function_gets_it_as_it_is() -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    assert coordinator.schedule(lambda x: float(x.sum()), args=(MASKED[0],)).fetch() == 3.0
