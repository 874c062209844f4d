"""Random pipelines against tf.data on Python lists (slow, short, written independently), and saved positions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.data import Dataset
from simdist.data.shuffling import permuted_epochs, shuffled
from simdist.data.streams import drained, from_rows


@dataclass(frozen=True)
class Step:
    name: str
    arguments: tuple[Any, ...]

    def on_dataset(self, dataset: Any) -> Any:
        return getattr(dataset, self.name)(*self.arguments)

    def on_list(self, items: list[Any]) -> list[Any]:
        return STEPS[self.name](items, *self.arguments)


def shard(items: list[Any], num_shards: int, index: int) -> list[Any]:
    return [item for position, item in enumerate(items) if position % num_shards == index]


def batch(items: list[Any], size: int, drop_remainder: bool) -> list[Any]:
    parts = [items[at : at + size] for at in range(0, len(items), size)]
    return [part for part in parts if len(part) == size or not drop_remainder]


STEPS: dict[str, Any] = {
    "take": lambda items, n: items if n < 0 else items[:n],
    "skip": lambda items, n: [] if n < 0 else items[n:],
    "shard": shard,
    "repeat": lambda items, n: items * n,
    "prefetch": lambda items, n: items,
    "cache": lambda items: items,
    "map": lambda items, fn: [fn(item) for item in items],
    "filter": lambda items, fn: [item for item in items if fn(item)],
}


def triple(x: Any) -> Any:
    return x * 3


def is_not_third(x: Any) -> Any:
    return x % 3 != 1


def step(name: str, *arguments: Any) -> Any:
    return st.builds(Step, st.just(name), st.tuples(*arguments))


row_steps = st.one_of(
    step("take", st.integers(-1, 12)),
    step("skip", st.integers(-1, 12)),
    st.integers(1, 4).flatmap(lambda n: step("shard", st.just(n), st.integers(0, n - 1))),
    step("repeat", st.integers(0, 3)),
    step("prefetch", st.integers(-1, 3)),
    step("cache"),
    step("map", st.just(triple)),
    step("filter", st.just(is_not_third)),
)
element_steps = row_steps.filter(lambda s: s.name != "filter")
sizes = st.integers(0, 20)

quick = examples(150)


def plain(dataset: Dataset) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def apply(dataset: Dataset, steps: list[Step]) -> Dataset:
    for one in steps:
        dataset = one.on_dataset(dataset)
    return dataset


def expected(items: list[Any], steps: list[Step]) -> list[Any]:
    for one in steps:
        items = one.on_list(items)
    return items


@quick
@given(sizes, st.lists(row_steps, max_size=5))
def test_rows_equal_the_reference_for_any_chain(size: int, steps: list[Step]):
    assert plain(apply(Dataset.range(size), steps)) == expected(list(range(size)), steps)


@quick
@given(sizes, st.lists(row_steps, max_size=4))
def test_iterable_equals_the_reference_for_any_chain(size: int, steps: list[Step]):
    assert plain(apply(Dataset.from_iterable(range(size)), steps)) == expected(list(range(size)), steps)


@quick
@given(sizes, st.lists(row_steps, max_size=3), st.integers(1, 7), st.booleans(), st.lists(element_steps, max_size=3))
def test_batches_equal_the_reference_for_any_chain(size: int, before: list[Step], width: int, drop: bool, after: list[Step]):
    after = [one for one in after if one.name != "map"]
    dataset = apply(apply(Dataset.range(size), before).batch(width, drop), after)
    batches = expected(batch(expected(list(range(size)), before), width, drop), after)
    assert plain(dataset) == batches
    assert plain(dataset.unbatch()) == [row for one in batches for row in one]


@quick
@given(sizes, st.lists(row_steps, max_size=4), st.integers(1, 5), st.booleans())
def test_cardinality_is_the_number_of_elements_where_it_is_known(size: int, steps: list[Step], width: int, drop: bool):
    dataset = apply(Dataset.range(size), steps).batch(width, drop)
    known = dataset.cardinality()
    assert known == -2 or known == len(plain(dataset))


@quick
@given(sizes, st.integers(1, 25), st.integers(0, 5))
def test_shuffle_keeps_the_elements_and_its_buffer_window(size: int, buffer_size: int, seed: int):
    order = plain(Dataset.range(size).shuffle(buffer_size, seed))
    assert sorted(order) == list(range(size))
    # Output k is chosen when exactly the first k + buffer_size inputs have been read.
    assert all(item < position + buffer_size for position, item in enumerate(order))


@quick
@given(sizes, st.integers(1, 25), st.integers(0, 3), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_shuffle_does_not_depend_on_how_much_is_asked_for(size: int, buffer_size: int, seed: int, limits: list[int]):
    def run(asked: list[int]) -> list[int]:
        pull, out, turn = shuffled(from_rows(np.arange(size, dtype=np.int32)), buffer_size, seed, 0), [], 0
        while len(chunk := pull(asked[turn % len(asked)])):
            out += chunk.tolist()
            turn += 1
        return out

    assert run(limits) == run([1]) == run([1000])


@quick
@given(st.integers(1, 20), st.integers(1, 12), st.integers(1, 3), st.integers(1, 6))
def test_shuffle_then_repeat_gives_every_epoch_whole(size: int, buffer_size: int, epochs: int, width: int):
    dataset = Dataset.range(size).shuffle(buffer_size, seed=0).repeat(epochs).batch(width)
    rows = [row for one in plain(dataset) for row in one]
    orders = [rows[at : at + size] for at in range(0, len(rows), size)]
    assert [sorted(order) for order in orders] == [list(range(size))] * epochs
    assert all(item < position + buffer_size for order in orders for position, item in enumerate(order))


def pipelines(size: int, seed: int) -> list[Dataset]:
    shuffled_rows = Dataset.range(size).shuffle(5, seed)
    return [
        shuffled_rows.repeat(3).shard(2, 1).batch(3),
        shuffled_rows.batch(2).shuffle(3, seed=1).repeat(2),
        Dataset.range(size).shuffle(size, seed).repeat(3).batch(2),
        shuffled_rows.cache().shuffle(size, seed=2).repeat(2),
        shuffled_rows.map(lambda x: x + 1, pure=False).batch(2),
        Dataset.zip((shuffled_rows, Dataset.range(size).shuffle(4, seed=7))).map(lambda a, b: a * 100 + b),
        Dataset.from_iterable(lambda: iter(range(size))).shuffle(4, seed).batch(3),
    ]


@quick
@given(st.integers(1, 15), st.integers(0, 3), st.integers(0, 6), st.integers(0, 8), st.integers(0, 2))
def test_restored_iterator_gives_what_the_saved_one_would_have_given(size: int, seed: int, which: int, consumed: int, passes: int):
    saved = pipelines(size, seed)[which]
    for _ in range(passes):
        list(saved)
    iterator = iter(saved)
    for _, _ in zip(range(consumed), iterator, strict=False):
        pass
    state = json.loads(json.dumps(iterator.state_dict()))
    rest = [np.asarray(element).tolist() for element in iterator]
    fresh = iter(pipelines(size, seed)[which])
    fresh.load_state_dict(state)
    assert [np.asarray(element).tolist() for element in fresh] == rest


def test_peeking_consumes_nothing():
    iterator = iter(Dataset.range(5).shuffle(5, seed=3).batch(2))
    ahead = [iterator.peek(i).value().tolist() for i in (2, 0, 1)]
    assert iterator.state_dict()["consumed"] == 0
    assert [element.tolist() for element in iterator] == [ahead[1], ahead[2], ahead[0]]


@quick
@given(st.integers(1, 9), st.integers(0, 3), st.integers(1, 4), st.integers(0, 3), st.integers(1, 7))
def test_epochs_made_in_blocks_are_those_made_one_by_one(size: int, seed: int, epochs: int, begun: int, limit: int):
    rows = np.arange(size, dtype=np.int32)[::-1] * 2
    one_by_one = [drained(shuffled(from_rows(rows), size, seed, begun + epoch)) for epoch in range(epochs)]
    pull, blocks = permuted_epochs(rows, seed, begun, epochs), []
    while len(chunk := pull(limit)):
        blocks += chunk.tolist()
    assert blocks == np.concatenate(one_by_one).tolist()


def test_endless_epochs_pass_from_block_to_block():
    pull = permuted_epochs(np.arange(10_000, dtype=np.int32), 0, 2, None)
    rows = np.concatenate([pull(4_096) for _ in range(12)])
    assert sorted(rows[:10_000]) == sorted(rows[10_000:20_000]) == list(range(10_000))
    assert rows[10_000:20_000].tolist() == drained(shuffled(from_rows(np.arange(10_000)), 10_000, 0, 3)).tolist()


def test_reading_ahead_does_not_change_what_the_next_iterator_gives():
    barely, far = (Dataset.range(6).shuffle(6, seed=1).repeat().batch(2) for _ in range(2))
    next(iter(barely))
    iter(far).peek(500)
    assert plain(barely.take(9)) == plain(far.take(9))


def test_each_iteration_reshuffles_like_repeat_does():
    again = Dataset.range(50).shuffle(50, seed=0)
    first, second = plain(again), plain(again)
    assert first != second
    assert plain(Dataset.range(50).shuffle(50, seed=0).repeat(2)) == first + second


def test_second_pass_of_a_repeat_begins_with_the_next_iteration():
    dataset = Dataset.range(20).shuffle(20, seed=0).repeat(2)
    first, second = plain(dataset), plain(dataset)
    assert second[:20] == first[20:] != first[:20]


def test_same_order_every_time_without_reshuffling():
    dataset = Dataset.range(50).shuffle(50, seed=0, reshuffle_each_iteration=False)
    assert plain(dataset.repeat(2)) == plain(dataset) * 2 != list(range(50)) * 2


def test_every_order_of_three_is_equally_likely():
    orders = Counter(tuple(plain(Dataset.range(3).shuffle(3, seed))) for seed in range(600))
    assert len(orders) == 6 and min(orders.values()) > 60
