"""Synchronous strategies: every replica computes a part of the batch, and all change their variables in the same way.

A step is one program that every replica runs on its own device (`simdist.program.replica_programs`); where they must agree they take
part in collectives. A variable is a copy on every device; a copy that cannot differ from the others
is stored once, and one that can (ON_READ, or changed by a replica alone) once for each replica. What a step changes counts
when it is over for all, so a step that fails leaves no mark.

The same strategy drives all replicas from one notebook, or those of one task of many, each with a main of its own.

What its steps wait for a policy says (`policies`); which replicas this program drives, `replicas`.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TypeVar

from simdist import debugging
from simdist.data import Dataset
from simdist.errors import OutOfRangeError
from simdist.input import DistributedDataset, InputContext, InputOptions
from simdist.program.arrays import Array, Tree
from simdist.program.function import BoundCall, StepFunction
from simdist.program.operations import Program
from simdist.program.per_replica import PerReplica, has_values_of_replicas, spread
from simdist.program.replica_programs import ReplicaPrograms
from simdist.program.tracing import active_tracer
from simdist.runtime.cluster import Cluster
from simdist.strategies import context
from simdist.strategies.communication import CommunicationOptions, GroupCommunication
from simdist.strategies.ownership import require_own
from simdist.strategies.reduction import ReduceOp
from simdist.strategies.synchronous.alone import StepsAlone
from simdist.strategies.synchronous.copies import place_copies, require_common_updates, separate_copies
from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.strategies.synchronous.policies import EveryReplica
from simdist.strategies.synchronous.protocols import Axes, Replicas, StepPolicy
from simdist.strategies.synchronous.replica_arguments import ReplicaArguments
from simdist.strategies.synchronous.replicas import DrivenReplicas
from simdist.strategies.synchronous.replicated import ReplicatedStrategy
from simdist.strategies.synchronous.step_programs import StepPrograms
from simdist.variables.aggregation import VariableSynchronization, is_sum_of_replicas
from simdist.variables.gradient_sum import GradientPolicy
from simdist.variables.placement import Placement
from simdist.variables.variable import Variable

__all__ = ["SynchronousStrategy"]

T = TypeVar("T")


class SynchronousStrategy(ReplicatedStrategy):
    """A strategy whose replicas take each step together.

    Args:
        cluster: where it runs; None: this machine alone, or the task whose main runs.
        options: of its collectives.
        policy: what its steps wait for; None: `EveryReplica`.
        replicas: which of its replicas this program drives; None: all.

    Attributes:
        evaluates_alone: whether a launched main evaluates now, or reads, and may not count on the others.

    Raises:
        InvalidArgumentError: the replicas cannot follow the policy.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        options: CommunicationOptions | None = None,
        policy: StepPolicy | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        super().__init__(cluster)
        self.options = options or CommunicationOptions()
        self.evaluates_alone = False
        self.policy: StepPolicy = EveryReplica() if policy is None else policy
        self.replicas: Replicas = DrivenReplicas() if replicas is None else replicas
        self.replicas.attach(self, self._first_members())
        self.policy.attach(self)
        self.communication = GroupCommunication(
            self.engine, self.options, self.reducer_device, self.policy.backup_workers, self.policy.local_updates
        )
        self.replicas.join(self.communication)
        self.programs = StepPrograms(self.store.layout, self._require_program)

    def _require_program(self, program: Program) -> None:
        """Refuse a program that this strategy cannot run."""
        require_own(self, program)
        if self.policy.backup_workers:
            require_common_updates(program)

    @property
    def gradient_policy(self) -> GradientPolicy:
        """What becomes of the replicas' gradients."""
        options = self.options
        return GradientPolicy(
            options.bytes_per_pack,
            options.num_packs,
            options.compression,
            self.policy.local_updates,
            by_rows=self.reducer_device is None,
            tables_apart=self.launched,
            waits_for_all=not self.policy.backup_workers,
        )

    # -- variables ------------------------------------------------------------------------------------------------

    def place(self, variable: Variable, value: Array) -> Placement[Variable]:
        """A copy for every replica."""
        return place_copies(self, variable, value)

    def assigned(self, variable: Variable, rule: str, operand: Array) -> None:
        """A variable was changed from outside of every step."""
        self.policy.assigned(variable, rule, operand)

    def agree(self, variables: Sequence[Variable]) -> None:
        self.policy.agree(self, variables)

    def between_steps(self) -> None:
        self.policy.between_steps()

    @property
    def keeps_companions(self) -> bool:
        return self.options.compression is not None or bool(self.kept)

    @property
    def kept(self) -> Mapping[str, object]:
        return self.policy.kept

    @contextmanager
    def evaluating(self, alone: bool = False) -> Iterator[None]:
        with self.reading_alone(alone), self.policy.evaluating(self):
            yield

    @contextmanager
    def reading_alone(self, alone: bool = True) -> Iterator[None]:
        before, self.evaluates_alone = self.evaluates_alone, alone and self.launched
        try:
            yield
        finally:
            self.evaluates_alone = before

    def temporarily(self) -> AbstractContextManager[None]:
        return self.policy.temporarily()

    def variable_devices(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        """The devices that hold a new variable."""
        return devices

    def separate(self, variable: Variable) -> None:
        """The copies may differ from now on: a replica changes its own alone."""
        separate_copies(self, variable)

    def require_copies(self, variable: Variable) -> None:
        """Raise if there is one copy of a variable for several replicas, which cannot all change it by values of their own.

        Raises:
            InvalidArgumentError: so it is.
        """

    def update_copies(self, variable: Variable, fn: Callable[..., Tree], args: list[Tree], kwargs: dict[str, Tree], group: bool) -> Tree:
        """See `StrategyExtended.update`."""
        if active_tracer() is None:
            return self.eagerly(lambda: self.update_copies(variable, fn, args, kwargs, group), "update")
        has_own_values = has_values_of_replicas((args, kwargs))
        if has_own_values and variable.placement.spread != "replicas":  # those of ON_READ are already apart, under every strategy
            self.require_copies(variable)
            self.separate(variable)
        # Of one value for all replicas, a sum over them gets its share at each: what is assigned is the whole.
        by_copy = variable.synchronization is VariableSynchronization.ON_READ and (has_own_values or not is_sum_of_replicas(variable))
        with context.of_each_copy(by_copy):
            result = fn(variable, *self._arguments_here(args), **self._arguments_here(kwargs))
        return None if group or result is None else spread(result)

    def bytes_of_all(self, data: bytes) -> list[bytes]:
        return self.replicas.bytes_of_all(data)

    @property
    def seeding_task(self) -> str | None:
        """That of the first replica, whose first values count, where a main drives a part of the replicas."""
        return self.replicas.members[0].task if self.launched else None

    # -- input ----------------------------------------------------------------------------------------------------

    def distribute_dataset(self, dataset: Dataset | Iterable[Tree], options: InputOptions | None = None) -> DistributedDataset:
        """Split each batch of a dataset among the replicas, as evenly as can be.

        Args:
            dataset: of global batches; any iterable of batches will do.
            options: `InputOptions`.

        Returns:
            An iterable whose elements hold a `PerReplica` in place of each array.
        """
        return DistributedDataset(self, dataset, options)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> DistributedDataset:
        """Datasets that each input pipeline makes by itself from an `InputContext`; each replica takes batches as they are."""
        super().distribute_datasets_from_function(dataset_fn, options)
        return DistributedDataset(self, dataset_fn, options)

    experimental_distribute_dataset = distribute_dataset
    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    # -- steps ----------------------------------------------------------------------------------------------------

    def step(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> StepOutcome:
        """Run one step on all replicas that this program drives; it takes virtual time.

        Raises:
            OutOfRangeError: a dataset has run out.
            UnavailableError: a task of a replica has died.
        """
        self.replicas.before_step()
        return self.policy.step(self, [*args, *kwargs.values()], lambda: self._take(fn, args, kwargs))

    def _take(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> StepOutcome:
        arguments = ReplicaArguments(len(self.local_members))
        calls = fn.bind_for_each(args, kwargs, [arguments.resolver(local_rank) for local_rank in range(len(self.local_members))])
        try:
            with context.stepping(self):
                programs = self._programs(fn, calls)
        except StopIteration:
            raise OutOfRangeError("The dataset has run out. Ask for fewer steps, or end it with .repeat().") from None
        for value in arguments.parts:
            self.require_parts(value)
        self.policy.before(self, programs)
        is_over_for_all = False
        try:
            outcome = self._run(fn, calls, programs)
            is_over_for_all = not self.policy.backup_workers
        finally:
            if not is_over_for_all:
                arguments.align()
        self.policy.after(self, programs)
        return outcome

    def _programs(self, fn: StepFunction, calls: Sequence[BoundCall]) -> list[Program]:
        """The programs of the replicas that are driven here."""
        traced = self._traced(fn)
        programs = traced.programs(calls)
        return programs if self.programs.take_rows(fn, programs) else traced.programs_of_tables(calls)

    def _run(self, fn: StepFunction, calls: Sequence[BoundCall], programs: Sequence[Program]) -> StepOutcome:
        self.require_program()
        linked = self.programs.linked(fn, programs)
        try:
            bundles = self.group.run(self.members, self.local_members, linked, calls)
        except Exception as error:
            task, engine = self.local_members[0].task, self.engine
            step = f"step {engine.steps_of(task)} of {fn.name}"
            debugging.report(error, step, task, engine.process(task).incarnation, 0, engine.now)
            raise
        return StepOutcome(self.engine, linked, bundles)

    def require_parts(self, value: PerReplica) -> None:
        self.policy.require_parts(value, len(self.local_members))

    def run_step(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Run a step that was called directly, and return its values; None where only its time is simulated."""
        try:
            outcome = self.step(fn, args, kwargs)
        except context.StepBelongsTo:
            self.programs.forget(fn)
            raise
        return None if self.engine.numerics == "off" else outcome.value()

    def eagerly(self, fn: Callable[[], T], name: str, counts: bool = True) -> T:
        """Run a function as a step of its own, once; `counts`: whether tasks have taken one step more then."""
        return self.once(fn, name, counts).value()

    def once(self, fn: Callable[[], object], name: str, counts: bool = True) -> StepOutcome:
        """As `eagerly`; the result is computed when it is read."""
        step = StepFunction(fn, name=name, counts=counts)
        with self.programs.once(step):
            return self.step(step, (), {})

    def _traced(self, fn: StepFunction) -> ReplicaPrograms:
        return self.programs.traced(fn, lambda: ReplicaPrograms(fn, self.num_replicas_in_sync, self.ranks.start, self.gradient_policy))

    @cached_property
    def alone(self) -> StepsAlone:
        """Steps of the first replica that this program drives, without the others."""
        return StepsAlone(self)

    # -- values of replicas ---------------------------------------------------------------------------------------

    def observe(self, read: Callable[[], T]) -> T:
        return self.replicas.observe(read)

    def observe_without_values(self, read: Callable[[], object]) -> None:
        self.replicas.observe_without_values(read)

    def reduce(self, reduce_op: ReduceOp | str, value: Tree, axis: Axes) -> Tree:
        """As in `Strategy.reduce`; in a main of its own, over the replicas of all workers, so every worker has to call it.

        There a plain value is this worker's, and the workers' values are combined.
        """
        return self.reduce_with(None, reduce_op, value, axis)

    def reduce_with(self, options: CommunicationOptions | None, reduce_op: ReduceOp | str, value: Tree, axis: Axes) -> Tree:
        return self.replicas.reduce(super().reduce_with, options, reduce_op, value, axis)

    def gather(self, value: Tree, axis: int) -> Tree:
        """As in `Strategy.gather`; in a main of its own, from all workers, so every worker has to call it."""
        return self.replicas.gather(super().gather, value, axis)
