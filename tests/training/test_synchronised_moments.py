"""Batch statistics of all replicas are those of one device with the global batch, also where a mask leaves some entries out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

rng = np.random.default_rng(0)
IDS = rng.integers(0, 5, (10, 6), np.int32)  # 0 is masked
IDS[:, 0] = 1 + np.arange(10) % 4
Y = rng.normal(size=(10, 1)).astype(np.float32)


def of_layers(namespace: Any, synchronized: bool) -> Any:
    values = (np.arange(10.0).reshape(5, 2) ** 1.5).astype(np.float32)
    model = namespace.Sequential(
        [
            plain.Input((6,), dtype="int32"),
            plain.layers.Embedding(5, 2, mask_zero=True, weights=[values]),
            plain.layers.BatchNormalization(synchronized=synchronized, momentum=0.5),
            plain.layers.GlobalAveragePooling1D(),
            plain.layers.Dense(1, kernel_initializer="ones"),
        ]
    )
    model.compile(plain.optimizers.SGD(0.1), "mse")
    return model


STRATEGIES: dict[str, Callable[[], Any]] = {
    "2 replicas": lambda: sd.MirroredStrategy(2),
    "4 replicas": lambda: sd.MirroredStrategy(4),
    "3 workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_statistics_of_masked_inputs_are_those_of_one_device_with_uneven_batches(strategy: str) -> None:
    expected = of_layers(plain, False)
    with STRATEGIES[strategy]().scope():
        model = of_layers(keras, True)
    histories = [one.fit(IDS, Y, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"] for one in (model, expected)]
    assert histories[0] == pytest.approx(histories[1], rel=1e-4)
    for own, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(own.value, other.value, rtol=1e-3, atol=1e-5, err_msg=own.path)


def test_layers_that_are_not_synchronised_keep_the_statistics_of_their_replica() -> None:
    with sd.MirroredStrategy(2).scope():
        model = of_layers(keras, False)
    model.fit(IDS[:8], Y[:8], batch_size=8, shuffle=False, verbose=0)
    halves = [of_layers(plain, False) for _ in range(2)]
    for half, rows in zip(halves, (slice(0, 4), slice(4, 8)), strict=True):
        half.fit(IDS[rows], Y[rows], batch_size=4, shuffle=False, verbose=0)
    means = np.mean([half.layers[1].moving_mean.value for half in halves], axis=0)
    np.testing.assert_allclose(model.layers[1].moving_mean.value, means, rtol=1e-5)


def with_its_own_step(namespace: Any, rows: int, strategy: Any = None) -> list[Any]:
    class Model(namespace.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            return super().train_step(state, data)

    with strategy.scope() if strategy else nullcontext():
        layers = [plain.layers.Dense(2, "tanh"), plain.layers.BatchNormalization(synchronized=strategy is not None)]
        model = Model([plain.Input((6,)), *layers, plain.layers.Dense(1, kernel_initializer="ones")])
        model.compile(plain.optimizers.SGD(0.1), "mse")
    layers[0].set_weights([np.cos(np.arange(12.0)).reshape(6, 2), np.zeros(2)])
    model.fit(IDS[:rows] / 5, Y[:rows], batch_size=7, epochs=3, shuffle=False, verbose=0)
    return [weight.value for weight in model.weights]


@pytest.mark.parametrize("rows", [7, 8])
@pytest.mark.sample(2)
def test_what_flows_back_through_statistics_has_the_weight_of_the_loss_that_it_comes_from(rows: int) -> None:
    """Replicas have 4 and 3 of 7 rows; then there is one row more, for two replicas."""
    found, wanted = with_its_own_step(keras, rows, sd.MirroredStrategy(2)), with_its_own_step(plain, rows)
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)


def with_a_penalty(namespace: Any, of_all: Callable[[Any], Any], strategy: Any = None) -> Any:
    """Gradients with respect to the inputs are the loss."""

    class Model(namespace.Sequential):
        def train_step(self, state: Any, data: Any) -> Any:
            (trained, others, optimizer, metrics), x = state, data[0]

            def loss_of(trained: Any) -> Any:
                flat = jax.grad(lambda x: jnp.sum((x @ trained[0]) ** 2) * of_all(jnp.sum(x @ trained[0])))
                return jnp.sum(flat(x) ** 2) / max(1, len(x))

            trained, optimizer = self.optimizer.stateless_apply(optimizer, jax.grad(loss_of)(trained), trained)
            return {}, (trained, others, optimizer, metrics)

    with strategy.scope() if strategy else nullcontext():
        model = Model([plain.Input((6,)), plain.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
        model.compile(plain.optimizers.SGD(1e-5), "mse")
    model.fit(IDS[:8] / 5, Y[:8], batch_size=7, shuffle=False, verbose=0)
    return model.weights[0].value


def test_a_derivative_inside_of_the_loss_is_of_the_sum_over_all_replicas() -> None:
    """Only the outermost derivative is weighed by rows. There are 4 and 3 of them, then 1 and none."""

    def of_all(part: Any) -> Any:
        context = sd.get_replica_context()
        assert context is not None
        return context.all_reduce("sum", part)

    found = with_a_penalty(keras, of_all, sd.MirroredStrategy(2))
    np.testing.assert_allclose(found, with_a_penalty(plain, lambda part: part), rtol=1e-4)
