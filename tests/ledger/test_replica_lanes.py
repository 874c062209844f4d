"""Lanes of replicas: equal calls are one entry, and whatever is read, in whatever order, has the numbers of single calls."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.ledger import equal_calls, plans, side_by_side
from simdist.ledger.equal_calls import FEW_LANES
from simdist.ledger.lane_kernels import LANES_AT_ONCE, lanes_of
from simdist.ledger.ledger import Ledger
from simdist.ledger.replica_lane import ReplicaLane, num_lanes, stacks_of
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval, Bundle

AVAL = Aval((3,), "float32")
ONE = (AVAL,)
TWICE = kernel_of("twice", lambda a, k: (a * 2.0 + k,), [AVAL, AVAL])
BOTH = kernel_of("both", lambda a, b: (a * 0.5 + b, a - b), [AVAL, AVAL])
PLANS = ["loop", "replay", "eager", "vmap"]


def vector(rng: np.random.Generator) -> Any:
    return rng.random(3).astype(np.float32)


def twice(a: Any, k: Any) -> Any:
    return a * np.float32(2) + k


def test_equal_calls_are_one_entry_whose_results_are_lanes_of_one_stack() -> None:
    ledger, rng = Ledger("loop"), np.random.default_rng(0)
    site, lanes = ledger.site(TWICE, [ONE], [ONE]), ledger.lanes(4)
    shared, fed = Bundle.of([vector(rng)]), [vector(rng) for _ in range(4)]
    made = [lanes.call(lane, site, [shared], None, (fed[lane],))[0] for lane in (2, 0, 3, 1)]
    made = [made[1], made[3], made[0], made[2]]
    assert len(ledger.entries) == 1
    assert [num_lanes(stack) for stack in stacks_of(made)] == [4]
    assert stacks_of(made[::-1]) == stacks_of(made[:3]) == [], "lanes in another order, or not all of them, are no stack"
    (array,) = shared.arrays or ()
    for lane, bundle in enumerate(made):
        np.testing.assert_array_equal(ledger.arrays(bundle)[0], twice(array, fed[lane]))
    assert ledger.computed == 1


@pytest.mark.parametrize("kind", [np.asarray, jax.numpy.asarray])
def test_a_stack_is_cut_into_lanes_that_do_not_keep_it(kind: Any) -> None:
    stack = Bundle.of([kind(np.arange(6.0, dtype=np.float32).reshape(3, 2)), kind(np.arange(3, dtype=np.int32))])
    lanes = lanes_of(stack, 3)
    assert [[array.tolist() for array in lane] for lane in lanes] == [[[0, 1], 0], [[2, 3], 1], [[4, 5], 2]]
    wholes = stack.arrays or ()
    assert not any(
        np.shares_memory(np.asarray(array), np.asarray(whole)) for lane in lanes for array, whole in zip(lane, wholes, strict=True)
    )


@pytest.mark.parametrize("count", [LANES_AT_ONCE, LANES_AT_ONCE + 1, 2 * LANES_AT_ONCE, 3 * LANES_AT_ONCE - 1])
def test_many_lanes_are_cut_apart_by_one_small_kernel(count: int) -> None:
    rows = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2)
    lanes = lanes_of(Bundle.of([jax.numpy.asarray(rows), jax.numpy.asarray(rows[:, 0])]), count)
    assert [[array.tolist() for array in lane] for lane in lanes] == [[row, row[0]] for row in rows.tolist()]


def test_lanes_are_read_as_they_are_by_the_next_call_of_all() -> None:
    ledger, rng = Ledger("loop"), np.random.default_rng(1)
    once, again = ledger.site(TWICE, [ONE], [ONE]), ledger.site(BOTH, [ONE, ONE], [ONE, ONE])
    lanes, fed = ledger.lanes(3), [vector(rng) for _ in range(3)]
    given = [Bundle.of([vector(rng)]) for _ in range(3)]
    first = [lanes.call(lane, once, [given[lane]], None, (fed[lane],))[0] for lane in range(3)]
    second = [lanes.call(lane, again, [first[lane], given[0]]) for lane in range(3)]
    assert len(ledger.entries) == 2, "no lane is cut out for the second call"
    for lane in range(3):
        before = twice((given[lane].arrays or ())[0], fed[lane])
        other = (given[0].arrays or ())[0]
        np.testing.assert_array_equal(ledger.arrays(second[lane][0])[0], before * np.float32(0.5) + other)
        np.testing.assert_array_equal(ledger.arrays(second[lane][1])[0], before - other)


@pytest.mark.parametrize(("count", "entries"), [(2, 2), (FEW_LANES, FEW_LANES), (FEW_LANES + 1, 1)])
def test_few_calls_are_noted_one_by_one(count: int, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_calls, "FEW_LANES", FEW_LANES)
    ledger, rng = Ledger("deferred"), np.random.default_rng(1)
    site, lanes = ledger.site(TWICE, [ONE], [ONE]), ledger.lanes(count)
    a, fed = Bundle.of([vector(rng)]), [vector(rng) for _ in range(count)]
    made = [lanes.call(lane, site, [a], None, (fed[lane],))[0] for lane in range(count)]
    assert len(ledger.entries) == entries
    for lane in range(count):
        np.testing.assert_array_equal(ledger.arrays(made[lane])[0], twice((a.arrays or ())[0], fed[lane]))


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of any size are cut for two cores."""
    monkeypatch.setattr(side_by_side, "num_cores", lambda: 2)
    monkeypatch.setattr(equal_calls, "HEAVY_BYTES", 1)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize(("count", "widths"), [(4, [2, 2]), (6, [3, 3]), (5, [5])])
