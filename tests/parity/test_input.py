"""Cases of tf.distribute's input: how batches reach replicas and workers, and the auto-shard policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdist.data import AutoShardPolicy, Dataset, Options
from simdist.errors import InvalidArgumentError, NotFoundError
from simdist.input import (
    DistributedInput,
    FunctionInput,
    InputContext,
    InputOptions,
    InputReplicationMode,
    applied_policy,
    shard_for_worker,
)

OFF, AUTO, FILE, DATA = (AutoShardPolicy[name] for name in ("OFF", "AUTO", "FILE", "DATA"))
PER_REPLICA = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def one_worker(given: Any) -> list[list[list[int]]]:
    """The parts of each replica, step by step, of an input for one worker."""
    return [[part.value().tolist() for part in step.parts[0]] for step in given]


def of_worker(given: Any, worker: int) -> list[list[int]]:
    """The parts of one worker's replicas, one after another, as the global view and its own view agree."""
    found = [part.value().tolist() for step in given for part in step.parts[worker]]
    assert found == [part for step in one_worker(given.worker_pipeline(worker)) for part in step]
    return found


def sizes(given: DistributedInput) -> list[list[int]]:
    return [[size for own in step.sizes or () for size in own] for step in given]


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """Four files A to D of two lines each."""
    for name in "ABCD":
        (tmp_path / name).write_text(f"{name}0\n{name}1\n", encoding="utf-8")
    return tmp_path


def test_b105_batch_is_split_in_half_between_two_replicas():
    assert one_worker(DistributedInput(Dataset.range(8).batch(4), 1, 2)) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


@pytest.mark.parametrize(
    ("rows", "batch_size", "replicas", "expected"),
    [
        (5, 5, 2, [[[0, 1, 2], [3, 4]]]),
        (5, 5, 3, [[[0, 1], [2, 3], [4]]]),
        (14, 8, 3, [[[0, 1, 2], [3, 4, 5], [6, 7]], [[8, 9], [10, 11], [12, 13]]]),
        (2, 1, 2, [[[0], []], [[1], []]]),
    ],
)
def test_b107_uneven_batches_are_shared_as_equally_as_can_be(rows: int, batch_size: int, replicas: int, expected: Any):
    assert one_worker(DistributedInput(Dataset.range(rows).batch(batch_size), 1, replicas)) == expected


@pytest.mark.parametrize(
    ("batch_size", "replicas", "expected"),
    [(4, 3, [2, 2, 0]), (9, 4, [3, 3, 3, 0]), (10, 4, [3, 3, 3, 1]), (5, 4, [2, 2, 1, 0])],
)
def test_b108_legacy_split_rounds_up_where_the_batch_size_is_not_static(batch_size: int, replicas: int, expected: Any):
    unknown = Dataset.range(batch_size).batch(batch_size).map(lambda x: x)
    assert sizes(DistributedInput(unknown, 1, replicas, legacy_split=True)) == [expected]


def test_b108_legacy_split_leaves_static_batch_sizes_alone():
    assert sizes(DistributedInput(Dataset.range(4).batch(4), 1, 3, legacy_split=True)) == [[2, 1, 1]]


@pytest.mark.parametrize(("batch_size", "expected"), [(4, [2, 1, 1]), (9, [3, 3, 3]), (10, [4, 3, 3]), (5, [2, 2, 1])])
def test_c40_batch_size_is_tracked_at_run_time(batch_size: int, expected: Any):
    unknown = Dataset.range(batch_size).batch(batch_size).map(lambda x: x)
    assert unknown.static_batch_size is None
    assert sizes(DistributedInput(unknown, 1, 3)) == [expected]


def test_b109_both_partial_batches_of_a_repeat_stay():
    rows = Dataset.range(5)
    assert one_worker(DistributedInput(rows.batch(4).repeat(2), 1, 2)) == [[[0, 1], [2, 3]], [[4], []], [[0, 1], [2, 3]], [[4], []]]
    assert one_worker(DistributedInput(rows.repeat(2).batch(4), 1, 2)) == [[[0, 1], [2, 3]], [[4, 0], [1, 2]], [[3], [4]]]
    assert one_worker(DistributedInput(rows.batch(4).repeat(2), 1, 2, OFF)) == [[[0, 1], [2, 3]], [[4], []], [[0, 1], [2, 3]], [[4], []]]


