"""The operations of a linked program: a program that is bound to groups and slots.

Registers travel in *slots*; a slot holds one bundle. Groups are numbers (`simdist.variables.state.Group.number`). An operation says
nothing about time: the engine that runs it knows its price.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol
from weakref import ref

from simdist.program.collective import Collective
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import Program, Rebuild
from simdist.program.row_numbers import HostIds
from simdist.program.values import Aval, Bundle, BundleType
from simdist.variables.state import Group
from simdist.variables.update_rule import Combination, UpdateRule

__all__ = [
    "Apply",
    "ApplyAll",
    "CheckFinite",
    "GroupPart",
    "LinkedOperation",
    "LinkedProgram",
    "MakeKey",
    "LinkedCollective",
    "OfRule",
    "ReadGroups",
    "ReadWithRows",
    "RowOperand",
    "RowShard",
    "RowSum",
    "RunKernel",
    "Runnable",
    "Slot",
    "TableRows",
    "TakeBatch",
]

Slot = int


@dataclass(frozen=True, eq=False)
class ReadGroups:
    """Read versions of groups: (group, slot that it goes to, bytes of the cells that are used) of each.

    Attributes:
        cells: for each group the positions of the cells that are used; for accounts of what travels, empty where nothing does.
        counted: the groups to which the replica itself has added before in the step (`simdist.runtime.counted_reads`).
    """

    groups: tuple[tuple[int, Slot, int], ...]
    cells: tuple[tuple[int, ...], ...] = ()
    counted: tuple[int, ...] = ()

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        return tuple([group for group, _, _ in self.groups])

    @cached_property
    def outputs(self) -> tuple[Slot, ...]:
        return tuple([slot for _, slot, _ in self.groups])


@dataclass(frozen=True, eq=False)
class RowShard:
    """A shard of a table: the cell at a position of a group, which has the rows from `first` to `stop`; and the type of the group."""

    group: int
    position: int
    first: int
    stop: int
    state: BundleType


@dataclass(frozen=True, eq=False)
class TableRows:
    """A read of some rows of a table: which ones follows from the batch, when a step runs.

    Attributes:
        number: among the row reads of the step.
        ids: gives the row numbers from the sources: ("batch", n, leaf) or ("argument", n, 0).
        shards: of the table, in the order of their rows.
        rows: what is read: [k, ...].
        output: where it goes, as a bundle of one array.
    """

    number: int
    ids: HostIds
    sources: tuple[tuple[str, int, int], ...]
    shards: tuple[RowShard, ...]
    rows: Aval
    output: Slot

    @cached_property
    def row_bytes(self) -> int:
        """The bytes of one row."""
        return Aval(self.rows.shape[1:], self.rows.dtype).size_bytes


@dataclass(frozen=True, eq=False)
class GroupPart:
    """A read of some cells of a group that also has tables: a step that holds what was read does not hold the tables.

    Attributes:
        positions: of the cells, in the order in which they are in the slot.
        size_bytes: of the cells.
    """

    group: int
    positions: tuple[int, ...]
    size_bytes: int
    state: BundleType
    output: Slot

    @cached_property
    def kernel(self) -> Kernel:
        """Takes the group, and gives the cells."""
        return kernel_of("part of a group", lambda *arrays: [arrays[position] for position in self.positions], self.state)


@dataclass(frozen=True, eq=False)
class ReadWithRows:
    """A read of groups, of parts of groups (there may be none of both), and of rows of tables, at the same time."""

    dense: ReadGroups
    parts: tuple[GroupPart, ...]
    tables: tuple[TableRows, ...]

    @cached_property
    def outputs(self) -> tuple[Slot, ...]:
        return (*self.dense.outputs, *(part.output for part in self.parts), *(table.output for table in self.tables))

    @property
    def groups(self) -> tuple[int, ...]:
        """All that are read."""
        shards = [shard.group for table in self.tables for shard in table.shards]
        return tuple(dict.fromkeys((*self.dense.numbers, *(part.group for part in self.parts), *shards)))


@dataclass(frozen=True, eq=False)
class TakeBatch:
    """Take the next batch of an iterator; it becomes batch number `position` of the step."""

    iterator: int
    position: int


@dataclass(frozen=True, eq=False)
class MakeKey:
    """Make a random key; it becomes host array number `position`."""

    salt: int
    position: int


@dataclass(frozen=True, eq=False)
class RunKernel:
    """Call a kernel: bundles of slots, then leaves of a batch, then host arrays.

    Attributes:
        number: among the kernels of the step, updates included.
        reads, writes: the types of the bundles that go in and come out.
        host: ("batch", n): leaves of a further batch; ("key", n); ("argument", n); ("rows", n): the positions of the ids of row read n;
            ("joint", n): those of its rows among the joint ones.
        moves_only: whether it only lays arrays beside each other in another order, which no device would do.
    """

    number: int
    kernel: Kernel
    reads: tuple[BundleType, ...]
    writes: tuple[BundleType, ...]
    slots: tuple[Slot, ...]
    batch: int | None
    host: tuple[tuple[str, int], ...]
    outputs: tuple[Slot, ...]
    moves_only: bool


@dataclass(frozen=True, eq=False)
class LinkedCollective:
    """A collective over the bundle of a slot; its result goes to another slot."""

    collective: Collective
    operands: Slot
    output: Slot


@dataclass(frozen=True)
class OfRule:
    """The rule of an optimizer that changes a group; it makes kernels for gradients of other forms, too.

    It does not keep the rule alive, and with it the variables: tasks remember the updates that they have sent for as long as they live.
    Whatever runs or waits keeps its program, or the rule itself.
    """

    reference: ref[UpdateRule]
    group: Group

    @classmethod
    def of(cls, rule: UpdateRule, group: Group) -> OfRule:
        """This rule for this group."""
        return cls(ref(rule), group)

    @property
    def rule(self) -> UpdateRule:
        """The rule."""
        rule = self.reference()
        assert rule is not None, "who asks keeps it"
        return rule


@dataclass(frozen=True, eq=False)
class Apply:
    """Change one group with the bundle of a slot: a kernel of the group's arrays and the operands gives its next version.

    Attributes:
        number: among the kernels of the step.
        task: that owns the group.
        size_bytes: of the operands; of gradients of rows, those of the rows are added when it is known which.
        combination: with updates of others that count together with it.
        rows: the gradients of rows among the operands of the kernel, after the bundle.
        sums: sums of such gradients over replicas, as the kernel takes them after the bundle; there are no `rows` then.
        of_rows: the same change where all these sums are ids and rows, and not tables; None where there are none.
        cells: the positions in the group of the cells that the operands belong to, those of the rows last; for accounts of what travels.
            None of them where the change is only counted.
        of_each: whether each replica of a worker has operands of its own, all of which count.
        of_rule: of an optimizer; None where none is at hand.
    """

    number: int
    group: int
    task: str
    kernel: Kernel
    state: BundleType
    given: BundleType
    operands: Slot
    size_bytes: int
    combination: Combination = "mean"
    rows: tuple[RowOperand, ...] = ()
    cells: tuple[int, ...] = ()
    sums: tuple[RowSum, ...] = ()
    of_rows: Apply | None = None
    of_each: bool = False
    of_rule: OfRule | None = None

    @property
    def reads(self) -> tuple[BundleType, ...]:
        """The types of the bundles that the kernel takes."""
        given = (self.given,) if self.given or not (self.rows or self.sums) else ()
        return (self.state, *given, *((operand.rows,) for operand in self.rows), *(total.given for total in self.sums))

    @cached_property
    def combined_by(self) -> Hashable:
        """Updates of a group with an equal one do the same, by other operands: gradients of an optimizer may be of other rows."""
        if self.of_rule is None or self.sums:
            return self.kernel
        dtypes = [aval.dtype for aval in (*self.given, *(operand.rows for operand in self.rows))] if self.cells else []
        return self.of_rule, frozenset(zip(self.cells, dtypes, strict=True))

    @cached_property
    def gradients(self) -> tuple[tuple[int, Slot], ...]:
        """Of each gradient of rows the number of its row read, and its slot."""
        return tuple([(operand.number, operand.slot) for operand in self.rows])

    @property
    def forms(self) -> tuple[Apply, ...]:
        """The change itself, and the same one of rows, if there is one."""
        return (self,) if self.of_rows is None else (self, self.of_rows)

    @cached_property
    def mixtures(self) -> dict[tuple[BundleType, ...], Apply]:
        """The same change for sums of these types, once a step had them."""
        return {}


@dataclass(frozen=True, eq=False)
class RowOperand:
    """A gradient of rows, as one group takes it: the slot that holds the rows [k, ...] of row read `number`, and which of them are its."""

    number: int
    slot: Slot
    rows: Aval
    first: int
    stop: int

    @cached_property
    def row_bytes(self) -> int:
        """The bytes of one row."""
        return self.rows.size_bytes // self.rows.shape[0]


@dataclass(frozen=True, eq=False)
class RowSum:
    """The sum of a table's gradients over replicas: its slot, and what a change takes there: ids [m] and rows [m, ...], or a table."""

    slot: Slot
    given: BundleType


