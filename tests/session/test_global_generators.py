"""What a session's program draws from the modules `random` and `numpy.random` is its own: a fork draws it again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd


def program(cluster: sd.Cluster) -> list[float]:
    drawn = list[float]()
    for _ in range(4):
        drawn += [random.random(), float(np.random.rand())]  # noqa: NPY002
        sd.sleep(1.0, cluster)
    return drawn


def session_of(function: Any = program, seed: int = 3) -> sd.Session:
    return sd.Session(function, sd.Cluster({"worker": 1}, seed=seed))


def test_a_fork_and_a_rewound_session_draw_what_the_first_run_has_drawn() -> None:
    session = session_of()
    session.advance()
    expected = session.result
    fork = session.fork(1.5)
    np.random.rand(3)  # noqa: NPY002 (of this process)
    fork.advance()
    session.rewind(2.5)
    session.advance()
    assert fork.result == session.result == expected and len(set(expected)) == 8
    other, another = session_of(), session_of(seed=4)
    other.advance()
    another.advance()
    assert other.result == expected and not set(another.result) & set(expected)


def test_the_generators_of_this_process_stay_as_they_are() -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = [random.random(), float(np.random.rand())]  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    session = session_of()
    session.advance(until=1.5)
    session.advance()
    assert [random.random(), float(np.random.rand())] == expected  # noqa: NPY002


def test_a_program_that_seeds_them_has_the_numbers_of_numpy_and_of_python() -> None:
    def seeded(cluster: sd.Cluster) -> list[float]:
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        sd.sleep(1.0, cluster)
        found = [*np.random.rand(3), np.random.standard_normal(), np.random.randint(1000)]  # noqa: NPY002
        return [*map(float, found), random.random()]

    session = session_of(seeded)
    session.advance(until=0.5)
    np.random.seed(7)  # noqa: NPY002
    session.advance()
    numbers = np.random.RandomState(0)
    assert session.result == [*numbers.rand(3), numbers.standard_normal(), numbers.randint(1000), random.Random(0).random()]


Numbers = list[Any]


def seeded_coordinator(cluster: sd.Cluster) -> sd.ClusterCoordinator:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


def closures(cluster: sd.Cluster) -> Numbers:
    coordinator = seeded_coordinator(cluster)
    drawn = [coordinator.schedule(lambda: (random.random(), float(np.random.rand()))) for _ in range(3)]  # noqa: NPY002
    coordinator.join()
    return [value.fetch() for value in drawn]


def rows_of_workers(cluster: sd.Cluster, dataset_fn: Callable[[], sd.Dataset], steps: int = 4) -> Numbers:
    coordinator = seeded_coordinator(cluster)
    iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))
    taken = [coordinator.schedule(sd.function(next), args=(iterator,)) for _ in range(steps)]
    coordinator.join()
    return [value.fetch().tolist() for value in taken]


def datasets(cluster: sd.Cluster) -> Numbers:
    return rows_of_workers(cluster, lambda: sd.Dataset.from_tensor_slices(np.random.rand(8)).batch(2))  # noqa: NPY002


def mapped(cluster: sd.Cluster) -> Numbers:
    return rows_of_workers(cluster, lambda: sd.Dataset.range(20).map(lambda _: np.random.rand(1)).batch(2))  # noqa: NPY002


@pytest.mark.parametrize("function", [closures, datasets, mapped])
def test_closures_and_datasets_of_workers_draw_from_the_generators_of_their_program(function: Callable[[sd.Cluster], Numbers]) -> None:
    def cluster() -> sd.Cluster:
        return sd.Cluster({"worker": 2, "ps": 1})

    expected = function(cluster())
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = [random.getstate(), *np.random.get_state(legacy=False)["state"]["key"].tolist()]  # noqa: NPY002
    session = sd.Session(function, cluster())
    session.advance()
    fork = session.fork(0.0)
    fork.advance()
    assert session.result == fork.result == expected
    assert before == [random.getstate(), *np.random.get_state(legacy=False)["state"]["key"].tolist()]  # noqa: NPY002
    launched = sd.Cluster({"chief": 1, "worker": 2, "ps": 1})
    run = launched.launch(function, job="chief", args=(launched,))
    run.join()
    assert run.results["chief:0"] == expected