def test_calls_that_take_long_are_cut_into_equal_parts(count: int, widths: list[int]) -> None:
    ledger, rng = Ledger("loop"), np.random.default_rng(8)
    once, again = ledger.site(TWICE, [ONE], [ONE]), ledger.site(BOTH, [ONE, ONE], [ONE, ONE])
    lanes, shared, fed = ledger.lanes(count), Bundle.of([vector(rng)]), [vector(rng) for _ in range(count)]
    first = [lanes.call(lane, once, [shared], None, (fed[lane],))[0] for lane in range(count)]
    assert list(map(num_lanes, stacks_of(first))) == widths
    second = [lanes.call(lane, again, [first[lane], shared])[1] for lane in range(count)]
    assert list(map(num_lanes, stacks_of(second))) == widths, "what reads parts is cut into the same ones"
    assert len(ledger.entries) == 2 * len(widths), "and no lane is cut out"
    (array,) = shared.arrays or ()
    ledger.compute(second)
    for lane in range(count):
        np.testing.assert_array_equal(ledger.arrays(second[lane])[0], twice(array, fed[lane]) - array)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize(("numerics", "parts"), [("deferred", 2), ("loop", 2), ("replay", 1), ("eager", 1), ("vmap", 1)])
def test_calls_are_cut_where_parts_can_be_computed_side_by_side(numerics: str, parts: int) -> None:
    ledger, rng = Ledger(numerics), np.random.default_rng(9)
    site, lanes, shared = ledger.site(TWICE, [ONE], [ONE]), ledger.lanes(4), Bundle.of([vector(rng)])
    made = [lanes.call(lane, site, [shared], None, (vector(rng),))[0] for lane in range(4)]
    assert len(stacks_of(made)) == parts


def test_calls_that_take_no_time_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "num_cores", lambda: 2)
    ledger, rng = Ledger("loop"), np.random.default_rng(9)
    site, lanes, shared = ledger.site(TWICE, [ONE], [ONE]), ledger.lanes(4), Bundle.of([vector(rng)])
    made = [lanes.call(lane, site, [shared], None, (vector(rng),))[0] for lane in range(4)]
    assert len(stacks_of(made)) == 1


@pytest.mark.usefixtures("in_parts")
def test_stacks_that_are_cut_at_other_places_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, rng = Ledger("loop"), np.random.default_rng(10)
    once, both = ledger.site(TWICE, [ONE], [ONE]), ledger.site(BOTH, [ONE, ONE], [ONE, ONE])
    lanes, shared, fed = ledger.lanes(4), Bundle.of([vector(rng)]), [vector(rng) for _ in range(8)]
    in_two = [lanes.call(lane, once, [shared], None, (fed[lane],))[0] for lane in range(4)]
    monkeypatch.setattr(side_by_side, "num_cores", lambda: 1)
    whole = [lanes.call(lane, once, [shared], None, (fed[4 + lane],))[0] for lane in range(4)]
    made = [lanes.call(lane, both, [in_two[lane], whole[lane]])[1] for lane in range(4)]
    assert [len(stacks_of(bundles)) for bundles in (in_two, whole, made)] == [2, 1, 1]
    assert len(ledger.entries) == 2 + 1 + 1 + 1, "the last but one joins the two"
    (array,) = shared.arrays or ()
    for lane in range(4):
        np.testing.assert_array_equal(ledger.arrays(made[lane])[0], twice(array, fed[lane]) - twice(array, fed[4 + lane]))


