"""Distributed datasets as their users see them: elements of PerReplica, positions, ends, iterables from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


def rows(strategy: Any, element: Any) -> list[int]:
    return [row for part in parts(strategy, element) for row in part]


def parts(strategy: Any, element: Any) -> list[list[int]]:
    return [np.asarray(part).tolist() for part in strategy.local_results(element)]


def test_elements_are_split_as_evenly_as_can_be_and_the_last_one_too() -> None:
    strategy = sd.MirroredStrategy(3)
    distributed = strategy.distribute_dataset(sd.Dataset.range(7).batch(5))
    assert [parts(strategy, element) for element in distributed] == [[[0, 1], [2, 3], [4]], [[5], [6], []]]
    assert distributed.cardinality() == 2


def test_a_position_is_saved_and_restored_under_another_number_of_replicas() -> None:
    dataset = sd.Dataset.range(24).shuffle(24, seed=3).batch(4)
    two, three = sd.MirroredStrategy(2), sd.MirroredStrategy(3)
    first = iter(two.distribute_dataset(dataset))
    seen = [rows(two, next(first)) for _ in range(2)]
    state = first.state_dict()
    rest = [rows(two, element) for element in first]
    again = iter(three.distribute_dataset(dataset))
    again.load_state_dict(state)
    assert [rows(three, element) for element in again] == rest
    assert sorted(row for found in seen + rest for row in found) == list(range(24))


def test_looking_ahead_for_a_step_does_not_move_the_position() -> None:
    strategy = sd.MirroredStrategy(2)
    iterator = iter(strategy.distribute_dataset(sd.Dataset.range(8).batch(4)))
    before = iterator.state_dict()
    assert iterator.has_next()
    assert iterator.state_dict() == before


def test_b118_the_end_is_stop_iteration_or_an_empty_optional_and_in_a_step_out_of_range() -> None:
    strategy = sd.MirroredStrategy(2)
    dataset = strategy.distribute_dataset(sd.Dataset.range(6).batch(4))
    iterator = iter(dataset)
    optional = iterator.get_next_as_optional()
    assert optional.has_value() and parts(strategy, optional.get_value()) == [[0, 1], [2, 3]]
    assert parts(strategy, iterator.get_next()) == [[4], [5]]
    optional = iterator.get_next_as_optional()
    assert not optional.has_value()
    with pytest.raises(InvalidArgumentError, match="has_value"):
        optional.get_value()
    with pytest.raises(StopIteration):
        next(iterator)
    step = sd.function(lambda iterator: strategy.reduce("sum", strategy.run(lambda x: x.sum(), args=(next(iterator),)), axis=None))
    iterator = iter(dataset)
    assert [int(step(iterator)), int(step(iterator))] == [6, 9]
    with pytest.raises(sd.errors.OutOfRangeError, match="run out"):
        step(iterator)


@pytest.mark.parametrize("distribute", [iter, lambda dataset: iter(sd.MirroredStrategy(2).distribute_dataset(dataset))])
def test_get_next_at_the_end_is_out_of_range_as_in_tensorflow(distribute: Any) -> None:
    iterator, taken = distribute(sd.Dataset.range(8).batch(4)), 0
    with pytest.raises(sd.errors.OutOfRangeError, match="run out"):  # as in a loop without an end that catches it
        while True:
            iterator.get_next()
            taken += 1
    assert taken == 2


def test_get_next_at_the_end_in_a_plain_closure_names_the_worker() -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(1)))
    coordinator.schedule(lambda iterator: [iterator.get_next() for _ in range(2)], args=(iterator,))
    with pytest.raises(sd.errors.OutOfRangeError, match=r"dataset of worker:0 has run out"):
        coordinator.join()


def test_optional_in_a_step_says_to_ask_outside() -> None:
    step = sd.function(lambda iterator: iterator.get_next_as_optional().get_value())
    with pytest.raises(InvalidArgumentError, match="Ask outside"):
        step(iter(sd.Dataset.range(6).batch(4)))


def test_any_iterable_of_batches_will_do() -> None:
    class Loader:
        """Like a loader of another library: batches of numpy arrays, anew in each pass."""

        def __iter__(self) -> Iterator[Any]:
            for start in (0, 4):
                yield {"x": np.arange(start, start + 4, dtype=np.float32)[:, None], "y": np.arange(start, start + 4)}

    strategy = sd.MirroredStrategy(2)
    distributed = strategy.distribute_dataset(Loader())
    found = [(parts(strategy, element["x"]), parts(strategy, element["y"])) for element in distributed]
    assert found[1] == ([[[4.0], [5.0]], [[6.0], [7.0]]], [[4, 5], [6, 7]])
    assert len(list(distributed)) == 2


def test_what_is_no_function_and_what_is_not_batched_are_refused() -> None:
    strategy = sd.MirroredStrategy(2)
    with pytest.raises(TypeError, match="InputContext"):
        strategy.distribute_datasets_from_function(sd.Dataset.range(4))
    with pytest.raises(sd.errors.InvalidArgumentError, match="batch"):
        next(iter(strategy.distribute_dataset(sd.Dataset.range(4))))


def test_iterators_of_two_datasets_go_side_by_side_in_one_step() -> None:
    strategy = sd.MirroredStrategy(2)
    ones, twos = (iter(strategy.distribute_dataset(sd.Dataset.range(n, n + 4).batch(2))) for n in (0, 10))

    @sd.function
    def step(first: Any, second: Any) -> Any:
        total = strategy.run(lambda a, b: (a * b).sum(), args=(next(first), next(second)))
        return strategy.reduce("sum", total, axis=None)

    assert [int(step(ones, twos)), int(step(ones, twos))] == [11, 2 * 12 + 3 * 13]
