"""The operations of a program, and the handles by which it refers to objects of upper layers.

A program is a short list of coarse operations in one static single assignment form: registers are integers, each
written once. The tracer (same layer) writes programs; a task runtime runs them. Both know variables and iterators only
as handles.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn, Protocol

import jax

from simdist.program.arrays import Array, ArrayLike, Tree
from simdist.program.collective import Collective, CollectiveOptions
from simdist.program.global_sizes import GlobalSize
from simdist.program.kernels import Kernel
from simdist.program.row_numbers import HostIds
from simdist.program.step_iterator import BatchSignature
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
    "ReadRows",
    "Rebuild",
    "Reference",
    "Register",
    "ReplicaTrace",
    "Return",
    "Rule",
    "RuleHandle",
    "Update",
    "VariableHandle",
    "cannot_be_copied",
    "registers_taken",
    "variables_used",
]

Register = int


class Reference:
    """The identity of one variable, whatever its value; for keys of dicts and members of sets."""

    def __init__(self, variable: VariableHandle) -> None:
        self._variable = variable

    def deref(self) -> VariableHandle:
        """The variable."""
        return self._variable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other.deref() is self._variable

    def __hash__(self) -> int:
        return id(self._variable)

    def __repr__(self) -> str:
        return f"Reference({self._variable!r})"


class ReplicaTrace(Protocol):
    """What a variable asks of the step that is being traced, when a replica assigns to it.

    Attributes:
        num_replicas: how many take the step together.
        in_replica: whether code runs for one replica, or across them.
        row_weight: of what it assigns, in a mean over the replicas; 1 where all count alike.
    """

    num_replicas: int
    in_replica: bool
    row_weight: float

    @property
    def has_no_rows(self) -> bool:
        """Whether this replica has parts of batches, of which none has rows."""
        ...

    @property
    def rank(self) -> int:
        """The rank of this replica; a step that asks for it is traced for each replica by itself."""
        ...

    def collective(
        self,
        kind: Literal["all_reduce", "broadcast"],
        values: Sequence[ArrayLike],
        options: CollectiveOptions | None = None,
        label: str = "",
        averaged: bool = False,
        is_for_update: bool = False,
    ) -> list[jax.Array]:
        """A collective with the other replicas, as `Tracer.collective`."""
        ...

    def finite(self, rule: str, variable: VariableHandle, operand: jax.Array) -> jax.Array:
        """What is assigned, or added, where it is a number; otherwise the variable stays as it is."""
        ...


def cannot_be_copied(name: str) -> TypeError:
    """The error of a variable that is to be pickled or copied."""
    return TypeError(
        f"The variable {name!r} cannot be pickled or copied: its value is on tasks of a cluster, which lives in this process. Take its "
        "number, numpy(), which can, or make another variable with that; copy.deepcopy of a whole Keras model makes variables of its own."
    )


class VariableHandle:
    """The form in which a program refers to a variable. Where its value lives is the business of those who store it.

    Attributes:
        name: for people.
        shape, dtype: of the whole variable, however it is sharded.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises:
            TypeError: always.
        """
        raise cannot_be_copied(self.name)

    @property
    def aval(self) -> Aval:
        return Aval(self.shape, self.dtype)

    @property
    def moves_rows(self) -> bool:
        """Whether a step that looks up some rows of it reads those alone."""
        return False

    @property
    def has_differing_copies(self) -> bool:
        """Whether each replica has a copy of its own, which may differ from the others."""
        return False

    @property
    def assigned_with(self) -> Hashable:
        """Variables whose assignments may be one update have an equal one; None: each is an update of its own."""
        return None

    def ref(self) -> Reference:
        """The reference of this variable: ``==`` of variables compares values."""
        return Reference(self)

    def aggregated(self, tracer: ReplicaTrace, rule: str, operand: jax.Array) -> jax.Array:
        """The value of an assignment or an increment that several replicas make at the same time."""
        return operand

    def unseen_value(self) -> Array:
        """The present value, for code that shall not leave a mark in the trace by asking for it."""
        raise NotImplementedError

    # A variable and its shards are handles of the same stored values: a change of one is seen through the other.

    def overlapping(self) -> Sequence[VariableHandle]:
        """The other handles of values that are stored here."""
        return ()

    def found_in(self, values: Mapping[Reference, jax.Array], read: Callable[[VariableHandle], jax.Array]) -> jax.Array | None:
        """The value among some that replace those of variables; `read` gives that of another handle. None: it is not replaced."""
        return values.get(self.ref())

    def put_into(self, values: dict[Reference, jax.Array], value: jax.Array) -> None:
        """Replace the value among some that replace those of variables."""
        values[self.ref()] = value


class RuleHandle:
    """The form in which a program refers to the rule of an optimizer, which says elsewhere how it changes stored values.

    Attributes:
        lazy_rows: whether it changes only rows that have a gradient, where gradients are rows.
    """

    lazy_rows: bool = False

    def changes(self, variable: VariableHandle) -> bool:
        """Whether it keeps this variable beside those that it is given, and changes it with them: a slot, a count of steps."""
        return False


Rule = str | RuleHandle
"""How variables change: "assign", "add", or as an optimizer says."""


@dataclass(frozen=True)
class Next:
    """Take the next batch of the iterator that is argument number `iterator` of the call."""

    iterator: int
    signature: BatchSignature
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
class ReadRows:
    """Rows of a variable, each once, and for each id which of them it means.

    Attributes:
        number: among the row reads of the program.
        ids: gives the ids, on the host, from these sources: registers of batches and arguments.
        outputs: the rows [k, ...] and the positions [k] of the ids; of a replica of several also the positions [k] of its rows
            among those of all replicas.
    """

    variable: VariableHandle
    number: int
    ids: HostIds
    sources: tuple[Register, ...]
    outputs: tuple[Register, ...]


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
        rule: "assign", "add", or the rule of an optimizer; see `simdist.variables.update_rule`.
        variables: what changes.
        operands: one register for each variable: the new value, the increment, or the gradient.
        row_reads: for each variable, None, or the number of the row read whose rows its gradient belongs to; empty: of none.
    """

    rule: Rule
    variables: tuple[VariableHandle, ...]
    operands: tuple[Register, ...]
    row_reads: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class TracedCollective:
    """A collective: one or more arrays are combined with those of the other replicas."""

    collective: Collective
    operands: tuple[Register, ...]
    outputs: tuple[Register, ...]