def test_b109_map_filter_and_padded_batch_work_after_or_as_batch():
    batches = Dataset.range(5).batch(2)
    assert one_worker(DistributedInput(batches.map(lambda b: b * 10), 1, 2)) == [[[0], [10]], [[20], [30]], [[40], []]]
    assert one_worker(DistributedInput(batches.filter(lambda b: len(b) == 2), 1, 2)) == [[[0], [1]], [[2], [3]]]
    ragged = Dataset.range(1, 4).map(lambda n: np.full(n, n))
    assert one_worker(DistributedInput(ragged.padded_batch(3), 1, 2)) == [[[[1, 0, 0], [2, 2, 0]], [[3, 3, 3]]]]


def test_b109_unbatched_scalars_are_refused():
    with pytest.raises(InvalidArgumentError, match="batched dataset"):
        next(iter(DistributedInput(Dataset.range(4), 1, 2)))


@pytest.mark.parametrize(
    ("batch_size", "workers", "replicas", "expected"),
    [
        (5, 1, 3, [[[2, 2, 1]]]),
        (4, 3, 1, [[[2], [1], [1]], [[1], [1], [2]], [[1], [2], [1]]]),
        (1, 2, 1, [[[1], [0]], [[0], [1]]]),
        (10, 4, 1, [[[3], [3], [2], [2]], [[3], [2], [2], [3]], [[2], [2], [3], [3]], [[2], [3], [3], [2]]]),
    ],
)
def test_b111_workers_with_data_of_their_own_run_through_the_sizes(batch_size: int, workers: int, replicas: int, expected: Any):
    given = DistributedInput(Dataset.range(batch_size).batch(batch_size).repeat(2), workers, replicas, OFF)
    for worker in range(workers):
        found = [[part.num_rows for part in step.parts[0]] for step in given.worker_pipeline(worker)]
        rounds = expected[worker] * 2
        assert found == rounds[: len(found)] and not any(map(any, rounds[len(found) :]))
    assert all(step.num_rows == batch_size for step in given)


def test_b112_static_batch_size():
    rows = Dataset.range(12)
    assert rows.batch(4).static_batch_size == 4
    assert rows.batch(4).map(lambda b: b).static_batch_size is None
    assert rows.batch(2).batch(3).static_batch_size == 3
    assert rows.batch(4).concatenate(rows.batch(3)).static_batch_size is None
    assert rows.batch(4).concatenate(rows.batch(4)).static_batch_size == 4
    assert rows.padded_batch(3).static_batch_size == 3
    assert Dataset.zip((rows.batch(4), rows.batch(4))).static_batch_size == 4


def test_b113_sizes_are_fixed_by_the_full_batch_where_a_worker_reads_for_itself(letters: Path):
    assert one_worker(DistributedInput(Dataset.range(10).batch(4), 1, 2, OFF))[-1] == [[8, 9], []]
    assert one_worker(DistributedInput(Dataset.range(11).batch(5), 1, 3, OFF))[-1] == [[10], [], []]
    lines = Dataset.from_files([letters / name for name in "ABC"]).batch(4)
    assert one_worker(DistributedInput(lines, 1, 2, FILE)) == [[["A0", "A1"], ["B0", "B1"]], [["C0", "C1"], []]]


def test_b114_datasets_from_a_function_are_not_split():
    seen: list[InputContext] = []

    def dataset_fn(context: InputContext) -> Dataset:
        seen.append(context)
        return Dataset.range(10).batch(2)

    given = FunctionInput(dataset_fn, num_workers=1, replicas_per_worker=2)
    assert one_worker(given) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], []]]
    assert seen == [InputContext(1, 0, 2)]


def test_b115_one_pipeline_per_replica():
    seen: list[InputContext] = []

    def dataset_fn(context: InputContext) -> Dataset:
        seen.append(context)
        return Dataset.range(6).shard(context.num_input_pipelines, context.input_pipeline_id).batch(2)

    given = FunctionInput(dataset_fn, 1, 2, PER_REPLICA)
    assert one_worker(given) == [[[0, 2], [1, 3]], [[4], [5]]]
    assert seen == [InputContext(2, 0, 2), InputContext(2, 1, 2)]


