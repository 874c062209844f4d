"""Sharing a dataset among workers: which policy takes effect, where the shard is put, and that no element is lost."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.data import SHARD_HINT, AutoShardPolicy, Dataset, Options
from simdist.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from simdist.input import applied_policy, shard_for_worker
from simdist.input.sharding import rewritten

OFF, AUTO, FILE, DATA, HINT = (AutoShardPolicy[name] for name in ("OFF", "AUTO", "FILE", "DATA", "HINT"))
quick = examples(100)


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def shares(dataset: Dataset, num_workers: int, policy: AutoShardPolicy | None = None, **how: Any) -> list[list[Any]]:
    return [plain(shard_for_worker(dataset, num_workers, worker, policy, **how)) for worker in range(num_workers)]


def files(*sizes: int) -> Dataset:
    """File i holds the numbers 10 i, 10 i + 1, and so on."""
    return Dataset.from_files([str(i) for i in range(len(sizes))], lambda name: [10 * int(name) + k for k in range(sizes[int(name)])])


@quick
@given(st.integers(0, 30), st.integers(1, 9), st.integers(1, 5), st.integers(1, 3))
def test_data_policy_gives_every_row_to_exactly_one_worker(length: int, size: int, workers: int, replicas: int):
    found = shares(Dataset.range(length).batch(size), workers, DATA, replicas_per_worker=replicas)
    assert sorted(row for share in found for part in share for row in part) == list(range(length))
    if workers > 1:
        steps = -(-length // size)
        assert all(len(share) == steps * replicas for share in found)


@quick
@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(1, 4))
def test_file_policy_gives_every_file_to_exactly_one_worker(sizes: list[int], workers: int):
    if len(sizes) < workers:
        with pytest.raises(InvalidArgumentError, match=f"{len(sizes)} file.s. for {workers} workers"):
            shard_for_worker(files(*sizes), workers, 0, FILE)
        return
    found = shares(files(*sizes), workers, FILE)
    expected = [[10 * i + k for i in range(w, len(sizes), workers) for k in range(sizes[i])] for w in range(workers)]
    assert found == expected


def test_file_policy_reads_only_the_files_of_the_worker():
    read: list[str] = []
    dataset = Dataset.from_files(["a", "b", "c"], lambda name: read.append(name) or [1, 2])
    assert len(plain(shard_for_worker(dataset, 3, 1, FILE))) == 2 and read == ["b"]


def test_file_policy_keeps_the_steps_after_the_source():
    dataset = files(2, 3, 1).map(lambda x: x + 100).filter(lambda x: x != 110).repeat(2).skip(1).take(20).enumerate().prefetch(1)
    found = shares(dataset.map(lambda position, x: x), 2, FILE)
    assert found == [[101, 120, 100, 101, 120], [112, 111, 112]]


def test_shard_of_names_comes_after_a_choice_of_names_and_before_their_shuffle():
    names = Dataset.from_tensor_slices([str(i) for i in range(6)]).take(4).shuffle(6, seed=0).repeat(2)
    dataset = Dataset.from_files(names, lambda name: [int(name)])
    first, second = shares(dataset, 2, FILE)
    assert sorted(first) == [0, 0, 2, 2] and sorted(second) == [1, 1, 3, 3]
    assert {*first[:2]} == {*first[2:]} == {0, 2}


def test_names_of_files_are_themselves_shared_by_file(tmp_path: Any):
    for name in "abcd":
        (tmp_path / name).touch()
    names = Dataset.list_files(str(tmp_path / "*"), shuffle=False).map(lambda name: str(name)[-1])
    assert applied_policy(names, 2) is FILE
    assert shares(names, 2) == [["a", "c"], ["b", "d"]]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Dataset.range(8).batch(4), DATA),
        (Dataset.from_iterable(lambda: iter([1, 2])), DATA),
        (files(1, 1).batch(2), FILE),
        (files(1, 1).shuffle(3).concatenate(files(1, 1)), FILE),
        (files(1, 1).concatenate(Dataset.range(3)), DATA),
        (Dataset.zip((files(1, 1), files(1, 1))), DATA),
        (Dataset.sample_from_datasets([files(1, 1), files(1, 1)]), DATA),
        (files(1, 1).window(2, shift=1).flat_map(lambda window: window.batch(2)), FILE),
    ],
)
def test_auto_is_file_where_all_elements_come_from_files(dataset: Dataset, expected: AutoShardPolicy):
    assert applied_policy(dataset, 2) is expected


@pytest.mark.parametrize("policy", [AUTO, FILE])
def test_files_that_are_interleaved_are_shared_by_their_names(tmp_path: Any, policy: AutoShardPolicy):
    for name in "abcd":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    names = Dataset.list_files(str(tmp_path / "*"), shuffle=False)
    lines = names.interleave(Dataset.from_files, cycle_length=2)
    assert applied_policy(lines, 2, policy) is FILE
    assert shares(lines, 2, policy) == [["a1", "c1", "a2", "c2"], ["b1", "d1", "b2", "d2"]]


COUNTING: list[Any] = [
    lambda numbers: numbers.take(4),
    lambda numbers: numbers.skip(8),
    lambda numbers: numbers.shard(2, 1),
    lambda numbers: numbers.enumerate().map(lambda position, number: 100 * position + number),
    lambda numbers: numbers.map(lambda number: number + 1).repeat(2).take(7).map(lambda number: number - 1),
    lambda numbers: numbers.take(4).concatenate(numbers),
    lambda numbers: numbers.take_while(lambda number: number < 12),
    lambda numbers: numbers.scan(0, lambda total, number: (total + number, total)),
    lambda numbers: numbers.map(lambda number: number % 10).unique(),
]


@pytest.mark.parametrize("counting", COUNTING)
def test_auto_counts_the_elements_of_the_dataset_and_not_those_of_each_worker(counting: Any):
    dataset = counting(files(5, 5))
    assert applied_policy(dataset, 2) is DATA
    assert sorted(element for share in shares(dataset, 2) for element in share) == sorted(plain(dataset))


@pytest.mark.parametrize("counting", COUNTING)
def test_file_warns_of_steps_that_count_the_elements_of_each_worker(counting: Any):
    dataset = counting(files(5, 5))
    with pytest.warns(UserWarning, match=r"(take|skip|shard|enumerate|take_while|scan|unique)\b.* sees the elements of each worker alone"):
        assert applied_policy(dataset, 2, FILE) is FILE
    assert applied_policy(dataset, 1, FILE) is FILE  # one worker reads all


def test_counting_file_names_or_nothing_is_no_matter():
    names = Dataset.from_tensor_slices([str(i) for i in range(3)]).take(2)
    dataset = Dataset.from_files(names, lambda name: [int(name)])
    for unchanged in (dataset, files(5, 5).take(-1).skip(0).shard(1, 0)):
        assert applied_policy(unchanged, 2) is applied_policy(unchanged, 2, FILE) is FILE


def test_policy_in_the_options_counts_and_an_argument_wins():
    options = Options()
    options.auto_shard_policy = OFF
    dataset = Dataset.range(4).with_options(options).batch(2)
    assert applied_policy(dataset, 2) is OFF
    assert applied_policy(dataset, 2, DATA) is DATA
    assert shares(dataset, 2) == [[[0, 1], [2, 3]]] * 2


def test_shards_keep_the_options():
    options = Options()
    options.auto_shard_policy = DATA
    assert shard_for_worker(Dataset.range(4).with_options(options), 2, 0).options() == options


def test_auto_with_too_few_files_says_so_once_and_shares_the_batches():
    dataset = files(4).batch(2)
    with pytest.warns(UserWarning, match=r"1 file\(s\) cannot be shared among 2 workers"):
        assert applied_policy(dataset, 2) is DATA
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert plain(shard_for_worker(dataset, 2, 1)) == [[1], [3]]
    assert len(caught) == 1


def test_hint_shards_where_it_is_marked():
    dataset = Dataset.range(8).map(lambda x: x * 10).shard(SHARD_HINT, SHARD_HINT).batch(3)
    assert shares(dataset, 2, HINT) == [[[0, 20, 40], [60]], [[10, 30, 50], [70]]]
    assert shares(dataset, 1, HINT) == [[[0, 10, 20], [30, 40, 50], [60, 70]]]
    assert shares(Dataset.range(3).batch(2), 1, HINT) == [[[0, 1], [2]]]  # one worker needs no mark


def test_hint_that_was_not_replaced_is_an_error_when_iterated_and_no_obstacle_for_the_spec():
    dataset = Dataset.range(8).shard(SHARD_HINT, SHARD_HINT).batch(2)
    assert dataset.element_spec.shape == (None,)
    with pytest.raises(FailedPreconditionError, match=r"AutoShardPolicy\.HINT"):
        next(iter(dataset))


@pytest.mark.parametrize(("num_shards", "index"), [(SHARD_HINT, 0), (2, SHARD_HINT)])
def test_half_a_hint_is_refused(num_shards: int, index: int):
    with pytest.raises(InvalidArgumentError):
        Dataset.range(3).shard(num_shards, index)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: shard_for_worker(Dataset.range(3), 2, 0, FILE), NotFoundError, "does not read files"),
        (lambda: shard_for_worker(Dataset.zip((files(1, 1), Dataset.range(2))), 2, 0, FILE), NotFoundError, "does not read files"),
        (lambda: shard_for_worker(Dataset.range(3), 2, 0, HINT), NotFoundError, "marks no place"),
        (lambda: shard_for_worker(Dataset.range(3), 2, 2, DATA), InvalidArgumentError, "worker index is 2 of 2"),
    ],
)
def test_policies_that_cannot_be_followed_are_errors(make: Any, error: Any, says: str):
    with pytest.raises(error, match=says):
        make()


def test_every_step_can_be_put_over_another_source():
    rows = Dataset.range(12)
    pipelines = [
        rows.take(7).skip(1).shard(2, 1).repeat(2).prefetch(1).cache(),
        rows.shuffle(5, seed=3).map(lambda x: x * 2).filter(lambda x: x % 3 != 0).batch(2).unbatch(),
        Dataset.zip((rows, rows.batch(2))).map(lambda a, b: a + b.sum()),
        rows.padded_batch(5).concatenate(rows.batch(3)).enumerate().map(lambda i, x: i * x),
        shard_for_worker(rows.batch(5), 2, 1),
        rows.flat_map(Dataset.range)
        .interleave(lambda x: rows.take(int(x)), 3, 2)
        .window(3, shift=2)
        .flat_map(lambda window: window.batch(2)),
        rows.group_by_window(lambda x: x % 3, lambda _, group: group.batch(2), 3).rebatch(4).unbatch(),
        rows.scan(0, lambda total, x: (total + x, total)).take_while(lambda x: x < 50).map(lambda x: x % 4).unique().ignore_errors(),
        Dataset.sample_from_datasets([rows, rows], [1, 3], seed=2),
        Dataset.choose_from_datasets([rows, rows], rows.map(lambda x: x % 2)),
    ]
    for dataset in pipelines:
        source = Dataset.range(12).node
        copied = rewritten(dataset.node, lambda node, source=source: source if node is rows.node else None)
        assert copied is not dataset.node
        assert plain(Dataset(copied)) == plain(dataset) and copied.describe() == dataset.node.describe()


def test_shards_go_on_with_the_epochs_of_the_dataset():
    def dataset() -> Dataset:
        return files(*[1] * 20).shuffle(20, seed=0)

    first, second = (plain(shard_for_worker(used, 2, 0, FILE)) for used in (dataset(), passed_over(dataset())))
    shard = shard_for_worker(dataset(), 2, 0, FILE)
    assert [first, second] == [plain(shard), plain(shard)] and first != second


def passed_over(dataset: Dataset) -> Dataset:
    list(dataset)
    return dataset
