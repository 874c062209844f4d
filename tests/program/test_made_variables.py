"""Which variables recur from trace to trace, told by what the repetition of a trace makes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from simdist.errors import InvalidArgumentError
from simdist.program.made_variables import MadeVariables


def variables(*names: str) -> list[Any]:
    return [SimpleNamespace(name=name) for name in names]


def test_a_trace_that_makes_nothing_new_is_the_last_one() -> None:
    known = variables("recurs")
    assert not MadeVariables("step", known).is_repeated(num_made=1)
    assert len(known) == 1


def test_what_is_made_again_recurs() -> None:
    of_each_trace = variables()
    made = MadeVariables("step", of_each_trace)
    of_each_trace += variables("first", "second")
    assert made.is_repeated(num_made=2) and not made.is_repeated(num_made=2)
    assert [variable.name for variable in of_each_trace] == ["first", "second"]


def test_what_is_made_once_does_not_recur() -> None:
    of_each_trace = variables()
    made = MadeVariables("step", of_each_trace)
    of_each_trace += variables("once")
    assert made.is_repeated(num_made=1) and not made.is_repeated(num_made=0)
    assert of_each_trace == []


def test_a_trace_that_stops_or_fails_leaves_nothing_of_what_it_made() -> None:
    of_each_trace = variables("recurs")
    for end in (MadeVariables.stopped, MadeVariables.failed):
        made = MadeVariables("step", of_each_trace)
        of_each_trace += variables("half")
        end(made)
        assert [variable.name for variable in of_each_trace] == ["recurs"]


def test_a_repetition_that_stops_keeps_what_the_trace_before_it_made() -> None:
    of_each_trace = variables()
    made = MadeVariables("step", of_each_trace)
    of_each_trace += variables("first")
    assert made.is_repeated(num_made=1)
    of_each_trace += variables("half")
    made.stopped()
    assert [variable.name for variable in of_each_trace] == ["first"]
    assert not made.is_repeated(num_made=1)


@pytest.mark.parametrize(("known", "first", "again"), [(0, 2, 1), (1, 2, 1), (1, 2, 0)])
def test_a_mixture_of_both_is_refused(known: int, first: int, again: int) -> None:
    of_each_trace = variables(*["recurs"] * known)
    made = MadeVariables("step", of_each_trace)
    of_each_trace += variables(*["new"] * (first - known))
    assert made.is_repeated(num_made=first)
    with pytest.raises(InvalidArgumentError, match=f"step makes {first} variables .*'new' among them, and {again} where"):
        made.is_repeated(num_made=again)
    assert len(of_each_trace) == known
