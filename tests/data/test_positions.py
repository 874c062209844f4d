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


# -- elements that raise ------------------------------------------------------------------------------------------------


def fails_at(*numbers: int, times: int | None = None) -> Callable[[Any], Any]:
    """A function that raises for some numbers, so many times each, or always, and returns ten times the others."""
    counts = dict.fromkeys(numbers, 0)

    def fn(x: Any) -> Any:
        number = int(x)
        if number in counts and (times is None or counts[number] < times):
            counts[number] += 1
            raise ValueError(f"no {number}")
        return 10 * x

    return fn


def gone_on(iterator: Any, most: int = 30) -> list[Any]:
    """What a loop sees that catches errors and asks again; an error is its text."""
    seen: list[Any] = []
    for _ in range(most):
        try:
            seen.append(np.asarray(next(iterator)).tolist())
        except StopIteration:
            return seen
        except ValueError as error:
            seen.append(str(error))
    return seen


RAISING: dict[str, tuple[Callable[[], Dataset], list[Any]]] = {
    "rows": (lambda: Dataset.range(5).map(fails_at(2)), [0, 10, "no 2", 30, 40]),
    "calls": (lambda: Dataset.range(5).map(fails_at(2), pure=False), [0, 10, "no 2", 30, 40]),
    "iterable": (lambda: Dataset.from_iterable(lambda: iter(range(5))).map(fails_at(0, 3)), ["no 0", 10, 20, "no 3", 40]),
    "filter of rows": (lambda: Dataset.range(5).filter(lambda x: fails_at(2)(x) < 40), [0, 1, "no 2", 3]),
    "filter of calls": (lambda: Dataset.range(5).filter(lambda x: fails_at(2)(x) < 40, pure=False), [0, 1, "no 2", 3]),
    "batches of calls": (lambda: Dataset.range(6).map(fails_at(3), pure=False).batch(2), [[0, 10], "no 3", [40, 50]]),
    "repeat": (lambda: Dataset.range(3).map(fails_at(1)).repeat(2), [0, "no 1", 20, 0, "no 1", 20]),
    "first of a pair": (
        lambda: Dataset.zip((Dataset.range(4).map(fails_at(1), pure=False), Dataset.range(4))).map(lambda a, b: a + b, pure=False),
        [0, "no 1", 22, 33],
    ),
    "shuffle of one": (lambda: Dataset.range(5).map(fails_at(2), pure=False).shuffle(1), [0, "no 2", 10, 30, 40]),
}


@pytest.mark.parametrize("name", RAISING)
def test_a_loop_goes_on_behind_an_element_that_raises_and_so_does_a_position_that_was_saved(name: str) -> None:
    make, expected = RAISING[name]
    assert gone_on(iter(make())) == expected
    for consumed in range(len(expected) + 1):
        iterator = iter(make())
        gone_on(iterator, consumed)
        state = iterator.state_dict()
        restored = iter(make())
        restored.load_state_dict(state)
        assert restored.state_dict() == state
        assert gone_on(restored) == gone_on(iterator) == expected[consumed:]


def test_no_row_comes_twice_that_once_could_not_be_made() -> None:
    def make(times: int) -> Any:
        return iter(Dataset.from_iterable(lambda: iter(range(8))).map(fails_at(2, times=times), pure=False))

    iterator = make(1)
    assert gone_on(iterator, 5) == [0, 10, "no 2", 30, 40]
    for times in (0, 1, 9):
        restored = make(times)
        restored.load_state_dict(iterator.state_dict())
        assert rest(restored) == [50, 60, 70]
    ahead = make(1)
    gone_on(ahead, 4)
    ahead.load_state_dict(iterator.state_dict())
    assert rest(ahead) == [50, 60, 70]


def test_who_looks_ahead_goes_on_behind_an_element_that_raises() -> None:
    for pure in (True, False):
        iterator = iter(Dataset.range(5).map(fails_at(2), pure=pure))
        assert iterator.peek(1).value() == 10
        with pytest.raises(ValueError, match="no 2"):
            iterator.peek(2)
        assert iterator.peek(2).value() == 30 and iterator.state_dict()["consumed"] == 0
        assert rest(iterator) == [0, 10, 30, 40]


@pytest.mark.parametrize("pure", [True, False])
def test_an_element_that_raised_ahead_of_a_position_is_still_to_come(pure: bool) -> None:
    iterator = iter(Dataset.range(5).map(fails_at(2), pure=pure))
    iterator.peek(1)
    with pytest.raises(ValueError, match="no 2"):
        iterator.peek(2)
    state = iterator.state_dict()
    assert state == {"consumed": 0, "shuffles": []}
    iterator.load_state_dict(state)
    assert gone_on(iterator) == [0, 10, "no 2", 30, 40]


def test_an_iterator_that_goes_to_where_it_is_loses_nothing_behind_an_element_that_raised() -> None:
    iterator = iter(Dataset.range(5).map(fails_at(2), pure=False))
    gone_on(iterator, 4)
    iterator.load_state_dict(iterator.state_dict())
    assert rest(iterator) == [40]


def test_an_element_that_a_cache_tries_again_is_not_taken_for_one_that_raises_later() -> None:
    dataset = Dataset.range(5).map(fails_at(1, times=1), pure=False).cache().map(fails_at(30), pure=False)
    iterator = iter(dataset)
    assert gone_on(iterator, 5) == [0, "no 1", 100, 200, "no 30"]
    assert iterator.state_dict() == {"consumed": 4, "shuffles": [], "failed": [3]}


def test_a_shuffle_loses_no_other_element_and_a_cache_tries_again() -> None:
    seen = gone_on(iter(Dataset.range(9).map(fails_at(4), pure=False).shuffle(5, seed=1)))
    assert sorted(item for item in seen if item != "no 4") == [0, 10, 20, 30, 50, 60, 70, 80]
    dataset = Dataset.range(6).map(fails_at(3, times=2), pure=False).cache().batch(2)
    iterator = iter(dataset)
    assert gone_on(iterator, 3) == [[0, 10], "no 3", "no 3"] and iterator.state_dict()["consumed"] == 1
    assert rest(iterator) == [[20, 30], [40, 50]]


def test_numbers_of_failed_elements_are_checked() -> None:
    for failed in (3, ["x"], [None]):
        with pytest.raises(InvalidArgumentError, match="not a saved position"):
            iter(Dataset.range(9)).load_state_dict({"consumed": 5, "shuffles": [], "failed": failed})
