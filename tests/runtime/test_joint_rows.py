"""Rows that replicas read together: how long their sums are, and which programs can read together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.program.operations import Program, ReadRows, TracedCollective
from simdist.program.values import Aval
from simdist.runtime.joint_rows import fitted, joint_reads, own_rows, read_alike
from simdist.runtime.linked import LinkedProgram
from simdist.strategies.worker_replicas import WorkerReplicas
from simdist.variables.gradient_sum import GradientPolicy

ROWS, WIDTH = 50, 3


class Steps:
    """Programs of replicas that look up rows of two tables."""

    def __init__(self) -> None:
        self.strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}, numerics="off"), devices_per_worker=2)
        with self.strategy.scope():
            self.tables = [sd.Variable(np.ones((ROWS, WIDTH), np.float32)) for _ in range(2)]
            self.rule = sd.Optimizer(keras.optimizers.SGD(0.1))

        self.last: Any = None

    def program(self, num_ids: int, loss: Callable[..., Any]) -> Program:
        """The program of a replica with so many ids."""

        @sd.function
        def step(ids: Any) -> Any:
            def replica(own: Any) -> None:
                _, gradients = sd.value_and_grad(lambda: loss(self.tables, own), self.tables)()
                self.rule.apply_gradients(zip(gradients, self.tables, strict=True))

            self.strategy.run(replica, args=(ids,))

        self.last = step
        call = step.bind((np.arange(num_ids, dtype=np.int32),), {})
        return step.trace(call, 0, 2, options=GradientPolicy(tables_apart=True))

    def linked(self, *programs: Program) -> list[LinkedProgram]:
        return [self.strategy.link(self.last, program, "worker:0") for program in fitted(programs)]


@pytest.fixture(scope="module")
def steps() -> Steps:
    return Steps()


def of_both(tables: list[sd.Variable], ids: Any) -> jax.Array:
    return jnp.sum(sd.embedding_lookup(tables[0], ids) * sd.embedding_lookup(tables[1], ids + 1))


def of_the_second_first(tables: list[sd.Variable], ids: Any) -> jax.Array:
    return of_both(tables[::-1], ids)


def of_one(tables: list[sd.Variable], ids: Any) -> jax.Array:
    return jnp.sum(sd.embedding_lookup(tables[0], ids) * tables[1].value[0])


def sizes(program: Program) -> list[tuple[int, int]]:
    """Of each sum of rows: how many the replica gives, and how many the sum has."""
    sums = [op for op in program.operations if isinstance(op, TracedCollective) and op.collective.row_read is not None]
    for op in sums:
        assert program.avals[op.outputs[0]] == op.collective.outputs[0]
    return [(op.collective.operands[0].shape[0], op.collective.outputs[0].shape[0]) for op in sums]


def test_a_replica_is_traced_as_if_the_others_had_as_many_ids(steps: Steps) -> None:
    program = steps.program(4, of_both)
    assert [len(op.outputs) for op in program.operations if isinstance(op, ReadRows)] == [3, 3]
    assert sizes(program) == [(4, 8), (4, 8)]
    assert fitted([program, program]) == [program, program]


@pytest.mark.parametrize(("counts", "expected"), [((4, 3), 7), ((24, 24), 48), ((4, 0), 4)])
def test_sums_are_as_long_as_what_all_read_together(steps: Steps, counts: tuple[int, int], expected: int) -> None:
    found = fitted([steps.program(count, of_both) for count in counts])
    assert [sizes(program) for program in found] == [[(count, expected)] * 2 for count in counts]


def test_programs_with_other_numbers_of_ids_read_together(steps: Steps) -> None:
    found = steps.linked(steps.program(4, of_both), steps.program(3, of_both))
    assert read_alike(found)
    reads = joint_reads(found)
    assert [table.rows.shape for read in reads for table in read.tables] == [(7, WIDTH)] * 2


@pytest.mark.parametrize("other", [of_the_second_first, of_one])
def test_programs_with_other_lookups_do_not(steps: Steps, other: Callable[..., Any]) -> None:
    assert not read_alike(steps.linked(steps.program(4, of_both), steps.program(4, other)))


def test_replicas_of_which_none_asks_for_a_row_read_one_that_stands_for_none(steps: Steps) -> None:
    empty = steps.program(0, of_both)
    (read,) = joint_reads(steps.linked(empty, empty))
    assert [table.rows.shape for table in read.tables] == [(1, WIDTH)] * 2


def test_the_rows_of_a_replica_are_those_at_their_positions() -> None:
    joint, own = (steps_aval(count) for count in (5, 3))
    rows = jnp.arange(15.0, dtype=jnp.float32).reshape(5, WIDTH)
    (found,) = own_rows("table", joint, own)(rows, jnp.array([4, 0, 5], jnp.int32))
    np.testing.assert_array_equal(found[:2], rows[np.array([4, 0])])


def steps_aval(count: int) -> Any:
    return Aval((count, WIDTH), "float32")


def test_the_programs_of_a_strategy_are_made_once(steps: Steps) -> None:
    replicas = steps.strategy.replicas
    assert isinstance(replicas, WorkerReplicas)
    step = sd.function(lambda ids: steps.strategy.run(lambda own: of_both(steps.tables, own), args=(ids,)))
    call = replicas.bind(step, (np.arange(4),), {})
    first, second = (replicas.linked(step, call, "worker:0") for _ in range(2))
    assert first.programs == second.programs
    assert first.programs[0] is first.programs[1]
