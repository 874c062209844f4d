"""Conformance cases B073 to B081, B178, B182 and B183: who runs, for which replica, and what may be called there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from replicas import here, rank
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError

Run = Callable[..., Any]
SUM = sd.ReduceOp.SUM
MANY: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(2),
    "central": lambda: sd.CentralStorageStrategy(2),
    "two workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
}


@pytest.fixture(params=list(MANY))
def strategy(request: pytest.FixtureRequest) -> Any:
    return MANY[request.param]()


# -- B073: where am I ---------------------------------------------------------------------------------------------------


def test_b073_outside_of_every_scope_code_is_the_only_replica() -> None:
    assert not sd.has_strategy()
    assert not sd.in_cross_replica_context()
    assert (rank(), here().num_replicas_in_sync) == (0, 1)
    assert sd.get_strategy().num_replicas_in_sync == 1


def test_b073_a_scope_is_across_the_replicas(strategy: Any) -> None:
    with strategy.scope() as entered:
        assert entered is strategy is sd.get_strategy()
        assert sd.has_strategy()
        assert sd.in_cross_replica_context()
        assert sd.get_replica_context() is None
    assert not sd.has_strategy()


def test_b073_inside_run_each_replica_knows_itself(strategy: Any, run: Run) -> None:
    seen: list[Any] = []

    def inside() -> Any:
        seen.append((sd.in_cross_replica_context(), sd.has_strategy(), sd.get_strategy() is strategy, here().strategy is strategy))
        return rank(), here().num_replicas_in_sync, here().devices[0]

    ranks, counts, devices = run(strategy, inside)
    size = strategy.num_replicas_in_sync
    assert strategy.local_results(ranks) == tuple(range(size))
    assert counts == size
    assert strategy.local_results(devices) == strategy.extended.worker_devices
    assert set(seen) == {(False, True, True, True)}


def test_b073_a_step_outside_of_run_is_across_the_replicas(two: sd.MirroredStrategy) -> None:
    seen: list[Any] = []

    @sd.function
    def step() -> Any:
        seen.append(sd.get_replica_context())
        return two.run(lambda: jnp.asarray(rank()))

    with two.scope():
        step()
    assert set(seen) == {None}


# -- B074, B076: what may be called where -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.reduce(SUM, jnp.ones(()), axis=None),
        lambda s: s.gather(jnp.ones(2), axis=0),
        lambda s: s.run(lambda: None),
        lambda s: s.distribute_values_from_function(lambda context: 0),
        lambda s: s.extended.update(None, lambda v: None),
    ],
    ids=["reduce", "gather", "run", "distribute_values_from_function", "update"],
)
def test_b074_calls_across_replicas_raise_inside_run(two: sd.MirroredStrategy, run: Run, call: Any) -> None:
    with pytest.raises(FailedPreconditionError, match=r"inside strategy\.run"):
        run(two, lambda: call(two))
    assert two.local_results(run(two, rank)) == (0, 1)


def test_b076_replicas_meet_inside_a_function_that_a_replica_calls(two: sd.MirroredStrategy, run: Run) -> None:
    @sd.function
    def inner(x: Any) -> Any:
        return here().all_reduce(SUM, x)

    assert [float(x) for x in two.local_results(run(two, lambda: inner(jnp.asarray(rank() + 1.0))))] == [3.0, 3.0]


MEET: dict[str, Callable[[sd.Variable, Any], Any]] = {
    "all_reduce": lambda v, x: here().all_reduce(SUM, x),
    "all_gather": lambda v, x: here().all_gather(x[None], axis=0)[0],
    "merge_call": lambda v, x: here().merge_call(lambda strategy, y: strategy.reduce(SUM, y, axis=None), args=(x,)),
}


@pytest.mark.parametrize("meet", list(MEET))
@pytest.mark.parametrize("inside", ["jit", "cond", "scan"])
def test_b076_replicas_cannot_meet_inside_a_program_of_jax(two: sd.MirroredStrategy, run: Run, meet: str, inside: str) -> None:
    with two.scope():
        v = sd.Variable(0.0, aggregation=sd.VariableAggregation.SUM)
    call = lambda x: MEET[meet](v, x)  # noqa: E731
    wrapped: dict[str, Callable[[Any], Any]] = {
        "jit": jax.jit(call),
        "cond": lambda x: jax.lax.cond(x > 0, call, lambda y: y, x),
        "scan": lambda x: jax.lax.scan(lambda total, y: (total + call(y), y), 0.0, jnp.stack([x, x]))[0],
    }
    with pytest.raises(FailedPreconditionError, match=f"inside a jax {inside}"):
        run(two, lambda: wrapped[inside](jnp.ones(())))


def test_b076_replicas_may_meet_inside_a_gradient(two: sd.MirroredStrategy, run: Run) -> None:
    # d/dx of (x0^2 + x1^2), which both replicas compute: each gets twice 2x.
    slope = run(two, lambda x: jax.grad(lambda y: here().all_reduce(SUM, y * y))(x), (sd.PerReplica([jnp.asarray(1.0), jnp.asarray(3.0)]),))
    assert [float(x) for x in two.local_results(slope)] == [4.0, 12.0]


def test_b076_replicas_that_do_not_all_meet_are_told_so(two: sd.MirroredStrategy, run: Run) -> None:
    with pytest.raises(InvalidArgumentError, match="replica 0 meets the others 1 times and replica 1 0 times"):
        run(two, lambda: here().all_reduce(SUM, jnp.ones(())) if rank() == 0 else jnp.ones(()))


# -- merge_call ---------------------------------------------------------------------------------------------------------


def test_merge_call_runs_once_across_the_replicas(strategy: Any, run: Run) -> None:
    seen: list[Any] = []

    def merge(given: Any, x: Any, scale: Any) -> Any:
        seen.append((given is strategy, sd.get_strategy() is strategy, sd.in_cross_replica_context(), sd.get_replica_context()))
        return given.reduce(SUM, x, axis=None) * given.reduce("MEAN", scale, axis=None)

    result = run(strategy, lambda: here().merge_call(merge, args=(jnp.asarray(rank() + 1.0),), kwargs={"scale": jnp.asarray(10.0)}))
    size = strategy.num_replicas_in_sync
    assert [float(x) for x in strategy.local_results(result)] == [10.0 * size * (size + 1) / 2] * size
    assert set(seen) == {(True, True, True, None)}


def test_merge_call_gives_each_replica_its_own_of_a_per_replica_result(two: sd.MirroredStrategy, run: Run) -> None:
    result = run(two, lambda: here().merge_call(lambda strategy, x: x, args=(jnp.asarray(rank() + 5),)))
    assert [int(x) for x in two.local_results(result)] == [5, 6]


def test_merge_call_is_given_what_all_replicas_have_alike_as_it_is(two: sd.MirroredStrategy, run: Run) -> None:
    def merge(strategy: Any, x: Any, scale: float, name: str) -> Any:
        return strategy.reduce(SUM, x, axis=None) * scale * len(name)

    def replica() -> Any:
        return here().merge_call(merge, args=(rank() + 1.0,), kwargs={"scale": 10.0, "name": "ab"})

    assert [float(x) for x in two.local_results(run(two, replica))] == [60.0, 60.0]


def test_b077_one_object_from_all_replicas_can_be_used_in_the_step(two: sd.MirroredStrategy) -> None:
    ranks, number = sd.function(lambda: (lambda ranks, number: (ranks, number * 2))(*two.run(lambda: (rank(), 5))))()
    assert two.local_results(ranks) == (0, 1)
    assert number == 10


def test_merge_call_may_update_variables(two: sd.MirroredStrategy, run: Run) -> None:
    with two.scope():
        v = sd.Variable(1.0)

    def merge(strategy: Any, x: Any) -> None:
        strategy.extended.update(v, lambda w, total: w.assign_add(total), args=(strategy.reduce(SUM, x, axis=None),))

    run(two, lambda: here().merge_call(merge, args=(jnp.asarray(rank() + 1.0),)))
    assert [float(x) for x in two.local_results(v)] == [4.0, 4.0]


def test_merge_call_is_given_a_variable_as_itself(two: sd.MirroredStrategy, run: Run) -> None:
    with two.scope():
        v, weight = sd.Variable(1.0), keras.Variable(3.0)

    def merge(strategy: Any, pairs: Any) -> None:
        for value, variable in pairs:
            mean = strategy.extended.reduce_to("mean", value, variable)
            strategy.extended.update(variable, lambda copy, x: copy.assign_sub((copy - x) * 0.5), args=(mean,))
            variable.assign_add(10.0)

    run(two, lambda: here().merge_call(merge, args=([(jnp.asarray(rank() + 1.0), v), (weight + rank(), weight)],)))
    assert (float(v.numpy()), float(weight.numpy())) == (11.25, 13.25)


def test_merge_call_outside_run_has_one_replica() -> None:
    assert here().merge_call(lambda strategy, x: x + strategy.num_replicas_in_sync, args=(2,)) == 3


# -- B077 to B079: arguments and results of run -------------------------------------------------------------------------


def test_b077_one_object_from_all_replicas_is_that_object(strategy: Any, run: Run) -> None:
    sentinel = object()
    assert run(strategy, lambda: (5, None, "text", sentinel)) == (5, None, "text", sentinel)
    assert run(strategy, lambda: None) is None


def test_b077_different_objects_are_per_replica(two: sd.MirroredStrategy, run: Run) -> None:
    numbers, texts, constant = run(two, lambda: (rank() + 5, f"replica {rank()}", 7))
    assert isinstance(numbers, sd.PerReplica)
    assert two.local_results(numbers) == (5, 6)
    assert two.local_results(texts) == ("replica 0", "replica 1")
    assert constant == 7
    mixed = run(two, lambda: None if rank() else jnp.ones(()))
    assert two.local_results(mixed)[1] is None


def test_b077_arrays_are_per_replica_even_if_equal(two: sd.MirroredStrategy, run: Run) -> None:
    assert isinstance(run(two, lambda: jnp.ones(())), sd.PerReplica)


@pytest.mark.parametrize("second", [[1.0, 2.0], (1.0,), {"a": 1.0}])
def test_b077_different_structures_raise(two: sd.MirroredStrategy, run: Run, second: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="different structures"):
        run(two, lambda: second if rank() else (1.0, 2.0))


@pytest.mark.parametrize("guilty", [0, 1])
def test_b077_an_error_of_one_replica_propagates(two: sd.MirroredStrategy, run: Run, guilty: int) -> None:
    with pytest.raises(ZeroDivisionError):
        run(two, lambda: 1 / (rank() - guilty))
    assert run(two, lambda: 5) == 5


@pytest.mark.parametrize("args", [5, "text", jnp.ones(2), {"x": 1}])
def test_b078_args_must_be_a_list_or_tuple(two: sd.MirroredStrategy, args: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="list or tuple"):
        two.run(lambda *given: given, args=args)


def test_b078_values_of_replicas_are_unpacked_and_others_given_to_all(two: sd.MirroredStrategy) -> None:
    pieces = sd.PerReplica([jnp.asarray(1.0), jnp.asarray(2.0)])
    add = lambda x, y: x + y  # noqa: E731
    calls: list[Callable[[], Any]] = [
        lambda: two.run(add, [pieces, 10.0]),
        lambda: two.run(add, (pieces,), {"y": 10.0}),
        lambda: two.run(add, kwargs={"x": 10.0, "y": pieces}),
        lambda: two.run(lambda nest: nest["a"] + nest["b"][0], ({"a": pieces, "b": (10.0,)},)),
    ]
    for call in calls:
        for way in (call, sd.function(call)):
            assert [float(x) for x in two.local_results(way())] == [11.0, 12.0]


def test_b079_local_results(two: sd.MirroredStrategy) -> None:
    value = sd.PerReplica([1, 2])
    assert two.experimental_local_results(value) == (1, 2)
    assert two.experimental_local_results(5) == (5,)
    assert two.experimental_local_results({"a": value, "b": [value, 3]}) == ({"a": 1, "b": [1, 3]}, {"a": 2, "b": [2, 3]})


# -- B080: scopes -------------------------------------------------------------------------------------------------------


def test_b080_scopes_nest_with_their_own_strategy_only(two: sd.MirroredStrategy) -> None:
    other = sd.MirroredStrategy(2)
    with two.scope(), two.scope():
        assert sd.get_strategy() is two
        with pytest.raises(FailedPreconditionError, match="scope"), other.scope():
            pass
        assert sd.get_strategy() is two
    assert not sd.has_strategy()


def test_b080_chosen_strategy_holds_until_it_is_taken_back(two: sd.MirroredStrategy, strategy: Any) -> None:
    sd.experimental_set_strategy(two)
    try:
        assert sd.get_strategy() is two
        sd.experimental_set_strategy(strategy)
        assert sd.get_strategy() is strategy
        assert sd.Variable(1.0).device != two.default_device
    finally:
        sd.experimental_set_strategy(None)
    assert not sd.has_strategy()


def test_b080_strategy_cannot_be_chosen_inside_a_scope(two: sd.MirroredStrategy) -> None:
    with two.scope(), pytest.raises(FailedPreconditionError, match="inside a strategy's scope"):
        sd.experimental_set_strategy(two)
    with pytest.raises(FailedPreconditionError):
        two.run(lambda: sd.experimental_set_strategy(two))


# -- B081: iterators ----------------------------------------------------------------------------------------------------


def test_b081_next_inside_run_raises(two: sd.MirroredStrategy) -> None:
    iterator = iter(two.distribute_dataset(sd.Dataset.range(8).batch(4)))
    calls: list[Callable[[], Any]] = [
        lambda: two.run(lambda: next(iterator)),
        lambda: two.run(lambda given: next(given), (iterator,)),
        lambda: sd.function(lambda: two.run(lambda: next(iterator)))(),
        lambda: sd.function(lambda given: two.run(lambda: next(given)))(iterator),
        lambda: sd.function(lambda given: two.run(lambda own: next(own), (given,)))(iterator),
    ]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match=r"inside strategy\.run"):
            call()
    element = sd.function(lambda given: two.run(lambda x: x, (next(given),)))(iterator)
    assert [np.asarray(x).tolist() for x in two.local_results(element)] == [[0, 1], [2, 3]]


def test_b081_step_is_given_its_iterator(two: sd.MirroredStrategy) -> None:
    iterator = iter(two.distribute_dataset(sd.Dataset.range(8).batch(4)))
    with pytest.raises(InvalidArgumentError, match=r"step\(iter\(dataset\)\)"), two.scope():
        sd.function(lambda: next(iterator))()


# -- several workers ----------------------------------------------------------------------------------------------------


def test_b178_one_notebook_is_the_chief_of_all_workers() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
    assert strategy.num_replicas_in_sync == 2
    assert strategy.extended.should_checkpoint
    with_chief = sd.MultiWorkerMirroredStrategy(sd.Cluster({"chief": 1, "worker": 2}))
    assert with_chief.extended.worker_devices == ("chief:0", "worker:0", "worker:1")
    assert with_chief.local_results(with_chief.run(rank)) == (0, 1, 2)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"worker": 2}, {"worker:0": (True, 2, 0), "worker:1": (False, 2, 1)}),
        ({"chief": 1, "worker": 1}, {"chief:0": (True, 2, 0), "worker:0": (False, 2, 1)}),
    ],
)
def test_b178_each_main_knows_its_place(spec: Any, expected: Any) -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        return strategy.extended.should_checkpoint, strategy.num_replicas_in_sync, strategy.worker_index

    with sd.Cluster(spec) as cluster:
        runs = [cluster.launch(main, job=job) for job in spec]
        for launched in runs:
            launched.join()
        assert {name: result for launched in runs for name, result in launched.results.items()} == expected


def test_b182_pipeline_of_each_worker() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
    contexts: list[Any] = []

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        contexts.append((context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync))
        assert context.get_per_replica_batch_size(8) == 4
        return sd.Dataset.range(14).batch(4).shard(context.num_input_pipelines, context.input_pipeline_id)

    batches = [strategy.local_results(batch) for batch in strategy.distribute_datasets_from_function(dataset_fn)]
    workers = [[np.asarray(batch[worker]).tolist() for batch in batches] for worker in range(2)]
    assert workers == [[[0, 1, 2, 3], [8, 9, 10, 11]], [[4, 5, 6, 7], [12, 13]]]
    assert contexts == [(2, 0, 2), (2, 1, 2)]


def test_b183_no_config_is_a_single_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = sd.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == 1
    assert strategy.extended.should_checkpoint


def test_b183_resolver_that_does_not_know_its_task_and_wrong_types_raise() -> None:
    spec = sd.ClusterSpec({"worker": 2})
    for resolver in (sd.SimpleClusterResolver(spec), sd.SimpleClusterResolver(spec, task_type="worker")):
        with pytest.raises(InvalidArgumentError, match="task_type and task_id"):
            sd.MultiWorkerMirroredStrategy(resolver)
    with pytest.raises(InvalidArgumentError, match="int"):
        sd.MultiWorkerMirroredStrategy(5)
    with pytest.raises(InvalidArgumentError, match="communication_options"):
        sd.MultiWorkerMirroredStrategy(communication_options="RING")  # pyright: ignore
