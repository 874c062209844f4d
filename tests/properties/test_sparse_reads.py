"""Any table, shards, ids and optimizer, on every plan: training by rows gives the numbers of Keras on one dense table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.ledger import ledger as ledger_module
from simdist.ledger import plans

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.3),
    "adagrad": lambda: keras.optimizers.Adagrad(0.3),
    "adam": lambda: keras.optimizers.Adam(0.3),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.3),
}

# What CI tries: every optimizer, and every plan.
SAMPLE = {("adagrad", "eager"), ("adam", "loop"), ("rmsprop", "replay")}


def dense(start: Any, batches: list[Any], optimizer: Any) -> Any:
    """The table after these batches, by Keras and JAX alone."""
    variable = keras.Variable(start)
    optimizer.build([variable])
    state, value = [v.value for v in optimizer.variables], jnp.asarray(start)
    for ids in batches:
        gradient = jax.grad(lambda table, ids=ids: (jnp.take(table, ids, axis=0) ** 2).sum())(value)
        (value,), state = optimizer.stateless_apply(state, [gradient], [value])
    return np.asarray(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "numerics"),
    sampled([(name, numerics) for name in sorted(OPTIMIZERS) for numerics in ("eager", "loop", "replay")], SAMPLE),
)
def test_rows_train_as_a_dense_table_does(name: str, numerics: str) -> None:
    rng = np.random.default_rng([sorted(OPTIMIZERS).index(name), len(numerics)])
    rows, shards, servers, count, steps = (int(rng.integers(low, high)) for low, high in [(8, 30), (1, 5), (1, 4), (1, 7), (6, 15)])
    start, batches = rng.normal(size=(rows, 2)).astype(np.float32), rng.integers(0, rows, (steps, count)).astype(np.int32)
    with patch.object(ledger_module, "TABLE_BYTES", 1), patch.object(plans, "TRIAL", 3):
        strategy = sd.ParameterServerStrategy(
            sd.Cluster({"worker": 1, "ps": servers}, numerics=numerics), sd.FixedShardsPartitioner(shards)
        )
        with strategy.scope():
            table, optimizer = sd.Variable(start, name="table"), sd.Optimizer(OPTIMIZERS[name]())

        @sd.function
        def step(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) ** 2).sum(), [table])()
            optimizer.apply_gradients(zip(gradients, [table], strict=True))

        coordinator = sd.ClusterCoordinator(strategy)
        for ids in batches:
            coordinator.schedule(step, args=(ids,))
        coordinator.join()
        found = table.numpy()
    np.testing.assert_allclose(found, dense(start, list(batches), OPTIMIZERS[name]()), rtol=2e-5, atol=2e-6)
