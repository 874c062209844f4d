"""Conformance cases B082 to B089, B180 and B181: one value of the replicas' values.

Sums and means are written down from the values that go in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from replicas import each, here, rank
from simdist.errors import InvalidArgumentError

Run = Callable[..., Any]
SUM, MEAN = sd.ReduceOp.SUM, sd.ReduceOp.MEAN
RANGES = sd.PerReplica([jnp.arange(4), jnp.arange(4, 8)])
SQUARES = sd.PerReplica([jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([[5.0, 6.0], [7.0, 8.0]])])


@pytest.fixture(params=[False, True], ids=["at once", "in a step"])
def across(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``across(fn, *args)`` calls a function across the replicas, at once or as a step."""
    return lambda fn, *args: sd.function(fn)(*args) if request.param else fn(*args)


# -- reduce -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "axis", "expected"), [(SUM, None, [4, 6, 8, 10]), (SUM, 0, 28), (MEAN, None, [2, 3, 4, 5]), (MEAN, 0, 3.5)])
def test_b082_sum_and_mean(two: Any, across: Any, op: sd.ReduceOp, axis: Any, expected: Any) -> None:
    assert np.asarray(across(lambda x: two.reduce(op, x, axis=axis), RANGES)).tolist() == expected


def test_b082_structures_keep_their_form(two: Any, across: Any) -> None:
    result = across(lambda a, b: two.reduce(SUM, {"a": a, "b": (b,)}, axis=0), RANGES, SQUARES)
    assert int(result["a"]) == 28
    assert result["b"][0].tolist() == [16.0, 20.0]


@pytest.mark.parametrize(("first", "second", "mean"), [([1, 2, 3], [5], 2.75), ([1], [2], 1.5), ([1, 2], [], 1.5)])
def test_b084_mean_of_whole_numbers_is_a_float(two: Any, across: Any, first: Any, second: Any, mean: float) -> None:
    parts = sd.PerReplica([jnp.array(first, jnp.int32), jnp.array(second, jnp.int32)])
    result = across(lambda x: two.reduce(MEAN, x, axis=0), parts)
    assert float(result) == mean
    assert result.dtype == jnp.float32  # 64-bit numbers need jax_enable_x64


@pytest.mark.parametrize("word", ["sum", "SUM", "Sum", SUM])
def test_b084_names_of_operations_in_any_case(two: Any, word: Any) -> None:
    assert int(two.reduce(word, RANGES, axis=0)) == 28


def test_b084_other_operations_and_a_missing_axis_raise(two: Any, run: Run) -> None:
    with pytest.raises(InvalidArgumentError, match="'MAX'"):
        two.reduce("MAX", RANGES, axis=None)
    with pytest.raises(InvalidArgumentError, match="'MAX'"):
        run(two, lambda: here().all_reduce("MAX", jnp.ones(())))
    with pytest.raises(TypeError, match="axis"):
        two.reduce(SUM, RANGES)  # pyright: ignore


@pytest.mark.parametrize("axis", [(0, 1), [1, 0], (-1, 0)])
def test_b085_several_axes(two: Any, across: Any, axis: Any) -> None:
    assert float(across(lambda x: two.reduce(MEAN, x, axis=axis), SQUARES)) == 4.5
    assert float(across(lambda x: two.reduce(SUM, x, axis=axis), SQUARES)) == 36.0


@pytest.mark.parametrize("axis", [1, -1])
def test_b085_mean_over_replicas_and_an_inner_axis(two: Any, across: Any, axis: int) -> None:
    assert across(lambda x: two.reduce(MEAN, x, axis=axis), SQUARES).tolist() == [3.5, 5.5]


@pytest.mark.parametrize("axis", [2, -3, (0, 2)])
def test_b085_axis_that_is_not_there_raises(two: Any, across: Any, axis: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="out of range"):
        across(lambda x: two.reduce(SUM, x, axis=axis), SQUARES)


@pytest.mark.parametrize("axis", [None, 0])
def test_b086_plain_value_counts_as_that_of_every_replica(two: Any, across: Any, axis: Any) -> None:
    mean = across(lambda: two.reduce(MEAN, jnp.arange(3.0), axis=axis))
    assert np.asarray(mean).tolist() == ([0.0, 1.0, 2.0] if axis is None else 1.0)
    with pytest.raises(InvalidArgumentError, match="same on all 2 replicas"):
        across(lambda: two.reduce(SUM, jnp.arange(3.0), axis=axis))


