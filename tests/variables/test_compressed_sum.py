"""Sums of compressed gradients: what is sent is added, and what is not sent yet is kept by its replica."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from replicas import rank
from simdist import keras
from simdist.collectives.compression import Fp16, NoCompression, OneBit, TopK
from simdist.collectives.power_sgd import PowerSGD
from simdist.errors import InvalidArgumentError

GRADIENTS = np.array([[4, 3], [1, 8]], np.float32)  # of two replicas


def descended(compression: Any, shape: tuple[int, ...], steps: int) -> list[float]:
    """What is left of zeros after steps at the rate of one."""
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sd.CommunicationOptions(compression=compression))
    with strategy.scope():
        v, optimizer = sd.Variable(np.zeros(shape, np.float32)), sd.Optimizer(optax.sgd(1.0))

    def replica() -> None:
        optimizer.apply_gradients([(jnp.asarray(GRADIENTS)[rank()].reshape(shape), v)])

    step = sd.function(lambda: strategy.run(replica))
    for _ in range(steps):
        step()
    return np.asarray(v.numpy()).reshape(-1).tolist()


@pytest.mark.parametrize("compression", [NoCompression(), Fp16()])
def test_messages_that_can_be_added_give_the_sum_of_all_gradients(compression: Any) -> None:
    assert descended(compression, (2,), 2) == [-10.0, -22.0]


def test_what_a_replica_has_not_sent_is_in_what_it_sends_next() -> None:
    # At first (4, 0) + (0, 8), and (0, 3) and (1, 0) are kept; then (4, 6) and (2, 8) give (0, 6) + (0, 8).
    assert descended(TopK(0.5), (2,), 1) == [-4.0, -8.0]
    assert descended(TopK(0.5), (2,), 2) == [-4.0, -22.0]


def test_factors_of_rank_one_give_a_matrix_of_one_row_as_it_is() -> None:
    assert descended(PowerSGD(rank=1), (1, 2), 2) == pytest.approx([-10.0, -22.0], rel=1e-5)


def test_what_is_no_compressor_is_refused() -> None:
    word: Any = "top-k"
    with pytest.raises(InvalidArgumentError, match="compression='top-k' is no compressor"):
        descended(word, (2,), 1)
    with pytest.raises(InvalidArgumentError, match=r"compression=<class .*Fp16'> is no compressor; use for example .*Fp16\(\)"):
        sd.CommunicationOptions(compression=Fp16)


# -- a user's own ---------------------------------------------------------------------------------------------------------


def users(collective: Any = "all_gather", compress: Any = None, decompress: Any = None) -> Any:
    """A compressor of a user's own: sign and mean magnitude, the rest at the next step; or one that does this wrong."""

    class Own:
        def initial_state(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
            return [np.zeros(shape, dtype)]

        def compress(self, gradient: Any, state: Any) -> Any:
            wanted = gradient + state[0]
            sent = jnp.sign(wanted) * jnp.abs(wanted).mean()
            return (jnp.sign(wanted).astype(jnp.int8), jnp.abs(wanted).mean()), (wanted - sent,)

        def decompress(self, message: Any, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
            return message[0].astype(dtype) * message[1]

        def bytes_on_wire(self, shape: tuple[int, ...], dtype: Any = np.float32) -> int:
            return 6

    own: Any = Own()
    own.collective = collective
    own.compress = compress or own.compress
    own.decompress = decompress or own.decompress
    return own


def test_a_compressor_of_a_users_own_is_used() -> None:
    # Of (4, 3) 3.5 each is sent, of (1, 8) 4.5 each; then of (4.5, 2.5) 3.5 each, and of (-2.5, 11.5) -7 and 7.
    assert descended(users(), (2,), 1) == [-8.0, -8.0]
    assert descended(users(), (2,), 2) == [-4.5, -18.5]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"collective": "allreduce"}, "Own.collective='allreduce' is not known. Write 'all_reduce'"),
        ({"compress": lambda gradient, state: gradient}, r"Own.compress\(gradient, state\) returned .*; expected a pair"),
        (
            {"compress": lambda gradient, state: (gradient, [])},
            r"Own.compress returned a state of arrays of the shapes \[\]; .*: \[\(2,\)\]",
        ),
        ({"decompress": lambda message, shape, dtype: message[1]}, r"Own.decompress\(message, \(2,\)\) returned an array of shape \(\)"),
    ],
)
def test_a_compressor_that_breaks_its_protocol_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        descended(users(**wrong), (2,), 1)


def test_what_a_compressor_lacks_is_named() -> None:
    class Half:
        collective = "all_reduce"

        def compress(self, gradient: Any, state: Any) -> Any: ...

    with pytest.raises(InvalidArgumentError, match="It has no initial_state, decompress, bytes_on_wire"):
        sd.CommunicationOptions(compression=Half())


# -- scaled losses --------------------------------------------------------------------------------------------------------

COMPRESSIONS = [TopK(0.5), OneBit(), PowerSGD(rank=1), Fp16()]


def trained(compression: Any, steps: np.ndarray, initial_scale: float | None, growth_steps: int = 2) -> tuple[np.ndarray, float]:
    """Weights after the gradients of some steps [steps, 2, 2, 2] of two replicas, and the scale at the end; None: without one."""
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sd.CommunicationOptions(compression=compression))
    with strategy.scope():
        v = sd.Variable(np.zeros((2, 2), np.float32))
        inner: Any = keras.optimizers.SGD(1.0)
        if initial_scale is not None:
            inner = keras.optimizers.LossScaleOptimizer(inner, initial_scale=initial_scale, dynamic_growth_steps=growth_steps)
        optimizer = sd.Optimizer(inner)
        optimizer.build([v])

    @sd.function
    def step(gradients: Any) -> None:
        def replica() -> None:
            _, found = sd.value_and_grad(lambda: scaled((v.value * gradients[rank()]).sum()), [v])()
            optimizer.apply_gradients(zip(found, [v], strict=True))

        strategy.run(replica)

    def scaled(loss: Any) -> Any:
        return loss if initial_scale is None else inner.scale_loss(loss)

    for gradients in steps:
        step(gradients)
    return v.numpy(), 0.0 if initial_scale is None else float(inner.dynamic_scale.numpy())


@pytest.mark.sample(2)
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda one: type(one).__name__)
def test_a_scale_that_grows_changes_no_number(compression: Any) -> None:
    steps = np.random.default_rng(0).normal(size=(6, 2, 2, 2)).astype(np.float32)
    expected, _ = trained(compression, steps, None)
    found, scale = trained(compression, steps, 4.0)
    assert scale == 32.0
    np.testing.assert_allclose(found, expected, rtol=2e-3 if isinstance(compression, Fp16) else 1e-5, atol=1e-5)


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda one: type(one).__name__)
def test_a_step_that_overflows_on_one_replica_is_left_out_and_nothing_of_it_is_kept(compression: Any) -> None:
    steps = np.random.default_rng(1).normal(size=(5, 2, 2, 2)).astype(np.float32)
    expected, _ = trained(compression, np.delete(steps, 2, axis=0), None)
    steps[2, 1, 0, 1] = np.inf
    found, scale = trained(compression, steps, 4.0, growth_steps=100)
    assert scale == 2.0
    np.testing.assert_allclose(found, expected, rtol=2e-3 if isinstance(compression, Fp16) else 1e-5, atol=1e-5)