@dataclass(frozen=True)
class Check:
    """Stop with `InvalidArgumentError` when a value is not finite. An observation point."""

    message: str
    operand: Register


Rebuild = Callable[[list[Array]], Tree]
"""Puts the arrays of a result back into the structure that the step returned."""


@dataclass(frozen=True)
class Return:
    """The result: registers, and how to put them back together."""

    registers: tuple[Register, ...]
    rebuild: Rebuild


Operation = Next | Argument | Read | ReadRows | RandomKey | Compute | Update | TracedCollective | Check | Return


def registers_taken(op: Operation) -> Sequence[Register]:
    """The registers whose values an operation takes, in order."""
    match op:
        case Compute():
            return op.inputs
        case TracedCollective() | Update():
            return op.operands
        case Check():
            return (op.operand,)
        case ReadRows():
            return op.sources
        case Return():
            return op.registers
        case _:
            return ()


def variables_used(op: Operation) -> Sequence[VariableHandle]:
    """The variables that an operation reads or changes."""
    match op:
        case Read() | ReadRows():
            return (op.variable,)
        case Update():
            return op.variables
        case _:
            return ()


@dataclass(frozen=True, eq=False)
class Program:
    """A traced step.

    Attributes:
        name: the name of the step function.
        operations: in order.
        constants: registers that hold arrays from tracing time.
        avals: shape and dtype of every register.
        seconds: how long its computation takes, where the user has declared it.
        collectives: those in which its replica takes part, in order.
        global_sizes: what its replica takes for the number of examples of all replicas, in order.
        rank: the only replica that it is for; None where it is the same for all of its kind.
        ended: the iterators of which it was traced to the end, as in a loop over one: it takes all batches that there are.
        looped: the iterators that its code loops over: a loop ends with them, also one that was left before that when it was traced.
        common_reads: variables that it reads across the replicas as one value: their copies could not differ when it was traced.
        counts: whether a task that has run it has taken one step more; False where a strategy does something for itself.
        signatures: for each `Next`, the signature of the batch that it was traced with.
    """

    name: str
    operations: tuple[Operation, ...]
    constants: dict[Register, ArrayLike]
    avals: dict[Register, Aval]
    seconds: float | None = None
    collectives: tuple[Collective, ...] = ()
    global_sizes: tuple[GlobalSize, ...] = ()
    rank: int | None = None
    ended: frozenset[int] = frozenset()
    looped: frozenset[int] = frozenset()
    common_reads: frozenset[Reference] = frozenset()
    counts: bool = True

    @property
    def reads_differing_copies(self) -> bool:
        """Whether replicas have values of their own by now of what it reads across them as one value."""
        return any(read.deref().has_differing_copies for read in self.common_reads)

    @cached_property
    def signatures(self) -> tuple[tuple[int, BatchSignature], ...]:
        return tuple((op.iterator, op.signature) for op in self.operations if isinstance(op, Next))

    def __repr__(self) -> str:
        return f"Program({self.name!r}: {' -> '.join(type(op).__name__ for op in self.operations)})"
