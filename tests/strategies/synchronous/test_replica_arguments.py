"""What each replica gets of the arguments of a step."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.strategies.synchronous.policies import EveryReplica
from simdist.strategies.synchronous.replica_arguments import ReplicaArguments


def test_each_replica_gets_its_own_value_and_what_is_not_for_replicas_as_it_is() -> None:
    arguments = ReplicaArguments(2)
    plain = np.arange(3)
    assert [arguments.resolver(rank)(sd.PerReplica([5, 7])) for rank in range(2)] == [5, 7]
    assert all(arguments.resolver(rank)(plain) is plain for rank in range(2))
    assert [part.values for part in arguments.parts] == [(5, 7)]


def test_replica_gets_its_view_of_a_distributed_iterator() -> None:
    iterator = iter(sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(4).batch(4)))
    assert [ReplicaArguments(2).resolver(rank)(iterator) for rank in range(2)] == [iterator.replica(rank) for rank in range(2)]


def test_too_few_values_are_refused_at_once() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="2 values was given to a step on 3 replicas"):
        ReplicaArguments(3).resolver(2)(sd.PerReplica([5, 7]))


def test_too_many_values_are_noted_and_refused_by_the_policy() -> None:
    arguments = ReplicaArguments(1)
    assert arguments.resolver(0)(sd.PerReplica([5, 7])) == 5
    with pytest.raises(sd.errors.InvalidArgumentError, match="2 values was given to a step on 1 replicas"):
        EveryReplica().require_parts(arguments.parts[0], 1)


def test_values_that_a_step_closes_over_are_counted_too() -> None:
    strategy = sd.MirroredStrategy(2)
    values = sd.PerReplica([np.float32(5), np.float32(7), np.float32(9)])
    with pytest.raises(sd.errors.InvalidArgumentError, match="3 values was given to a step on 2 replicas"):
        strategy.run(lambda value: value * 2, args=(values,))
    with pytest.raises(sd.errors.InvalidArgumentError, match="3 values was given to a step on 2 replicas"):
        sd.function(lambda: strategy.run(lambda value: value * 2, args=({"nested": [values]}["nested"][0],)))()
