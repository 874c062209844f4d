"""Room on the interpreter's stack: no depth at which an event costs many times what it costs elsewhere."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from simdist.simulation.kernel import Clock
from simdist.simulation.stack_room import with_stack_room

EVENTS = 2_000
# Of this thread alone, where the system can tell: JAX has threads of its own.
WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


def at_depth(depth: int, function: Callable[[], None]) -> None:
    """Call a function under so many others."""
    if depth:
        at_depth(depth - 1, function)
    else:
        function()


def page_faults_of_events(depth: int) -> int:
    """The pieces of new memory that many events take, each of which calls a few functions, where a wait is under so many others."""
    clock = Clock()
    for number in range(EVENTS):
        clock.after(number / 1000, lambda _: at_depth(3, lambda: None))
    before = resource.getrusage(WHOSE).ru_minflt
    at_depth(depth, lambda: clock.sleep(EVENTS / 1000))
    return resource.getrusage(WHOSE).ru_minflt - before


def test_events_take_no_new_memory_at_any_depth_of_the_stack() -> None:
    for depth in range(0, 160, 2):  # a piece of the stack ends at one of them
        assert page_faults_of_events(depth) < EVENTS / 2, f"under {depth} functions"


def test_something_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="give it a Python function"):
        with_stack_room(len)
