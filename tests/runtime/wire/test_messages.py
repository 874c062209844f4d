"""Requests, replies and errors as bytes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from simdist.errors import InvalidArgumentError, TimedOutError
from simdist.runtime.wire import encode
from simdist.runtime.wire.failures import error_of, plain_error
from simdist.runtime.wire.messages import (
    BeginStep,
    ChangeGroup,
    Confirmed,
    Failed,
    InCollective,
    JoinGroups,
    Message,
    StepEnded,
    TakeKernel,
    read_message,
)

ONES = np.ones(2, np.float32)

MESSAGES: list[Any] = [
    TakeKernel(b"bytes"),
    JoinGroups(3, (ONES,), ((1, (0,)), (2, (1, 2)))),
    ChangeGroup(1, "digest", (ONES, ONES), " of worker:0"),
    BeginStep(4, None, True, "worker:0", "digest", 7, 3, (ONES,), (((ONES,), (ONES,)), ()), ((1, ("ps:0", "ps:1")),)),
    Confirmed(),
    StepEnded((), ((0, 1, (ONES,)),), ("the loss",)),
    InCollective(2, (ONES,), ()),
    Failed(("ValueError", "no", ("note",)), ("seen",)),
]


def fields(message: Message) -> list[Any]:
    return [listed(getattr(message, field.name)) for field in dataclasses.fields(message)]  # type: ignore[arg-type]


def listed(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(listed, value))
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back(message: Message) -> None:
    found = read_message(message.to_bytes())
    assert type(found) is type(message)
    assert fields(found) == fields(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (("Fly", 1), "kind 'Fly', which nobody knows"),
        ((), "kind None"),
        (7, "kind None"),
        ((("TakeKernel",), b""), "which nobody knows"),
        (("TakeKernel",), "other fields than kernel"),
        (("TakeKernel", "text"), "other fields than kernel"),
        (("ForgetGroup", True), "other fields than group"),
        (("BeginStep", 1), "other fields than step, rank"),
    ],
    ids=str,
)
def test_what_nobody_says_is_refused(content: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read_message(encode(content))


def test_an_error_keeps_its_class_text_and_notes() -> None:
    error = TimedOutError("worker:1 did not answer. Ask again.")
    error.add_note("while computing step")
    found = error_of(plain_error(error))
    assert (type(found), str(found), found.__notes__) == (TimedOutError, str(error), ["while computing step"])


def test_an_error_of_a_class_that_only_the_sender_knows_is_the_nearest_that_both_know() -> None:
    class Strange(KeyError):
        def __str__(self) -> str:
            return "strange"

    found = error_of(plain_error(Strange()))
    assert type(found) is KeyError and "Strange: strange" in str(found)


def test_an_error_that_wants_more_than_a_text_becomes_one_that_says_so() -> None:
    found = error_of(plain_error(UnicodeDecodeError("utf-8", b"x", 0, 1, "why")))
    assert type(found) is RuntimeError and "UnicodeDecodeError: 'utf-8' codec" in str(found)
