"""Replicas that take steps together: what they get from each other, and when what they change counts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.collectives import ALL_REDUCE
from simdist.collectives.base import Schedule
from simdist.errors import FailedPreconditionError, InvalidArgumentError, ResourceExhaustedError, SimdistError
from simdist.program.tracing import active_tracer
from simdist.runtime.base import Engine
from simdist.runtime.replicas import Member
from tests.runtime.conformance.conftest import MEMORY_BYTES, require_finite_memory
from tests.runtime.conformance.driver import Communication, Driver, Replicas, exchanged, random_key, run_in_group

PLACES = ("worker:0/gpu:0", "worker:0/gpu:1", "worker:1", "chief:0")


def by_the_schedule(schedule: Schedule, data: np.ndarray) -> np.ndarray:
    """The sum that rank 0 has in the end: chunk by chunk, addition by addition, as the schedule writes them down."""
    edges = [chunk * data.shape[1] // schedule.num_chunks for chunk in range(schedule.num_chunks + 1)]
    have = data.copy()
    for step in range(schedule.num_steps):
        before = have.copy()
        for transfer in (t for t in schedule.transfers if t.step == step):
            for chunk in transfer.chunks:
                part = slice(edges[chunk], edges[chunk + 1])
                sent = before[transfer.source, part]
                have[transfer.target, part] = have[transfer.target, part] + sent if transfer.adds else sent
    return have[0]


@pytest.mark.parametrize("algorithm", ["ring", "recursive doubling", "rabenseifner"])
def test_sums_are_added_in_the_order_of_the_schedule(algorithm: str, driver: Driver) -> None:
    schedule = ALL_REDUCE[algorithm].schedule(4)
    data = np.random.default_rng(1).normal(size=(4, 101)).astype(np.float32)
    expected = by_the_schedule(schedule, data)
    assert expected.tobytes() != data.sum(axis=0, dtype=np.float32).tobytes()  # where the order would not matter, nothing were tested
    found = Replicas(driver, PLACES, Communication(algorithm)).step(lambda own: exchanged("all_reduce", own)[0], list(data))
    assert [np.asarray(own).tobytes() for own in found] == [expected.tobytes()] * 4


def test_a_gather_gives_all_of_them_and_a_broadcast_that_of_the_first(driver: Driver) -> None:
    def step(own: Any) -> Any:
        return exchanged("all_gather", own), exchanged("broadcast", own)[0]

    found = Replicas(driver, PLACES).step(step, [np.float32([rank]) for rank in range(4)])
    assert [(np.concatenate([part[0] for part in gathered]).tolist(), float(first[0])) for gathered, first in found] == [
        ([0, 1, 2, 3], 0.0)
    ] * 4


def test_results_are_those_of_the_replicas_in_order(driver: Driver) -> None:
    found = Replicas(driver, PLACES).step(lambda own: {"own": own * 10}, [np.float32(rank) for rank in range(4)])
    assert [float(each["own"]) for each in found] == [0, 10, 20, 30]


def test_a_single_replica_takes_steps_alone(driver: Driver) -> None:
    variable = driver.variable(np.float32(1), "worker:0")
    alone = Replicas(driver, ["worker:0"])
    for _ in range(2):
        alone.step(lambda: variable.assign(variable.value * 3))
    assert float(variable.numpy()) == 9


def test_equal_copies_change_once_and_own_values_each_for_itself(driver: Driver) -> None:
    devices = PLACES[:3]
    replicas = Replicas(driver, devices)
    equal, own = driver.variable(np.float32(0), *devices), driver.one_each(np.float32(0), *devices)

    def step(x: Any) -> Any:
        tracer = active_tracer()
        assert tracer is not None
        tracer.reads_each_copy = True
        own.assign_add(x)
        equal.assign_add(exchanged("all_reduce", x)[0])
        return equal.value, own.value

    for number in (1, 2):
        found = replicas.step(step, [np.float32(1), np.float32(2), np.float32(4)])
        assert [(float(all_), float(one)) for all_, one in found] == [(7 * number, rank * number) for rank in (1, 2, 4)]
    assert float(equal.numpy()) == 14
    assert [float(driver.store.cell_value(own, cell)) for cell in own.placement.cells] == [2, 4, 8]


def test_versions_count_only_when_the_step_is_over(driver: Driver) -> None:
    """A replica sees what it has changed itself; what anybody else reads meanwhile is as before the step."""
    devices = PLACES[:2]
    replicas = Replicas(driver, devices)
    variable = driver.variable(np.float32(1), *devices)
    during = list[float]()

    class Iterator:
        """Looks at the variable in the middle of the step."""

        signature = iter(sd.Dataset.from_tensor_slices(np.float32([1])).batch(1)).peek().signature

        def __init__(self) -> None:
            self.own = iter(sd.Dataset.from_tensor_slices(np.float32([1, 1])).batch(1))

        def peek(self, device: int = 0) -> Any:
            return self.own.peek(device)

        def next_batch(self) -> Any:
            during.append(float(driver.engine.read([variable.placement.cells[0].group.number])[0][0]))
            return self.own.next_batch()

    def step(batches: Any) -> Any:
        variable.assign_add(np.float32(1))
        first = exchanged("all_reduce", variable.value)[0]
        return first + next(batches)[0]

    found = replicas.step(step, [Iterator(), Iterator()])
    assert [float(each) for each in found] == [5, 5]
    assert during == [1, 1]
    assert float(variable.numpy()) == 2


def test_a_replica_that_fails_ends_the_step_which_leaves_no_mark(engine: Engine, driver: Driver) -> None:
    devices = PLACES[1:3]
    replicas = Replicas(driver, devices)
    equal, own = driver.variable(np.float32(0), *devices), driver.one_each(np.float32(0), *devices)

    def step(x: Any) -> None:
        own.assign_add(np.float32(1))
        equal.assign_add(np.float32(1))
        sd.check_numerics(x, "what one of them has")
        equal.assign_add(exchanged("all_reduce", x)[0])

    with pytest.raises(InvalidArgumentError, match="what one of them has"):
        replicas.step(step, [np.float32(1), np.float32("inf")])
    assert float(equal.numpy()) == 0
    assert [float(driver.store.cell_value(own, cell)) for cell in own.placement.cells] == [0, 0]
    replicas.step(step, [np.float32(1), np.float32(2)])
    assert float(equal.numpy()) == 4


def test_replicas_that_come_with_other_shapes_are_both_named(driver: Driver) -> None:
    replicas = Replicas(driver, PLACES[1:3])
    variable = driver.variable(np.float32(0), *PLACES[1:3])

    def step(x: Any) -> None:
        variable.assign_add(np.float32(1))
        exchanged("all_reduce", x)

    with pytest.raises(InvalidArgumentError) as caught:
        replicas.step(step, [np.zeros(2, np.float32), np.zeros(3, np.float32)])
    assert all(word in str(caught.value) for word in (*PLACES[1:3], "float32[2]", "float32[3]"))
    assert float(variable.numpy()) == 0


def test_a_replica_that_never_comes_is_named(driver: Driver) -> None:
    with pytest.raises(SimdistError, match="worker:1"):
        Replicas(driver, PLACES[1:3]).step_of([lambda: exchanged("all_reduce", np.float32(1))[0], lambda: None])


def test_a_task_counts_a_step_of_several_replicas_once(engine: Engine, driver: Driver) -> None:
    before = [engine.steps_of(task) for task in ("worker:0", "worker:1")]
    Replicas(driver, PLACES[:3]).step(lambda own: exchanged("all_reduce", own)[0], [np.float32(1)] * 3)
    assert [engine.steps_of(task) - steps for task, steps in zip(("worker:0", "worker:1"), before, strict=True)] == [1, 1]


def test_random_keys_differ_by_replica_and_step(driver: Driver) -> None:
    replicas = Replicas(driver, PLACES[:3])
    found = [tuple(np.asarray(key).tolist()) for _ in range(2) for key in replicas.step(lambda: random_key(0))]
    assert len(set(found)) == 6


def test_a_step_that_needs_more_memory_than_a_device_has_is_refused(driver: Driver) -> None:
    require_finite_memory(driver.engine)
    large = driver.variable(np.zeros(int(MEMORY_BYTES / 4) - 100, np.float32), "worker:0")
    with pytest.raises(ResourceExhaustedError, match="worker:0"):
        Replicas(driver, ["worker:0"]).step(lambda: large.value * 2 + large.value.sum())


def test_launched_mains_meet_in_a_group_that_they_join(engine: Engine) -> None:
    tasks = ["worker:0", "worker:1"]
    members = [Member(rank, task, task, engine.process(task)) for rank, task in enumerate(tasks)]

    def main() -> list[float]:
        rank = tasks.index(os.environ["TASK_OF_MAIN"])
        driver = Driver(engine)
        group = engine.join_group(Communication(), members, tasks[rank])
        variable = driver.variable(np.float32(rank), tasks[rank])

        def step(x: Any) -> Any:
            variable.assign_add(exchanged("all_reduce", x)[0])
            return variable.value

        found = [
            run_in_group(driver, group, members, [members[rank]], [step], [(np.float32(10 * number + rank),)])[0] for number in range(2)
        ]
        return [float(value) for value in found]

    try:
        run = engine.launch(None, main, tasks, lambda task: {"TASK_OF_MAIN": task}, "never")
    except FailedPreconditionError:
        pytest.skip("this engine launches no mains, and says so")
    run.join()
    assert run.results == {"worker:0": [1, 22], "worker:1": [2, 23]}
    assert run.restarts == {"worker:0": 0, "worker:1": 0}
    assert "TASK_OF_MAIN" not in os.environ
