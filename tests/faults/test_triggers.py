"""What a moment is, and what is none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simdist.errors import InvalidArgumentError
from simdist.faults.triggers import Trigger


@pytest.mark.parametrize(
    ("trigger", "text"),
    [(Trigger(at=0.5), "at=0.5"), (Trigger(after_steps=25), "after_steps=25"), (Trigger(when=lambda c: True), "when=...")],
)
def test_a_trigger_is_told_as_it_was_given(trigger: Trigger, text: str) -> None:
    trigger.check("crash", now=0.0)
    assert trigger.describe() == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "slow needs exactly one of at=, after_steps= and when=; got 0"),
        ({"at": 2.0, "after_steps": 3}, "got 2 of them"),
        ({"at": 2.0, "after_steps": 3, "when": len}, "got 3 of them"),
        ({"at": 0.5}, r"at=0.5 s is in the past: it is 1.000000 s now"),
        ({"at": math.nan}, "at=nan must be 0 or more"),
        ({"at": 1e15}, r"less than 1e\+15"),
        ({"at": "2"}, "at='2' must be"),
        ({"after_steps": 0}, "after_steps=0 must be a whole number"),
        ({"after_steps": True}, "after_steps=True must be"),
        ({"when": 5}, "when=5 must be a function"),
    ],
)
def test_a_moment_that_is_none_is_refused_with_what_was_given(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Trigger(**options).check("slow", now=1.0)
