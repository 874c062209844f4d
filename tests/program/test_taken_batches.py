"""Which batches a step takes: its program fits calls that have the same, and a loop takes all that there are."""

from __future__ import annotations

from itertools import islice
from typing import Any

import jax.numpy as jnp
import pytest

import simdist as sd
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError, OutOfRangeError
from simdist.program import traced_arguments
from simdist.program.bound_call import bound
from simdist.program.taken_batches import TakenBatches, fits, fits_at_once

LENGTHS = (11, 4, 20, 0, 11, 12)


class Traced:
    """A program that was traced for batches of two rows; `ended`: to the end of these iterators, and `looped`: in loops over these."""

    common_reads, reads_differing_copies = frozenset[Any](), False

    def __init__(self, *signatures: tuple[int, Any], ended: frozenset[int] = frozenset(), looped: frozenset[int] = frozenset()) -> None:
        self.signatures, self.ended, self.looped = signatures, ended, looped


def test_a_program_fits_where_each_next_batch_has_its_signature() -> None:
    call = bound("step", (iter(Dataset.range(5).batch(2)),), {})
    signature = call.iterators[0].peek(0).signature
    assert fits(Traced((0, signature), (0, signature)), call)  # type: ignore[arg-type]
    assert not fits(Traced((0, signature), (0, signature), (0, signature)), call)  # type: ignore[arg-type]
    assert fits_at_once(Traced((0, signature)), call)  # type: ignore[arg-type]
    assert fits_at_once(Traced(), call)  # type: ignore[arg-type]


def test_a_step_that_takes_more_batches_than_there_are_ends_the_iterator() -> None:
    call = bound("step", (iter(Dataset.range(2).batch(2)),), {})
    signature = call.iterators[0].peek(0).signature
    with pytest.raises(StopIteration):
        fits(Traced((0, signature), (0, signature)), call)  # type: ignore[arg-type]
    assert not fits(Traced((0, signature), (0, signature), looped=frozenset([0])), call)  # type: ignore[arg-type]


def test_a_program_of_all_batches_fits_where_exactly_as_many_are_left() -> None:
    call = bound("step", (iter(Dataset.range(4).batch(2)),), {})
    signature = call.iterators[0].peek(0).signature
    fitting = [fits(Traced(*[(0, signature)] * count, ended=frozenset([0])), call) for count in range(4)]  # type: ignore[arg-type]
    assert fitting == [False, False, True, False]
    assert not fits_at_once(Traced((0, signature), ended=frozenset([0])), call)  # type: ignore[arg-type]


def test_taken_batches_know_which_iterators_have_ended() -> None:
    taken = TakenBatches(bound("step", (iter(Dataset.range(2).batch(2)), iter(Dataset.range(2).batch(2))), {}))
    assert taken(0, 0).num_rows == taken(1, 0).num_rows == 2
    with pytest.raises(StopIteration):
        taken(1, 1)
    assert taken.ended == {1}


def total(iterator: Any) -> Any:
    found = jnp.zeros(())
    for batch in iterator:
        found += sd.get_strategy().reduce("sum", sd.get_strategy().run(lambda x: x.sum() * 1.0, args=(batch,)), axis=None)
    return found


def sums(lengths: tuple[int, ...]) -> list[float]:
    return [float(sum(range(length))) for length in lengths]


def test_a_loop_over_an_iterator_takes_all_its_batches_however_many_there_are() -> None:
    strategy, step = sd.MirroredStrategy(2), sd.function(total)
    with strategy.scope():
        found = [float(step(iter(strategy.distribute_dataset(Dataset.range(length).batch(4))))) for length in LENGTHS]
        iterator = iter(strategy.distribute_dataset(Dataset.range(12).batch(4)))
        next(iterator)
        assert float(step(iterator)) == sum(range(4, 12))
        assert float(step(iterator)) == 0.0
    assert found == sums(LENGTHS)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_loop_that_is_left_after_some_batches_ends_where_there_are_fewer(replicas: int) -> None:
    strategy = sd.MirroredStrategy(replicas)
    step = sd.function(lambda iterator: total(islice(iterator, 3)))
    with strategy.scope():
        for length in (20, 12, 4):
            iterator = iter(strategy.distribute_dataset(Dataset.range(length).batch(2)))
            expected = [float(sum(range(first, min(first + 6, length)))) for first in range(0, 24, 6)]
            assert [float(step(iterator)) for _ in range(4)] == expected


@pytest.mark.parametrize("engine", [{}, {"engine": "in_process", "isolated": True}])
def test_a_loop_in_a_closure_takes_all_batches_of_its_worker(engine: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, **engine))
    coordinator, step, found = sd.ClusterCoordinator(strategy), sd.function(lambda it: sum((x.sum() for x in it), jnp.zeros(()))), []
    for length in LENGTHS:
        per_worker = coordinator.create_per_worker_dataset(lambda length=length: Dataset.range(length).batch(4))
        found.append(float(coordinator.schedule(step, args=(iter(per_worker),)).fetch()))
    assert found == sums(LENGTHS)


def test_a_loop_over_a_dataset_without_end_is_refused_and_one_with_a_number_is_not() -> None:
    endless = iter(Dataset.range(3).batch(3).repeat())
    with pytest.raises(InvalidArgumentError, match=r"1,000 batches in one step.*for _ in range\(n\)"):
        sd.function(lambda iterator: sum(batch.sum() for batch in iterator))(endless)
    step = sd.function(lambda iterator: sum(batch.sum() for batch in islice(iterator, 2)))
    assert [int(step(endless)) for _ in range(3)] == [6, 6, 6]


def test_a_loop_may_take_as_many_batches_as_its_refusal_says_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_arguments, "LONGEST_LOOP", 3)
    step = sd.function(lambda iterator: sum(batch.sum() for batch in iterator))
    assert int(step(iter(Dataset.range(3).batch(1)))) == 3
    longer = iter(Dataset.range(4).batch(1))
    with pytest.raises(InvalidArgumentError, match="more than 3 batches in one step"):
        step(longer)
    assert [int(element[0]) for element in longer] == [0, 1, 2, 3]  # a step that is refused has taken nothing


def test_a_batch_that_a_step_takes_before_its_loop_has_to_be_there() -> None:
    step = sd.function(lambda iterator: (next(iterator).sum(), sum((batch.sum() for batch in iterator), 0)))
    assert [tuple(map(int, step(iter(Dataset.range(length).batch(4))))) for length in (4, 9)] == [(6, 0), (6, 30)]
    with pytest.raises(OutOfRangeError, match="run out"):
        step(iter(Dataset.range(0).batch(4)))
