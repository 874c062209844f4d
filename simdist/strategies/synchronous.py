"""Synchronous strategies: every replica computes a part of the batch, and all change their variables in the same way.

A step is one program that every replica runs on its own device (`simdist.program.replica_programs`); where replicas must agree they meet
in collectives. A variable is a copy on every device; a copy that cannot differ from the others
is stored once, and one that can (ON_READ, or changed by a replica alone) once for each replica. What a step changes counts
when it is over for all, so a step that fails leaves no mark.

The same strategy drives all replicas from one notebook, or those of one task of many, each with a main of its own.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simdist import debugging
from simdist.data import InputContext
from simdist.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from simdist.process_state import active_context
from simdist.program.function import BoundCall, StepFunction
from simdist.program.operations import Program, Read, Update
from simdist.program.per_replica import PerReplica, per_replica, spread
from simdist.program.replica_programs import ReplicaPrograms
from simdist.program.tracing import active_tracer
from simdist.program.values import Bundle
from simdist.runtime.cluster import Cluster
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.linking import link, prepare
from simdist.runtime.replicas import Member
from simdist.strategies import context
from simdist.strategies.base import Strategy
from simdist.strategies.communication import CommunicationOptions, GroupCommunication
from simdist.strategies.distributed import DistributedDataset
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.gradient_sum import GradientPolicy
from simdist.variables.state import Cell, task_of
from simdist.variables.variable import Placement, Variable

__all__ = ["StepOutcome", "SynchronousStrategy"]

COMBINE = {
    VariableAggregation.NONE: "none",
    VariableAggregation.SUM: "sum",
    VariableAggregation.MEAN: "mean",
    VariableAggregation.ONLY_FIRST_REPLICA: "first",
}


class StepOutcome:
    """What a step returned, replica by replica, before anybody has looked."""

    def __init__(self, strategy: SynchronousStrategy, linked: Sequence[LinkedProgram], bundles: Sequence[Bundle]) -> None:
        self.strategy = strategy
        self.linked = linked
        self.bundles = bundles

    def value(self) -> Any:
        """The values, computed now if nobody has asked before."""
        engine = self.strategy.engine
        results = [linked.rebuild(list(arrays)) for linked, arrays in zip(self.linked, engine.arrays(self.bundles), strict=True)]
        if any(bundle.avals for bundle in self.bundles):
            engine.trace.observed()
        return per_replica(results)


class SynchronousStrategy(Strategy):
    """A strategy whose replicas take each step together.

    Args:
        cluster: where it runs; None: this machine alone, or the task whose main runs.
        options: of its collectives.
    """

    backup_workers = 0
    is_elastic = False  # whether replicas may leave: what was meant for them is dropped

    def __init__(self, cluster: Cluster | None = None, options: CommunicationOptions | None = None) -> None:
        here = active_context().locals.get("here")
        self.task_name: str | None = None if here is None else here[1]
        super().__init__(cluster if cluster is not None else None if here is None else here[0])
        self.options = options or CommunicationOptions()
        self.members = self.found_members()
        self.communication = GroupCommunication(self.engine, self.options, self.reducer_device, self.backup_workers)
        self.group = self.engine.replica_group(self.communication)
        self.editions: dict[int, tuple[StepFunction, ReplicaPrograms]] = {}
        self.linked: dict[tuple[int, int], LinkedProgram] = {}

    # -- who takes part -------------------------------------------------------------------------------------------

    def found_members(self) -> list[Member]:
        """All replicas, by rank; the devices are made if they are not there."""
        return [self.member(rank, device) for rank, device in enumerate(self.replica_devices())]

    def replica_devices(self) -> list[str]:
        """The device of each replica."""
        return [self.default_device]

    def member(self, rank: int, device: str) -> Member:
        """A replica on a device."""
        self.engine.add_device(device)
        task = task_of(device)
        return Member(rank, task, device, self.engine.process(task))

    @property
    def default_device(self) -> str:
        return self.task_name or super().default_device

    @property
    def reducer_device(self) -> str | None:
        """A device that reduces for all; None where the replicas do it among themselves."""
        return None

    @property
    def num_replicas_in_sync(self) -> int:
        return len(self.members)

    @property
    def local_members(self) -> list[Member]:
        """The replicas that this program drives."""
        return self.members

    @property
    def num_workers(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Tasks that have replicas."""
        return len({member.task for member in self.members})

    @property
    def ranks(self) -> range:
        first = self.local_members[0].rank
        return range(first, first + len(self.local_members))

    def local_rank_of(self, rank: int) -> int:
        return rank - self.ranks.start

    @property
    def devices(self) -> list[str]:
        """The devices of the replicas."""
        return [member.device for member in self.members]

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that hold variables."""
        return self.devices

    @property
    def is_chief(self) -> bool:
        """Whether this program saves checkpoints."""
        return self.ranks.start == 0

    @property
    def gradient_policy(self) -> GradientPolicy:
        """What becomes of the replicas' gradients."""
        options = self.options
        return GradientPolicy(options.bytes_per_pack, options.num_packs, options.compression, self.local_updates)

    local_updates = False
    """Whether each replica changes trained variables of its own, and they are brought together only now and then."""

    # -- variables ------------------------------------------------------------------------------------------------

    def place(self, variable: Variable, value: Any) -> Placement:
        """A copy for every replica."""
        devices = tuple(dict.fromkeys(member.device for member in self.local_members))
        if variable.synchronization is VariableSynchronization.ON_READ and self.num_replicas_in_sync > 1:
            cells = [self._own_cell(variable, device, "metric") for device in range(len(self.local_members))]
            summed = variable.aggregation is VariableAggregation.SUM
            for number, cell in enumerate(cells):
                self.store.layout.add(cell, value * 0 if summed and number else value)
            return Placement(cells, self.store, "replicas", COMBINE[variable.aggregation], across=self.read_across)
        if self.local_updates and variable.trainable:
            cells = [self._own_cell(variable, device) for device in range(len(self.local_members))]
            for cell in cells:
                self.store.layout.add(cell, value)
            return Placement(cells, self.store, "replicas", "mean", separate=self._separate)
        cell = Cell(variable.name, variable.aval, self.local_members[0].task, devices=self.variable_devices(devices))
        self.store.layout.add(cell, value)
        return Placement([cell], self.store, separate=self._separate)

    def variable_devices(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        """The devices that hold a new variable."""
        return devices

    read_across: Callable[[Any], Any] | None = None
    """Where replicas are driven by several programs: reads what each has for itself, from all of them."""

    def _own_cell(self, variable: Variable, device: int, kind: str = "parameter") -> Cell:
        member = self.local_members[device]
        return Cell(variable.name, variable.aval, member.task, kind=kind, devices=(member.device,), replica=device)

    def _separate(self, variable: Variable) -> None:
        """The copies may differ from now on: a replica changes its own alone."""
        placement: Placement = variable.placement
        if placement.spread == "replicas" or len(self.local_members) == 1:
            return
        value = self.store.cell_value(variable, placement.cells[0])
        self.store.layout.release(placement.cells)
        cells = [self._own_cell(variable, device) for device in range(len(self.local_members))]
        for cell in cells:
            self.store.layout.add(cell, value)
        placement.cells, placement.spread, placement.combine = cells, "replicas", "first"

    def update_copies(self, variable: Variable, fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], group: bool) -> Any:
        """See `StrategyExtended.update`."""
        if active_tracer() is None:
            return self.eagerly(lambda: self.update_copies(variable, fn, args, kwargs, group), "update")
        differs = any(isinstance(argument, PerReplica) for argument in [*args, *kwargs.values()])
        if differs:
            self._separate(variable)
        result = fn(variable, *self._own(args), **self._own(kwargs))
        return None if group or result is None else spread(result)

    # -- input ----------------------------------------------------------------------------------------------------

    def distribute_dataset(self, dataset: Any, options: Any = None) -> DistributedDataset:
        """Split each batch of a dataset among the replicas, as evenly as can be.

        Args:
            dataset: of global batches; any iterable of batches will do.
            options: `InputOptions`.

        Returns:
            An iterable whose elements hold a `PerReplica` in place of each array.
        """
        return DistributedDataset(self, dataset, options)

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Any], options: Any = None) -> DistributedDataset:
        """Datasets that each input pipeline makes by itself from an `InputContext`; each replica takes batches as they are."""
        super().distribute_datasets_from_function(dataset_fn, options)
        return DistributedDataset(self, dataset_fn, options)

    experimental_distribute_dataset = distribute_dataset
    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    # -- steps ----------------------------------------------------------------------------------------------------

    def step(self, fn: StepFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> StepOutcome:
        """Run one step on all replicas that this program drives; it takes virtual time.

        Raises:
            OutOfRangeError: a dataset has run out.
            UnavailableError: a task of a replica has died.
        """
        strange: list[PerReplica] = []
        calls = [fn.bind(args, kwargs, _resolver(device, len(self.local_members), strange)) for device in range(len(self.local_members))]
        try:
            with context.stepping(self):
                programs = self._editions(fn).programs(calls)
        except StopIteration:
            raise OutOfRangeError("The dataset has run out. Ask for fewer steps, or end it with .repeat().") from None
        if strange and not self.is_elastic:
            raise _wrong_number(strange[0], len(self.local_members))
        return self._run(fn, calls, programs)

    def _run(self, fn: StepFunction, calls: Sequence[BoundCall], programs: Sequence[Program]) -> StepOutcome:
        self.require_program()
        linked = self._link(programs)
        try:
            bundles = self.group.run(self.members, self.local_members, linked, calls)
        except Exception as error:
            task, engine = self.local_members[0].task, self.engine
            step = f"step {engine.steps_of(task)} of {fn.name}"
            debugging.report(error, step, task, engine.process(task).incarnation, 0, engine.now)
            raise
        return StepOutcome(self, linked, bundles)

    def eagerly(self, fn: Callable[[], Any], name: str) -> Any:
        """Run a function as a step of its own, once."""
        step = StepFunction(fn, name=name)
        linked = len(self.linked)
        try:
            return self.step(step, (), {}).value()
        finally:
            # It never runs again: what was made for it goes.
            self.editions.pop(id(step), None)
            while len(self.linked) > linked:
                self.linked.popitem()

    def _editions(self, fn: StepFunction) -> ReplicaPrograms:
        if id(fn) not in self.editions:
            self.editions[id(fn)] = (fn, ReplicaPrograms(fn, self.num_replicas_in_sync, self.ranks.start, self.gradient_policy))
        return self.editions[id(fn)][1]

    def forget(self, fn: StepFunction) -> None:
        """Drop what was traced of a step that another strategy runs."""
        self.editions.pop(id(fn), None)

    def _link(self, programs: Sequence[Program]) -> list[LinkedProgram]:
        layout = self.store.layout
        found = [self.linked.get((id(program), device)) for device, program in enumerate(programs)]
        if all(known is not None and known.version == layout.version for known in found):
            return found  # pyright: ignore[reportReturnType]
        for device, program in enumerate(programs):
            self.require_own(program)
            prepare(program, layout, device)
        made = [link(program, layout, device) for device, program in enumerate(programs)]
        self.linked.update({(id(program), device): made[device] for device, program in enumerate(programs)})
        return made

    def require_own(self, program: Program) -> None:
        """Variables of another strategy have copies on other devices.

        Raises:
            FailedPreconditionError: the program uses one.
            TakeOver: it uses only those of one other strategy, where nobody has chosen this one: that one should run it.
        """
        used = [variable for op in program.operations for variable in _variables(op)]
        owners = {id(variable.placement.store): variable.placement.store.strategy for variable in used}
        if set(owners) <= {id(self.store)}:
            return
        if len(owners) == 1 and not context.has_strategy() and context.is_default(self):
            raise context.TakeOver(next(iter(owners.values())))
        foreign = next(variable for variable in used if variable.placement.store is not self.store)
        raise FailedPreconditionError(
            f"Mixing different strategies: {foreign.name} was made in the scope of {foreign.placement.store.strategy!r}, but "
            f"{program.name} runs under {self!r}. Make the variable in this strategy's scope, or run the step under the other one."
        )


def _variables(op: Any) -> tuple[Any, ...]:
    return op.variables if isinstance(op, Update) else (op.variable,) if isinstance(op, Read) else ()


def _resolver(device: int, count: int, strange: list[PerReplica]) -> Callable[[Any], Any]:
    """What a replica gets of an argument; those with more values than replicas are noted, as another strategy may take the step over."""

    def resolve(leaf: Any) -> Any:
        if isinstance(leaf, PerReplica):
            if device >= len(leaf.values):
                raise _wrong_number(leaf, count)
            if len(leaf.values) > count:
                strange.append(leaf)
            return leaf.values[device]
        return leaf.view(device) if hasattr(leaf, "view") and getattr(leaf, "is_per_replica", False) else leaf

    return resolve


def _wrong_number(value: PerReplica, count: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"A PerReplica of {len(value.values)} values was given to a step on {count} replicas. Give one value for each replica; "
        "strategy.distribute_values_from_function and strategy.run make such values."
    )
