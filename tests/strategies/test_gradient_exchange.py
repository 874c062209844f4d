"""How gradients travel: packs that overlap with the kernel that makes them, and compression (table T8)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.collectives.compression import Fp16, NoCompression, OneBit, TopK
from simdist.collectives.power_sgd import PowerSGD
from simdist.hardware import Network
from tests.strategies.conftest import bytes_sent, weights

PARAMETERS = 4 * 6 + 6 + 6 + 1


@functools.cache  # the tests share their runs
def train(build: Any, dataset: sd.Dataset, workers: int = 4, epochs: int = 8, **options: Any) -> tuple[Any, sd.Cluster, Any]:
    cluster = sd.Cluster({"worker": workers})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(algorithm="ring", **options))
    model = build(strategy)
    history = model.fit(dataset, epochs=epochs, verbose=0)
    return history.history["loss"], cluster, weights(model)


@pytest.mark.parametrize(
    ("compression", "message_bytes", "gathered"),
    [
        (None, 4 * PARAMETERS, False),
        (NoCompression(), 4 * PARAMETERS, False),
        (Fp16(), 2 * PARAMETERS, False),
        (TopK(0.25), 8 * (6 + 2 + 2 + 1), True),
        (PowerSGD(rank=1), 4 * ((4 + 6) + 6 + (6 + 1) + 1), False),
    ],
)
@pytest.mark.sample(2)
def test_bytes_on_the_wire_are_those_of_the_formula(
    build: Any, regression: sd.Dataset, compression: Any, message_bytes: int, gathered: bool
) -> None:
    _, cluster, _ = train(build, regression, compression=compression)
    steps, ranks = 40, 4
    # A ring all-reduce sends 2 (n - 1) / n of the data for each rank, an all-gather (n - 1) times one rank's message.
    each = (ranks - 1) * message_bytes if gathered else 2 * (ranks - 1) / ranks * message_bytes
    assert bytes_sent(cluster) == pytest.approx(steps * ranks * each, rel=1e-12)


@pytest.mark.parametrize("compression", [Fp16(), TopK(0.25), OneBit(), PowerSGD(rank=1)])
def test_training_goes_on_under_every_compressor(build: Any, regression: sd.Dataset, compression: Any) -> None:
    losses, _, _ = train(build, regression, compression=compression)
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("compression", [TopK(0.25), OneBit(), PowerSGD(rank=1)])
@pytest.mark.sample(2)
def test_what_was_sent_and_what_remains_are_all_gradients(compression: Any) -> None:
    rng = np.random.default_rng(5)
    gradients = rng.normal(size=(6, 3, 4, 5)).astype(np.float32)  # step, replica, matrix
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}), sd.CommunicationOptions(compression=compression))
    with strategy.scope():
        v = sd.Variable(np.zeros((4, 5), np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))

    @sd.function
    def step(gradient: Any) -> None:
        strategy.run(lambda g: optimizer.apply_gradients([(g, v)]), args=(gradient,))

    for parts in gradients:
        step(sd.PerReplica(list(parts)))
    residual = next(own for own in strategy.variables if own.name.endswith("residual_0"))
    remains = sum(np.asarray(part) for part in strategy.local_results(residual))
    np.testing.assert_allclose(-v.numpy() + remains, gradients.sum((0, 1)), rtol=0, atol=2e-5)


def test_low_rank_gradients_pass_power_sgd_unchanged() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sd.CommunicationOptions(compression=PowerSGD(rank=1)))
    with strategy.scope():
        v = sd.Variable(np.zeros((4, 5), np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
    outer = np.outer(np.arange(1.0, 5.0), np.arange(1.0, 6.0)).astype(np.float32)
    step = sd.function(lambda g: strategy.run(lambda own: optimizer.apply_gradients([(own, v)]), args=(g,)))
    step(sd.PerReplica([outer, 2 * outer]))
    np.testing.assert_allclose(v.numpy(), -3 * outer, rtol=1e-5)


def test_packs_change_no_bit_and_travel_while_the_kernel_runs() -> None:
    def run(bytes_per_pack: int) -> tuple[Any, sd.Cluster]:
        cluster = sd.Cluster({"worker": 4}, network=Network(bandwidth=1e9, latency=5e-6))
        options = sd.CommunicationOptions(bytes_per_pack=bytes_per_pack, algorithm="recursive doubling")
        with sd.MultiWorkerMirroredStrategy(cluster, options).scope():
            layers = [keras.layers.Dense(256, kernel_initializer=keras.initializers.GlorotUniform(seed=n)) for n in range(4)]
            model = keras.Sequential([keras.Input((256,)), *layers])
            model.compile(keras.optimizers.SGD(1e-3), "mse")
        x = np.random.default_rng(0).normal(size=(512, 256)).astype(np.float32)
        model.fit(sd.Dataset.from_tensor_slices((x, x)).batch(512), epochs=1, verbose=0)
        return [weight.tobytes() for weight in model.get_weights()], cluster

    whole, alone = run(0)
    packed, overlapped = run(300_000)
    assert packed == whole
    assert overlapped.now < alone.now
    spans = [span for span in overlapped.trace.spans if span.lane.startswith("worker:0")]
    kernel = next(span for span in spans if span.category == "compute")
    first = next(span for span in spans if span.lane == "worker:0/network")
    assert kernel.start_s < first.start_s < kernel.end_s


@pytest.mark.parametrize("word", ["zip", 3])
def test_what_is_no_compressor_is_refused(word: Any) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="compress"):
        sd.CommunicationOptions(compression=word)


def test_more_packs_than_numbers_are_one_pack_and_none_is_empty() -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(num_packs=2**62))
    with strategy.scope():
        v = sd.Variable(np.zeros(3, np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
    strategy.run(lambda: optimizer.apply_gradients([(np.ones(3, np.float32), v)]))
    assert v.numpy().tolist() == [-2.0] * 3
    sums = [span for span in cluster.trace.spans if span.category == "collective" and span.lane.startswith("worker:0")]
    assert len(sums) == 1, [(span.lane, span.name, span.facts) for span in sums]


def test_equal_packs_have_the_bytes_of_the_dtypes_of_their_gradients() -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(num_packs=2, algorithm="ring"))
    with strategy.scope():
        variables = [sd.Variable(np.zeros(size, dtype)) for size, dtype in [(8, "float16"), (4, "float32"), (4, "float16")]]
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
    strategy.run(lambda: optimizer.apply_gradients([(np.ones(v.shape, v.dtype), v) for v in variables]))
    assert [v.numpy().tolist() for v in variables] == [[-2.0] * 8, [-2.0] * 4, [-2.0] * 4]
    assert bytes_sent(cluster) == 2 * (8 * 2 + 4 * 4 + 4 * 2)  # each of two replicas sends all of it once
