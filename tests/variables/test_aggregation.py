"""What comes of the values of several replicas when they are read, or written, across them."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd
from replicas import rank
from simdist.errors import InvalidArgumentError

ON_READ = sd.VariableSynchronization.ON_READ
Aggregation = sd.VariableAggregation


def of_each_replica(aggregation: Any) -> tuple[Any, Any]:
    """A variable whose values are 1, 2 and 6 on three replicas."""
    strategy = sd.MirroredStrategy(3)
    with strategy.scope():
        v = sd.Variable(0.0, synchronization=ON_READ, aggregation=aggregation, name="v")
    strategy.run(lambda: v.assign([1.0, 2.0, 6.0][rank()]))
    assert [float(part) for part in strategy.local_results(v)] == [1.0, 2.0, 6.0]
    return strategy, v


@pytest.mark.parametrize(
    ("aggregation", "expected"), [(Aggregation.SUM, 9.0), (Aggregation.MEAN, 3.0), (Aggregation.ONLY_FIRST_REPLICA, 1.0)]
)
def test_values_of_replicas_are_read_as_one_in_a_step_and_outside(aggregation: Any, expected: float) -> None:
    _, v = of_each_replica(aggregation)
    assert float(v.numpy()) == expected
    assert float(sd.function(lambda: v.value + 0.0)()) == expected


def test_values_of_replicas_without_an_aggregation_cannot_be_read_as_one() -> None:
    _, v = of_each_replica(Aggregation.NONE)
    for read in (v.numpy, sd.function(lambda: v.value + 0.0)):
        with pytest.raises(InvalidArgumentError, match="v has synchronization ON_READ and aggregation NONE"):
            read()


def test_the_sum_of_the_replicas_is_assigned_in_equal_parts_and_cannot_be_increased() -> None:
    strategy, v = of_each_replica(Aggregation.SUM)
    sd.function(lambda: v.assign(6.0))()
    assert [float(part) for part in strategy.local_results(v)] == [2.0, 2.0, 2.0]
    with pytest.raises(InvalidArgumentError, match="assign_add or assign_sub on v, which is the sum"):
        sd.function(lambda: v.assign_add(1.0))()


@pytest.mark.parametrize("word", ["sum", "SUM", Aggregation.SUM])
def test_an_aggregation_may_be_given_by_its_name(word: Any) -> None:
    assert sd.Variable(0.0, aggregation=word).aggregation is Aggregation.SUM


def test_an_aggregation_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    unknown: Any = "median"
    with pytest.raises(InvalidArgumentError, match=r"aggregation='median' is not known; use one of .*ONLY_FIRST_REPLICA"):
        sd.Variable(0.0, aggregation=unknown)
