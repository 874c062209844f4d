"""The operations of a program, and the handles that stand for things of upper floors.

A program is a short list of coarse operations in one static single assignment form: registers are integers, each
written once. The tracer (same floor) writes programs; a task runtime runs them. Both know variables and iterators only
as handles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simdist.program.collective import Collective
from simdist.program.kernels import Kernel
from simdist.program.values import Aval

__all__ = [
    "Argument",
    "Check",
    "Compute",
    "TracedCollective",
    "Next",
    "Operation",
    "Program",
    "RandomKey",
    "Read",
    "Reference",
    "Return",
    "Update",
    "VariableHandle",
]

Register = int


class Reference:
    """One variable among others: equal to itself alone, whatever their values are; for keys of dicts and members of sets."""

    def __init__(self, variable: VariableHandle) -> None:
        self._variable = variable

    def deref(self) -> VariableHandle:
        """The variable."""
        return self._variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._variable is self._variable

    def __hash__(self) -> int:
        return id(self._variable)

    def __repr__(self) -> str:
        return f"Reference({self._variable!r})"


class VariableHandle:
    """What a program knows of a variable.

    Attributes:
        name: for people.
        shape, dtype: of the whole variable, however it is sharded.
        placement: where its value lives; belongs to the strategy that made it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    placement: Any

    @property
    def aval(self) -> Aval:
        return Aval(self.shape, self.dtype)

    def ref(self) -> Reference:
        """What stands for this variable where it is compared with others: ``==`` compares values."""
        return Reference(self)

    def aggregated(self, tracer: Any, rule: str, operand: Any) -> Any:
        """What a replica's assignment or increment becomes where several replicas make it at the same time."""
        return operand


@dataclass(frozen=True)
class Next:
    """Take the next batch of the iterator that is argument number `iterator` of the call."""

    iterator: int
    signature: Any
    outputs: tuple[Register, ...]


@dataclass(frozen=True)
class Argument:
    """Arrays that the caller passes, leaf by leaf."""

    outputs: tuple[Register, ...]


@dataclass(frozen=True)
class Read:
    """The present value of a variable."""

    variable: VariableHandle
    output: Register


@dataclass(frozen=True)
class RandomKey:
    """A fresh key (two uint32) that depends on the seed, the task, its step, and `salt`."""

    salt: int
    output: Register


@dataclass(frozen=True)
class Compute:
    """Run a kernel."""

    kernel: Kernel
    inputs: tuple[Register, ...]
    outputs: tuple[Register, ...]


@dataclass(frozen=True)
class Update:
    """Change variables where they live.

    Attributes:
        rule: "assign", "add", or an optimizer's rule object; see `simdist.variables.rules`.
        variables: what changes.
        operands: one register for each variable: the new value, the increment, or the gradient.
    """

    rule: Any
    variables: tuple[VariableHandle, ...]
    operands: tuple[Register, ...]


@dataclass(frozen=True)
class TracedCollective:
    """Exchange one or more arrays with the other replicas."""

    collective: Collective
    operands: tuple[Register, ...]
    outputs: tuple[Register, ...]


@dataclass(frozen=True)
class Check:
    """Stop with `InvalidArgumentError` when a value is not finite. An observation point."""

    message: str
    operand: Register


@dataclass(frozen=True)
class Return:
    """The result: registers, and how to put them back together."""

    registers: tuple[Register, ...]
    rebuild: Callable[[list[Any]], Any]


Operation = Next | Argument | Read | RandomKey | Compute | Update | TracedCollective | Check | Return


@dataclass(frozen=True, eq=False)
class Program:
    """A traced step.

    Attributes:
        name: the name of the step function.
        operations: in order.
        constants: registers that hold arrays from tracing time.
        avals: shape and dtype of every register.
        seconds: how long its computation takes, where the user has declared it.
        collectives: what its replica meets the others for, in order.
        rank: the only replica that it is for; None where it is the same for all of its kind.
        signatures: for each `Next`, the signature of the batch that it was traced with.
    """

    name: str
    operations: tuple[Operation, ...]
    constants: dict[Register, Any]
    avals: dict[Register, Aval]
    seconds: float | None = None
    collectives: tuple[Collective, ...] = ()
    rank: int | None = None

    @cached_property
    def signatures(self) -> tuple[tuple[int, Any], ...]:
        return tuple((op.iterator, op.signature) for op in self.operations if isinstance(op, Next))

    def __repr__(self) -> str:
        return f"Program({self.name!r}: {' -> '.join(type(op).__name__ for op in self.operations)})"
