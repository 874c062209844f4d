"""The replicas of each worker of a `ParameterServerStrategy` whose workers have several devices.

The replicas of one worker take each step together, as those of a `MirroredStrategy` do: each computes its part of the worker's batch on its
device, and what they combine travels inside the worker. Workers know nothing of each other's replicas.

Variables are on servers, one value for the replicas of all workers. One with aggregation NONE cannot be changed in a replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn, Protocol

import jax

from simdist.arguments import require_shallow
from simdist.caches import BoundedCache, OfLiving
from simdist.errors import InvalidArgumentError
from simdist.input import DistributedDataset, InputContext
from simdist.input.replica_feed import CommonIterator, ReplicaFeed
from simdist.input.worker_input import dataset_of_worker
from simdist.program.arrays import Tree
from simdist.program.bound_call import is_iterator
from simdist.program.function import KEPT_SIGNATURES, StepFunction
from simdist.program.operations import Program
from simdist.program.per_replica import PerReplica
from simdist.program.replica_programs import ReplicaPrograms, warn_of_different_lookups
from simdist.program.taken_batches import fits_at_once
from simdist.runtime.base import Engine
from simdist.runtime.joint_rows import fitted, read_alike
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.worker_replicas import LinkedReplicas, LocalReplicas, ReplicaCalls, have_same_order, require_same_order
from simdist.strategies.communication import CommunicationOptions, GroupCommunication
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.synchronous.replica_arguments import ReplicaArguments, require_count
from simdist.variables.gradient_sum import GradientPolicy
from simdist.variables.placement import Placement
from simdist.variables.variable import Variable
from simdist.variables.variable_store import VariableStore

__all__ = ["ReplicatedInput", "WorkerReplicas"]


class ServerStrategy(Protocol):
    """What the replicas of workers need of their strategy."""

    engine: Engine
    store: VariableStore[Variable]
    moves_rows: bool

    def link(self, fn: StepFunction, program: Program, worker: str, /) -> LinkedProgram: ...


class WorkerReplicas:
    """The replicas of each worker.

    Args:
        strategy: whose workers they are of.
        count: of each worker, 2 or more.

    Attributes:
        local: their devices, and how they talk to each other.
    """

    def __init__(self, strategy: ServerStrategy, count: int) -> None:
        self.strategy = strategy
        self.count = count
        communication = GroupCommunication(strategy.engine, CommunicationOptions())
        self.local = LocalReplicas(tuple(f"gpu:{number}" for number in range(count)), communication)
        self._traced: OfLiving[StepFunction, dict[GradientPolicy, ReplicaPrograms]] = OfLiving(KEPT_SIGNATURES)
        self._fitted: OfLiving[StepFunction, BoundedCache[tuple[Program, ...], list[Program]]] = OfLiving(KEPT_SIGNATURES)

    # -- variables ------------------------------------------------------------------------------------------------

    def guard(self, placement: Placement[Variable]) -> Placement[Variable]:
        """The placement of a new variable, which no replica can change for itself alone."""
        placement.separate = self._refuse_to_separate
        return placement

    def _refuse_to_separate(self, variable: Variable) -> NoReturn:
        raise InvalidArgumentError(
            f"{variable.name} has aggregation NONE, and the {self.count} replicas of a worker were about to change it one by one. Make it "
            "with aggregation=SUM, MEAN or ONLY_FIRST_REPLICA, or change it outside strategy.run."
        )

    # -- steps ----------------------------------------------------------------------------------------------------

    def bind(
        self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree], resolve: Callable[[Tree], Tree] = lambda leaf: leaf
    ) -> ReplicaCalls:
        """The arguments of the replicas of a worker.

        Args:
            fn: the step.
            args, kwargs: of the call.
            resolve: gives what the worker gets of an argument.
        """
        require_shallow((tuple(args), dict(kwargs)), f"the arguments of {fn.name}")
        feeds: dict[int, ReplicaFeed] = {}
        arguments = ReplicaArguments(self.count)

        def of_worker(leaf: Tree) -> Tree:
            found = resolve(leaf)
            if isinstance(found, ReplicaFeed):
                feeds[id(found)] = found
            elif is_iterator(found):
                found = feeds.setdefault(id(found), CommonIterator(found, self.count))
            return found

        own_args, own_kwargs = jax.tree_util.tree_map(of_worker, (tuple(args), dict(kwargs)), is_leaf=lambda x: isinstance(x, PerReplica))
        calls = tuple(fn.bind_for_each(own_args, own_kwargs, [arguments.resolver(rank) for rank in range(self.count)]))
        for value in arguments.parts:
            require_count(value, self.count)
        return ReplicaCalls(calls, tuple(feeds.values()))

    def linked(self, fn: StepFunction, call: ReplicaCalls, worker: str) -> LinkedReplicas:
        """The linked programs of the replicas of a worker, for the batches that come next.

        Raises:
            StopIteration: an iterator has not enough elements left.
            InvalidArgumentError: the replicas do not change the same variables in the same order.
        """
        policy = GradientPolicy(by_rows=self.strategy.moves_rows, tables_apart=self.strategy.moves_rows, reads_rows=True)
        linked = self._linked(fn, call, worker, policy)
        if not read_alike(linked):
            warn_of_different_lookups(fn.name)
            policy = replace(policy, by_rows=False, tables_apart=False)
            linked = self._linked(fn, call, worker, policy)
        if not have_same_order(linked):
            # A replica without rows may have its gradients, zeros, before what the others wait for.
            linked = self._linked(fn, call, worker, replace(policy, in_order=True))
        require_same_order(linked)
        return LinkedReplicas(tuple(linked))

    def _linked(self, fn: StepFunction, call: ReplicaCalls, worker: str, policy: GradientPolicy) -> list[LinkedProgram]:
        traced = self._traced.get(fn, dict)
        if policy not in traced:
            traced[policy] = ReplicaPrograms(fn, self.count, 0, policy)
        given = traced[policy].programs(call.calls)
        programs = self._fitted.get(fn, lambda: BoundedCache(KEPT_SIGNATURES)).get(tuple(given), lambda: fitted(given))
        linked = [self.strategy.link(fn, program, worker) for program in programs]
        if any(program.version != self.strategy.store.layout.version for program in linked):
            # A later one has joined groups that an earlier one uses.
            linked = [self.strategy.link(fn, program, worker) for program in programs]
        return linked

    def still_fits(self, linked: LinkedReplicas, call: ReplicaCalls) -> bool:
        """Whether the same programs can be run once more, if this is known without running code of a user's pipeline."""
        version = self.strategy.store.layout.version
        return all(one.version == version and fits_at_once(one.program, own) for one, own in zip(linked.programs, call.calls, strict=True))


class ReplicatedInput(DistributedFromFunction):
    """Datasets that each worker makes for its replicas: their elements hold a `PerReplica` in place of each array.

    Args:
        dataset_fn, options, dataset: as of `DistributedFromFunction`.
    """

    def on_worker(self, context: InputContext) -> DistributedDataset:
        return dataset_of_worker(self.dataset_fn if self.dataset is None else self.dataset, context, self.options)
