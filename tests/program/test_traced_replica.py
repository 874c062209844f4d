"""What a replica that is traced knows of itself and of the others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from simdist.errors import InvalidArgumentError
from simdist.program.operations import VariableHandle
from simdist.program.traced_replica import TracedReplica
from simdist.program.values import Aval


def replica(num_replicas: int = 2) -> TracedReplica:
    return TracedReplica(1, num_replicas, (), None)


def handle(*shape: int) -> VariableHandle:
    variable = VariableHandle()
    variable.name, variable.shape, variable.dtype = "v", shape, "float32"
    return variable


def test_only_a_step_that_asks_for_its_rank_depends_on_it() -> None:
    traced = replica()
    assert traced.replica_rank == 1
    assert not traced.asked_rank
    assert traced.rank == 1
    assert (traced.asked_rank, traced.is_rank_dependent) == (True, True)


def test_constants_of_equal_replicas_are_not_reported() -> None:
    traced = replica()
    assert not traced.differs(3.0)
    assert traced.reported_constants == []


def test_a_constant_may_differ_after_the_step_asked_for_its_rank_unless_all_are_known_to_share_it() -> None:
    traced = replica()
    traced.is_rank_dependent, traced.shared = True, (True, False)
    assert [traced.differs(constant) for constant in ("first", "second", "third")] == [False, True, True]
    assert traced.reported_constants == ["first", "second", "third"]


def test_of_replicas_with_other_numbers_of_rows_only_numbers_may_differ() -> None:
    traced = replica()
    traced.is_uneven = True
    assert (traced.differs("text"), traced.differs(8)) == (False, True)


def test_the_variable_of_the_first_trace_is_there_for_the_next_ones() -> None:
    first, second = replica(), replica()
    created = handle(2)
    assert first.existing_variable(created) is None
    second.created_variables = first.created_variables
    assert second.existing_variable(handle(2)) is created


def test_another_trace_must_create_the_same_variables() -> None:
    traced = replica()
    traced.created_variables = [handle(2)]
    with pytest.raises(InvalidArgumentError, match=r"creates 'v' with shape \(3,\) \(float32\), where another trace created"):
        traced.existing_variable(handle(3))


def test_a_replica_alone_takes_part_in_no_collective() -> None:
    alone, value = replica(1), jnp.ones(2)
    assert alone.collective("all_reduce", [value])[0] is value
    assert [[part.tolist() for part in parts] for parts in alone.collective("all_gather", [value])] == [[[1.0, 1.0]]]
    assert alone.collectives == []


def test_a_gather_gives_what_each_replica_is_known_to_have() -> None:
    shapes = (Aval((1,), "float32"),), (Aval((3,), "float32"),)
    traced = TracedReplica(0, 2, [shapes], None)

    def step(value: jax.Array) -> list[jax.Array]:
        return [part for parts in traced.collective("all_gather", [value]) for part in parts]

    assert [part.shape for part in jax.eval_shape(step, jnp.ones(1))] == [(1,), (3,)]
    assert [one.kind for one in traced.collectives] == ["all_gather"]
