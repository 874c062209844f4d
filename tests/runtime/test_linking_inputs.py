"""Where the registers of a program come from, and what it takes to read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.program.cutting import cut
from simdist.program.operations import Argument, Next, Program, RandomKey, Read
from simdist.program.tracing import Tracer
from simdist.program.values import Aval
from simdist.runtime.linked import ReadGroups
from simdist.runtime.linking_inputs import InputLinker, Sources

SIGNATURE: Any = None  # of no batch: linking does not ask for it


def program_of(step: Callable[[], Sequence[Any]]) -> Program:
    tracer = Tracer()
    return cut("step", tracer.trace(step), tracer.markers, list)


def reads_of(program: Program) -> list[Read]:
    return [op for op in program.operations if isinstance(op, Read)]


def linked(program: Program, reads: Sequence[Read]) -> tuple[ReadGroups, Sources]:
    sources = Sources()
    read = InputLinker(program, 0, sources).read(reads)
    assert isinstance(read, ReadGroups)
    return read, sources


def columns(shape: Sequence[int], dtype: str) -> list[int]:
    return [1] * (len(shape) - 1) + [min(2, shape[-1])] if shape else []


@pytest.fixture
def strategy() -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), columns)


def test_reads_that_follow_each_other_ask_each_group_once(strategy: sd.ParameterServerStrategy) -> None:
    with strategy.scope():
        v, _, w = sd.Variable(3.0), sd.Variable(0.0), sd.Variable([1.0])  # the first and the last one are on one server
    cells = [v.placement.cells[0], w.placement.cells[0]]
    strategy.store.layout.join(cells)
    program = program_of(lambda: [v.value + w.value])
    first, second = reads_of(program)
    read, sources = linked(program, [first, second])
    ((group, slot, size_bytes),) = read.groups
    assert (group, size_bytes) == (cells[0].group.number, 8)
    assert [sources.of[op.output] for op in (first, second)] == [[("slot", slot, cell.position)] for cell in cells]
    assert sources.slot_avals[slot] == (Aval((), "float32"), Aval((1,), "float32"))
    assert not sources.axes


def test_a_sharded_variable_is_read_in_pieces_along_its_axis(strategy: sd.ParameterServerStrategy) -> None:
    with strategy.scope():
        table = sd.Variable(np.zeros((2, 4), np.float32))
    program = program_of(lambda: [table.value * 2.0])
    (op,) = reads_of(program)
    read, sources = linked(program, [op])
    assert [group for group, _, _ in read.groups] == [cell.group.number for cell in table.placement.cells]
    assert [kind for kind, _, _ in sources.of[op.output]] == ["slot", "slot"]
    assert sources.axes[op.output] == 1
    assert [sources.avals(kind, number) for kind, number, _ in sources.of[op.output]] == [(Aval((2, 2), "float32"),)] * 2


def test_batches_arguments_and_keys_are_numbered_in_their_order() -> None:
    program = program_of(lambda: [np.float32(1.0)])
    program.avals.update({100 + n: Aval((n,), "float32") for n in range(4)})
    sources = Sources()
    inputs = InputLinker(program, 0, sources)
    batches = [inputs.batch(Next(0, SIGNATURE, (100, 101))), inputs.batch(Next(1, SIGNATURE, (102,)))]
    inputs.argument(Argument((103,)))
    keys = [inputs.key(RandomKey(5, 104)), inputs.key(RandomKey(6, 105))]
    assert [(batch.iterator, batch.position) for batch in batches] == [(0, 0), (1, 1)]
    assert [(key.salt, key.position) for key in keys] == [(5, 0), (6, 1)]
    assert [sources.of[register] for register in (100, 101, 102)] == [[("batch", 0, 0)], [("batch", 0, 1)], [("batch", 1, 0)]]
    assert [sources.of[register] for register in (104, 105)] == [[("key", 0, 0)], [("key", 1, 0)]]
    assert sources.avals("batch", 0) == (Aval((0,), "float32"), Aval((1,), "float32"))
    assert sources.avals("argument", 0) == (Aval((3,), "float32"),)
