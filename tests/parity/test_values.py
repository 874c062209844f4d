"""Conformance cases B058 to B072: what becomes of variables and values that every replica has.

The sums are written down from the increments (10 at replica 0, 11 at replica 1), not computed by the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from replicas import each, rank
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError

Run = Callable[..., Any]
NONE, SUM, MEAN, FIRST = (
    sd.VariableAggregation.NONE,
    sd.VariableAggregation.SUM,
    sd.VariableAggregation.MEAN,
    sd.VariableAggregation.ONLY_FIRST_REPLICA,
)
ON_READ = sd.VariableSynchronization.ON_READ
TWO: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "two workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
}


@pytest.fixture(params=list(TWO))
def strategy(request: pytest.FixtureRequest) -> Any:
    """Two replicas, each with a copy of every variable."""
    return TWO[request.param]()


def made(strategy: Any, initial_value: Any, **options: Any) -> sd.Variable:
    with strategy.scope():
        return sd.Variable(initial_value, name="v", **options)


# -- aggregation when variables are written -----------------------------------------------------------------------------


@pytest.mark.parametrize("aggregation", [NONE, SUM, MEAN, FIRST])
def test_b058_assign_across_replicas_changes_every_copy(strategy: Any, aggregation: sd.VariableAggregation) -> None:
    v = made(strategy, 1.0, aggregation=aggregation)
    v.assign(7.0)
    assert each(strategy, v) == [7.0, 7.0]
    sd.function(lambda: v.assign(v.value + 1.0))()
    assert each(strategy, v) == [8.0, 8.0]


@pytest.mark.parametrize(("aggregation", "expected"), [(NONE, [11, 12]), (SUM, [22, 22]), (MEAN, [11.5, 11.5]), (FIRST, [11, 11])])
def test_b058_increment_by_replicas_is_aggregated_once(strategy: Any, run: Run, aggregation: sd.VariableAggregation, expected: Any) -> None:
    v = made(strategy, 1.0, aggregation=aggregation)
    run(strategy, lambda: v.assign_add(10.0 + rank()))
    assert each(strategy, v) == expected
    v.assign(7.0)
    assert each(strategy, v) == [7.0, 7.0]


@pytest.mark.parametrize(("aggregation", "expected"), [(NONE, [-9, -10]), (SUM, [-20, -20]), (MEAN, [-9.5, -9.5]), (FIRST, [-9, -9])])
def test_b058_decrement_and_assignment_by_replicas(strategy: Any, run: Run, aggregation: sd.VariableAggregation, expected: Any) -> None:
    v = made(strategy, 1.0, aggregation=aggregation)
    run(strategy, lambda x: v.assign_sub(x), (sd.PerReplica([10.0, 11.0]),))
    assert each(strategy, v) == expected
    run(strategy, lambda x: v.assign(x), (sd.PerReplica([-1.0, -3.0]),))
    assert each(strategy, v) == {NONE: [-1, -3], SUM: [-4, -4], MEAN: [-2, -2], FIRST: [-1, -1]}[aggregation]


def test_b058_a_replica_reads_what_it_has_just_written(strategy: Any, run: Run) -> None:
    v = made(strategy, 1.0, aggregation=SUM)

    def twice() -> Any:
        v.assign_add(10.0 + rank())
        first = v.value
        v.assign_add(10.0 + rank())
        return first, v.value

    first, second = run(strategy, twice)
    assert [each(strategy, first), each(strategy, second)] == [[22, 22], [43, 43]]


@pytest.mark.parametrize("aggregation", [NONE, MEAN, FIRST])
def test_b059_constant_is_assigned(strategy: Any, run: Run, aggregation: sd.VariableAggregation) -> None:
    v = made(strategy, 1.0, aggregation=aggregation)
    run(strategy, lambda: v.assign(3))
    assert each(strategy, v) == [3, 3]


@pytest.mark.parametrize("constant", [3, 3.0])
def test_b059_constant_for_a_sum_raises(strategy: Any, run: Run, constant: float) -> None:
    v = made(strategy, 1.0, aggregation=SUM)
    with pytest.raises(InvalidArgumentError, match="constant"):
        run(strategy, lambda: v.assign(constant))
    assert each(strategy, v) == [1, 1]


def test_b060_auto_is_on_write_and_senseless_words_raise() -> None:
    assert sd.Variable(1.0).synchronization is sd.VariableSynchronization.ON_WRITE
    with pytest.raises(InvalidArgumentError, match="NONE"):
        sd.Variable(1.0, synchronization=sd.VariableSynchronization.NONE)
    with pytest.raises(InvalidArgumentError, match=r"'median'.*ONLY_FIRST_REPLICA"):
        sd.Variable(1.0, aggregation="median")  # pyright: ignore
    with pytest.raises(InvalidArgumentError, match="'sometimes'"):
        sd.Variable(1.0, synchronization="sometimes")  # pyright: ignore
    with pytest.raises(InvalidArgumentError, match="int32"):
        sd.Variable(1, aggregation=MEAN)


# -- ON_READ ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("aggregation", "whole"), [(SUM, 21.0), (MEAN, 10.5), (FIRST, 10.0)])
def test_b061_each_replica_has_its_own_and_a_read_combines(
    strategy: Any, run: Run, aggregation: sd.VariableAggregation, whole: float
) -> None:
    v = made(strategy, 0.0, synchronization=ON_READ, aggregation=aggregation)
    assert not v.trainable
    inside = run(strategy, lambda: (v.assign(10.0 + rank()), v.value)[1])
    assert each(strategy, v) == each(strategy, inside) == [10, 11]
    assert float(v) == float(sd.function(lambda: v.value)()) == whole


def test_b061_without_aggregation_there_is_no_read_across_replicas(strategy: Any, run: Run) -> None:
    v = made(strategy, 0.0, synchronization=ON_READ)
    run(strategy, lambda: v.assign_add(10.0 + rank()))
    for read in (v.numpy, sd.function(lambda: v.value)):
        with pytest.raises(InvalidArgumentError, match="aggregation NONE"):
            read()
    assert each(strategy, run(strategy, lambda: v.value + 0.0)) == [10, 11]


@pytest.mark.parametrize("assign", [lambda v: v.assign(8.0), lambda v: sd.function(lambda: v.assign(8.0))()], ids=["at once", "in a step"])
@pytest.mark.parametrize(("aggregation", "expected"), [(SUM, [4, 4]), (MEAN, [8, 8]), (FIRST, [8, 8])])
def test_b062_assignment_across_replicas_is_shared_out(
    strategy: Any, assign: Any, aggregation: sd.VariableAggregation, expected: Any
) -> None:
    v = made(strategy, 0.0, synchronization=ON_READ, aggregation=aggregation)
    assign(v)
    assert each(strategy, v) == expected
    assert float(v) == 8.0


def test_b062_sum_of_whole_numbers_is_shared_out_without_loss(strategy: Any) -> None:
    for assign in (lambda v: v.assign(7), lambda v: sd.function(lambda: v.assign(7))()):
        v = made(strategy, 0, synchronization=ON_READ, aggregation=SUM)
        assign(v)
        assert int(v.numpy()) == 7


@pytest.mark.parametrize("add", [lambda v: v.assign_add(1.0), lambda v: sd.function(lambda: v.assign_add(1.0))()])
def test_b062_increment_across_replicas_of_a_sum_raises_and_of_a_mean_does_not(strategy: Any, add: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="sum"):
        add(made(strategy, 0.0, synchronization=ON_READ, aggregation=SUM))
    v = made(strategy, 2.0, synchronization=ON_READ, aggregation=MEAN)
    add(v)
    assert each(strategy, v) == [3, 3]


def test_b062_scatter_to_own_values_raises(strategy: Any, run: Run) -> None:
    v = made(strategy, [1.0, 2.0, 3.0], synchronization=ON_READ, aggregation=SUM)
    for scatter in (v.scatter_add, v.scatter_sub, v.scatter_update, v.scatter_max, v.scatter_min, v.scatter_mul, v.scatter_div):
        with pytest.raises(NotImplementedError, match="ON_READ"):
            scatter([1], [1.0])
        with pytest.raises(NotImplementedError, match="ON_READ"):
            run(strategy, lambda scatter=scatter: scatter([1], [1.0]))


# -- scatter ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("aggregation", "expected"), [(NONE, [12, 13]), (FIRST, [12, 12]), (SUM, [23, 23]), (MEAN, [12.5, 12.5])])
@pytest.mark.sample(2)
def test_b063_scatter_add_by_replicas_is_aggregated(strategy: Any, run: Run, aggregation: sd.VariableAggregation, expected: Any) -> None:
    v = made(strategy, [1.0, 2.0, 3.0], aggregation=aggregation)
    run(strategy, lambda: v.scatter_add([1], [10.0 + rank()]))
    assert each(strategy, v) == [[1, row, 3] for row in expected]


@pytest.mark.parametrize(("aggregation", "expected"), [(NONE, [10, 11]), (FIRST, [10, 10])])
@pytest.mark.parametrize("name", ["scatter_update", "scatter_max"])
def test_b063_other_scatters_need_no_combination(strategy: Any, run: Run, name: str, aggregation: Any, expected: Any) -> None:
    v = made(strategy, [1.0, 2.0, 3.0], aggregation=aggregation)
    run(strategy, lambda: getattr(v, name)([1], [10.0 + rank()]))
    assert each(strategy, v) == [[1, row, 3] for row in expected]


@pytest.mark.parametrize("aggregation", [SUM, MEAN])
@pytest.mark.parametrize("name", ["scatter_min", "scatter_max", "scatter_update"])
def test_b063_other_scatters_cannot_be_added(strategy: Any, run: Run, name: str, aggregation: sd.VariableAggregation) -> None:
    v = made(strategy, [1.0, 2.0, 3.0], aggregation=aggregation)
    with pytest.raises(NotImplementedError, match=aggregation.name):
        run(strategy, lambda: getattr(v, name)([1], [10.0]))
    getattr(v, name)([1], [2.0])
    assert each(strategy, v) == [[1, 2, 3]] * 2


# -- making them --------------------------------------------------------------------------------------------------------


def test_b064_random_initial_values_are_the_same_on_every_replica(strategy: Any) -> None:
    with strategy.scope():
        dense = keras.layers.Dense(3)
        dense.build((None, 4))
    first, second = strategy.local_results(dense.kernel)
    assert np.array_equal(first, second)
    assert np.unique(first).size == 12


@pytest.mark.parametrize("asks", [False, True], ids=["one program for all", "a program for each"])
def test_b064_variables_made_inside_run_are_mirrored(strategy: Any, run: Run, asks: bool) -> None:
    kept: list[sd.Variable] = []

    def step() -> Any:
        if not kept:
            kept.append(sd.Variable(lambda: jnp.full(2, 4.0), name="inner", aggregation=SUM))
        kept[0].assign_add(jnp.full(2, 1.0 + (rank() if asks else 0.0)))
        return kept[0].value

    results = run(strategy, step)
    total = 7.0 if asks else 6.0
    assert each(strategy, kept[0]) == each(strategy, results) == [[total, total]] * 2
    assert set(kept[0].device.split(",")) == set(strategy.extended.worker_devices)
    assert strategy.variables == kept


def test_b064_replicas_that_each_make_a_variable_make_one(strategy: Any, run: Run) -> None:
    def step() -> Any:
        v = sd.Variable(1.0, aggregation=SUM)
        v.assign_add(10.0 + rank())
        return v.value

    assert each(strategy, run(strategy, step)) == [22, 22]
    assert len(strategy.known_variables.all()) == 1


def test_b064_initial_value_from_inside_a_step_is_refused_with_a_hint(strategy: Any, run: Run) -> None:
    with pytest.raises(InvalidArgumentError, match="lambda"):
        run(strategy, lambda x: sd.Variable(x * 2.0).value, (jnp.ones(2),))


def test_b064_values_from_a_function_of_the_context(strategy: Any, run: Run) -> None:
    contexts: list[int] = []

    def value_fn(context: Any) -> float:
        contexts.append(context.num_replicas_in_sync)
        return context.replica_id_in_sync_group * 10.0

    value = strategy.experimental_distribute_values_from_function(value_fn)
    assert strategy.local_results(value) == (0.0, 10.0)
    assert contexts == [2, 2]
    assert strategy.local_results(run(strategy, lambda x: x + 1.0, (value,))) == (1.0, 11.0)


# -- strategies and their variables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", [lambda v: v.value, lambda v: v.assign_add(jnp.ones(()))], ids=["read", "increment"])
@pytest.mark.parametrize("other", [lambda: sd.MirroredStrategy(2), sd.OneDeviceStrategy], ids=["two replicas", "one replica"])
def test_b065_variable_of_another_strategy_raises(strategy: Any, run: Run, other: Any, use: Any) -> None:
    v = made(strategy, 1.0, aggregation=SUM)
    with pytest.raises(FailedPreconditionError, match="Mixing different"):
        run(other(), lambda: use(v))
    assert each(strategy, v) == [1, 1]


def test_b066_colocation(strategy: Any) -> None:
    v = made(strategy, 1.0)
    with strategy.scope(), strategy.extended.colocate_vars_with(v):
        assert sd.Variable(2.0).device == v.device
    with pytest.raises(FailedPreconditionError, match="scope"), strategy.extended.colocate_vars_with(v):
        pass
    other = sd.MirroredStrategy(2)
    with other.scope(), pytest.raises(InvalidArgumentError, match="not created by this strategy"), other.extended.colocate_vars_with(v):
        pass


@pytest.mark.parametrize("steps", [False, True], ids=["at once", "in a step"])
def test_b067_update_calls_the_function_for_every_copy(strategy: Any, steps: bool) -> None:
    v, pieces = made(strategy, 1.0), sd.PerReplica([3.0, 7.0])

    def update(group: bool, change: Any) -> Any:
        call = lambda given: strategy.extended.update(v, change, args=(given,), group=group)  # noqa: E731
        return sd.function(call)(pieces) if steps else call(pieces)

    assert update(True, lambda w, x: w.assign_add(x)) is None
    assert each(strategy, v) == [4, 8]
    assert each(strategy, update(False, lambda w, x: w.value * x)) == [12, 56]


def test_b067_update_with_one_value_keeps_the_copies_equal(strategy: Any) -> None:
    v = made(strategy, 1.0)
    strategy.extended.update(v, lambda w, x: w.assign(x * 2.0), args=(5.0,))
    assert each(strategy, v) == [10, 10]


def test_b069_one_device() -> None:
    strategy = sd.OneDeviceStrategy("/gpu:0")
    v = made(strategy, 3.0)
    own = made(strategy, 1.0, synchronization=ON_READ, aggregation=SUM)
    assert v.device == "worker:0/gpu:0" == strategy.extended.worker_devices[0]
    assert strategy.num_replicas_in_sync == 1
    assert strategy.reduce("SUM", jnp.arange(3.0), axis=None).tolist() == [0, 1, 2]
    assert float(strategy.reduce("SUM", jnp.arange(3.0), axis=0)) == 3.0
    assert float(strategy.reduce("MEAN", jnp.arange(3.0), axis=0)) == 1.0
    assert not own.trainable
    own.assign_add(1.0)
    assert float(own) == 2.0


@pytest.mark.parametrize(("aggregation", "expected"), [(SUM, 4.0), (MEAN, 2.5), (FIRST, 2.0)])
def test_b070_central_storage(run: Run, aggregation: sd.VariableAggregation, expected: float) -> None:
    strategy = sd.CentralStorageStrategy(2)
    v = made(strategy, 1.0, aggregation=aggregation)
    run(strategy, lambda: v.assign_add(rank() + 1.0))
    assert float(v) == expected
    assert v.device == strategy.extended.parameter_devices[0] == "worker:0/cpu:0"
    assert strategy.extended.worker_devices == ("worker:0/gpu:0", "worker:0/gpu:1")


def test_b070_central_storage_has_no_copy_that_a_replica_could_change_alone(run: Run) -> None:
    strategy = sd.CentralStorageStrategy(2)
    v = made(strategy, 1.0)
    with pytest.raises(InvalidArgumentError, match="aggregation NONE"):
        run(strategy, lambda: v.assign_add(rank() + 1.0))
    v.assign_add(1.0)
    assert float(v) == 2.0


def test_b071_central_storage_distributes_a_dataset_with_options() -> None:
    strategy = sd.CentralStorageStrategy(2)
    dataset = strategy.experimental_distribute_dataset(sd.Dataset.range(4).batch(4), options=sd.InputOptions())
    assert [each(strategy, batch) for batch in dataset] == [[[0, 1], [2, 3]]]


def test_b072_values_of_replicas_are_no_arrays() -> None:
    value = sd.PerReplica([1.0, 2.0])
    for use in (np.asarray, jnp.asarray, jnp.sum):
        with pytest.raises(ValueError):
            use(value)
    for add in (lambda: value + 1, lambda: 1 - value, lambda: value * value, lambda: float(value)):  # pyright: ignore
        with pytest.raises(TypeError):
            add()


def test_b072_nor_are_they_while_a_step_is_traced(strategy: Any) -> None:
    def step() -> Any:
        return strategy.run(lambda: jnp.ones(())) + 1

    with pytest.raises(TypeError, match="ReplicaLocal"):
        sd.function(step)()


def test_b072_a_step_of_one_replica_does_not_take_the_first_of_two() -> None:
    with pytest.raises(InvalidArgumentError, match="2 values was given to a step on 1"):
        sd.function(lambda x: x + 1.0)(sd.PerReplica([1.0, 2.0]))
