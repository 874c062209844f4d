"""Positions: seeds that shuffles have drawn or were given, and iterators that have begun already when they go to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.data import Dataset
from simdist.data.positions import seeds_in
from simdist.errors import FailedPreconditionError, InvalidArgumentError

PIPELINES: list[Callable[[], Dataset]] = [
    lambda: Dataset.range(11),
    lambda: Dataset.range(11).shuffle(11, seed=1).batch(2),
    lambda: Dataset.range(5).shuffle(3, seed=1).repeat(3),
    lambda: Dataset.range(11).map(lambda x: x + 1, pure=False).shuffle(4, seed=2),
    lambda: Dataset.from_iterable(lambda: iter(range(11))),
]


def rest(iterator: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in iterator]


@given(st.integers(0, len(PIPELINES) - 1), st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_an_iterator_goes_to_a_position_wherever_it_stands(which: int, consumed: int, taken: int, peeked: int) -> None:
    saved, other = iter(PIPELINES[which]()), iter(PIPELINES[which]())
    for _ in range(consumed):
        next(saved)
    for _ in range(taken):
        next(other)
    for ahead in range(min(peeked, 5 - taken)):
        other.peek(ahead)
    state = saved.state_dict()
    other.load_state_dict(state)
    assert other.state_dict() == state and rest(other) == rest(saved)


def test_an_iterable_with_one_pass_goes_on_and_not_back() -> None:
    iterator = iter(Dataset.from_iterable(iter(range(9))))
    assert iterator.peek(1).value() == 1
    iterator.load_state_dict({"consumed": 4, "shuffles": []})
    assert next(iterator) == 4
    with pytest.raises(FailedPreconditionError, match="only once"):
        iterator.load_state_dict({"consumed": 2, "shuffles": []})


def test_a_shuffle_takes_over_the_seed_that_another_one_has_drawn() -> None:
    dataset = Dataset.range(9).shuffle(9)
    iterator = iter(dataset)
    next(iterator)
    state = {**iterator.state_dict(), "seeds": [12345]}  # as another process would have drawn it
    iterator.load_state_dict(state)
    expected = iter(Dataset.range(9).shuffle(9, seed=12345))
    next(expected)
    assert rest(iterator) == rest(expected)
    follower = iter(Dataset.range(9).shuffle(9, seed=12345))
    follower.load_state_dict(iterator.state_dict())
    assert iter(dataset).state_dict() == {"consumed": 0, "shuffles": [1], "seeds": [12345]}


@pytest.mark.parametrize("seeds", [None, 3, [], [1, 2], ["x"], [None]])
def test_seeds_that_are_none_are_refused_and_change_nothing(seeds: Any) -> None:
    iterator = iter(Dataset.range(9).shuffle(9))
    next(iterator)
    before = iterator.state_dict()
    with pytest.raises(InvalidArgumentError, match="not a saved position"):
        iterator.load_state_dict({"consumed": 5, "shuffles": [3], "seeds": seeds})
    assert iterator.state_dict() == before and len(rest(iterator)) == 8


def test_a_seed_that_was_given_is_not_replaced() -> None:
    iterator = iter(Dataset.range(9).shuffle(9, seed=1))
    with pytest.raises(InvalidArgumentError, match=r"shuffle\(seed=2\), and this one has seed=1"):
        iterator.load_state_dict({"consumed": 5, "shuffles": [0], "seeds": [2]})
    assert seeds_in({"consumed": 5, "shuffles": [0]}, [1], [False]) == [1], "a position of before seeds were saved"


# -- shuffles before a cache -------------------------------------------------------------------------------------------


def cached(seed: int | None = None) -> Dataset:
    return Dataset.range(9).shuffle(9, seed=seed).cache().shuffle(3, seed=1).repeat(2)


def test_the_seed_of_a_shuffle_before_a_cache_is_part_of_a_position() -> None:
    dataset = cached()
    iterator = iter(dataset)
    next(iterator)
    iterator.load_state_dict({**iterator.state_dict(), "cached_seeds": [12345]})  # as another process would have drawn it
    expected = iter(cached(seed=12345))
    next(expected)
    assert rest(iterator) == rest(expected)
    assert iterator.state_dict() == expected.state_dict() == {"consumed": 18, "shuffles": [0], "seeds": [1], "cached_seeds": [12345]}
    following = iter(cached(seed=12345))
    following.load_state_dict({"consumed": 0, "shuffles": [1], "seeds": [1]})
    assert rest(iter(dataset)) == rest(following), "later iterators follow"


def test_an_iterator_that_goes_elsewhere_leaves_open_ones_as_they_are() -> None:
    for make in (cached, lambda: Dataset.range(9).shuffle(4).repeat(2)):
        dataset = make()
        open_one, other = iter(dataset), iter(dataset)
        state = open_one.state_dict()
        expected = iter(dataset)
        expected.load_state_dict(state)
        found, wanted = [int(next(open_one))], [int(next(expected))]
        other.load_state_dict({**state, "seeds": [7] if make is not cached else [1], **({"cached_seeds": [7]} if make is cached else {})})
        next(other)
        assert found + rest(open_one) == wanted + rest(expected)
        assert {key: open_one.state_dict()[key] for key in state if "seeds" in key} == {key: state[key] for key in state if "seeds" in key}


def test_caches_of_caches_have_the_seeds_of_all_shuffles() -> None:
    dataset = Dataset.range(9).shuffle(9).cache().shuffle(9).cache().shuffle(9)
    state = iter(dataset).state_dict()
    assert (len(state["seeds"]), len(state["cached_seeds"])) == (1, 2)
    twin = Dataset.range(9).shuffle(9).cache().shuffle(9).cache().shuffle(9)
    iterator = iter(twin)
    iterator.load_state_dict({**state, "cached_seeds": [3, 4], "seeds": [5]})
    assert rest(iterator) == rest(iter(Dataset.range(9).shuffle(9, seed=3).cache().shuffle(9, seed=4).cache().shuffle(9, seed=5)))


def test_a_given_seed_before_a_cache_is_not_replaced() -> None:
    with pytest.raises(InvalidArgumentError, match=r"shuffle\(seed=2\), and this one has seed=1"):
        iter(cached(seed=1)).load_state_dict({"consumed": 5, "shuffles": [0], "seeds": [1], "cached_seeds": [2]})


# -- orders that are fixed by a seed that was drawn ---------------------------------------------------------------------


def zipped(seed: int | None = None) -> Dataset:
    rows = Dataset.range(9)
    return Dataset.zip((rows.shuffle(9, seed=seed, reshuffle_each_iteration=False), rows)).map(lambda a, b: a + 0 * b)


def chained(seed: int | None = None) -> Dataset:
    return Dataset.range(9).shuffle(9, seed=seed, reshuffle_each_iteration=False).concatenate(Dataset.range(9, 12)).map(lambda x: x)


def zipped_cache(seed: int | None = None) -> Dataset:
    rows = Dataset.range(9)
    return Dataset.zip((rows.shuffle(9, seed=seed, reshuffle_each_iteration=False).cache(), rows)).map(lambda a, b: a + 0 * b)


@pytest.mark.parametrize("make", [zipped, chained, zipped_cache])
def test_joined_data_follow_a_seed_that_changes_after_they_were_looked_at(make: Callable[..., Dataset]) -> None:
    dataset = make()
    iterator = iter(dataset)
    next(iterator)
    state = iterator.state_dict()
    kind = "cached_seeds" if make is zipped_cache else "seeds"
    iterator.load_state_dict({**state, kind: [12345]})  # as another process would have drawn it
    expected = iter(make(seed=12345))
    next(expected)
    assert rest(iterator) == rest(expected)
    assert rest(iter(dataset)) == rest(iter(make(seed=12345))), "later iterators follow"
