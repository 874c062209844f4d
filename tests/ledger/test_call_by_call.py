"""Call by call: what takes long and needs nothing of its neighbours is called side by side, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from simdist.ledger import call_by_call, side_by_side
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval, Bundle

AVAL = Aval((3,), "float32")
ONE = (AVAL,)
MOVED = kernel_of("moved", lambda a, k: (a * 2.0 + k,), [AVAL, AVAL])
ADDED = kernel_of("added", lambda a, b: (a + b,), [AVAL, AVAL])
SMALL = kernel_of("small", lambda a: (a[0],), ONE)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls were made side by side, each time, on two cores; kernels of 24 bytes count as heavy."""
    found: list[int] = []
    original = side_by_side.called

    def called(calls: Sequence[Callable[[], Any]]) -> Any:
        found.append(len(calls))
        return original(calls)

    monkeypatch.setattr(side_by_side, "called", called)
    monkeypatch.setattr(side_by_side, "num_cores", lambda: 2)
    monkeypatch.setattr(call_by_call, "HEAVY_BYTES", 24)
    return found


class Story:
    """Calls of one ledger whose kernels have been compiled."""

    def __init__(self) -> None:
        self.ledger = Ledger("loop")
        self.start = Bundle.of([np.float32([1, 2, 3])])
        self.move = self.ledger.site(MOVED, [ONE], [ONE])
        self.add = self.ledger.site(ADDED, [ONE, ONE], [ONE])
        first = [self.moved(self.start, 0), self.added(self.start, self.start)]
        self.ledger.flush()
        del first

    def moved(self, bundle: Bundle, by: float) -> Bundle:
        return self.ledger.call(self.move, [bundle], None, (np.full(3, by, np.float32),))[0]

    def added(self, first: Bundle, second: Bundle) -> Bundle:
        return self.ledger.call(self.add, [first, second])[0]

    def numbers(self, *bundles: Bundle) -> list[list[float]]:
        return [np.asarray(self.ledger.arrays(bundle)[0]).tolist() for bundle in bundles]


def test_calls_that_need_nothing_of_each_other_are_made_side_by_side_as_many_as_there_are_cores(groups: list[int]) -> None:
    story = Story()
    made = [story.moved(story.start, by) for by in range(5)]
    story.ledger.flush()
    assert groups == [2, 2], "and the fifth by itself"
    assert story.numbers(*made) == [[2.0 + by, 4.0 + by, 6.0 + by] for by in range(5)]


def test_what_reads_a_result_comes_after_it(groups: list[int]) -> None:
    story = Story()
    first, other = story.moved(story.start, 1), story.moved(story.start, 2)
    total = story.added(first, other)
    after = story.moved(total, 0)
    story.ledger.flush()
    assert groups == [2]
    assert story.numbers(total, after) == [[7.0, 11.0, 15.0], [14.0, 22.0, 30.0]]


def test_register_that_is_written_again_is_read_before(groups: list[int]) -> None:
    """A call may write where one beside it reads: the bundle that was there is gone, and its number is given to the next."""
    story = Story()
    first = story.moved(story.start, 1)
    second = story.moved(first, 0)
    register = first.register
    del first
    third = story.moved(story.start, 5)
    assert third.register == register
    story.ledger.flush()
    assert groups == [2], "the second and the third"
    assert story.numbers(second, third) == [[6.0, 10.0, 14.0], [7.0, 9.0, 11.0]]


def test_what_is_small_or_called_for_the_first_time_is_called_by_itself(groups: list[int]) -> None:
    ledger, start = Ledger("loop"), Bundle.of([np.float32([1, 2, 3])])
    site, small = ledger.site(MOVED, [ONE], [ONE]), ledger.site(SMALL, [ONE], [(Aval((), "float32"),)])
    made = [ledger.call(site, [start], None, (np.zeros(3, np.float32),))[0] for _ in range(2)]
    ledger.flush()
    few = [ledger.call(small, [start])[0] for _ in range(4)]
    ledger.flush()
    few += [ledger.call(small, [start])[0] for _ in range(4)]
    ledger.flush()
    assert groups == []
    assert [float(ledger.arrays(bundle)[0]) for bundle in few] == [1.0] * 8
    assert len(made) == 2


def test_one_core_calls_one_after_the_other(groups: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "num_cores", lambda: 1)
    story = Story()
    made = [story.moved(story.start, by) for by in range(4)]
    assert story.numbers(*made) == [[2.0 + by, 4.0 + by, 6.0 + by] for by in range(4)]
    assert groups == []


def test_error_stops_what_comes_after_it_and_keeps_what_came_before(groups: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    made = [story.moved(story.start, by) for by in range(4)]
    original, fails = call_by_call.CallByCall.run_kernel, [True]

    def run_kernel(calls: Any, kernel: Any, arguments: Any, where: Any) -> Any:
        if fails[0] and float(arguments[1][0]) == 1:
            raise MemoryError("the second")
        return original(calls, kernel, arguments, where)

    monkeypatch.setattr(call_by_call.CallByCall, "run_kernel", run_kernel)
    with pytest.raises(MemoryError, match="the second"):
        story.ledger.flush()
    assert len(story.ledger.entries) == 3, "the first has its numbers"
    assert story.numbers(made[0]) == [[2.0, 4.0, 6.0]]
    fails[0] = False
    assert story.numbers(*made) == [[2.0 + by, 4.0 + by, 6.0 + by] for by in range(4)]
    assert groups[0] == 2


def test_error_says_where_in_the_run_it_happened(groups: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    made = [story.ledger.call(story.move, [story.start], None, (np.full(3, step, np.float32),), ("worker:1", step, 0.5)) for step in (3, 4)]
    original = Kernel.__call__

    def call(kernel: Kernel, *arrays: Any) -> Any:
        if float(arrays[1][0]) == 4:
            raise MemoryError("too large")
        return original(kernel, *arrays)

    monkeypatch.setattr(Kernel, "__call__", call)
    with pytest.raises(MemoryError, match="too large") as caught:
        story.ledger.flush()
    assert groups == [2]
    assert caught.value.__notes__ == ["while computing moved of worker:1, step 4, 0.500000 s"]
    assert len(made) == 2
