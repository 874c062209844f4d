"""The prices of a linked program on simulated devices: sites of the ledger, operations and bytes, memory, overlap.

Prices are computed once for each linked program; a linked program itself says nothing about time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from simdist.cost.changes import changing
from simdist.cost.flops import Cost, cost_of
from simdist.cost.memory import temporaries_bytes
from simdist.errors import ResourceExhaustedError
from simdist.hardware import MemoryAccount
from simdist.ledger.entry import Site
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import Kernel
from simdist.program.operations import Argument
from simdist.program.row_kernels import row_form
from simdist.program.values import num_bytes
from simdist.runtime.linked import Apply, ApplyAll, LinkedProgram, ReadGroups, ReadWithRows, RunKernel, Slot
from simdist.runtime.simulated.overlap import Early, early_collectives
from simdist.runtime.state import GroupStates
from simdist.runtime.updating import assigning

__all__ = ["PricedProgram", "Prices", "cost_of_change"]

FREE = Cost(0, 0, 0.0)


@dataclass(frozen=True, eq=False)
class PricedProgram:
    """The prices of one linked program. Lists are indexed by the numbers of its kernels (`RunKernel.number`, `Apply.number`).

    Attributes:
        sites: where the ledger calls each kernel.
        costs: of one call.
        early: what each kernel lets begin before it has ended.
        peak_bytes: memory that a step needs where it runs: what it reads and makes, its batches, the arguments that its kernels take,
            and the intermediate values of its largest kernel.
        read_bytes: the part of it that it reads from each device: where the step runs on that device, it needs no copy.
    """

    name: str
    sites: list[Site]
    costs: list[Cost]
    early: list[tuple[Early, ...]]
    peak_bytes: int
    read_bytes: dict[str, int]

    def require_memory(self, memory: MemoryAccount, make_room: Callable[[], bool]) -> None:
        """Refuse a step that does not fit into a device's memory, beside what it holds already.

        Args:
            memory: of the device.
            make_room: gives back what variables hold that nobody can reach any more; returns whether there was any.

        Raises:
            ResourceExhaustedError: it does not fit.
        """
        needed = self.peak_bytes - self.read_bytes.get(memory.owner, 0)
        what = f"a step of {self.name} (what it reads, its batch, its arguments and its intermediate values)"
        try:
            memory.require(what, needed)
        except ResourceExhaustedError:
            if not make_room():
                raise
            memory.require(what, needed)


class Prices:
    """The prices of all programs of a cluster.

    Args:
        ledger: will compute them.
        states: says which devices hold what is read.
    """

    def __init__(self, ledger: Ledger, states: GroupStates) -> None:
        self.ledger = ledger
        self.states = states
        self._known: WeakKeyDictionary[LinkedProgram, PricedProgram] = WeakKeyDictionary()

    def of(self, linked: LinkedProgram) -> PricedProgram:
        """The prices of a program.

        Raises:
            FailedPreconditionError: a while loop whose number of trips depends on values, and no declared duration.
        """
        known = self._known.get(linked)
        if known is None:
            known = self._known[linked] = self._priced(linked)
        return known

    def _priced(self, linked: LinkedProgram) -> PricedProgram:
        kernels = sorted(_kernels(linked), key=lambda op: op.number)
        early = early_collectives(linked.operations)
        return PricedProgram(
            linked.program.name,
            [self._site(op) for op in kernels],
            _costs(linked, kernels),
            [early.get(op.number, ()) for op in kernels],
            _peak_bytes(linked, kernels),
            self._read_bytes(linked),
        )

    def _site(self, op: RunKernel | Apply) -> Site:
        if isinstance(op, RunKernel):
            return self.ledger.site(op.kernel, op.reads, op.writes)
        return self.ledger.site(op.kernel, op.reads, [op.state])

    def _read_bytes(self, linked: LinkedProgram) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for group, _, size_bytes in _reads(linked):
            for device in self.states.devices[group]:
                sizes[device] = sizes.get(device, 0) + size_bytes
        return sizes


def _kernels(linked: LinkedProgram) -> Iterator[RunKernel | Apply]:
    for op in linked.operations:
        if isinstance(op, RunKernel):
            yield op
        elif isinstance(op, ApplyAll):
            for part in op.parts:
                yield from part.forms


def _reads(linked: LinkedProgram) -> Iterator[tuple[int, Slot, int]]:
    """What is read of groups: the group, the slot that it goes to, and the bytes of the cells that are used."""
    for op in linked.operations:
        if isinstance(op, ReadWithRows):
            yield from ((part.group, part.output, part.size_bytes) for part in op.parts)
        dense = op.dense if isinstance(op, ReadWithRows) else op
        if isinstance(dense, ReadGroups):
            for (group, slot, _), used in zip(dense.groups, dense.cells, strict=True):
                yield group, slot, num_bytes([linked.slots[slot][position] for position in set(used)])


def _costs(linked: LinkedProgram, kernels: list[RunKernel | Apply]) -> list[Cost]:
    """A declared time is that of the step's first kernel, and the others come with it."""
    declared_s, costs = linked.program.seconds, list[Cost]()
    for op in kernels:
        if isinstance(op, Apply):
            costs.append(cost_of_change(_of_its_cells(op)))
        elif declared_s is not None:
            costs.append(Cost(0, 0, declared_s))
            declared_s = 0.0
        else:
            costs.append(FREE if op.moves_only else cost_of(op.kernel.priced))
    return costs


def _of_its_cells(op: Apply) -> Kernel:
    """The kernel of a change; of an assignment, as if its cells were all of the group, for the others stay as they are."""
    if op.of_rule is not None:
        return op.kernel
    state = tuple([op.state[position] for position in op.cells])
    return assigning(op.kernel.name, state, tuple(range(len(state))), op.given)


def cost_of_change(kernel: Kernel) -> Cost:
    """What it costs to change a group by a kernel: of its arrays those that change, and of large tables only the rows that do."""
    of_rows = row_form(kernel)
    return cost_of(changing(kernel if of_rows is None else of_rows.inner))


def _peak_bytes(linked: LinkedProgram, kernels: list[RunKernel | Apply]) -> int:
    # A slot has the type of a whole group, but the slots of an optimizer stay with the owner: only the cells that are used travel.
    sizes = {slot: num_bytes(avals) for slot, avals in enumerate(linked.slots)} | {slot: size for _, slot, size in _reads(linked)}
    held = sum(sizes.values()) + num_bytes([aval for avals in linked.batches for aval in avals]) + _argument_bytes(linked, kernels)
    return held + max((temporaries_bytes(op.kernel.priced) for op in kernels if isinstance(op, RunKernel)), default=0)


def _argument_bytes(linked: LinkedProgram, kernels: list[RunKernel | Apply]) -> int:
    """The bytes of the step's arguments that its kernels take, such as a batch that a loop outside of it goes on to."""
    taken = {number for op in kernels if isinstance(op, RunKernel) for kind, number in op.host if kind == "argument"}
    registers = [register for op in linked.program.operations if isinstance(op, Argument) for register in op.outputs]
    return num_bytes([linked.program.avals[registers[number]] for number in taken])
