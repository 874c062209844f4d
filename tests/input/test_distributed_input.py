"""Distributed input against plain lists: no row lost or doubled, views that agree, positions that continue."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.data import ArraySpec, AutoShardPolicy, Dataset
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.input import DistributedInput, InputIterator, InputStep, worker_batch_sizes

OFF, FILE, DATA, HINT = (AutoShardPolicy[name] for name in ("OFF", "FILE", "DATA", "HINT"))
quick = examples(100)
lengths, widths, workers, replicas = st.integers(0, 25), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3)


def rows(step: InputStep) -> list[list[list[int]]]:
    return [[part.value().tolist() for part in own] for own in step.parts]


def steps(given: Any) -> list[list[list[list[int]]]]:
    return [rows(step) for step in given]


def files(sizes: list[int]) -> Dataset:
    """File i holds the numbers 100 i, 100 i + 1, and so on."""
    return Dataset.from_files([str(i) for i in range(len(sizes))], lambda name: [100 * int(name) + k for k in range(sizes[int(name)])])


def cut(batches: list[list[int]], per_step: list[list[int]]) -> list[list[list[int]]]:
    """Parts of each step for one worker: `per_step[phase]` are its sizes; a batch boundary ends a step."""
    out: list[list[list[int]]] = []
    for batch in batches:
        rest = list(batch)
        while rest:
            own = per_step[len(out) % len(per_step)]
            out.append([[rest.pop(0) for _ in range(min(width, len(rest)))] for width in own])
    return out


def batches_of(kind: str, length: int, width: int) -> Dataset:
    source = Dataset.range(length)
    return {
        "rows": lambda: source,
        "shuffled": lambda: source.shuffle(7, seed=1),
        "mapped": lambda: source.map(lambda x: x * 3),
        "iterable": lambda: Dataset.from_iterable(list(range(length))),
    }[kind]().batch(width)


@quick
@given(lengths, widths, workers, replicas, st.sampled_from(["rows", "shuffled", "mapped", "iterable"]))
def test_data_parts_of_every_step_are_exactly_the_global_batch(length: int, width: int, num_workers: int, per_worker: int, kind: str):
    batches = [batch.tolist() for batch in batches_of(kind, length, width)]
    given = list(DistributedInput(batches_of(kind, length, width), num_workers, per_worker))
    assert len(given) == len(batches)
    for step, batch in zip(given, batches, strict=True):
        found = rows(step)
        in_order = [found[at % num_workers][at // num_workers] for at in range(num_workers * per_worker)]
        assert [row for part in in_order for row in part] == batch
        assert step.sizes == tuple(tuple(map(len, own)) for own in found) and step.num_rows == len(batch)
        assert sorted(map(len, in_order), reverse=True) == list(map(len, in_order)) and len(in_order[0]) - len(in_order[-1]) <= 1


@quick
@given(lengths, widths, workers, replicas, st.integers(1, 3))
def test_views_of_the_workers_agree_with_the_global_view_in_every_epoch(
    length: int, width: int, num_workers: int, per_worker: int, epochs: int
):
    given = DistributedInput(Dataset.range(length).shuffle(30, seed=5).batch(width), num_workers, per_worker)
    views = [given.worker_pipeline(worker) for worker in range(num_workers)]
    own = [[list(view) for _ in range(epochs)] for view in views]
    for epoch in range(epochs):
        whole = list(given)
        for worker in range(num_workers):
            assert steps(own[worker][epoch]) == [[step[worker]] for step in steps(whole)]
            assert [step.sizes for step in own[worker][epoch]] == [step.sizes for step in whole]


def test_epochs_differ_where_the_dataset_reshuffles():
    given = DistributedInput(Dataset.range(20).shuffle(20, seed=0).batch(4), 2)
    first, second = steps(given), steps(given)
    assert first != second
    again = Dataset.range(20).shuffle(20, seed=0).batch(4)
    assert [sorted(r for own in step for part in own for r in part) for step in first] == [sorted(batch.tolist()) for batch in again]


def test_a_second_input_of_the_same_dataset_goes_on_with_its_epochs():
    dataset = Dataset.range(20).shuffle(20, seed=0).batch(5)
    given = DistributedInput(dataset)
    epochs = [steps(given), steps(given)]
    fresh = Dataset.range(20).shuffle(20, seed=0).batch(5)
    expected = [[[[batch.tolist()]] for batch in fresh] for _ in range(3)]
    assert [*epochs, steps(DistributedInput(dataset))] == expected


def test_a_second_input_of_shuffled_files_goes_on_with_their_epochs():
    def dataset() -> Dataset:
        return files([1] * 12).shuffle(12, seed=0).batch(2)

    once, twice = dataset(), dataset()
    given = DistributedInput(once, 2, policy=FILE)
    epochs = [steps(given), steps(given)]
    assert epochs == [steps(DistributedInput(twice, 2, policy=FILE)), steps(DistributedInput(twice, 2, policy=FILE))]
    assert epochs[0] != epochs[1]


def test_a_view_that_is_made_late_begins_with_the_first_epoch():
    given = DistributedInput(Dataset.range(20).shuffle(20, seed=0).batch(4), 2)
    epochs = [steps(given), steps(given)]
    view = given.worker_pipeline(0)
    assert [steps(view), steps(view)] == [[[step[0]] for step in epoch] for epoch in epochs]


@quick
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), widths, workers, replicas, st.booleans())
def test_own_sources_are_cut_into_the_sizes_of_their_round(sizes: list[int], width: int, num_workers: int, per_worker: int, off: bool):
    if off:
        given = DistributedInput(files(sizes).batch(width), num_workers, per_worker, OFF)
    elif len(sizes) < num_workers:
        return
    else:
        given = DistributedInput(files(sizes).batch(width), num_workers, per_worker, FILE)
    expected = []
    for worker in range(num_workers):
        own = [100 * i + k for i in range(len(sizes)) if off or i % num_workers == worker for k in range(sizes[i])]
        flat = worker_batch_sizes(width, num_workers, per_worker, worker)
        phases = [list(flat[at : at + per_worker]) for at in range(0, len(flat), per_worker)]
        batches = [own[at : at + width] for at in range(0, len(own), width)]
        expected.append(cut(batches, phases))
    for worker in range(num_workers):
        assert [step[0] for step in steps(given.worker_pipeline(worker))] == expected[worker]
    longest = max(map(len, expected))
    empty = [[] for _ in range(per_worker)]
    whole = [[own[at] if at < len(own) else empty for own in expected] for at in range(longest)]
    assert steps(given) == [step for step in whole if any(any(own) for own in step)]
    assert all(step.num_rows == sum(part.num_rows for own in step.parts for part in own) for step in given)
    assert num_workers == 1 or all(step.sizes is None for step in given.worker_pipeline(0))


def inputs(num_workers: int, per_worker: int, width: int) -> list[Any]:
    shuffled = Dataset.range(23).shuffle(9, seed=4)
    names = Dataset.from_tensor_slices(["0", "1", "2", "3", "4"]).shuffle(5, seed=1)
    read = Dataset.from_files(names, lambda name: [100 * int(name) + k for k in range(int(name) + 3)])
    return [
        DistributedInput(shuffled.batch(width).repeat(2), num_workers, per_worker),
        DistributedInput(shuffled.batch(width).map(lambda x: x + 1), num_workers, per_worker, OFF),
        DistributedInput(read.shuffle(4, seed=2).batch(width), num_workers, per_worker, FILE),
        DistributedInput(shuffled.batch(width), num_workers, per_worker).worker_pipeline(num_workers - 1),
        DistributedInput(read.batch(width), num_workers, per_worker, FILE).worker_pipeline(0),
    ]


@quick
@given(st.integers(0, 4), workers, replicas, widths, st.integers(0, 6), st.integers(0, 4))
def test_a_saved_position_continues_identically_and_so_do_later_epochs(
    which: int, num_workers: int, per_worker: int, width: int, consumed: int, looked_ahead: int
):
    given = inputs(num_workers, per_worker, width)[which]
    list(given)
    iterator = iter(given)
    for _ in range(consumed):
        next(iterator, None)
    with contextlib.suppress(StopIteration):
        iterator.peek(looked_ahead)
    state = json.loads(json.dumps(iterator.state_dict()))
    rest, epoch = steps(iterator), steps(given)
    fresh = inputs(num_workers, per_worker, width)[which]
    restored = iter(fresh)
    restored.load_state_dict(state)
    assert steps(restored) == rest
    assert steps(fresh) == epoch


def test_going_back_forgets_what_was_looked_at():
    iterator = iter(DistributedInput(Dataset.range(10).batch(4), 2))
    start = iterator.state_dict()
    next(iterator)
    iterator.peek(1)
    iterator.load_state_dict(start)
    assert [step.num_rows for step in iterator] == [4, 4, 2]


def test_a_worker_can_continue_from_the_position_of_the_global_view():
    def given() -> DistributedInput:
        return DistributedInput(Dataset.range(12).shuffle(12, seed=3).batch(4), 2)

    whole = iter(given())
    next(whole)
    state, rest = whole.state_dict(), steps(whole)
    own = iter(given().worker_pipeline(1))
    own.load_state_dict(state)
    assert steps(own) == [[step[1]] for step in rest]


def test_peeking_consumes_nothing():
    iterator = iter(DistributedInput(Dataset.range(10).batch(4), 2))
    ahead = [rows(iterator.peek(i)) for i in (2, 0, 1)]
    assert iterator.state_dict() == {"sources": [{"consumed": 0, "shuffles": []}]}
    assert steps(iterator) == [ahead[1], ahead[2], ahead[0]]
    with pytest.raises(StopIteration):
        iterator.peek()


def test_looking_ahead_calls_the_pipeline_once_per_element():
    calls: list[int] = []

    def numbers() -> Any:
        for i in range(4):
            calls.append(i)
            yield [i, i + 10]

    iterator = iter(DistributedInput(Dataset.from_iterable(numbers), 2))
    iterator.peek(1)
    assert calls == [0, 1]
    assert len(steps(iterator)) == 4 and calls == [0, 1, 2, 3]


class Loader:
    """Batches like those of a torch DataLoader: a list of arrays for each, the last one shorter."""

    def __init__(self, num_rows: int, batch_size: int) -> None:
        self.num_rows, self.batch_size = num_rows, batch_size

    def __len__(self) -> int:
        return -(-self.num_rows // self.batch_size)

    def __iter__(self) -> Any:
        for at in range(0, self.num_rows, self.batch_size):
            rows = np.arange(at, min(at + self.batch_size, self.num_rows), dtype=np.float32)
            yield [np.stack([rows, -rows], axis=1), rows.astype(np.int32)]


def test_a_loader_of_batches_is_an_input_and_can_be_passed_over_again():
    given = DistributedInput(Loader(7, 4), num_workers=2)
    for _ in range(2):
        labels = [[own[0].value()[1].tolist() for own in step.parts] for step in given]
        assert labels == [[[0, 1], [2, 3]], [[4, 5], [6]]]
    assert given.cardinality() == 2
    assert given.element_spec == (ArraySpec((None, 2), "float32"), ArraySpec((None,), "int32"))


def test_grain_like_dictionaries_keep_their_structure_in_every_part():
    given = DistributedInput([{"x": np.ones((3, 2)), "y": np.arange(3)}], replicas_per_worker=2)
    first, second = next(iter(given)).parts[0]
    assert first.value()["x"].shape == (2, 2) and second.value()["y"].tolist() == [2]


def test_a_generator_is_passed_over_once_under_data_and_cannot_be_read_by_every_worker():
    given = DistributedInput(([i, i] for i in range(3)), 2)
    assert steps(given) == [[[[i]], [[i]]] for i in range(3)]
    with pytest.raises(FailedPreconditionError, match="only once"):
        next(iter(DistributedInput(([i, i] for i in range(3)), 2, policy=OFF)))


def test_workers_that_end_early_get_empty_parts():
    given = DistributedInput(files([2, 6]).batch(2), 2, policy=FILE)
    assert steps(given) == [[[[0]], [[100]]], [[[1]], [[101]]], [[[]], [[102]]], [[[]], [[103]]], [[[]], [[104]]], [[[]], [[105]]]]
    assert [step.num_rows for step in given] == [2, 2, 1, 1, 1, 1]


def test_no_full_batch_is_lost_where_workers_end_early():
    given = DistributedInput(files([2, 6]).batch(2, drop_remainder=True), 2, policy=FILE)
    assert steps(given) == steps(DistributedInput(files([2, 6]).batch(2), 2, policy=FILE)), "all batches are full"
    assert len(steps(given)) == 6 and given.element_spec.shape == (None,)
    assert DistributedInput(files([2, 6]).batch(2, drop_remainder=True), 1, policy=FILE).element_spec.shape == (2,)
    shorter = DistributedInput(files([3, 6]).batch(2, drop_remainder=True), 2, policy=FILE)
    assert steps(shorter) == steps(given), "a batch that is not full has gone"


def rows_read(given: DistributedInput) -> list[int]:
    return sorted(row for step in steps(given) for own in step for part in own for row in part)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4), widths)
@quick
def test_each_worker_drops_the_remainder_of_its_own_files_and_under_data_the_dataset_one(sizes: list[int], width: int) -> None:
    """As tf.data does: the batches are made after the files were shared out."""
    rows_of_files, workers = [[100 * i + k for k in range(size)] for i, size in enumerate(sizes)], 2
    batched = files(sizes).batch(width, drop_remainder=True)
    of_workers = [[row for rows in rows_of_files[worker::workers] for row in rows] for worker in range(workers)]
    full = [row for own in of_workers for row in own[: len(own) // width * width]]
    assert rows_read(DistributedInput(batched, workers, policy=FILE)) == sorted(full)
    together = [row for rows in rows_of_files for row in rows]
    assert rows_read(DistributedInput(batched, workers, policy=DATA)) == together[: len(together) // width * width]


def test_an_empty_dataset_has_no_steps_for_anybody():
    given = DistributedInput(Dataset.range(0).batch(3), 3, 2)
    assert list(given) == [] and list(given.worker_pipeline(2)) == []


def test_batches_without_rows_are_no_steps():
    empty = [np.zeros((0, 2)), np.ones((2, 2)), np.zeros((0, 2))]
    assert [step.sizes for step in DistributedInput(empty, 2, policy=DATA)] == [((1,), (1,))]
    assert [step.sizes for step in DistributedInput(empty, 2, policy=OFF)] == [((1,), (1,))] * 2


def test_padded_batches_of_different_widths_are_cut_each_for_itself():
    ragged = Dataset.from_iterable([[1], [2, 2], [3], [4, 4, 4], [5]])
    given = DistributedInput(ragged.padded_batch(2), 2, policy=OFF)
    assert [step.parts[0][0].value().tolist() for step in given] == [[[1, 0]], [[2, 2]], [[3, 0, 0]], [[4, 4, 4]], [[5]]]


def test_parts_of_table_rows_stay_rows():
    dataset = Dataset.range(8).batch(4)
    step = next(iter(DistributedInput(dataset, 2, 2)))
    assert {id(part.table) for own in step.parts for part in own} == {id(dataset.table)}


def test_number_of_steps_is_known_under_data():
    dataset = Dataset.range(10).batch(4)
    assert DistributedInput(dataset, 2).cardinality() == 3
    assert DistributedInput(dataset.repeat(), 2, policy=OFF).cardinality() == -1
    assert DistributedInput(dataset, 2, policy=OFF).cardinality() == -2


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: next(iter(DistributedInput(Dataset.range(4), 2))), InvalidArgumentError, "batched dataset"),
        (lambda: next(iter(DistributedInput(Dataset.range(4), 2, policy=OFF))), InvalidArgumentError, "batched dataset"),
        (lambda: DistributedInput(Dataset.range(4), 2).element_spec, InvalidArgumentError, "batched dataset"),
        (lambda: DistributedInput(Dataset.range(4).batch(2), 0), InvalidArgumentError, "num_workers is 0"),
        (lambda: DistributedInput(Dataset.range(4).batch(2), 2).worker_pipeline(2), InvalidArgumentError, "worker index is 2 of 2"),
        (lambda: load(DistributedInput(Dataset.range(4).batch(2), 2), {}), InvalidArgumentError, "1 source"),
        (
            lambda: load(DistributedInput(Dataset.range(4).batch(2), 2, policy=OFF), {"sources": [{}] * 2}),
            InvalidArgumentError,
            "state_dict",
        ),
        (
            lambda: load(DistributedInput(Dataset.range(4).batch(2), 1, policy=OFF), {"step": 0, "sources": [{}]}),
            InvalidArgumentError,
            "cut batches",
        ),
    ],
)
def test_wrong_inputs_are_errors_that_say_what_to_do(make: Any, error: Any, says: str):
    with pytest.raises(error, match=says):
        make()


def load(given: DistributedInput, state: dict[str, Any]) -> InputIterator:
    iterator = iter(given)
    iterator.load_state_dict(state)
    return iterator


@pytest.mark.parametrize("policy", [OFF, DATA])
def test_elements_with_a_first_axis_are_shared_without_batch_as_those_of_an_iterable_are(policy: AutoShardPolicy):
    rows = np.arange(12).reshape(3, 4)
    by_rows, by_iterable = (
        steps(DistributedInput(d, 2, policy=policy)) for d in (Dataset.from_tensor_slices(rows), Dataset.from_iterable(list(rows)))
    )
    assert by_rows == by_iterable and len(by_rows) >= 3
