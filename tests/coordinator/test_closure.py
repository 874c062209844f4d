"""Closures: what a worker finds of an earlier one, when programs are linked, and how code of users knows where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.coordinator.closure import MAX_TIME_OUTS, Closure
from simdist.coordinator.remote_value import Result
from simdist.errors import InvalidArgumentError, OutOfRangeError
from simdist.program.function import StepFunction
from simdist.runtime.work import running_closure


class Worker:
    """A worker that keeps what it is given."""

    def __init__(self, name: str = "worker:0") -> None:
        self.name = name
        self.steps = 0
        self.local: dict[object, object] = {}


@pytest.fixture
def strategy() -> Iterator[sd.ParameterServerStrategy]:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        yield sd.ParameterServerStrategy(cluster)


@pytest.fixture
def weights(strategy: sd.ParameterServerStrategy) -> sd.Variable:
    with strategy.scope():
        return sd.Variable(np.ones(3, np.float32), name="weights")


def no_step(step: object) -> Any:
    raise AssertionError(f"{step} was taken by a function that calls no step")


def closure_of(strategy: sd.ParameterServerStrategy, fn: object, *args: object, key: str | None = "key") -> Closure:
    assert callable(fn)
    return Closure(strategy, fn, args, {}, Result(strategy.engine, 7), key=key)


def test_a_worker_finds_the_program_of_an_equal_closure_until_variables_are_laid_out_anew(
    strategy: sd.ParameterServerStrategy, weights: sd.Variable
) -> None:
    closure, worker = closure_of(strategy, sd.function(lambda: weights.assign_add(weights))), Worker()
    assert closure.ready(worker) is None
    call = closure.bind(worker)
    linked = closure.link(worker, call)
    again = closure_of(strategy, closure.fn)
    assert again.ready(worker) == (call, linked)
    assert again.ready(Worker("worker:1")) is None
    with strategy.scope():
        sd.Variable(np.ones(3, np.float32), name="another")
    assert again.ready(worker) is None
    assert again.link(worker, call) is not linked


def test_a_closure_whose_arguments_cannot_be_compared_is_never_known_from_before(
    strategy: sd.ParameterServerStrategy, weights: sd.Variable
) -> None:
    closure, worker = closure_of(strategy, sd.function(lambda: weights.assign_add(weights)), key=None), Worker()
    closure.link(worker, closure.bind(worker))
    assert closure.ready(worker) is None and worker.local == {}


def test_a_closure_with_arrays_is_bound_anew_as_they_may_have_changed(strategy: sd.ParameterServerStrategy, weights: sd.Variable) -> None:
    closure, worker = closure_of(strategy, sd.function(lambda x: weights.assign_add(x)), np.ones(3, np.float32)), Worker()
    closure.link(worker, closure.bind(worker))
    assert closure.ready(worker) is None


def test_all_workers_share_one_linked_program_and_one_trace(strategy: sd.ParameterServerStrategy, weights: sd.Variable) -> None:
    step = sd.function(lambda: weights.assign_add(weights))
    assert isinstance(step, StepFunction)
    closure = closure_of(strategy, step)
    first, second = [closure.link(worker, closure.bind(worker)) for worker in (Worker(), Worker("worker:1"))]
    assert first is second and step.traces == 1


def test_a_dataset_that_has_run_out_is_an_error_that_names_the_worker(strategy: sd.ParameterServerStrategy) -> None:
    dataset = iter(sd.ClusterCoordinator(strategy).create_per_worker_dataset(lambda: sd.Dataset.range(2).batch(2).take(0)))
    closure, worker = closure_of(strategy, sd.function(lambda iterator: next(iterator).sum()), dataset), Worker("worker:1")
    with pytest.raises(
        OutOfRangeError, match=r"The dataset of worker:1 has run out; the worker has taken 0 steps, of all .*repeat.* no rows at all"
    ):
        closure.link(worker, closure.bind(worker))
    assert running_closure.get() is None
    worker.steps = 1
    with pytest.raises(OutOfRangeError, match="has taken 1 step, of all"):
        closure.link(worker, closure.bind(worker))


def test_a_dataset_that_has_run_out_in_a_plain_function_is_the_same_error(strategy: sd.ParameterServerStrategy) -> None:
    dataset = iter(sd.ClusterCoordinator(strategy).create_per_worker_dataset(lambda: sd.Dataset.range(2).batch(2)))
    closure, worker = closure_of(strategy, lambda iterator: int(next(iterator).sum()), dataset), Worker("worker:1")
    assert closure.run(worker, no_step) == 1
    with pytest.raises(OutOfRangeError, match=r"The dataset of worker:1 has run out\. Schedule fewer closures, or .*repeat"):
        closure.run(worker, no_step)
    assert running_closure.get() is None


@pytest.mark.parametrize("is_step", [False, True])
def test_a_closure_whose_own_iterator_has_ended_is_not_told_of_its_dataset(strategy: sd.ParameterServerStrategy, is_step: bool) -> None:
    def first_of_none(iterator: Any) -> Any:
        return next(iterator).sum() + next(iter([]))

    dataset = iter(sd.ClusterCoordinator(strategy).create_per_worker_dataset(lambda: sd.Dataset.range(2).batch(2)))
    closure, worker = closure_of(strategy, sd.function(first_of_none) if is_step else first_of_none, dataset), Worker("worker:1")
    with pytest.raises(InvalidArgumentError, match=r"first_of_none raised StopIteration\(\), which is not the end of a dataset") as raised:
        closure.link(worker, closure.bind(worker)) if is_step else closure.run(worker, no_step)
    assert isinstance(raised.value.__cause__, StopIteration)
    assert running_closure.get() is None


def test_a_closure_is_tried_again_a_limited_number_of_times(strategy: sd.ParameterServerStrategy) -> None:
    closure = closure_of(strategy, print)
    assert [closure.may_be_tried_again() for _ in range(MAX_TIME_OUTS + 2)] == [True] * MAX_TIME_OUTS + [False] * 2


def test_code_of_users_is_called_in_its_closure_and_in_none_afterwards(strategy: sd.ParameterServerStrategy) -> None:
    plain = closure_of(strategy, running_closure.get).run(Worker("worker:1"), no_step)
    assert plain is not None
    assert (plain.number, plain.worker, plain.strategy) == (7, "worker:1", strategy)  # pyright: ignore[reportAttributeAccessIssue]
    seen: list[object] = []
    traced = closure_of(strategy, sd.function(lambda: seen.append(running_closure.get())))
    traced.link(Worker(), traced.bind(Worker()))
    assert seen != [None]
    with pytest.raises(ZeroDivisionError):
        closure_of(strategy, lambda: 1 / 0).run(Worker(), no_step)
    assert running_closure.get() is None


def generator_of_nexts(iterator: Any) -> Any:
    return list(next(iterator) for _ in range(2))  # noqa: C400


def test_the_end_of_a_dataset_in_a_generator_is_the_end_of_the_dataset(strategy: sd.ParameterServerStrategy) -> None:
    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(2)))
    for _ in range(5):
        coordinator.schedule(generator_of_nexts, (iterator,))
    with pytest.raises(OutOfRangeError, match=r"The dataset of worker:. has run out"):
        coordinator.join()


def test_an_error_of_a_generator_of_ones_own_stays(strategy: sd.ParameterServerStrategy) -> None:
    coordinator = sd.ClusterCoordinator(strategy)
    nothing: Iterator[int] = iter(())
    coordinator.schedule(lambda iterator: list(next(nothing) for _ in iterator), (iter(sd.Dataset.range(2)),))  # noqa: C400
    with pytest.raises(RuntimeError, match=r"^generator raised StopIteration$"):
        coordinator.join()


def test_a_next_of_a_generator_over_a_dataset_is_told_why_it_finds_nothing(strategy: sd.ParameterServerStrategy) -> None:
    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(1)))
    for _ in range(5):
        coordinator.schedule(lambda iterator: next(2 * element for element in iterator), (iterator,))
    with pytest.raises(InvalidArgumentError, match="finds nothing where the dataset has run out"):
        coordinator.join()