def test_b115_one_dataset_has_no_pipeline_per_replica():
    with pytest.raises(NotImplementedError, match="PER_WORKER"):
        DistributedInput(Dataset.range(4).batch(2), 1, 2, input_options=PER_REPLICA)


def test_b117_first_axis_of_a_part_is_static_only_with_drop_remainder_and_equal_parts():
    def shape(dataset: Dataset, workers: int, replicas: int) -> Any:
        return DistributedInput(dataset, workers, replicas).element_spec.shape

    rows = Dataset.from_tensor_slices(np.ones((8, 3)))
    assert shape(rows.batch(4), 1, 2) == (None, 3)
    assert shape(rows.batch(4, drop_remainder=True), 1, 2) == (2, 3)
    assert shape(rows.batch(4, drop_remainder=True), 2, 2) == (1, 3)
    assert shape(rows.batch(4, drop_remainder=True), 1, 3) == (None, 3)


def test_b118_end_of_data_is_stop_iteration_after_the_partial_batch():
    iterator = iter(DistributedInput(Dataset.range(5).batch(4), 1, 2))
    next(iterator)
    assert [part.value().tolist() for part in next(iterator).parts[0]] == [[4], []]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)


@pytest.mark.parametrize("policy", [DATA, AUTO])
def test_b121_each_worker_gets_its_share_of_each_global_batch(policy: AutoShardPolicy):
    batches = Dataset.range(8).batch(4)
    given = DistributedInput(batches, 2, 1, policy)
    assert of_worker(given, 0) == [[0, 1], [4, 5]]
    assert of_worker(given, 1) == [[2, 3], [6, 7]]
    assert [plain(shard_for_worker(batches, 2, worker, policy)) for worker in (0, 1)] == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]


def test_b121_off_shows_everything_to_everybody():
    given = DistributedInput(Dataset.range(8).batch(4), 2, 1, OFF)
    assert of_worker(given, 0) == of_worker(given, 1) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_b121_file_without_files_is_an_error():
    with pytest.raises(NotFoundError, match="files"):
        DistributedInput(Dataset.range(8).batch(4), 2, 1, FILE)


def test_b123_two_workers_of_two_replicas():
    even = DistributedInput(Dataset.range(16).batch(8), 2, 2)
    assert of_worker(even, 0) == [[0, 1], [4, 5], [8, 9], [12, 13]]
    assert of_worker(even, 1) == [[2, 3], [6, 7], [10, 11], [14, 15]]
    uneven = DistributedInput(Dataset.range(14).batch(7), 2, 2)
    assert of_worker(uneven, 0) == [[0, 1], [4, 5], [7, 8], [11, 12]]
    assert of_worker(uneven, 1) == [[2, 3], [6], [9, 10], [13]]
    pieces = [plain(shard_for_worker(Dataset.range(14).batch(7), 2, worker, replicas_per_worker=2)) for worker in (0, 1)]
    assert pieces == [of_worker(uneven, 0), of_worker(uneven, 1)]


@pytest.mark.parametrize(("workers", "expected"), [(2, [[0, 2, 4, 6], [1, 3, 5]]), (3, [[0, 3, 6], [1, 4], [2, 5]])])
def test_b124_unbatched_elements_are_shared_by_position(workers: int, expected: Any):
    assert [plain(shard_for_worker(Dataset.range(7), workers, worker, DATA)) for worker in range(workers)] == expected
    generated = Dataset.from_iterable(lambda: iter(range(7)))
    assert [plain(shard_for_worker(generated, workers, worker, AUTO)) for worker in range(workers)] == expected


def test_b125_fewer_elements_than_workers_leave_empty_shards():
    assert [plain(shard_for_worker(Dataset.range(2), 4, worker, DATA)) for worker in range(4)] == [[0], [1], [], []]
    given = DistributedInput(Dataset.range(2).batch(4), 4)
    assert [of_worker(given, worker) for worker in range(4)] == [[[0]], [[1]], [[]], [[]]]


def test_b127_one_file_for_two_workers(letters: Path):
    lines = Dataset.from_files(letters / "A")
    with pytest.raises(InvalidArgumentError, match=r"1 file\(s\) for 2 workers"):
        shard_for_worker(lines, 2, 0, FILE)
    assert [plain(shard_for_worker(lines, 2, worker, DATA)) for worker in (0, 1)] == [["A0"], ["A1"]]