@pytest.mark.parametrize("options", [{}, {"synchronization": "on_read", "aggregation": "sum"}], ids=["own copies", "on read"])
def test_b086_variable_with_values_of_replicas_is_reduced(two: Any, across: Any, run: Run, options: Any) -> None:
    with two.scope():
        v = sd.Variable([0.0], **options)
    run(two, lambda: v.assign(jnp.full(1, rank() + 1.0)))
    assert across(lambda: two.reduce(SUM, v, axis=None)).tolist() == [3.0]
    assert float(across(lambda: two.reduce(MEAN, v, axis=0))) == 1.5
    assert across(lambda: two.gather(v, axis=0)).tolist() == [1.0, 2.0]


# -- gather -------------------------------------------------------------------------------------------------------------


def test_b087_gather_joins_ragged_pieces_in_the_order_of_replicas(two: Any, across: Any) -> None:
    pieces = sd.PerReplica([jnp.arange(4), jnp.array([4, 5])])
    assert across(lambda x: two.gather(x, axis=0), pieces).tolist() == [0, 1, 2, 3, 4, 5]
    columns = sd.PerReplica([jnp.zeros((2, 1)), jnp.ones((2, 2))])
    assert across(lambda x: two.gather(x, axis=-1), columns).tolist() == [[0, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([jnp.ones(()), jnp.ones(())], "scalars"),
        ([jnp.ones(2), jnp.ones((2, 2))], "same number of axes"),
        ([jnp.ones((1, 2)), jnp.ones((1, 3))], "equal other axes"),
        ([jnp.ones((0, 2)), jnp.ones((1, 3))], "equal other axes"),
    ],
)
def test_b087_gather_of_what_does_not_fit_raises(two: Any, across: Any, parts: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        across(lambda x: two.gather(x, axis=0), sd.PerReplica(parts))


# -- inside replicas ----------------------------------------------------------------------------------------------------


FOUR: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(4),
    "central": lambda: sd.CentralStorageStrategy(4),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"chief": 1, "worker": 3})),
    "workers with devices": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), devices_per_worker=2),
}


@pytest.mark.parametrize("kind", list(FOUR))
@pytest.mark.sample(2)
def test_b088_all_reduce(run: Run, kind: str) -> None:
    strategy = FOUR[kind]()

    def both() -> Any:
        mine = jnp.asarray(rank() + 1.0)
        return here().all_reduce(SUM, mine), here().all_reduce("mean", {"a": [mine], "b": mine * jnp.ones(2)})

    total, means = run(strategy, both)
    assert each(strategy, total) == [10.0] * 4
    assert each(strategy, means["a"][0]) == [2.5] * 4
    assert each(strategy, means["b"]) == [[2.5, 2.5]] * 4


def test_b088_all_reduce_of_a_single_replica_is_the_value(run: Run) -> None:
    assert float(run(sd.OneDeviceStrategy(), lambda: here().all_reduce(SUM, jnp.asarray(3.0)))) == 3.0


def test_b088_all_reduce_of_different_shapes_raises(two: Any, run: Run) -> None:
    with pytest.raises(InvalidArgumentError, match=r"float32\[1\].*float32\[2\]"):
        run(two, lambda: here().all_reduce(SUM, jnp.ones(rank() + 1)))


def test_b089_all_gather_of_unequal_lengths(run: Run) -> None:
    three = sd.MirroredStrategy(3)
    assert each(three, run(three, lambda: here().all_gather(jnp.arange(rank() + 1), axis=0))) == [[0, 0, 1, 0, 1, 2]] * 3
    nest = run(three, lambda: here().all_gather({"a": jnp.full((2, 1), rank())}, axis=1))
    assert each(three, nest["a"]) == [[[0, 1, 2], [0, 1, 2]]] * 3


def test_b089_all_gather_of_gathered_lengths(run: Run) -> None:
    three = sd.MirroredStrategy(3)

    def twice() -> Any:
        first = here().all_gather(jnp.arange(rank() + 1), axis=0)
        return here().all_gather(first[: rank() + 1], axis=0)

    assert each(three, run(three, twice)) == [[0, 0, 0, 0, 0, 1]] * 3


