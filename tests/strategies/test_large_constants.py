"""A large array that a step closes over, or is given, is kept once, however many replicas and workers read it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd

SHAPE = (517, 263)
REPLICAS = 12


@pytest.fixture(params=["numpy", "jax"])
def table(request: pytest.FixtureRequest) -> Any:
    array = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    return array if request.param == "numpy" else jax.numpy.asarray(array)


@pytest.fixture
def arrays_kept() -> Iterator[Any]:
    gc.collect()
    known = {id(array) for array in jax.live_arrays()}
    yield lambda: len([array for array in jax.live_arrays() if array.shape == SHAPE and id(array) not in known])


def replicated(numerics: str = "deferred") -> sd.MirroredStrategy:
    return sd.MirroredStrategy(devices=REPLICAS, cluster=sd.Cluster({"worker": 1}, numerics=numerics))


@pytest.mark.parametrize("reads_its_rank", [False, True])
@pytest.mark.parametrize("numerics", ["deferred", "loop", "eager", "vmap"])
@pytest.mark.sample
def test_replicas_have_one_copy_of_a_constant(table: Any, numerics: str, reads_its_rank: bool, arrays_kept: Any) -> None:
    strategy = replicated(numerics)
    with strategy.scope():
        w = sd.Variable(np.linspace(0, 1, SHAPE[0], dtype=np.float32))

    @sd.function
    def step() -> Any:
        def replica() -> Any:
            context = sd.get_replica_context()
            rank = context.replica_id_in_sync_group if context and reads_its_rank else 2
            return ((w.value + rank) @ table).sum()

        return strategy.reduce("sum", strategy.run(replica), axis=None)

    found = [float(step()) for _ in range(2)]
    ranks = range(REPLICAS) if reads_its_rank else [2] * REPLICAS
    expected = sum(((np.asarray(w) + rank) @ np.asarray(table)).sum() for rank in ranks)
    assert found == pytest.approx([expected] * 2, rel=1e-3)
    assert arrays_kept() <= 1


def test_a_constant_stays_what_it_was_when_variables_move(arrays_kept: Any) -> None:
    # A new variable makes linked programs out of date: they are made anew of what was traced.
    strategy, table = replicated(), np.ones(SHAPE, np.float32)
    with strategy.scope():
        w = sd.Variable(np.ones(SHAPE[0], np.float32))

    @sd.function
    def step() -> Any:
        return strategy.reduce("sum", strategy.run(lambda: (w.value @ table).sum()), axis=None)

    before = float(step())
    with strategy.scope():
        sd.Variable(1.0)
    table[:] = 5.0
    assert float(step()) == before
    assert arrays_kept() <= 1


@pytest.mark.parametrize("numerics", ["deferred", "vmap"])
def test_replicas_have_one_copy_of_an_argument(numerics: str) -> None:
    strategy, table = replicated(numerics), np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    with strategy.scope():
        w = sd.Variable(np.linspace(0, 1, SHAPE[0], dtype=np.float32))

    @sd.function
    def step(given: Any, own: Any) -> Any:
        return strategy.reduce("sum", strategy.run(lambda own: (w.value @ given).sum() + own, args=(own,)), axis=None)

    own = strategy.experimental_distribute_values_from_function(lambda context: np.float32(context.replica_id_in_sync_group))
    expected = REPLICAS * (np.asarray(w) @ table).sum() + sum(range(REPLICAS))
    assert float(step(table, own)) == pytest.approx(expected, rel=1e-3)
    tracemalloc.start()
    try:
        assert float(step(table, own)) == pytest.approx(expected, rel=1e-3)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * table.nbytes


def test_an_argument_that_is_changed_after_the_step_was_given_before(table: Any) -> None:
    strategy = replicated()
    given = np.array(table)

    @sd.function
    def step(given: Any) -> Any:
        return strategy.reduce("sum", strategy.run(lambda own: own.sum(), args=(given,)), axis=None)

    result = step(given)
    given[:] = 0.0
    assert float(result) == pytest.approx(REPLICAS * float(np.asarray(table).sum()), rel=1e-3)


def test_workers_of_parameter_servers_have_one_copy_of_a_constant(table: Any, arrays_kept: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 20, "ps": 2}))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        w = sd.Variable(np.linspace(0, 1, SHAPE[0], dtype=np.float32))

    @sd.function
    def step() -> Any:
        return (w.value @ table).sum()

    results = [coordinator.schedule(step) for _ in range(20)] + [coordinator.schedule(lambda: step() + 1.0) for _ in range(20)]
    coordinator.join()
    expected = (np.asarray(w) @ np.asarray(table)).sum()
    np.testing.assert_allclose([result.fetch() for result in results], [expected] * 20 + [expected + 1] * 20, rtol=1e-3, atol=1e-2)
    assert arrays_kept() <= 2  # of the step, and of the chief's own run of it
