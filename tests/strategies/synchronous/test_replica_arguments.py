"""What each replica gets of the arguments of a step."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.strategies.synchronous.replica_arguments import ReplicaArguments


def test_each_replica_gets_its_own_value_and_what_is_not_for_replicas_as_it_is() -> None:
    arguments = ReplicaArguments(2)
    plain = np.arange(3)
    assert [arguments.resolver(rank)(sd.PerReplica([5, 7])) for rank in range(2)] == [5, 7]
    assert all(arguments.resolver(rank)(plain) is plain for rank in range(2))
    arguments.require_no_surplus()


def test_replica_gets_its_view_of_a_distributed_iterator() -> None:
    iterator = iter(sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(4).batch(4)))
    assert [ReplicaArguments(2).resolver(rank)(iterator) for rank in range(2)] == [iterator.replica(rank) for rank in range(2)]


def test_too_few_values_are_refused_at_once() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="2 values was given to a step on 3 replicas"):
        ReplicaArguments(3).resolver(2)(sd.PerReplica([5, 7]))


def test_too_many_values_are_refused_where_the_policy_does_not_drop_them() -> None:
    arguments = ReplicaArguments(1)
    assert arguments.resolver(0)(sd.PerReplica([5, 7])) == 5
    with pytest.raises(sd.errors.InvalidArgumentError, match="2 values was given to a step on 1 replicas"):
        arguments.require_no_surplus()