def test_b089_a_step_may_depend_on_the_shape_of_what_is_gathered(run: Run) -> None:
    three = sd.MirroredStrategy(3)

    def step() -> Any:
        joined = here().all_gather(jnp.arange(1.0 * rank() + 1.0), axis=0).reshape(2, 3)
        return (here().all_gather(joined[: rank()], axis=0) * jnp.arange(9.0).reshape(3, 3)).sum()

    assert each(three, run(three, step)) == [2 * 1 + 5 * 1 + 7 * 1 + 8 * 2] * 3  # [[0, 0, 1], [0, 0, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([2**40]), "1099511627776, which does not fit int32"),
        (np.array([1e300]), "does not fit float32"),
        (np.array(["a"]), "holds strings"),
        ("a", "holds strings"),
    ],
)
def test_values_that_are_no_numbers_of_jax_are_neither_reduced_nor_gathered(two: Any, run: Run, value: Any, message: str) -> None:
    takes: list[Callable[[], Any]] = [
        lambda: run(two, lambda: here().all_reduce(MEAN, {"a": value})),
        lambda: run(two, lambda: here().all_gather(value, axis=0)),
        lambda: two.reduce(SUM, sd.PerReplica([value, value]), axis=None),
        lambda: two.gather(sd.PerReplica([value, value]), axis=0),
    ]
    for take in takes:
        with pytest.raises(InvalidArgumentError, match=message):
            take()


@pytest.mark.parametrize(("shape", "axis", "message"), [((), 0, "scalars"), ((2,), 1, "out of range")])
def test_b089_all_gather_without_such_an_axis_raises(two: Any, run: Run, shape: Any, axis: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run(two, lambda: here().all_gather(jnp.ones(shape), axis=axis))


# -- several workers, driven from one notebook --------------------------------------------------------------------------


def test_b180_two_workers(run: Run) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
    with strategy.scope():
        v = sd.Variable(5.0, aggregation=sd.VariableAggregation.SUM)
        own = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)

    def replica() -> Any:
        mine = jnp.asarray(rank() + 1.0)
        v.assign_add(mine)
        own.assign_add(mine)
        return here().all_reduce(SUM, mine), here().all_reduce(MEAN, mine)

    total, mean = run(strategy, replica)
    assert [each(strategy, total), each(strategy, mean)] == [[3, 3], [1.5, 1.5]]
    assert each(strategy, v) == [8, 8]
    assert each(strategy, own) == [1, 2]
    assert float(own) == 3.0


def test_b181_one_notebook_has_one_plain_value_for_all_workers() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
    assert float(strategy.reduce(MEAN, jnp.asarray(3.0), axis=None)) == 3.0
    with pytest.raises(InvalidArgumentError, match="same on all 2 replicas"):
        strategy.reduce(SUM, jnp.asarray(3.0), axis=None)


@pytest.mark.parametrize("devices", [1, 2])
def test_b180_b181_values_of_workers_with_a_main_each(devices: int) -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy(devices_per_worker=devices)
        mine = strategy.worker_index + 1.0
        with strategy.scope():
            v = sd.Variable(5.0, aggregation=sd.VariableAggregation.SUM)
            own = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)

        def replica() -> Any:
            v.assign_add(jnp.asarray(mine))
            own.assign_add(jnp.asarray(mine))
            return jnp.full(2, mine)

        values = strategy.run(replica)
        return [
            float(v),
            float(own),
            strategy.reduce(SUM, values, axis=None).tolist(),
            float(strategy.reduce(MEAN, values, axis=0)),
            float(strategy.reduce(SUM, jnp.asarray(mine), axis=None)),
            float(strategy.reduce(MEAN, jnp.asarray(mine), axis=None)),
            strategy.gather(values, axis=0).tolist(),
            float(strategy.reduce(SUM, own, axis=None)),
        ]

    with sd.Cluster({"worker": 2}) as cluster:
        launched = cluster.launch(main)
        launched.join()
        total = 3.0 * devices
        expected = [5 + total, total, [total, total], 1.5, 3.0, 1.5, [1.0] * 2 * devices + [2.0] * 2 * devices, total]
        assert launched.results == {"worker:0": expected, "worker:1": expected}
