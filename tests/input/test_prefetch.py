"""When the elements of a pipeline are there, against a loop that plays producer and consumer."""

from __future__ import annotations

import pytest

from simdist.errors import InvalidArgumentError
from simdist.input.prefetch import PrefetchBuffer


def played(seconds: float, buffer: int, wanted_every_s: float, count: int) -> list[float]:
    """The moments at which a consumer has each element, who works for so long on the one before."""
    elements, now, found = PrefetchBuffer(seconds, buffer), 0.0, list[float]()
    for _ in range(count):
        now = elements.take(now)
        found.append(now)
        now += wanted_every_s
    return found


@pytest.mark.parametrize(
    ("buffer", "found"),
    [
        (0, [2.0, 5.0, 8.0, 11.0]),  # work begins when somebody asks: 2 s of input and 1 s of step follow each other
        (1, [2.0, 4.0, 6.0, 8.0]),  # they overlap, and the slower one decides
        (3, [2.0, 4.0, 6.0, 8.0]),
    ],
)
def test_a_slow_pipeline_decides_unless_it_waits_to_be_asked(buffer: int, found: list[float]) -> None:
    assert played(2.0, buffer, 1.0, 4) == found


def test_a_full_buffer_is_ready_at_once_and_no_fuller() -> None:
    elements = PrefetchBuffer(1.0, 2)
    # Two elements lie ready at 10 s; the third was begun when the first was taken.
    assert [elements.take(10.0) for _ in range(4)] == [10.0, 10.0, 11.0, 12.0]


def test_a_fast_pipeline_is_never_waited_for_after_the_first_element() -> None:
    assert played(0.5, 1, 1.0, 4) == [0.5, 1.5, 2.5, 3.5]


@pytest.mark.parametrize(("seconds", "buffer"), [(-1.0, 1), (1.0, -1)])
def test_negative_numbers_are_refused(seconds: float, buffer: int) -> None:
    with pytest.raises(InvalidArgumentError, match="0 or more"):
        PrefetchBuffer(seconds, buffer)


def test_element_that_several_want_is_made_once_for_the_first_of_them():
    elements = PrefetchBuffer(2.0, 1)
    assert [elements.ready_s(0, now_s) for now_s in (1.0, 5.0)] == [2.0, 2.0]
    assert [elements.ready_s(1, now_s) for now_s in (5.0, 2.0)] == [5.0, 5.0]