def test_calls_that_are_the_same_are_made_once() -> None:
    ledger, rng = Ledger("loop"), np.random.default_rng(2)
    site, lanes = ledger.site(BOTH, [ONE, ONE], [ONE, ONE]), ledger.lanes(5)
    a, b = Bundle.of([vector(rng)]), Bundle.of([vector(rng)])
    made = [lanes.call(lane, site, [a, b])[0] for lane in range(5)]
    after = [lanes.call(lane, site, [made[lane], b])[1] for lane in range(5)]
    assert len(ledger.entries) == 2
    (x,), (y,) = a.arrays or (), b.arrays or ()
    for bundle in after:
        np.testing.assert_array_equal(ledger.arrays(bundle)[0], (x * np.float32(0.5) + y) - y)
    assert ledger.computed == 2


@pytest.mark.parametrize("plan", PLANS)
def test_lane_that_is_read_before_all_have_come_has_its_numbers_and_the_others_theirs(plan: str) -> None:
    ledger, rng = Ledger(plan), np.random.default_rng(3)
    site, lanes = ledger.site(TWICE, [ONE], [ONE]), ledger.lanes(3)
    shared, fed = Bundle.of([vector(rng)]), [vector(rng) for _ in range(3)]
    (array,) = shared.arrays or ()
    made: list[Bundle] = []
    for lane in range(3):
        made += lanes.call(lane, site, [shared], None, (fed[lane],))
        if lane == 1:
            np.testing.assert_array_equal(ledger.arrays(made[0])[0], twice(array, fed[0]))
    for lane in range(3):
        np.testing.assert_array_equal(ledger.arrays(made[lane])[0], twice(array, fed[lane]))


def test_calls_that_are_the_same_are_made_once_also_where_the_first_is_read_before_the_others_come() -> None:
    ledger, rng = Ledger("loop"), np.random.default_rng(3)
    site, lanes = ledger.site(BOTH, [ONE, ONE], [ONE, ONE]), ledger.lanes(4)
    a, b, c = (Bundle.of([vector(rng)]) for _ in range(3))
    first = lanes.call(0, site, [a, b])
    after = ledger.call(site, [first[0], b])  # as a replica does that applies what it has, while the others still wait for it
    assert len(ledger.entries) == 2
    same, other = lanes.call(1, site, [a, b]), lanes.call(2, site, [a, c])
    also_same = lanes.call(3, site, [a, b])
    assert len(ledger.entries) == 3, "only the call with another input is one of its own"
    expected = (a.arrays or ())[0] - (b.arrays or ())[0]
    for outputs in (first, same, also_same):
        np.testing.assert_array_equal(ledger.arrays(outputs[1])[0], expected)
    np.testing.assert_array_equal(ledger.arrays(other[1])[0], (a.arrays or ())[0] - (c.arrays or ())[0])
    half = (a.arrays or ())[0] * np.float32(0.5) + (b.arrays or ())[0]
    np.testing.assert_array_equal(ledger.arrays(after[1])[0], half - (b.arrays or ())[0])


def test_calls_that_call_back_into_python_are_made_by_each_replica() -> None:
    heard: list[float] = []

    def told(a: Any) -> Any:
        jax.debug.callback(lambda value: heard.append(float(value[0])), a)
        return (a * 2,)

    ledger = Ledger("loop")
    site, lanes, given = ledger.site(kernel_of("told", told, ONE), [ONE], [ONE]), ledger.lanes(3), Bundle.of([np.float32([1, 2, 3])])
    made = [lanes.call(lane, site, [given])[0] for lane in range(3)]
    ledger.compute(made)
    jax.effects_barrier()
    assert heard == [1.0, 1.0, 1.0]


def test_calls_of_different_shapes_of_batches_are_not_put_together() -> None:
    """A replica whose program differs has another site, so the calls of the others wait for it until the step is over."""
    ledger, rng = Ledger("loop"), np.random.default_rng(4)
    site, other = ledger.site(TWICE, [ONE], [ONE]), ledger.site(BOTH, [ONE, ONE], [ONE, ONE])
    lanes, a = ledger.lanes(2), Bundle.of([vector(rng)])
    fed = vector(rng)
    (first,) = lanes.call(0, site, [a], None, (fed,))
    lanes.call(1, other, [a, a])
    lanes.close()
    assert isinstance(first, ReplicaLane)
    np.testing.assert_array_equal(ledger.arrays(first)[0], twice((a.arrays or ())[0], fed))
    assert first.stack is None


def test_without_numerics_nothing_is_noted() -> None:
    ledger = Ledger("off")
    site, lanes = ledger.site(TWICE, [ONE], [ONE]), ledger.lanes(2)
    for lane in range(2):
        lanes.call(lane, site, [Bundle(ONE)], None, (np.zeros(3, np.float32),))
    assert not ledger.entries


