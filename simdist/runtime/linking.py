"""Linking: a program is bound to the tasks and groups where its variables live.

A program speaks of variables and registers. A linked program speaks of groups and bundles: which groups a read asks
for, how shards are joined before a kernel and its results are cut for the servers after it, and what each server must
compute to apply an update. All of that is done once, when a program runs for the first time under a strategy, so that
one more step costs a few references.

Registers travel in *slots*; a slot holds one bundle. A consumer of registers (a later kernel, an update on one
server, the result) gets them as one bundle, made by the kernel that produced them, or by a kernel that only packs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import jax
import jax.numpy as jnp
import numpy as np

from simdist.program.arrays import Array
from simdist.program.kernels import kernel_of
from simdist.program.operations import (
    Argument,
    Check,
    Compute,
    Next,
    Operation,
    Program,
    RandomKey,
    Read,
    ReadRows,
    Return,
    TracedCollective,
    Update,
)
from simdist.program.values import Aval, Bundle
from simdist.runtime.linked import (
    CheckFinite,
    LinkedCollective,
    LinkedOperation,
    LinkedProgram,
    RunKernel,
    Slot,
)
from simdist.runtime.linking_inputs import InputLinker, Sources
from simdist.runtime.linking_kernels import KnownKernels, as_they_are
from simdist.runtime.linking_updates import Piece, UpdateLinker
from simdist.runtime.row_sums import MostIds, kept_rows
from simdist.runtime.updating import piece_of
from simdist.variables.layout import Layout

__all__ = ["link"]

Register = int


def link(program: Program, layout: Layout, replica: int = 0, num_ids: MostIds = (), kernels: KnownKernels | None = None) -> LinkedProgram:
    """Link a program against a layout that was prepared for it.

    Args:
        program: what was traced.
        layout: the groups of the strategy.
        replica: who runs it, by its place among the replicas that are driven here.
        num_ids: of the step's collectives, over all replicas that are driven here (`most_ids`); default: all sums are tables.
        kernels: of the replicas that were linked before it, against the same layout; default: there are none.
    """
    return _Linker(program, layout, replica, kept_rows(program, replica, num_ids), KnownKernels() if kernels is None else kernels).link()


@dataclass
class _Bundled:
    """A bundle that a kernel must make: pieces of its results, in order."""

    slot: Slot
    pieces: list[Piece]


class _Linker:
    def __init__(self, program: Program, layout: Layout, replica: int, sums: Mapping[Register, Aval], kernels: KnownKernels) -> None:
        self.program = program
        self.kernels = kernels
        self.updates = UpdateLinker(program, replica, sums, self, kernels)
        self.layout = layout
        self.sources = Sources()
        self.slot_avals = self.sources.slot_avals
        self.inputs = InputLinker(program, replica, self.sources)
        self.num_kernels = 0
        self.packed: dict[tuple[Piece, ...], Slot] = {}
        self.operations: list[LinkedOperation] = []
        self.constants: list[tuple[Slot, Bundle]] = []
        self._no_row: Slot | None = None
        self.consumed: list[list[list[Piece]]] = []  # by operation
        self.uses: dict[Register, list[tuple[int, int, int]]] = {}  # number of the operation, of the bundle that it takes, position in it
        for registers, bundle in layout.constants.of(program):
            self.constants.append((self.sources.slot(bundle.avals), bundle))
            for position, register in enumerate(registers):
                self.sources.of[register] = [("slot", self.constants[-1][0], position)]

    def link(self) -> LinkedProgram:
        result, rebuild = -1, list
        operations = list(self.program.operations)
        self._find_uses()
        at = 0
        waits = self.program.seconds is not None and not any(isinstance(op, Compute) for op in operations)
        while at < len(operations):
            op = operations[at]
            if waits and isinstance(op, (Update, TracedCollective, Return)):
                self._wait()
                waits = False
            match op:
                case Read() | ReadRows():
                    reads = [op]
                    while at + 1 < len(operations) and isinstance(following := operations[at + 1], (Read, ReadRows)):
                        at += 1
                        reads.append(following)
                    self.operations.append(self.inputs.read(reads))
                case Next():
                    self.operations.append(self.inputs.batch(op))
                case Argument():
                    self.inputs.argument(op)
                case RandomKey():
                    self.operations.append(self.inputs.key(op))
                case Compute():
                    self._produce(op.kernel.apart, op.inputs, list(op.outputs), at)
                case Update():
                    self.operations.append(self.updates.link(op))
                case TracedCollective():
                    self._collective(op)
                case Check():
                    self.operations.append(CheckFinite(self.pack([(op.operand, None)]), op.message))
                case Return():
                    result, rebuild = self.pack([(register, None) for register in op.registers]), op.rebuild
                case _:
                    raise AssertionError(f"{type(op).__name__} cannot be linked")
            at += 1
        return LinkedProgram(
            self.program,
            tuple(self.operations),
            tuple(self.constants),
            result,
            rebuild,
            tuple(self.slot_avals),
            tuple(self.sources.batch_avals),
            self.layout.version,
        )

    def _wait(self) -> None:
        """A kernel for the declared duration of a step that computes nothing."""
        kernel = kernel_of("declared duration", lambda: [jnp.zeros((), jnp.float32)], [])
        none = (Aval((), "float32"),)
        self.operations.append(RunKernel(self.number(), kernel, (), (none,), (), None, (), (self.sources.slot(none),), False))

    def number(self) -> int:
        self.num_kernels += 1
        return self.num_kernels - 1

    # -- kernels --------------------------------------------------------------------------------------------------

    def _collective(self, op: TracedCollective) -> None:
        """The result of a collective is one bundle, and stays one."""
        operands = self.pack([(register, None) for register in op.operands])
        rows = self.updates.sums.get(op.outputs[0])
        if op.collective.num_replicas == 1:
            assert rows is not None
            self.updates.slot_of_sum[op.outputs[0]] = operands
            return
        if rows is not None:
            slot = self.updates.slot_of_sum[op.outputs[0]] = self.sources.slot((Aval(rows.shape[:1], "int32"), rows))
            self.operations.append(LinkedCollective(replace(op.collective, sum_rows=rows.shape[0]), operands, slot))
            return
        slot = self.sources.slot(tuple(self.program.avals[register] for register in op.outputs))
        self.operations.append(LinkedCollective(op.collective, operands, slot))
        self.packed[tuple((register, None) for register in op.outputs)] = slot
        for position, register in enumerate(op.outputs):
            self.sources.of[register] = [("slot", slot, position)]

    def _produce(self, function: Callable[..., Sequence[jax.Array]], inputs: Sequence[Register], outputs: list[Register], at: int) -> None:
        """Link a kernel: its results are cut into one bundle for each consumer."""
        uses = sorted(use for register in set(outputs) for use in self.uses.get(register, ()) if use[0] > at)
        bundles: list[_Bundled] = []
        for (number, part), mine_at in groupby(uses, key=lambda use: use[:2]):
            pieces = self.consumed[number][part]
            mine: list[Piece] = [pieces[position] for _, _, position in mine_at]
            if len(mine) < len(pieces):
                # The rest comes from elsewhere; who packs them together cuts them then.
                mine = [(register, None) for register, _ in mine]
            bundles.append(_Bundled(self.sources.slot(tuple(self._aval(p) for p in mine)), mine))
        self._run(function, inputs, outputs, bundles)
        for bundle in bundles:
            self.packed[tuple(bundle.pieces)] = bundle.slot
            for position, (register, part) in enumerate(bundle.pieces):
                if part is None:
                    self.sources.of.setdefault(register, [("slot", bundle.slot, position)])

    def _find_uses(self) -> None:
        """Which operation takes which register: once for all kernels, of which there may be many."""
        for number, op in enumerate(self.program.operations):
            self.consumed.append(self._consumed(op))
            for part, pieces in enumerate(self.consumed[-1]):
                for position, (register, _) in enumerate(pieces):
                    self.uses.setdefault(register, []).append((number, part, position))

    def _consumed(self, op: Operation) -> list[list[Piece]]:
        match op:
            case Compute():
                return [[(register, None) for register in op.inputs]]
            case TracedCollective():
                return [[(register, None) for register in op.operands]]
            case Update():
                return self.updates.pieces(op)
            case Check():
                return [[(op.operand, None)]]
            case Return():
                return [[(register, None) for register in op.registers]]
            case _:
                return []

    def _aval(self, piece: Piece) -> Aval:
        aval, part = self.program.avals[piece[0]], piece[1]
        return aval if part is None else Aval(part.shape_of(aval.shape), aval.dtype)

    def pack(self, pieces: list[Piece]) -> Slot:
        """The slot that holds exactly these pieces; made by a kernel of its own if no other made it."""
        known = self.packed.get(tuple(pieces))
        if known is not None:
            return known
        slot = self.sources.slot(tuple(self._aval(piece) for piece in pieces))
        registers = list(dict.fromkeys(register for register, _ in pieces))
        if pieces and all(register in self.program.constants for register in registers):
            self.constants.append((slot, self._constant_pieces(pieces)))
        elif pieces:
            self._run(as_they_are, tuple(registers), registers, [_Bundled(slot, pieces)], moves_only=True)
        else:
            self.slot_avals[slot] = ()
        self.packed[tuple(pieces)] = slot
        return slot

    def no_row(self) -> Slot:
        """The slot that holds the number of a row that no table has."""
        if self._no_row is None:
            bundle = Bundle.of([np.full(1, np.iinfo(np.int32).max, np.int32)])
            self._no_row = self.sources.slot(bundle.avals)
            self.constants.append((self._no_row, bundle))
        return self._no_row

    def _constant_pieces(self, pieces: list[Piece]) -> Bundle:
        def cut(arrays: Sequence[Array]) -> list[Array]:
            return [piece_of(jnp.asarray(array), part) for array, (_, part) in zip(arrays, pieces, strict=True)]

        return self.layout.constants.pieces(self.program, tuple(pieces), cut, [register for register, _ in pieces])

    def _run(
        self,
        function: Callable[..., Sequence[jax.Array]],
        inputs: Sequence[Register],
        results: list[Register],
        bundles: list[_Bundled],
        moves_only: bool = False,
    ) -> None:
        sources = [self.sources.of[register] for register in inputs]
        axes = [self.sources.axes.get(register, 0) for register in inputs]
        flat = [piece for pieces in sources for piece in pieces]
        slots = list(dict.fromkeys(number for kind, number, _ in flat if kind == "slot"))
        others = list(dict.fromkeys((kind, number) for kind, number, _ in flat if kind != "slot"))
        # The rows of the first batch may stay rows of a table; everything else is passed as arrays.
        others.sort(key=lambda other: other[0] != "batch")
        offsets: dict[tuple[str, int], int] = {}
        avals: list[Aval] = []
        for source in [*(("slot", slot) for slot in slots), *others]:
            offsets[source] = len(avals)
            avals.extend(self.sources.avals(*source))

        inputs_at = [[offsets[kind, number] + position for kind, number, position in pieces] for pieces in sources]
        number_of = {register: number for number, register in reversed([*enumerate(results)])}
        outputs_of = [(number_of[register], part) for bundle in bundles for register, part in bundle.pieces]
        kernel = self.kernels.cut(self.program.name, function, [*zip(inputs_at, axes, strict=True)], outputs_of, avals)
        first = others[0][1] if others and others[0][0] == "batch" else None
        reads, writes = tuple([self.slot_avals[slot] for slot in slots]), tuple([self.slot_avals[bundle.slot] for bundle in bundles])
        host = tuple(others if first is None else others[1:])
        outputs = tuple([bundle.slot for bundle in bundles])
        self.operations.append(RunKernel(self.number(), kernel, reads, writes, tuple(slots), first, host, outputs, moves_only))
