"""What has changed becomes what it was: each kind of thing that a function can reach."""

from __future__ import annotations

import copy
import random
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest

from simdist.data.attributes import entries_of, slots_of
from simdist.data.putting_back import (
    MISSING,
    content_of,
    put_binding,
    put_code,
    put_content,
    put_entries,
    put_numbers,
    put_slots,
    state_of,
)
from simdist.data.watching import Watches, stamp_of


class Counting(list[int]):
    """A list whose class says something else about it."""

    def __setitem__(self, *_: Any) -> None:
        raise AssertionError("no code of the user runs")

    clear = extend = __setitem__


class Point:
    __slots__ = ("x", "y")


CONTAINERS: dict[str, Any] = {
    "list": [1, 2],
    "list of a class": Counting([1, 2]),
    "dict": {"b": 1, "a": 2},
    "ordered dict": OrderedDict(b=1, a=2),
    "dict with a default": defaultdict(int, b=1),
    "set": {1, 2},
    "deque": deque([1, 2], maxlen=3),
    "array of objects": np.array([[1, "a"], [None, 2.0]], object),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_holds_what_it_held(name: str) -> None:
    part = copy.deepcopy(CONTAINERS[name])
    found = entries_of(part)
    if isinstance(part, dict):
        dict.clear(part)
        part["c"] = 3
    elif isinstance(part, list):
        list.append(part, 3)
    elif isinstance(part, set):
        part ^= {2, 3}
    elif isinstance(part, deque):
        part.extend([3, 4])
    else:
        part[0, 0] = 9
    assert entries_of(part) != found
    put_entries(part, found)
    assert entries_of(part) == found and repr(part) == repr(CONTAINERS[name])


def test_a_cell_holds_what_it_held_or_nothing() -> None:
    value: int
    (cell,) = (lambda: value).__closure__ or ()
    before = content_of(cell)
    value = 5
    assert (before, content_of(cell)) == (MISSING, 5)
    put_content(cell, before)
    assert content_of(cell) is MISSING
    put_content(cell, 7)
    assert value == 7


def test_names_stand_for_what_they_stood_for() -> None:
    names: dict[str, object] = {"a": 1}
    put_binding(names, "a", 2)
    put_binding(names, "b", 3)
    assert names == {"a": 2, "b": 3}
    put_binding(names, "b", MISSING)
    put_binding(names, "c", MISSING)
    assert names == {"a": 2}
    put_binding(vars(Point), "x", 4)  # what belongs to a class stays
    assert Point.x is not 4  # noqa: F632


def test_slots_hold_what_they_held_or_nothing() -> None:
    point = Point()
    point.x = 1  # pyright: ignore[reportAttributeAccessIssue]
    slots = slots_of(point)
    point.x, point.y = 5, 6  # pyright: ignore[reportAttributeAccessIssue]
    put_slots(point, list(slots), list(slots.values()))
    assert slots_of(point) == slots and slots["y"] is MISSING


def test_a_function_is_what_it_was() -> None:
    def fn(x: int = 1) -> int:
        return x

    found = [fn.__code__, fn.__defaults__, fn.__kwdefaults__]
    fn.__defaults__ = (2,)
    put_code(fn, found)
    assert fn() == 1


def test_an_array_holds_its_numbers_where_it_has_its_shape() -> None:
    array = np.arange(6.0).reshape(2, 3)[:, ::2]
    stamp = stamp_of(array)
    array += 1
    put_numbers(array, stamp)
    assert array.tolist() == [[0, 2], [3, 5]]
    other = np.zeros(3)
    put_numbers(other, stamp)
    assert not other.any()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.PCG64, np.random.RandomState, random.Random])
def test_a_generator_goes_back(make: Any) -> None:
    part = make(1)
    draw = next(getattr(part, name) for name in ("random", "random_raw", "random_sample") if hasattr(part, name))
    state = state_of(part)
    assert state is not None
    first = draw()
    draw()
    state.put()
    assert draw() == first
    assert state_of(draw) is not None  # of its method, too


@pytest.mark.parametrize("part", [3, [1], random.SystemRandom(), len, iter([1])])
def test_other_things_have_no_state_that_is_known(part: Any) -> None:
    assert state_of(part) is None


def test_parts_of_objects_stay_where_not_all_of_them_are_known() -> None:
    watches, own, others = Watches(), [1], [2]
    watches.contents(lambda: entries_of(own), lambda found: put_entries(own, found))
    watches.of_objects = True
    watches.contents(lambda: entries_of(others), lambda found: put_entries(others, found))
    assert not watches.put_back(with_objects=True)
    own.append(3)
    others.append(4)
    assert watches.put_back(with_objects=False)
    assert (own, others) == ([1], [2, 4])
    assert watches.put_back(with_objects=True)
    assert (own, others) == ([1], [2])
