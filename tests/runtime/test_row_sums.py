"""Which sums over replicas an update takes as ids and rows, and which form of an update a step runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.program.operations import Program, Register, Return, TracedCollective, Update
from simdist.program.values import Aval, Bundle
from simdist.runtime.linked import ApplyAll, LinkedProgram
from simdist.runtime.row_sums import change_of, kept_rows, most_ids

NUM_ROWS, WIDTH, IDS = 50, 3, 4


@pytest.fixture(scope="module")
def linked() -> LinkedProgram:
    """A step of two replicas with two tables and a dense variable."""
    strategy = sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, numerics="off"))
    with strategy.scope():
        tables = [sd.Variable(np.ones((NUM_ROWS, WIDTH), np.float32)) for _ in range(2)]
        dense, rule = sd.Variable(np.ones(WIDTH, np.float32)), sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function
    def replica(ids: Any) -> None:
        def loss() -> Any:
            first, second = (sd.embedding_lookup(table, ids) for table in tables)
            return (first * second * dense.value).sum()

        _, gradients = sd.value_and_grad(loss, [*tables, dense])()
        rule.apply_gradients(zip(gradients, [*tables, dense], strict=True))

    strategy.run(replica, args=(np.arange(IDS, dtype=np.int32),))
    priced: list[LinkedProgram] = list(strategy.cluster.engine.world.prices._known)  # type: ignore[attr-defined]
    return next(own for own in priced if any(isinstance(op, ApplyAll) for op in own.operations))


def kept(program: Program) -> dict[Register, Aval]:
    return kept_rows(program, 0, most_ids([program]))


def test_sums_of_tables_stay_rows_and_those_of_other_gradients_do_not(linked: LinkedProgram) -> None:
    collectives = [op for op in linked.program.operations if isinstance(op, TracedCollective)]
    sums = [op.outputs[0] for op in collectives if op.collective.gives_rows]
    assert len(collectives) == 3 and len(sums) == 2
    assert kept(linked.program) == dict.fromkeys(sums, Aval((2 * IDS, WIDTH), "float32"))


def test_a_sum_that_goes_elsewhere_as_well_is_a_table(linked: LinkedProgram) -> None:
    first, second = kept(linked.program)
    operations = [replace(op, registers=(first,)) if isinstance(op, Return) else op for op in linked.program.operations]
    assert list(kept(replace(linked.program, operations=tuple(operations)))) == [second]


def test_a_sum_that_is_assigned_is_a_table(linked: LinkedProgram) -> None:
    operations = [replace(op, rule="assign") if isinstance(op, Update) else op for op in linked.program.operations]
    assert not kept(replace(linked.program, operations=tuple(operations)))


def test_replicas_that_give_a_table_or_no_ids_at_all_get_tables(linked: LinkedProgram) -> None:
    assert not kept_rows(linked.program, 0, [None] * 3)
    assert not kept_rows(linked.program, 0, [0] * 3)
    assert not kept_rows(linked.program, 0, [])


def test_a_step_runs_the_form_of_the_sums_that_it_has(linked: LinkedProgram) -> None:
    (update,) = [op for op in linked.operations if isinstance(op, ApplyAll)]
    (part,) = update.parts
    rows, table = (Aval((2 * IDS,), "int32"), Aval((2 * IDS, WIDTH), "float32")), (Aval((NUM_ROWS, WIDTH), "float32"),)

    def chosen(*types: tuple[Aval, ...]) -> Any:
        slots = [Bundle(avals) for avals in linked.slots]
        for total, avals in zip(part.sums, types, strict=True):
            slots[total.slot] = Bundle(avals)
        return change_of(part, slots)[0]

    assert part.of_rows is not None
    assert chosen(rows, rows) is part.of_rows
    assert chosen(table, table) is part
    mixed = chosen(rows, table)
    assert mixed is chosen(rows, table) and mixed not in part.forms
    assert (mixed.number, [total.given for total in mixed.sums]) == (part.number, [rows, table])
    assert mixed.kernel.in_avals == tuple(aval for avals in mixed.reads for aval in avals)
    assert part.of_rows.kernel.in_avals == tuple(aval for avals in part.of_rows.reads for aval in avals)
