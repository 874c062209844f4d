"""Models whose layers compute in float8: their scales and histories are overwritten with what flows back to them, as in plain Keras."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError

pytestmark = [
    pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method"),
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
]
rng = np.random.default_rng(0)
X = rng.normal(size=(24, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def servers(workers: int = 1, **options: Any) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": 2}), **options)


def shards() -> Any:
    return servers(variable_partitioner=sd.FixedShardsPartitioner(2))


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "replicas": lambda: sd.MirroredStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})),
    "parameter servers": servers,
    "shards": shards,
    "replicas of a worker": lambda: servers(devices_per_worker=2),
    "rounds": lambda: servers(mode="sync"),
}


class OwnStep(keras.Model):
    """A model with a step of its own, which does what Keras' does."""

    def train_step(self, state: Any, data: Any) -> Any:
        return super().train_step(state, data)


def of_layers(namespace: Any) -> Any:
    inputs = namespace.Input((4,))
    hidden = plain.layers.Dense(8, "relu", kernel_initializer=plain.initializers.GlorotUniform(1))(inputs)
    outputs = plain.layers.EinsumDense("ab,bc->ac", 1, kernel_initializer=plain.initializers.GlorotUniform(2))(hidden)
    return namespace.Model(inputs, outputs)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: plain.optimizers.SGD(0.05),
    "adam": lambda: plain.optimizers.Adam(0.01, weight_decay=0.01),
    "clipped": lambda: plain.optimizers.SGD(0.1, momentum=0.9, clipnorm=0.1),
    "accumulated": lambda: plain.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2, clipvalue=0.5),
    "averages": lambda: plain.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.5),
    "scaled": lambda: plain.optimizers.LossScaleOptimizer(plain.optimizers.Adam(0.01), initial_scale=1024.0, dynamic_growth_steps=3),
    "scale of a loss": lambda: plain.optimizers.SGD(0.05, loss_scale_factor=8.0),
    "overflow": lambda: plain.optimizers.LossScaleOptimizer(plain.optimizers.SGD(0.01), initial_scale=2.0**127),
}


def fitted(namespace: Any, optimizer: str, size: float = 1.0, batch_size: int = 8, model: Any = None) -> Any:
    own = of_layers(namespace) if model is None else model(namespace)
    own.quantize("float8")
    own.compile(OPTIMIZERS[optimizer](), "mse")
    history = own.fit(size * X, size * Y, batch_size=batch_size, epochs=3, shuffle=False, verbose=0).history["loss"]
    return history, {variable.path: np.asarray(variable.value) for variable in own.variables}


@functools.cache
def of_keras(optimizer: str, size: float = 1.0, batch_size: int = 8) -> Any:
    return fitted(plain, optimizer, size, batch_size)


def require_same(found: Any, expected: Any) -> None:
    """Gradients of a bias are rounded to bfloat16 on each replica, and scales follow from what the layers before have computed."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-3)
    for (name, one), other in zip(found[1].items(), expected[1].values(), strict=True):
        rtol = 2e-2 if name.endswith("bias") else 1e-3
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6 * float(np.max(np.abs(other))), err_msg=name)


GRID = [(strategy, optimizer) for strategy in STRATEGIES for optimizer in OPTIMIZERS]
SAMPLE = [
    ("one device", "scaled"),
    ("replicas", "clipped"),
    ("workers", "accumulated"),
    ("parameter servers", "averages"),
    ("replicas of a worker", "overflow"),
]


@pytest.mark.parametrize(("strategy", "optimizer"), sampled(GRID, SAMPLE))
def test_scales_and_histories_are_those_of_keras(strategy: str, optimizer: str) -> None:
    with STRATEGIES[strategy]().scope():
        found = fitted(keras, optimizer)
    require_same(found, of_keras(optimizer))


def test_numbers_that_overflow_float8_are_scaled_as_by_keras_with_uneven_batches() -> None:
    with sd.MirroredStrategy(3).scope():
        found = fitted(keras, "adam", 1000.0, batch_size=5)
    expected = of_keras("adam", 1000.0, 5)
    require_same(found, expected)
    assert expected[0][-1] < expected[0][0]


def test_a_replica_without_rows_changes_no_scale() -> None:
    with sd.MirroredStrategy(2).scope():
        found = fitted(keras, "sgd", batch_size=23)  # the last batch has one row
    require_same(found, of_keras("sgd", batch_size=23))


def of_own_step(namespace: Any) -> Any:
    model = of_layers(namespace)
    return OwnStep(model.inputs, model.outputs)


def test_a_step_of_ones_own_overwrites_them_with_what_its_replicas_have_seen() -> None:
    with sd.MirroredStrategy(2).scope():
        found = fitted(keras, "sgd", model=of_own_step)
    for (name, values), other in zip(found[1].items(), of_keras("sgd")[1].values(), strict=True):
        # The loss of a replica is a mean over half of the rows, and what flows back from it is twice as large.
        factor = 2.0 if "/outputs_grad" in name else 1.0
        np.testing.assert_allclose(values, factor * other, rtol=2e-2, atol=1e-6, err_msg=name)


# -- what is refused ---------------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "steps of their own": (lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2), "Leave sync_every out"),
    "backups": (lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), backup_workers=1), "Leave backup_workers out"),
    "workers": (lambda: servers(2), "would overwrite what the others have found. Use one worker"),
    "rounds": (lambda: servers(2, mode="sync"), "would overwrite what the others have found. Use one worker"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_maximum_of_all_is_refused(case: str) -> None:
    make, text = REFUSED[case]
    with make().scope(), pytest.raises(InvalidArgumentError, match=rf"inputs_scale.* are their new values .*float8.*{text}"):
        fitted(keras, "sgd")


def test_a_transformation_of_optax_is_refused() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        model = of_layers(keras)
        model.quantize("float8")
        optimizer = sd.Optimizer(optax.sgd(0.1))
    pairs = [(np.zeros(variable.shape, np.float32), variable) for variable in model.trainable_variables]
    with pytest.raises(InvalidArgumentError, match=r"an Optax transformation takes gradients alone. Use an optimizer of Keras"):
        strategy.run(lambda: optimizer.apply_gradients(pairs))


def test_averages_that_overwrite_variables_are_refused() -> None:
    with sd.OneDeviceStrategy().scope():
        model = of_layers(keras)
        model.quantize("float8")
        model.compile(plain.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2), "mse")
    with pytest.raises(InvalidArgumentError, match=r"no averages of them to overwrite them with. Leave ema_overwrite_frequency out"):
        model.fit(X, Y, verbose=0)


def test_no_second_worker_joins() -> None:
    strategy = servers()
    with strategy.scope():
        model = of_layers(keras)
        fitted(keras, "sgd", model=lambda _: model)
    with pytest.raises(FailedPreconditionError, match=r"No worker can join: .*inputs_scale"):
        sd.ClusterCoordinator(strategy).add_worker()
