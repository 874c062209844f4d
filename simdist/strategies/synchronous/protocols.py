"""What the parts of a synchronous strategy know of each other: the strategy, its replicas, and the policy of its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, TypeVar

from simdist.program.arrays import Array, Tree
from simdist.program.function import StepFunction
from simdist.program.operations import Program
from simdist.program.per_replica import PerReplica
from simdist.runtime.base import Engine
from simdist.runtime.replicas import Member, ReplicaGroup
from simdist.runtime.store import Store
from simdist.strategies.communication import CommunicationOptions, GroupCommunication
from simdist.strategies.reduction import ReduceOp
from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.strategies.synchronous.step_programs import StepPrograms
from simdist.variables.reachability import KnownVariables
from simdist.variables.variable import Variable

__all__ = ["Axes", "LocalGather", "LocalReduce", "Replicas", "StepPolicy", "SteppingStrategy"]

T = TypeVar("T")

Axes: TypeAlias = int | Sequence[int] | None
"""The axes that `reduce` reduces, too; None for none."""

LocalReduce: TypeAlias = Callable[[CommunicationOptions | None, ReduceOp | str, Tree, Axes], Tree]
"""`Strategy.reduce`, with options, over the replicas of one program; in a step over all replicas."""

LocalGather: TypeAlias = Callable[[Tree, int], Tree]
"""`Strategy.gather` likewise."""


class SteppingStrategy(Protocol):
    """What replicas and policies know of the strategy that they belong to."""

    @property
    def engine(self) -> Engine: ...
    @property
    def store(self) -> Store: ...
    @property
    def known_variables(self) -> KnownVariables[Variable]: ...
    @property
    def options(self) -> CommunicationOptions: ...
    @property
    def policy(self) -> StepPolicy: ...
    @property
    def replicas(self) -> Replicas: ...
    @property
    def programs(self) -> StepPrograms: ...
    @property
    def num_replicas_in_sync(self) -> int: ...
    @property
    def has_several_replicas(self) -> bool: ...
    @property
    def launched(self) -> bool: ...
    @property
    def evaluates_alone(self) -> bool: ...
    @property
    def members(self) -> list[Member]: ...
    @property
    def local_members(self) -> list[Member]: ...
    @property
    def ranks(self) -> range: ...
    @property
    def group(self) -> ReplicaGroup: ...
    def local_rank_of(self, rank: int) -> int: ...
    def scope(self) -> AbstractContextManager[object]: ...
    def step(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> StepOutcome: ...
    def eagerly(self, fn: Callable[[], T], name: str, counts: bool = True) -> T: ...
    def once(self, fn: Callable[[], object], name: str, counts: bool = True) -> StepOutcome: ...
    def separate(self, variable: Variable) -> None: ...
    def variable_devices(self, devices: tuple[str, ...]) -> tuple[str, ...]: ...
    def _each(self, value: Tree) -> Tree: ...


class Replicas(Protocol):
    """The replicas that take a strategy's steps together.

    Attributes:
        members: all of them, by rank.
        group: where they take part in collectives.
        launched: whether every worker has a main of its own.
        read_across: reads a variable with replica-local values of other programs; None where this program has them all.
    """

    members: list[Member]
    group: ReplicaGroup

    @property
    def launched(self) -> bool: ...

    @property
    def local_members(self) -> list[Member]:
        """The replicas that this program drives."""
        ...

    @property
    def worker_index(self) -> int:
        """The index of this program's worker; 0 where one program drives all."""
        ...

    @property
    def is_chief(self) -> bool:
        """Whether this program saves checkpoints."""
        ...

    @property
    def read_across(self) -> Callable[[Variable], Array] | None: ...

    def attach(self, strategy: SteppingStrategy, members: list[Member]) -> None:
        """Become the replicas of a strategy."""
        ...

    def join(self, communication: GroupCommunication) -> None:
        """Form the group, or join that of the other mains."""
        ...

    def before_step(self) -> None:
        """What has to happen before a step can run: mains share the initial values of new variables."""
        ...

    def observe(self, read: Callable[[], T]) -> T:
        """Read variables, all of them at once."""
        ...

    def observe_without_values(self, read: Callable[[], object]) -> None:
        """Take the time of `observe`, where no numbers are computed."""
        ...

    def reduce(self, local: LocalReduce, options: CommunicationOptions | None, op: ReduceOp | str, value: Tree, axis: Axes) -> Tree:
        """`Strategy.reduce`, with options, over all replicas; `local` does it for those of this program."""
        ...

    def bytes_of_all(self, data: bytes) -> list[bytes]:
        """What each main has, in the order of the workers."""
        ...

    def gather(self, local: LocalGather, value: Tree, axis: int) -> Tree:
        """`Strategy.gather` from all replicas; `local` does it for those of this program."""
        ...


class StepPolicy(Protocol):
    """How the replicas of a strategy take a step.

    Attributes:
        backup_workers: how many replicas a step does not wait for.
        local_updates: whether replicas apply their own gradients, without a collective.
    """

    @property
    def backup_workers(self) -> int: ...

    @property
    def local_updates(self) -> bool: ...

    def attach(self, strategy: SteppingStrategy) -> None:
        """Become the policy of a strategy, whose replicas are known.

        Raises:
            InvalidArgumentError: its replicas or its options do not go with this policy.
        """
        ...

    def is_local(self, variable: Variable) -> bool:
        """Whether each replica gets a copy of a new variable that may differ from the others."""
        ...

    def step(self, strategy: SteppingStrategy, arguments: Sequence[Tree], take: Callable[[], StepOutcome]) -> StepOutcome:
        """Take a step: call `take`, which binds the arguments and runs all replicas, once or until it succeeds."""
        ...

    def require_parts(self, value: PerReplica, count: int) -> None:
        """Refuse values, one for each replica, that a step was given, where they do not fit its replicas.

        Args:
            value: an argument, or what the step closes over.
            count: of the replicas that this program drives.

        Raises:
            InvalidArgumentError: they do not.
        """
        ...

    def between_steps(self) -> None:
        """The program is about to read or to change variables outside of every step; takes no virtual time."""
        ...

    @property
    def kept(self) -> Mapping[str, object]:
        """What it keeps from step to step, by name, for a checkpoint."""
        ...

    def assigned(self, variable: Variable, rule: str, operand: Array) -> None:
        """A variable was changed from outside of every step: "assign", or "add"."""
        ...

    def agree(self, strategy: SteppingStrategy, variables: Sequence[Variable]) -> None:
        """All mains have assigned to these variables, each what its replicas have: from now on they have the average."""
        ...

    def read_across(self, strategy: SteppingStrategy) -> Callable[[Variable], Array] | None:
        """What reads a local copy where other programs have others; None where this program has them all."""
        ...

    def evaluating(self, strategy: SteppingStrategy) -> AbstractContextManager[None]:
        """Inside, all replicas evaluate the same model; those of a main that evaluates alone, the same among themselves."""
        ...

    def temporarily(self) -> AbstractContextManager[None]:
        """Inside, what is assigned to variables is no part of the training: it stands there for a while."""
        ...

    def before(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """The replicas are about to run these programs, one each."""
        ...

    def after(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """The replicas have run these programs; nothing of it has failed."""
        ...
