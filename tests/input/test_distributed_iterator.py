"""Replicas that take their parts of one pass at their own times, without a strategy: a layout is all that the input asks for."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.data import AutoShardPolicy, Dataset, Options
from simdist.input import DistributedDataset, DistributedIterator, InputContext, InputOptions, InputReplicationMode
from simdist.program.step_iterator import StepIterator
from tests.input.layouts import Clock, Layout


def iterator(dataset: Any, num_workers: int = 1, per_worker: int = 2) -> DistributedIterator:
    return iter(DistributedDataset(Layout(num_workers, per_worker), dataset))


def rows(part: Any) -> list[int]:
    return part.batch.value().tolist()


def test_replicas_take_their_parts_of_each_element_whenever_they_want():
    given = iterator(Dataset.range(6).batch(2))
    first, second = given.replica(0), given.replica(1)
    assert [rows(first.next_batch()) for _ in range(3)] == [[0], [2], [4]]
    assert [rows(second.next_batch()) for _ in range(3)] == [[1], [3], [5]]
    with pytest.raises(StopIteration):
        first.next_batch()


def test_position_moves_on_when_the_last_replica_has_taken_its_part():
    given = iterator(Dataset.range(6).batch(2))
    first, second = given.replica(0), given.replica(1)
    first.next_batch()
    first.next_batch()
    assert given.state_dict()["sources"][0]["consumed"] == 0
    second.next_batch()
    assert given.state_dict()["sources"][0]["consumed"] == 1
    second.next_batch()
    assert given.state_dict()["sources"][0]["consumed"] == 2


def test_restored_position_begins_with_the_element_that_not_all_had_taken():
    given = iterator(Dataset.range(6).batch(2))
    given.replica(0).next_batch()
    again = iterator(Dataset.range(6).batch(2))
    again.replica(0).next_batch()
    again.load_state_dict(given.state_dict())
    assert [rows(again.replica(0).next_batch()), rows(again.replica(1).next_batch())] == [[0], [1]]


def test_peeking_of_a_replica_takes_nothing_and_makes_each_element_once():
    made: list[int] = []

    def batches() -> Any:
        for i in range(3):
            made.append(i)
            yield [i, i + 10]

    given = iterator(Dataset.from_iterable(batches))
    replica: StepIterator = given.replica(1)
    assert [rows(replica.peek(i)) for i in (1, 0)] == [[11], [10]] and made == [0, 1]
    assert rows(given.replica(0).next_batch()) == [0] and made == [0, 1]
    assert given.has_next()


def test_next_is_answers_without_running_the_pipeline():
    made: list[int] = []
    given = iterator(Dataset.from_iterable(lambda: (made.append(i) or [i, i] for i in range(2))))
    signature = iterator(Dataset.range(4).batch(2)).replica(0).peek().signature
    assert not given.replica(0).next_is(signature) and made == []
    given.replica(1).peek()
    assert given.replica(0).next_is(signature)
    assert not given.replica(0).next_is((*signature[:2], 3))


def test_element_is_ready_for_all_replicas_of_a_worker_at_once():
    options = Options()
    options.seconds_per_element = 2.0
    dataset = DistributedDataset(Layout(2, 2, engine=Clock(10.0)), Dataset.range(8).batch(4).with_options(options))
    given = iter(dataset)
    # Worker 0 asks at 10 s, and its second replica later; worker 1 asks at 20 s, when its element has long been there.
    assert given.replica(0).ready_s(10.0) == given.replica(1).ready_s(11.0) == 12.0
    assert given.replica(2).ready_s(20.0) == 20.0


def timed(seconds: float, dataset: Dataset, policy: AutoShardPolicy = AutoShardPolicy.AUTO) -> Dataset:
    options = Options()
    options.seconds_per_element, options.auto_shard_policy = seconds, policy
    return dataset.with_options(options)


def waits(dataset: DistributedDataset, steps: int) -> list[list[float]]:
    """When each replica has its part of each step, where all ask for it as soon as all have had the one before."""
    given, now_s, found = iter(dataset), 0.0, list[list[float]]()
    for _ in range(steps):
        found.append([given.replica(index).ready_s(now_s) for index in range(len(dataset.strategy.ranks))])
        now_s = max(found[-1])
        for index in range(len(dataset.strategy.ranks)):
            given.replica(index).next_batch()
    return found


def test_next_waits_until_all_workers_have_the_element():
    layout = Layout(2, 1, engine=Clock(10.0))
    given, found = iter(DistributedDataset(layout, timed(2.0, Dataset.range(12).batch(4)))), list[float]()
    for _ in given:
        found.append(layout.engine.now)
        layout.engine.now += 1.0  # a step
    assert found == [12.0, 14.0, 16.0]


def test_pipelines_start_anew_where_an_iterator_goes_to_a_position():
    layout = Layout(engine=Clock(0.0))
    given = iter(DistributedDataset(layout, timed(2.0, Dataset.range(12).batch(4))))
    start = given.state_dict()
    for again_s in (2.0, 4.0):
        next(given)
        assert layout.engine.now == again_s
        given.load_state_dict(start)


@pytest.mark.parametrize(("policy", "found"), [("DATA", [[2, 2], [4, 4], [6, 6], [8, 8]]), ("OFF", [[2, 2], [2, 2], [4, 4], [4, 4]])])
def test_batch_that_a_worker_reads_for_itself_lasts_for_a_step_of_each_worker(policy: str, found: list[list[float]]):
    batches = timed(2.0, Dataset.range(16).batch(4), AutoShardPolicy[policy])
    assert waits(DistributedDataset(Layout(2, 1), batches), 4) == found


def test_short_batch_that_a_worker_reads_for_itself_lasts_for_fewer_steps():
    batches = timed(2.0, Dataset.range(5).batch(4).repeat(2), AutoShardPolicy.OFF)
    assert waits(DistributedDataset(Layout(2, 1), batches), 6) == [[moment] * 2 for moment in (2, 2, 4, 6, 6, 8)]


def test_worker_whose_data_have_ended_waits_for_nothing():
    def dataset_fn(context: InputContext) -> Dataset:
        return timed(5.0 - 4.0 * context.input_pipeline_id, Dataset.range(1 + context.input_pipeline_id).batch(1))

    assert waits(DistributedDataset(Layout(2, 1), dataset_fn), 2) == [[5, 1], [5, 5]]


def test_worker_whose_data_go_on_waits_for_them_where_those_of_another_have_ended():
    def dataset_fn(context: InputContext) -> Dataset:
        return timed(1.0 + 4.0 * context.input_pipeline_id, Dataset.range(1 + context.input_pipeline_id).batch(1))

    assert waits(DistributedDataset(Layout(2, 1), dataset_fn), 2) == [[1, 5], [5, 10]]


def test_replica_that_takes_several_elements_at_once_takes_them_for_the_others_of_its_worker():
    layout = Layout(1, 2, engine=Clock(0.0))
    given = iter(DistributedDataset(layout, timed(1.0, Dataset.range(40).batch(2)).prefetch(8)))

    def taken(replica: int) -> list[float]:
        found = list[float]()
        for _ in range(6):
            found.append(given.replica(replica).ready_s(100.0))
            given.replica(replica).next_batch()
        return found

    assert [taken(replica) for replica in (0, 1, 0, 1)] == [[100.0] * 6] * 2 + [[100.0, 100.0, 101.0, 102.0, 103.0, 104.0]] * 2


def test_pipelines_of_a_function_have_a_pace_each():
    def dataset_fn(context: InputContext) -> Dataset:
        return timed(1.0 + context.input_pipeline_id, Dataset.range(8).batch(1))

    # Two elements a step, one for each replica: worker 0 works for 2 s on them, worker 1 for 4 s.
    assert waits(DistributedDataset(Layout(2, 2), dataset_fn), 2) == [[2, 2, 4, 4], [4, 4, 8, 8]]
    per_replica = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)
    assert waits(DistributedDataset(Layout(1, 2), dataset_fn, per_replica), 2) == [[2, 2], [4, 4]]


def test_pass_that_begins_again_is_shared_among_the_replicas_that_are_left():
    layout = Layout(1, 2)
    given = iter(DistributedDataset(layout, Dataset.range(8).batch(4)))
    for index in (0, 1):
        given.replica(index).next_batch()
    position = given.state_dict()
    layout.per_worker = 1
    given.restart(position)
    assert rows(given.replica(0).next_batch()) == [4, 5, 6, 7]
    assert not given.has_next()


def test_program_of_one_worker_feeds_its_own_replicas():
    given = iter(DistributedDataset(Layout(2, 1, worker_index=1, launched=True), Dataset.range(4).batch(2)))
    part = given.replica(0).next_batch()
    assert rows(part) == [1] and part.global_rows == 2
    with pytest.raises(IndexError):
        given.replica(1)


def test_iterator_itself_has_no_next_batch():
    with pytest.raises(TypeError, match="replica by replica"):
        iterator(Dataset.range(4).batch(2)).next_batch()


def test_sample_to_build_a_model_with_is_a_part_that_has_rows():
    given = iterator(Dataset.range(1).batch(1), per_worker=3)
    assert given.sample().num_rows == 1
    assert [given.replica(index).peek().num_rows for index in range(3)] == [1, 0, 0]


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("policy", ["DATA", "OFF"])
def test_a_loop_goes_on_behind_a_batch_that_raises(policy: str, pure: bool) -> None:
    def fn(x: Any) -> Any:
        if int(x) == 5:
            raise ValueError("no 5")
        return x

    options = Options()
    options.auto_shard_policy = AutoShardPolicy[policy]
    given = iterator(Dataset.range(8).map(fn, pure=pure).batch(2).with_options(options), num_workers=2, per_worker=1)
    seen, errors = list[int](), 0
    for _ in range(20):
        try:
            seen += [int(row) for part in next(given).values for row in part]
        except ValueError as error:
            assert str(error) == "no 5"
            errors += 1
        except StopIteration:
            break
    each = 1 if policy == "DATA" else 2  # worker sees all rows
    assert sorted(seen) == sorted([0, 1, 2, 3, 6, 7] * each) and errors == each