def test_lanes_that_nobody_holds_leave_nothing_behind() -> None:
    ledger, rng = Ledger("loop"), np.random.default_rng(5)
    site = ledger.site(TWICE, [ONE], [ONE])
    gc.disable()
    try:
        bundles = [Bundle.of([vector(rng)])] * 3
        for _ in range(20):
            lanes = ledger.lanes(3)
            bundles = [lanes.call(lane, site, [bundles[lane]], None, (vector(rng),))[0] for lane in range(3)]
            lanes.close()
            ledger.arrays(bundles[0])
        assert all(file.size < 12 for file in ledger.files.values()), "registers are used again"
    finally:
        gc.enable()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 1, 1)])
def test_lanes_in_any_order_are_inputs_of_other_calls(plan: str, order: tuple[int, int, int]) -> None:
    ledger, rng = Ledger(plan), np.random.default_rng(7)
    site, both = ledger.site(TWICE, [ONE], [ONE]), ledger.site(BOTH, [ONE, ONE], [ONE, ONE])
    lanes, a, fed = ledger.lanes(3), Bundle.of([vector(rng)]), [vector(rng) for _ in range(3)]
    made = [lanes.call(lane, site, [a], None, (fed[lane],))[0] for lane in range(3)]
    (array,) = a.arrays or ()
    for first, second in pairwise(order):
        (_, difference) = ledger.call(both, [made[first], made[second]])
        np.testing.assert_allclose(ledger.arrays(difference)[0], twice(array, fed[first]) - twice(array, fed[second]), atol=1e-6)


actions = st.lists(st.tuples(st.sampled_from(["twice", "both", "look", "look at all", "sum", "flush"]), st.integers(0, 3)), max_size=12)


@examples(25)
@given(actions, st.permutations(range(3)), st.sampled_from(PLANS))
def test_any_story_has_the_numbers_of_numpy(story: list[tuple[str, int]], order: list[int], plan: str) -> None:
    has_the_numbers_of_numpy(story, order, plan)


@examples(25)
@given(actions, st.permutations(range(4)), st.sampled_from(["loop", "deferred"]))
def test_any_story_in_parts_has_the_numbers_of_numpy(story: list[tuple[str, int]], order: list[int], plan: str) -> None:
    with patch.object(side_by_side, "num_cores", lambda: 2), patch.object(equal_calls, "HEAVY_BYTES", 1):
        has_the_numbers_of_numpy(story, order, plan)


def has_the_numbers_of_numpy(story: list[tuple[str, int]], order: list[int], plan: str) -> None:
    count = len(order)
    ledger, rng = Ledger(plan), np.random.default_rng(6)
    once, both = ledger.site(TWICE, [ONE], [ONE]), ledger.site(BOTH, [ONE, ONE], [ONE, ONE])
    bundles = [Bundle.of([vector(rng)]) for _ in range(count)]
    expected = [(bundle.arrays or ())[0] for bundle in bundles]
    for kind, number in story:
        lanes = ledger.lanes(count)
        made: list[Bundle] = list(bundles)
        if kind == "twice":
            fed = [vector(rng) for _ in range(count)]
            for lane in order:
                (made[lane],) = lanes.call(lane, once, [bundles[lane]], None, (fed[lane],))
                if number == lane:
                    ledger.arrays(made[lane])
            expected = [twice(value, more) for value, more in zip(expected, fed, strict=True)]
        elif kind == "both":
            shared, other = bundles[number % count], expected[number % count]
            for lane in order:
                made[lane] = lanes.call(lane, both, [bundles[lane], shared])[0]
            expected = [value * np.float32(0.5) + other for value in expected]
        elif kind == "look":
            np.testing.assert_allclose(ledger.arrays(bundles[number % count])[0], expected[number % count], rtol=1e-6)
        elif kind == "look at all":
            with patch.object(plans, "LONG_BYTES", number % 2 * (1 << 40)):  # with 0 the lanes are promises
                ledger.begin()
            ledger.compute(bundles)
            np.testing.assert_allclose([ledger.arrays(bundle)[0] for bundle in bundles], expected, rtol=1e-6)
        elif kind == "sum":
            made = [ledger.call(both, [bundles[lane], bundles[(lane + 1) % count]])[1] for lane in range(count)]
            expected = [expected[lane] - expected[(lane + 1) % count] for lane in range(count)]
        else:
            ledger.flush()
        lanes.close()
        bundles = made
    for bundle, value in zip(bundles, expected, strict=True):
        np.testing.assert_allclose(ledger.arrays(bundle)[0], value, rtol=1e-6, atol=1e-6)
