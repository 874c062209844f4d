"""Ctrl-C in the middle of an iterator: who goes on with it afterwards gets every element, in its order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import simdist as sd
from simdist.input.distributed_iterator import ReplicaIterator


def interrupted_at(number: int, times: int = 1) -> Callable[[np.integer], np.integer]:
    """The identity, during whose call with this number Ctrl-C is pressed: the first time that it is called with it."""
    left = [times]

    def function(value: np.integer) -> np.integer:
        while value == number and left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)
        return value

    return function


def generated(function: Callable[[np.integer], np.integer]) -> sd.Dataset:
    def elements() -> Iterator[np.integer]:
        yield from map(function, np.arange(12, dtype=np.int32))

    return sd.Dataset.from_generator(elements, output_signature=sd.ArraySpec((), "int32"))


PIPELINES: dict[str, Callable[[Callable[[np.integer], np.integer]], sd.Dataset]] = {
    "generator": generated,
    "batches": lambda function: generated(function).batch(4),
    "filter": lambda function: sd.Dataset.range(12).filter(lambda x: function(x) >= 0).batch(2),
    "flat_map": lambda function: sd.Dataset.range(12).flat_map(lambda x: sd.Dataset.from_tensors(function(x))),
    "scan": lambda function: sd.Dataset.range(12).scan(0, lambda total, x: (total + function(x), total + x)),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_who_goes_on_after_ctrl_c_gets_every_element_once(name: str) -> None:
    whole = [np.asarray(element).tolist() for element in PIPELINES[name](lambda x: x)]
    iterator, found, interrupts = iter(PIPELINES[name](interrupted_at(6))), list[object](), 0
    while True:
        try:
            found.append(np.asarray(next(iterator)).tolist())
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert interrupts == 1 and found == whole


def test_an_iterator_that_ctrl_c_has_torn_says_so_and_goes_back_to_its_place() -> None:
    iterator = iter(generated(interrupted_at(6, times=2)).batch(4))
    first = next(iterator).tolist()
    with pytest.raises(KeyboardInterrupt):
        next(iterator)  # the second Ctrl-C is raised at once
    for _ in range(2):
        with pytest.raises(sd.errors.FailedPreconditionError, match=r"while it made element 1.*load_state_dict"):
            next(iterator)
    iterator.load_state_dict(iterator.state_dict())
    assert [first, *(batch.tolist() for batch in iterator)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_an_element_whose_value_raises_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    iterator = iter(sd.Dataset.range(3))
    with monkeypatch.context() as patch:
        patch.setattr("simdist.data.batch.unflatten", lambda *parts: [][0])
        with pytest.raises(IndexError):
            next(iterator)
    assert [int(element) for element in iterator] == [1, 2]


def test_replicas_stay_together_where_ctrl_c_comes_between_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    iterator = iter(sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(12).batch(4)))
    original, came = ReplicaIterator.next_batch, list[int]()

    def next_batch(self: ReplicaIterator) -> object:
        if self.local_rank == 1 and not came:
            came.append(self.number)
            signal.raise_signal(signal.SIGINT)
        return original(self)

    monkeypatch.setattr(ReplicaIterator, "next_batch", next_batch)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert [part.tolist() for part in next(iterator).values] == [[4, 5], [6, 7]]
