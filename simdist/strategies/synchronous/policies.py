"""Policies: what a synchronous step waits for, and what happens before and after it.

A strategy asks its policy at five points: when a variable is created, when a step is called, before and after the replicas run it, and
what becomes of arguments for more replicas than there are. A policy that adds to another one wraps it (`OverAnother`).

Source of backup workers: Chen et al., Revisiting Distributed Synchronous SGD, 2016.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, Tree
from simdist.program.operations import Program
from simdist.program.per_replica import PerReplica
from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.strategies.synchronous.protocols import SteppingStrategy, StepPolicy
from simdist.strategies.synchronous.replica_arguments import require_count
from simdist.variables.variable import Variable

__all__ = ["EveryReplica", "OverAnother", "StepPolicy", "WithBackups"]


class EveryReplica:
    """Each step waits for all replicas, and what one of them raises is raised."""

    @property
    def backup_workers(self) -> int:
        return 0

    @property
    def local_updates(self) -> bool:
        return False

    def attach(self, strategy: SteppingStrategy) -> None:
        """Every strategy can follow this policy."""

    def is_local(self, variable: Variable) -> bool:
        return False

    def step(self, strategy: SteppingStrategy, arguments: Sequence[Tree], take: Callable[[], StepOutcome]) -> StepOutcome:
        return take()

    def require_parts(self, value: PerReplica, count: int) -> None:
        require_count(value, count)

    def between_steps(self) -> None:
        """Nothing."""

    @property
    def kept(self) -> Mapping[str, object]:
        return {}

    def assigned(self, variable: Variable, rule: str, operand: Array) -> None:
        """Nothing."""

    def agree(self, strategy: SteppingStrategy, variables: Sequence[Variable]) -> None:
        """Nothing: all mains have the same values."""

    def read_across(self, strategy: SteppingStrategy) -> Callable[[Variable], Array] | None:
        """Nothing: no copy is local."""

    def evaluating(self, strategy: SteppingStrategy) -> AbstractContextManager[None]:
        """Nothing: replicas are equal after each step."""
        return nullcontext()

    def temporarily(self) -> AbstractContextManager[None]:
        """Nothing: it keeps nothing of what is assigned."""
        return nullcontext()

    def before(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """Nothing."""

    def after(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """Nothing."""


class OverAnother:
    """A policy that asks another one wherever it does not say something else itself.

    Args:
        inner: the other one.
    """

    def __init__(self, inner: StepPolicy) -> None:
        self.inner = inner

    @property
    def backup_workers(self) -> int:
        return self.inner.backup_workers

    @property
    def local_updates(self) -> bool:
        return self.inner.local_updates

    def attach(self, strategy: SteppingStrategy) -> None:
        self.inner.attach(strategy)

    def is_local(self, variable: Variable) -> bool:
        return self.inner.is_local(variable)

    def step(self, strategy: SteppingStrategy, arguments: Sequence[Tree], take: Callable[[], StepOutcome]) -> StepOutcome:
        return self.inner.step(strategy, arguments, take)

    def require_parts(self, value: PerReplica, count: int) -> None:
        self.inner.require_parts(value, count)

    def between_steps(self) -> None:
        self.inner.between_steps()

    @property
    def kept(self) -> Mapping[str, object]:
        return self.inner.kept

    def assigned(self, variable: Variable, rule: str, operand: Array) -> None:
        self.inner.assigned(variable, rule, operand)

    def agree(self, strategy: SteppingStrategy, variables: Sequence[Variable]) -> None:
        self.inner.agree(strategy, variables)

    def read_across(self, strategy: SteppingStrategy) -> Callable[[Variable], Array] | None:
        return self.inner.read_across(strategy)

    def evaluating(self, strategy: SteppingStrategy) -> AbstractContextManager[None]:
        return self.inner.evaluating(strategy)

    def temporarily(self) -> AbstractContextManager[None]:
        return self.inner.temporarily()

    def before(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        self.inner.before(strategy, programs)

    def after(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        self.inner.after(strategy, programs)


class WithBackups(OverAnother):
    """A step does not wait for the slowest: their gradients are dropped, and those of the others stand for them.

    Args:
        number: how many replicas it does not wait for; 1 or more, and fewer than there are.
        inner: the policy otherwise; default `EveryReplica`.

    Raises:
        InvalidArgumentError: `number` is below 1; when it is attached, too many, or replicas that cannot follow it.
        TypeError: `number` is no whole number.
    """

    def __init__(self, number: int, inner: StepPolicy | None = None) -> None:
        super().__init__(EveryReplica() if inner is None else inner)
        self._number = whole_number(number, "backup_workers", 1)

    @property
    def backup_workers(self) -> int:
        return self._number

    def attach(self, strategy: SteppingStrategy) -> None:
        super().attach(strategy)
        if self._number >= strategy.num_replicas_in_sync:
            raise InvalidArgumentError(
                f"backup_workers={self._number} must be 0 or more, and fewer than the {strategy.num_replicas_in_sync} replicas: some "
                "have to be waited for."
            )
        if self.local_updates:
            raise InvalidArgumentError(
                "backup_workers gives up gradients of the slowest in each step, and with sync_every no gradients are exchanged: an average "
                "of variables needs those of all replicas. Leave one of them out."
            )
        compression = strategy.options.compression
        if compression is not None and compression.collective == "all_gather":
            raise InvalidArgumentError(
                f"backup_workers gives up gradients of the slowest in each step, and messages of {type(compression).__name__} are gathered "
                "from all replicas, as they cannot be added up. Use compression=Fp16() or PowerSGD(), or leave one of them out."
            )
        if strategy.launched:
            raise InvalidArgumentError(
                "backup_workers needs one program that drives all workers, which can give up what the slowest are computing. Make the "
                "strategy in the notebook: MultiWorkerMirroredStrategy(cluster, backup_workers=1)."
            )
