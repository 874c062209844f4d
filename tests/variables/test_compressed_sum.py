"""Sums of compressed gradients: what is sent is added, and what is not sent yet is kept by its replica."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from replicas import rank
from simdist.collectives.compression import Fp16, NoCompression, TopK
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
