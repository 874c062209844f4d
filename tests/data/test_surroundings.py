"""Functions that take a name from around them: what that stands for where they are given, and when they are first called."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd

rate = 1.0


def scaled(x: Any) -> Any:
    return x * rate


def by_helper() -> Any:
    return scaled(np.float32(2.0))


@pytest.fixture
def coordinator() -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))


def test_functions_of_a_loop_say_that_they_take_its_last_number(coordinator: sd.ClusterCoordinator) -> None:
    steps = [coordinator.schedule(sd.function(lambda: number)) for number in range(2)]  # noqa: B023
    with pytest.warns(UserWarning, match="<lambda> takes number from around it, which was 0 when the function was given to schedule"):
        assert coordinator.fetch(steps) == [1, 1]
    makers = [coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(number, 5)) for number in range(2)]  # noqa: B023
    take = sd.function(lambda iterator: next(iterator))
    with pytest.warns(UserWarning, match="number=number"):
        assert coordinator.schedule(take, args=(iter(makers[0]),)).fetch() == 1
    resources = [coordinator.create_per_worker_resource(lambda: [number]) for number in range(2)]  # noqa: B023
    with pytest.warns(UserWarning, match="given to create_per_worker_resource"):
        assert coordinator.schedule(lambda made: made[0], args=(resources[0],)).fetch() == 1


def test_an_object_that_another_has_replaced_is_named() -> None:
    table = np.arange(2)
    dataset = sd.Dataset.range(1).map(lambda x: table[x + 1])
    table = table + 1
    with pytest.warns(UserWarning, match=r"takes table from around it, which was another object .* and is array\(\[1, 2\]\) now"):
        assert int(next(iter(dataset))) == 2


LATE: dict[str, Callable[[], list[Any]]] = {
    "map": lambda: [sd.Dataset.range(2).map(lambda x: x + number) for number in range(2)],  # noqa: B023
    "map of a batch": lambda: [sd.Dataset.range(2).batch(1).map(lambda x: x[0] + number) for number in range(2)],  # noqa: B023
    "filter": lambda: [sd.Dataset.range(2).filter(lambda x: x >= number) for number in range(2)],  # noqa: B023
    "flat_map": lambda: [sd.Dataset.range(1).flat_map(lambda x: sd.Dataset.range(number, 2)) for number in range(2)],  # noqa: B023
    "interleave": lambda: [sd.Dataset.range(1).interleave(lambda x: sd.Dataset.range(number, 2)) for number in range(2)],  # noqa: B023
    "take_while": lambda: [sd.Dataset.range(1, 3).take_while(lambda x: x > number - 1) for number in range(2)],  # noqa: B023
    "group_by_window": lambda: [
        sd.Dataset.range(1, 2).group_by_window(lambda x: x * 0 + number, lambda key, window: window, 1)  # noqa: B023
        for number in range(2)
    ],
    "bucket_by_sequence_length": lambda: [
        sd.Dataset.range(1, 2).batch(1).bucket_by_sequence_length(lambda x: len(x) + number, [9], [1, 1])  # noqa: B023
        for number in range(2)
    ],
    "flat_map of windows": lambda: [sd.Dataset.range(1, 2).window(1).flat_map(lambda x: x.take(number or 1)) for number in range(2)],  # noqa: B023
    "scan": lambda: [sd.Dataset.range(2).scan(0, lambda state, x: (state, x + number)) for number in range(2)],  # noqa: B023
}


@pytest.mark.parametrize("name", LATE)
def test_datasets_of_a_loop_say_that_they_take_its_last_number(name: str) -> None:
    first, last = LATE[name]()
    with pytest.warns(UserWarning, match="takes number from around it, which was 0 .* and is 1 now"):
        assert np.ravel(next(iter(first))) == [1]
    assert np.ravel(next(iter(last))) == [1]


@pytest.mark.parametrize("step", [lambda: rate, by_helper], ids=["itself", "by a function beside it"])
def test_a_step_says_that_a_name_of_its_module_has_changed(
    step: Callable[[], Any], coordinator: sd.ClusterCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = sd.function(step)
    first = coordinator.schedule(traced)
    monkeypatch.setitem(globals(), "rate", 3.0)
    with pytest.warns(UserWarning, match=r"takes rate from around it, which was 1\.0"):
        assert float(first.fetch()) in (3.0, 6.0)
    monkeypatch.setitem(globals(), "rate", 5.0)
    assert float(coordinator.schedule(traced).fetch()) in (3.0, 6.0)  # the trace is known, as in TensorFlow


@pytest.mark.filterwarnings("error")
def test_names_that_stand_for_the_same_or_are_assigned_by_the_step_are_no_warning(coordinator: sd.ClusterCoordinator) -> None:
    count, weight, missing = 0, np.float64(0.5), float("nan")

    def counted() -> None:
        nonlocal count
        count += 1

    def step() -> Any:
        counted()
        return weight + 0 * count if missing else count

    values = [coordinator.schedule(sd.function(step)) for _ in range(2)]
    weight, missing = np.float64(0.5), float("nan")
    counted()  # by other code than that of the step
    assert coordinator.fetch(values) == [0.5, 0.5]
    assert count == 3


def test_what_is_noted_keeps_nothing_alive() -> None:
    class Rows:
        dataset: sd.Dataset

    def of_itself() -> weakref.ref[Any]:
        rows = Rows()
        rows.dataset = sd.Dataset.range(2).map(lambda x: x + rows.dataset.cardinality())
        return weakref.ref(rows)

    rows = of_itself()
    gc.collect()
    assert rows() is None
