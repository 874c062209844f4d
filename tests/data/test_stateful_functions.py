"""Functions of map and filter that keep a state: finding out what they do, or what elements look like, leaves nothing behind."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset

NAMES = ["a", "b", "a", "c", "b", "a", "d", "c"]
FIRST = ["a", "b", "c", "d"]
seen_by_all: set[str] = set()


class Remembered:
    """What was seen, kept in an attribute, or in a slot."""

    __slots__ = ("count", "seen")

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.count = 0

    def is_new(self, name: str) -> bool:
        self.count = self.count + 1
        if name in self.seen:
            return False
        self.seen = [*self.seen, name]
        return True


def of_a_set() -> Callable[[Any], bool]:
    seen: set[str] = set()
    return lambda name: not (name in seen or seen.add(str(name)))


def of_a_list() -> Callable[[Any], bool]:
    seen: list[str] = []

    def is_new(name: Any) -> bool:
        if name in seen:
            return False
        seen.append(str(name))
        return True

    return is_new


def of_a_dict() -> Callable[[Any], bool]:
    counts: dict[str, int] = OrderedDict()

    def is_new(name: Any) -> bool:
        counts[str(name)] = counts.get(str(name), 0) + 1
        return counts[str(name)] == 1

    return is_new


def of_a_queue() -> Callable[[Any], bool]:
    seen: deque[str] = deque(maxlen=100)

    def is_new(name: Any) -> bool:
        seen.append(str(name))
        return seen.count(str(name)) == 1

    return is_new


def of_an_array() -> Callable[[Any], bool]:
    counts = np.zeros(128, np.int32)

    def is_new(name: Any) -> bool:
        counts[ord(str(name))] += 1
        return bool(counts[ord(str(name))] == 1)

    return is_new


def of_a_variable() -> Callable[[Any], bool]:
    seen = ""

    def is_new(name: Any) -> bool:
        nonlocal seen
        is_old, seen = name in seen, seen + str(name)
        return not is_old

    return is_new


def of_a_global() -> Callable[[Any], bool]:
    seen_by_all.clear()

    def is_new(name: Any) -> bool:
        global seen_by_all
        is_old, seen_by_all = name in seen_by_all, seen_by_all | {str(name)}
        return not is_old

    return is_new


def of_an_object() -> Callable[[Any], bool]:
    return Remembered().is_new


def beside_what_is_unknown() -> Callable[[Any], bool]:
    """The function also uses an object of which the pipeline knows nothing."""
    seen: set[str] = set()
    unknown = SimpleNamespace(limit=10)
    return lambda name: len(seen) < unknown.limit and not (name in seen or seen.add(str(name)))


def behind_a_call() -> Callable[[Any], bool]:
    is_new = of_a_set()
    return lambda name: is_new(name)


STATES = [
    *(of_a_set, of_a_list, of_a_dict, of_a_queue, of_an_array, of_a_variable, of_a_global, of_an_object),
    *(beside_what_is_unknown, behind_a_call),
]


def texts(dataset: Dataset) -> list[str]:
    return [str(name) for name in dataset]


@pytest.mark.parametrize("pure", [None, False])
@pytest.mark.parametrize("make", STATES)
def test_a_filter_that_remembers_drops_only_what_has_come_before(make: Callable[[], Any], pure: bool | None) -> None:
    dataset = Dataset.from_tensor_slices(NAMES).filter(make(), pure=pure)
    assert texts(dataset) == FIRST
    assert texts(dataset) == []  # it remembers all of them


@pytest.mark.parametrize("make", STATES)
@pytest.mark.parametrize("pure", [None, False])
def test_looking_at_elements_does_not_count(make: Callable[[], Any], pure: bool | None) -> None:
    mapped = Dataset.from_tensor_slices(NAMES).map(make(), pure=pure)
    for dataset in (mapped, mapped.batch(4), mapped.map(lambda is_new: (is_new, 1), pure=False).padded_batch(2)):
        for _ in range(2):
            dataset.element_spec  # noqa: B018
    assert [bool(is_new) for is_new in mapped] == [True, True, False, True, False, False, True, False]


def test_looking_past_a_filter_does_not_count() -> None:
    dataset = Dataset.from_tensor_slices(NAMES).filter(of_a_set()).map(lambda name: (name, 1), pure=False)
    dataset.element_spec  # noqa: B018
    assert [str(name) for name, _ in dataset] == FIRST


GENERATORS: dict[str, Callable[[], Callable[[], float]]] = {
    "Generator": lambda: np.random.default_rng(7).random,
    "RandomState": lambda: np.random.RandomState(7).random_sample,
    "Random": lambda: random.Random(7).random,
}


@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize("kind", GENERATORS)
def test_looking_draws_no_random_numbers(kind: str, as_object: bool) -> None:
    draw = GENERATORS[kind]()
    rng: Any = draw.__self__  # pyright: ignore[reportFunctionMemberAccess]
    fn: Callable[[Any], float] = (lambda x: rng.random()) if as_object and kind != "RandomState" else lambda x: draw()
    dataset = Dataset.range(3).map(fn)
    for _ in range(2):
        dataset.element_spec  # noqa: B018
    again = GENERATORS[kind]()
    assert [float(x) for x in dataset] == [float(np.float32(again())) for _ in range(3)]


def test_a_generator_without_a_state_may_be_looked_at() -> None:
    rng = random.SystemRandom()
    dataset = Dataset.range(3).map(lambda x: rng.random())
    assert dataset.element_spec.dtype == "float32" and len(list(dataset)) == 3


def test_calls_are_counted_as_elements_are_visited() -> None:
    calls: list[int] = []
    dataset = Dataset.range(5).map(lambda x: (calls.append(int(x)), x)[1]).repeat(2)
    assert calls == [] and [int(x) for x in dataset] == [*range(5), *range(5)]
    assert calls == [*range(5), *range(5)]


def _halved(x: Any) -> Any:
    x /= 2
    return x


def test_a_cached_batch_that_is_written_to_is_as_it_was_in_the_next_pass() -> None:
    dataset = Dataset.from_tensor_slices(np.arange(8.0, dtype=np.float32)).batch(4).cache()
    assert [sum(float(_halved(batch).sum()) for batch in dataset) for _ in range(3)] == [14] * 3
    mapped = dataset.map(_halved)
    mapped.element_spec  # noqa: B018
    assert [sum(float(batch.sum()) for batch in mapped) for _ in range(3)] == [14] * 3
    assert sum(float(batch.sum()) for batch in dataset) == 28