@dataclass(frozen=True, eq=False)
class ApplyAll:
    """One update: its parts on all tasks travel at the same time."""

    parts: tuple[Apply, ...]

    @cached_property
    def of_each(self) -> bool:
        """Whether each replica of a worker has operands of its own, all of which count."""
        return all(part.of_each for part in self.parts)

    @cached_property
    def moves_rows(self) -> bool:
        """Whether gradients of rows are among the operands."""
        return any(part.rows for part in self.parts)

    @cached_property
    def takes_sums(self) -> bool:
        """Whether sums of such gradients are, which may be rows or tables."""
        return any(part.sums for part in self.parts)


@dataclass(frozen=True, eq=False)
class CheckFinite:
    """Stop the step when a value is not finite."""

    slot: Slot
    message: str


LinkedOperation = ReadGroups | ReadWithRows | TakeBatch | MakeKey | RunKernel | LinkedCollective | ApplyAll | CheckFinite


class Runnable(Protocol):
    """What a task needs of a linked program in order to run it; as of `LinkedProgram`."""

    @property
    def operations(self) -> tuple[LinkedOperation, ...]: ...
    @property
    def constants(self) -> tuple[tuple[Slot, Bundle], ...]: ...
    @property
    def result(self) -> Slot: ...
    @property
    def slots(self) -> tuple[BundleType, ...]: ...


@dataclass(frozen=True, eq=False)
class LinkedProgram:
    """A program that is bound to the groups of its variables.

    Attributes:
        version: of the layout that it was linked against.
        slots: the type of the bundle in each slot.
        batches: the types of the batches that it takes.
    """

    program: Program
    operations: tuple[LinkedOperation, ...]
    constants: tuple[tuple[Slot, Bundle], ...]
    result: Slot
    rebuild: Rebuild
    slots: tuple[BundleType, ...]
    batches: tuple[BundleType, ...]
    version: int

    @cached_property
    def draws(self) -> bool:
        """Whether a step of it draws random numbers."""
        return any(isinstance(op, MakeKey) for op in self.operations)
