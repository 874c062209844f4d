"""What a change costs: the arrays that it changes, whatever else lies beside them."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.cost.changes import changing
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval

PAIR = [Aval((1000,), "float32"), Aval((), "int32")]


def test_a_kernel_that_changes_all_that_it_is_given_is_itself() -> None:
    kernel = kernel_of("both", lambda table, count: [table * 2, count + 1], PAIR)
    assert changing(kernel) is kernel


def test_what_nobody_reads_is_left_out_and_what_moves_to_another_place_is_not() -> None:
    def run(table: object, count: object, given: object) -> list[object]:
        _ = table * 2.0  # pyright: ignore
        return [given, count]

    found = changing(kernel_of("assign", run, [*PAIR, PAIR[0]]))
    assert (found.in_avals, found.out_avals, len(found.closed.jaxpr.eqns)) == ((PAIR[0],), (PAIR[0],), 0)


@pytest.mark.parametrize("servers", [1, 2])
def test_an_update_of_a_small_variable_takes_as_long_beside_a_large_one_of_its_optimizer(servers: int) -> None:
    def seconds(size: int) -> float:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": servers}, numerics="off"))
        with strategy.scope():
            small, _large = variables = [sd.Variable(np.ones(3, np.float32)), sd.Variable(np.ones(size, np.float32))]
            optimizer = sd.Optimizer(keras.optimizers.Adam(0.1))
        optimizer.build(variables)

        @sd.function
        def step() -> None:
            optimizer.apply_gradients([(small.value, small)])

        coordinator = sd.ClusterCoordinator(strategy)
        begin = strategy.cluster.now
        coordinator.schedule(step)
        coordinator.join()
        return strategy.cluster.now - begin

    assert seconds(1_000_000) == pytest.approx(seconds(3), rel=1e-9)
