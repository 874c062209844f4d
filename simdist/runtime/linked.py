"""The operations of a linked program: what a task does, step by step, with the places filled in.

Registers travel in *slots*; a slot holds one bundle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simdist.hardware import MemoryAccount
from simdist.program.cost import Cost
from simdist.program.entry import Site
from simdist.program.exchange import Exchange
from simdist.program.operations import Program
from simdist.program.values import Bundle
from simdist.variables.state import Group

__all__ = [
    "Early",
    "Apply",
    "ApplyAll",
    "CheckFinite",
    "LinkedOperation",
    "LinkedProgram",
    "MakeKey",
    "Meeting",
    "ReadGroups",
    "Run",
    "Slot",
    "TakeBatch",
]

Slot = int


@dataclass(frozen=True, eq=False)
class ReadGroups:
    """Ask for versions of groups: group i goes to slot i. Bytes are those of the cells that are really wanted."""

    groups: tuple[tuple[Group, Slot, int], ...]

    @cached_property
    def group_ids(self) -> tuple[int, ...]:
        return tuple(id(group) for group, _, _ in self.groups)


@dataclass(frozen=True)
class TakeBatch:
    """Take the next batch of an iterator; it becomes batch number `place` of the step."""

    iterator: int
    place: int


@dataclass(frozen=True)
class MakeKey:
    """Make a random key; it becomes host array number `place`."""

    salt: int
    place: int


@dataclass(frozen=True, eq=False)
class Early:
    """An exchange that can begin before the kernel has ended that makes what is exchanged.

    Attributes:
        place: of the bundle among the kernel's outputs.
        fraction: of the kernel's time after which it is there.
    """

    meeting: Meeting
    place: int
    fraction: float


@dataclass(frozen=True, eq=False)
class Run:
    """Call a kernel: bundles of slots, then leaves of a batch, then host arrays."""

    site: Site
    cost: Cost
    slots: tuple[Slot, ...]
    batch: int | None
    host: tuple[tuple[str, int], ...]  # ("batch", n): leaves of a further batch; ("key", n); ("argument", n)
    outputs: tuple[Slot, ...]
    early: tuple[Early, ...] = ()


@dataclass(frozen=True, eq=False)
class Meeting:
    """Exchange the bundle of a slot with the other replicas; what comes out goes to another slot."""

    exchange: Exchange
    operands: Slot
    output: Slot


@dataclass(frozen=True, eq=False)
class Apply:
    """Change one group on one task with the bundle of a slot."""

    group: Group
    site: Site
    cost: Cost
    operands: Slot
    size_bytes: int


@dataclass(frozen=True, eq=False)
class ApplyAll:
    """One update: its parts on all tasks travel at the same time."""

    parts: tuple[Apply, ...]


@dataclass(frozen=True)
class CheckFinite:
    """Look at a value; stop when it is not finite."""

    slot: Slot
    message: str


LinkedOperation = ReadGroups | TakeBatch | MakeKey | Run | Meeting | ApplyAll | CheckFinite


@dataclass(frozen=True, eq=False)
class LinkedProgram:
    """A program with its places.

    Attributes:
        version: of the layout that it was linked against.
        peak_bytes: memory that a step needs where it runs: what it reads and makes, its batches, and the intermediate values of
            its largest kernel.
        read_bytes: the part of it that it reads from each task: where the step runs on that task, it needs no copy.
    """

    program: Program
    operations: tuple[LinkedOperation, ...]
    constants: tuple[tuple[Slot, Bundle], ...]
    result: Slot
    rebuild: Callable[[list[Any]], Any]
    num_slots: int
    version: int
    peak_bytes: int
    read_bytes: dict[str, int]

    def require_memory(self, memory: MemoryAccount) -> None:
        """Make sure that a step fits into a task's memory, beside what is there already.

        Raises:
            ResourceExhaustedError: it does not.
        """
        needed = self.peak_bytes - self.read_bytes.get(memory.owner, 0)
        memory.require(f"a step of {self.program.name} (what it reads, its batch and its intermediate values)", needed)
