"""Single behaviours of Dataset: maps, filters, edges, errors, and what the engine receives."""

from __future__ import annotations

import gc
from queue import SimpleQueue
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from simdist.data import ArraySpec, AutoShardPolicy, Batch, Dataset, Options, Table
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.process_state import TaskContext, active_context


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


class Calls:
    """Counts its calls, in a queue of Python's, of which the pipeline does not know that it changes."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.queue = fn, SimpleQueue[int]()

    def __call__(self, x: Any) -> Any:
        self.queue.put(int(x))
        return self.fn(x)

    @property
    def seen(self) -> list[int]:
        return [self.queue.get() for _ in range(self.queue.qsize())]


def test_reduce_takes_all_elements_one_after_the_other_and_refuses_those_without_end() -> None:
    dataset = Dataset.range(5).map(lambda x: x + 1)
    assert int(dataset.reduce(1, lambda product, x: product * x)) == 120
    assert dataset.take(0).reduce("nothing", lambda state, _: state) == "nothing"
    assert dataset.batch(2).reduce([], lambda sizes, batch: [*sizes, len(batch)]) == [2, 2, 1]
    with pytest.raises(InvalidArgumentError, match=r"repeat.* has no end; .*\.take\(n\)"):
        dataset.repeat().reduce(0, lambda total, x: total + x)


def test_apply_is_a_part_of_a_chain_and_expects_a_dataset() -> None:
    assert [int(x) for x in Dataset.range(4).apply(lambda dataset: dataset.skip(1)).take(2).as_numpy_iterator()] == [1, 2]
    with pytest.raises(TypeError, match="returned list; expected a dataset"):
        Dataset.range(4).apply(list)  # type: ignore[arg-type]


def test_cache_writes_no_file() -> None:
    assert [int(x) for x in Dataset.range(2).cache("")] == [0, 1]
    with pytest.raises(InvalidArgumentError, match="in memory"):
        Dataset.range(2).cache("rows")


def test_pure_map_is_called_once_per_row_and_twice_on_the_probed_ones():
    double = Calls(lambda x: x * 2)
    dataset = Dataset.range(100).map(double).repeat(3)
    assert plain(dataset) == [2 * x for x in range(100)] * 3
    seen = double.seen
    assert sorted(set(seen)) == list(range(100)) and len(seen) == 108


def test_pure_map_of_a_few_elements_leaves_the_other_rows_alone():
    double = Calls(lambda x: x * 2)
    assert plain(Dataset.range(1000).map(double).take(3)) == [0, 2, 4]
    assert len(double.seen) < 20


def test_impure_map_is_called_at_every_visit():
    numbers = iter(range(1000))
    values = plain(Dataset.range(3).map(lambda x: next(numbers)).repeat(3))
    assert len(set(values)) == 9


def test_coin_flips_are_not_taken_for_pure():
    rng = np.random.default_rng(0)
    values = plain(Dataset.range(4).map(lambda x: int(rng.integers(2))).repeat(50))
    assert len({tuple(values[at : at + 4]) for at in range(0, 200, 4)}) > 1


def test_impure_map_reads_no_further_than_asked():
    seen: list[int] = []
    dataset = Dataset.range(10).map(lambda x: seen.append(int(x)) or x, pure=False)
    iterator = iter(dataset)
    next(iterator), next(iterator)
    assert seen == [0, 1]


def test_map_that_fails_on_a_row_raises_when_that_row_is_visited():
    def invert(x: Any) -> Any:
        if x == 3:
            raise ZeroDivisionError("three")
        return x

    iterator = iter(Dataset.range(6).map(invert).batch(2))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(ZeroDivisionError, match="three"):
        next(iterator)
    kept = Dataset.range(6).filter(lambda x: x != 3).map(invert).batch(5)
    batch = iter(kept).next_batch()
    assert batch.table.columns[0][batch.rows].tolist() == [0, 1, 2, 4, 5]


def test_filter_that_fails_on_a_row_raises_when_that_row_is_visited():
    def test(x: Any) -> bool:
        if x == 4:
            raise ZeroDivisionError
        return True

    iterator = iter(Dataset.range(6).filter(test).batch(2))
    assert [next(iterator).tolist(), next(iterator).tolist()] == [[0, 1], [2, 3]]
    with pytest.raises(ZeroDivisionError):
        next(iterator)


class Point(NamedTuple):
    x: Any
    y: Any


def test_functions_get_a_namedtuple_whole_and_not_its_parts():
    points = Dataset.from_tensor_slices(Point(np.arange(4), np.arange(4) + 10))
    for pure in (True, False):
        assert plain(points.map(lambda p, scale=2: p.x + scale * p.y, pure=pure)) == [20 + 3 * x for x in range(4)]
        assert [int(p.y) for p in points.filter(lambda p: p.x > 1, pure=pure)] == [12, 13]
    assert plain(points.batch(3).map(lambda p: p.x + p.y)) == [[10, 12, 14], [16]]
    assert plain(points.map(lambda p: (p.x, p.y)).map(lambda x, y: y - x)) == [10] * 4


def test_map_unpacks_tuples_and_keeps_dicts_whole():
    pair = Dataset.from_tensor_slices(([1, 2], [10, 20])).map(lambda a, b: {"sum": a + b})
    assert plain(pair.map(lambda d: d["sum"])) == [11, 22]


def test_chained_maps_of_words_become_numbers():
    words = np.array(["no", "yes", "maybe"], dtype=object)
    dataset = Dataset.from_tensor_slices({"w": words}).map(lambda d: str(d["w"])[::-1]).map(lambda w: len(str(w)))
    assert plain(dataset.batch(3)) == [[2, 3, 5]]


def test_rows_of_different_shapes_can_be_padded_by_a_second_map():
    ragged = Dataset.range(4).map(lambda n: np.ones(int(n)))
    assert plain(ragged.map(lambda r: np.pad(r, (0, 3 - len(r)))).batch(4))[0][1] == [1, 0, 0]
    with pytest.raises(InvalidArgumentError, match="different shapes"):
        list(ragged.batch(2))


@pytest.mark.parametrize("source", [Dataset.range(4), Dataset.from_iterable(range(4))])
def test_map_with_two_structures_is_refused(source: Dataset):
    with pytest.raises(InvalidArgumentError, match="before"):
        list(source.map(lambda x: x if x < 2 else (x, x)).batch(2))


def test_map_that_returns_nothing_asks_for_a_return():
    with pytest.raises(InvalidArgumentError, match="return"):
        list(Dataset.range(2).map(lambda x: None))


def test_filter_that_keeps_nothing_of_an_endless_dataset_ends():
    assert plain(Dataset.range(5).repeat().filter(lambda x: x > 9)) == []


def test_filter_that_returns_no_boolean_is_refused():
    with pytest.raises(InvalidArgumentError, match="one boolean"):
        list(Dataset.from_tensor_slices([[1, 2]]).filter(lambda x: x > 0))


def test_equal_arrays_are_one_table_and_different_ones_are_not():
    x = np.random.default_rng(0).random((50, 3))
    first, second = Dataset.from_tensor_slices(x).table, Dataset.from_tensor_slices(x.copy()).table
    assert first is second
    assert Dataset.from_tensor_slices(x + 1).table is not first
    assert Dataset.from_tensor_slices((x,)).table is not first  # other structure, same contents
    assert Dataset.from_tensor_slices((x,)).table.key == first.key


def test_table_nobody_uses_is_forgotten():
    dataset: Any = Dataset.from_tensor_slices(np.arange(7) + 12345)
    key = dataset.table.key
    assert any(known[0] == key for known in Table.shared)
    del dataset
    gc.collect()
    assert not any(known[0] == key for known in Table.shared)


def test_table_does_not_follow_the_users_array():
    x = np.zeros(3, np.float32)
    dataset = Dataset.from_tensor_slices(x)
    x[:] = 1
    assert plain(dataset) == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        dataset.table.columns[0][0] = 1


def test_elements_of_a_loader_that_reuses_its_buffer_stay_as_they_were():
    def loader() -> Any:
        buffer = np.zeros(2)
        for i in range(3):
            buffer[:] = i
            yield buffer

    iterator = iter(Dataset.from_iterable(loader))
    batches = [iterator.next_batch() for _ in range(3)]
    assert [b.leaves()[0][0] for b in batches] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "narrow", "wide"),
    [
        ("int64", "int32", "int64"),
        ("float64", "float32", "float64"),
        ("uint64", "uint32", "uint64"),
        ("bool", "bool", "bool"),
        ("uint8", "uint8", "uint8"),
        ("float16", "float16", "float16"),
    ],
)
def test_dtypes_are_those_of_jax_at_that_moment(given: str, narrow: str, wide: str):
    for on, name in ((False, narrow), (True, wide)):
        with jax.enable_x64(on):
            source = Dataset.from_tensor_slices(np.zeros(2, given))
            assert source.element_spec == ArraySpec((), name)
            assert source.map(lambda x, name=given: np.asarray(x, name)).element_spec.dtype == name


def test_strings_stay_for_maps_and_do_not_reach_the_engine():
    batch = iter(Dataset.from_tensor_slices(["a", "bcd"]).batch(2)).next_batch()
    assert batch.value().tolist() == ["a", "bcd"] and batch.nbytes == 24
    with pytest.raises(InvalidArgumentError, match="strings"):
        batch.require_numeric()


def test_batch_hands_out_row_numbers_and_splits_into_row_numbers():
    x = np.arange(20.0).reshape(10, 2)
    batch = iter(Dataset.from_tensor_slices((x, np.arange(10))).shard(2, 1).batch(5)).next_batch()
    assert batch.rows.dtype == np.int32 and batch.rows.tolist() == [1, 3, 5, 7, 9]
    assert batch.nbytes == 5 * 3 * 4 and batch.require_numeric() is batch
    parts = batch.split([3, 2, 0])
    assert [part.rows.tolist() for part in parts] == [[1, 3, 5], [7, 9], []]
    assert parts[2].leaves()[0].shape == (0, 2) and parts[1].leaves()[1].tolist() == [7, 9]


def test_signature_is_the_same_for_rows_and_for_arrays():
    x = np.arange(6.0)
    rows = iter(Dataset.from_tensor_slices({"x": x}).batch(4)).next_batch()
    arrays = Batch.from_value({"x": x[:4]})
    assert rows.signature == arrays.signature and hash(rows.signature) == hash(arrays.signature)
    assert rows.signature != iter(Dataset.from_tensor_slices((x,)).batch(4)).next_batch().signature


def test_split_that_does_not_add_up_is_refused():
    with pytest.raises(InvalidArgumentError, match="add up"):
        Batch.from_value(np.zeros(4)).split([1, 2])


@pytest.mark.parametrize("mixed", [["a", 1], [1.5, "a"], [b"a", True], ["a", b"a"], [["a", "b"], ["c", 2]], np.array(["a", 1], object)])
def test_text_among_other_things_is_refused_and_not_written_out(mixed: Any):
    for make in (lambda: Dataset.from_tensor_slices(mixed), lambda: plain(Dataset.range(2).map(lambda x: mixed))):
        with pytest.raises(InvalidArgumentError, match=r"holds text, b?'a', and .* expected one kind"):
            make()
    assert plain(Dataset.from_tensor_slices([np.str_("a"), "bc"])) == ["a", "bc"]


def test_list_is_an_array_and_loaders_lists_of_arrays_are_tuples():
    assert Dataset.from_tensors(([1.0], [1.0])).element_spec == (ArraySpec((1,), "float32"),) * 2
    (pair,) = list(Dataset.from_iterable([[np.zeros(2), np.ones(3)]]))
    assert isinstance(pair, tuple)


def test_iterator_is_passed_over_only_once_and_looking_costs_nothing():
    dataset = Dataset.from_iterable(iter([1, 2, 3]))
    assert dataset.element_spec == ArraySpec((), "int32")
    assert plain(dataset) == [1, 2, 3]
    with pytest.raises(FailedPreconditionError, match="only once"):
        list(dataset)


def test_cache_keeps_what_an_impure_function_said():
    rng = np.random.default_rng(0)
    dataset = Dataset.range(5).map(lambda x: rng.random()).cache()
    assert plain(dataset) == plain(dataset)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_cache_tries_an_element_that_could_not_be_made_again(size: int):
    """Later passes must not end before it, as if it were the end."""
    refusals = iter([True, True, False])

    def read(x: np.int32) -> np.int32:
        if x == 3 and next(refusals, False):
            raise OSError("a file is not there yet")
        return x

    dataset = Dataset.from_iterable(range(6)).map(read, pure=False).cache().batch(size)
    for _ in range(2):
        with pytest.raises(OSError, match="not there yet"):
            list(dataset)
    for _ in range(2):
        assert np.concatenate(list(dataset)).tolist() == [0, 1, 2, 3, 4, 5]


def test_zip_ends_with_the_shortest_and_enumerate_counts():
    endless = Dataset.range(3).repeat()
    zipped = Dataset.zip({"a": Dataset.range(5), "b": endless})
    assert [(int(e["a"]), int(e["b"])) for e in zipped] == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1)]
    assert len(zipped) == 5
    assert [(int(i), int(x)) for i, x in Dataset.range(4, 6).enumerate(7)] == [(7, 4), (8, 5)]


def test_shuffle_without_seed_draws_one_from_the_stream_of_its_task():
    fixed = plain(Dataset.range(30).shuffle(30))
    assert fixed == plain(Dataset.range(30).shuffle(30)) == plain(Dataset.range(30).shuffle(30, seed=0))
    drawn, outer = iter([5, 6]), active_context()
    task = TaskContext(seeds=lambda drawing: next(drawn))
    task.replace(outer)
    try:
        shuffled = [plain(Dataset.range(30).shuffle(30)) for _ in range(2)]
    finally:
        outer.replace(task)
    assert shuffled == [plain(Dataset.range(30).shuffle(30, seed=seed)) for seed in (5, 6)]
    assert fixed not in shuffled


def test_global_generators_are_left_alone():
    np_state = np.random.get_state()[1].tolist()  # noqa: NPY002
    list(Dataset.range(30).shuffle(10).repeat(2).batch(4))
    assert np.random.get_state()[1].tolist() == np_state  # noqa: NPY002


def test_options_travel_and_later_ones_win():
    off, data = Options(), Options()
    off.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    data.auto_shard_policy = AutoShardPolicy.DATA
    dataset = Dataset.range(3).with_options(off).batch(2)
    assert dataset.options().auto_shard_policy is AutoShardPolicy.OFF
    assert dataset.with_options(Options()).options().auto_shard_policy is AutoShardPolicy.OFF
    assert dataset.with_options(data).map(lambda x: x).options().auto_shard_policy is AutoShardPolicy.DATA
    with pytest.raises(AttributeError, match="auto_shard_policy"):
        off.auto_shard_polciy = AutoShardPolicy.OFF  # pyright: ignore[reportAttributeAccessIssue]


bad_calls = {
    "sizes differ": (lambda: Dataset.from_tensor_slices(([1, 2], [1, 2, 3])), InvalidArgumentError, r"\[2, 3\] rows"),
    "scalar": (lambda: Dataset.from_tensor_slices(3), InvalidArgumentError, "scalar"),
    "empty tuple": (lambda: Dataset.from_tensor_slices(()), InvalidArgumentError, "no components"),
    "objects": (lambda: Dataset.from_tensors(object()), InvalidArgumentError, "object"),
    "ragged": (lambda: Dataset.from_tensors([[1], [1, 2]]), InvalidArgumentError, "equal shape"),
    "batch 0": (lambda: Dataset.range(3).batch(0), InvalidArgumentError, "batch_size is 0"),
    "batch 2.5": (lambda: Dataset.range(3).batch(2.5), TypeError, "integer"),
    "take": (lambda: Dataset.range(3).take(-2), InvalidArgumentError, "count is -2"),
    "skip": (lambda: Dataset.range(3).skip(-2), InvalidArgumentError, "count is -2"),
    "repeat": (lambda: Dataset.range(3).repeat(-2), InvalidArgumentError, "count is -2"),
    "shuffle": (lambda: Dataset.range(3).shuffle(0), InvalidArgumentError, "buffer_size is 0"),
    "map": (lambda: Dataset.range(3).map(3), TypeError, "function"),
    "iterable": (lambda: Dataset.from_iterable(3), TypeError, "iterable"),
    "zip": (lambda: Dataset.zip((Dataset.range(3), 3)), TypeError, "datasets"),
    "range": (lambda: Dataset.range(0, 3, 0), InvalidArgumentError, "step"),
    "options": (lambda: Dataset.range(3).with_options(None), TypeError, "Options"),
    "unbatch": (lambda: list(Dataset.range(3).unbatch()), InvalidArgumentError, "first axis"),
    "len": (lambda: len(Dataset.range(3).repeat()), TypeError, "no end"),
    "state": (lambda: iter(Dataset.range(3)).load_state_dict({}), InvalidArgumentError, "state_dict"),
    "other state": (
        lambda: iter(Dataset.range(3)).load_state_dict({"consumed": 4, "shuffles": []}),
        InvalidArgumentError,
        "only 3",
    ),
}


@pytest.mark.parametrize("name", bad_calls)
def test_bad_input_is_refused_with_a_hint(name: str):
    call, error, match = bad_calls[name]
    with pytest.raises(error, match=match):
        call()


def test_iterator_stays_at_its_end():
    iterator = iter(Dataset.range(1).shuffle(2))
    next(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            iterator.next_batch()


def test_dataset_is_true_and_shows_its_steps():
    dataset = Dataset.range(3).repeat()
    assert dataset and repr(dataset.batch(2)) == "Dataset.range(3).repeat().batch(2)"