def test_c36_auto_with_too_few_files_falls_back_to_data_with_a_plain_warning(letters: Path):
    with pytest.warns(UserWarning, match=r"1 file\(s\) cannot be shared among 2 workers") as caught:
        given = DistributedInput(Dataset.from_files(letters / "A").batch(2), 2)
    assert len(caught) == 1
    assert of_worker(given, 0) == [["A0"]] and of_worker(given, 1) == [["A1"]]


def test_b128_files_are_shared_before_their_shuffle(letters: Path):
    names = Dataset.list_files(str(letters / "?"), seed=3)
    lines = Dataset.from_files(names)
    epochs = [[plain(dataset) for _ in range(6)] for dataset in (shard_for_worker(lines, 2, worker) for worker in (0, 1))]
    for own, expected in zip(epochs, ("AC", "BD"), strict=True):
        first, second = expected
        orders = [[f"{name}{line}" for name in order for line in (0, 1)] for order in (f"{first}{second}", f"{second}{first}")]
        assert all(epoch in orders for epoch in own) and all(order in own for order in orders)


def test_b128_both_parts_of_a_concatenation_are_shared(letters: Path):
    def lines(names: str) -> Dataset:
        return Dataset.from_files([letters / name for name in names])

    both = lines("AB").concatenate(lines("CD"))
    assert applied_policy(both, 2) is FILE
    assert [plain(shard_for_worker(both, 2, worker)) for worker in (0, 1)] == [["A0", "A1", "C0", "C1"], ["B0", "B1", "D0", "D1"]]


def test_b128_zip_and_generators_are_shared_by_data(letters: Path):
    lines = Dataset.from_files(str(letters / "?"))
    pairs = Dataset.zip((lines, Dataset.range(8)))
    assert applied_policy(pairs, 2) is applied_policy(Dataset.zip((lines, lines)), 2) is DATA
    found = [[int(number) for _, number in shard_for_worker(pairs, 2, worker)] for worker in (0, 1)]
    assert found == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert applied_policy(Dataset.from_iterable(lambda: iter([1])), 2) is DATA


@pytest.mark.parametrize("policy", [OFF, AUTO, FILE, DATA])
def test_b130_one_worker_reads_the_dataset_as_it_is(policy: AutoShardPolicy):
    dataset = Dataset.range(8).batch(4)
    assert shard_for_worker(dataset, 1, 0, policy) is dataset


def test_b131_auto_is_file_for_files_and_off_is_set_with_options(letters: Path):
    lines = Dataset.from_files(str(letters / "?"))
    assert applied_policy(lines, 2) is FILE
    assert [plain(shard_for_worker(lines, 2, worker))[::2] for worker in (0, 1)] == [["A0", "C0"], ["B0", "D0"]]
    options = Options()
    options.experimental_distribute.auto_shard_policy = OFF
    off = Dataset.range(8).batch(4).with_options(options)
    assert of_worker(DistributedInput(off, 2), 1) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert plain(shard_for_worker(off, 2, 1)) == plain(off)


def test_b182_function_on_a_worker_is_told_its_place():
    seen: list[InputContext] = []

    def dataset_fn(context: InputContext) -> Dataset:
        seen.append(context)
        batches = Dataset.range(14).batch(context.get_per_replica_batch_size(8))
        return batches.shard(context.num_input_pipelines, context.input_pipeline_id)

    given = FunctionInput(dataset_fn, num_workers=2)
    assert of_worker(given, 0) == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert of_worker(given, 1) == [[4, 5, 6, 7], [12, 13]]
    assert set(seen) == {InputContext(2, 0, 2), InputContext(2, 1, 2)}


def test_c39_distributed_iterators_are_saved_and_restored():
    def given() -> DistributedInput:
        return DistributedInput(Dataset.range(20).shuffle(20, seed=1).repeat(2).batch(6), 2, 2)

    iterator = iter(given())
    next(iterator), next(iterator)
    state = iterator.state_dict()
    rest = [[part.value().tolist() for own in step.parts for part in own] for step in iterator]
    restored = iter(given())
    restored.load_state_dict(state)
    assert [[part.value().tolist() for own in step.parts for part in own] for step in restored] == rest
