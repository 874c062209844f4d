"""The copies of variables that every worker has for itself, and the number of the worker that runs a step.

A copy lies on its worker, so it is lost when that crashes. When the worker is heard of again, its copies begin with their first values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import jax
import numpy as np

from simdist.errors import FailedPreconditionError, UnavailableError
from simdist.program.arrays import Array
from simdist.program.operations import Program, variables_used
from simdist.program.tracing import active_tracer
from simdist.runtime.base import Engine
from simdist.runtime.membership import MemberChange, MemberDecision
from simdist.runtime.work import running_closure
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.handles import variable_of
from simdist.variables.per_worker import PerWorkerVariable
from simdist.variables.placement import Placement
from simdist.variables.state import Cell
from simdist.variables.variable import Variable
from simdist.variables.variable_store import VariableStore

__all__ = ["WorkerCopies", "get_current_worker_index"]


class WorkerStrategy(Protocol):
    """A strategy that runs closures on workers."""

    engine: Engine
    store: VariableStore[Variable]
    workers: list[str]
    worker_numbers: dict[str, int]


class WorkerCopies:
    """The variables of one strategy of which each worker has a copy.

    Args:
        strategy: a `ParameterServerStrategy`.
    """

    def __init__(self, strategy: WorkerStrategy) -> None:
        self.strategy = strategy
        self._first_values: dict[Cell, Array] = {}
        self._index: Variable | None = None

    def require_unused(self) -> None:
        """Refuse that a worker joins or leaves where variables have a copy on each.

        Raises:
            FailedPreconditionError: some have.
        """
        if self._first_values:
            raise FailedPreconditionError(
                "Workers cannot join or leave: there are variables of which each worker has a copy (made with per_worker_variable=True, or "
                "for get_current_worker_index in a step). Let workers come and go before these are made, or use create_per_worker_resource."
            )

    def place(self, variable: Variable, value: Array) -> Placement[Variable]:
        """A copy of a new variable on each worker."""
        return self._add_copies(variable, [value] * len(self.strategy.workers))

    def _add_copies(self, variable: Variable, values: Sequence[Array]) -> Placement[Variable]:
        is_first = not self._first_values
        cells: list[Cell] = []
        for number, (worker, value) in enumerate(zip(self.strategy.workers, values, strict=True)):
            cell = Cell(variable.name, variable.aval, worker, kind="metric", replica=number)
            self.strategy.store.layout.add(cell, value)
            cells.append(cell)
            self._first_values[cell] = value
        PerWorkerVariable.of(variable)
        if is_first:
            self.strategy.engine.subscribe(self.strategy.workers, self.worker_changed)
        return Placement(cells, self.strategy.store, "replicas", "worker")

    def worker_changed(self, seen: MemberDecision) -> None:
        """Make the copies of a worker again that has restarted."""
        if seen.kind is MemberChange.UP:
            layout = self.strategy.store.layout
            lost = [cell for cell in self._first_values if cell.task == seen.task and not layout.versions.devices_of(cell.group.number)]
            try:
                for cell in lost:
                    layout.renew(cell, self._first_values[cell])
            except UnavailableError:
                return  # it has died again meanwhile, and will be heard of once more

    def number(self, program: Program, task: str) -> int:
        """The number of a worker, where a program uses its copies; otherwise 0, as all workers share one linked program.

        Raises:
            FailedPreconditionError: the program uses copies, and the task is no worker.
        """
        if not self._first_values or not _uses_copies(program):
            return 0
        if task not in self.strategy.worker_numbers:
            raise FailedPreconditionError(
                f"The step {program.name} uses a variable of which each worker has a copy, and runs on {task}, which is no worker. Give it "
                "to coordinator.schedule."
            )
        return self.strategy.worker_numbers[task]

    def index(self) -> Variable:
        """A variable whose copy on each worker is the number of that worker."""
        if self._index is None:
            own = self._index = Variable.__new__(Variable)
            own.name, own.shape, own.dtype, own.trainable = "worker_index", (), "int32", False
            own.synchronization, own.aggregation = VariableSynchronization.ON_WRITE, VariableAggregation.NONE
            own.placement = self._add_copies(own, [np.asarray(number, np.int32) for number in range(len(self.strategy.workers))])
        return self._index


def _uses_copies(program: Program) -> bool:
    return any(isinstance(variable_of(variable), PerWorkerVariable) for op in program.operations for variable in variables_used(op))


class _HasCopies(WorkerStrategy, Protocol):
    worker_copies: WorkerCopies


def get_current_worker_index() -> int | jax.Array:
    """The number of the worker that runs this code: inside a function that a coordinator has scheduled, or a dataset's function.

    Returns:
        A number; in a step under ``@sd.function``, which is traced once for all workers, an array of the step.

    Raises:
        FailedPreconditionError: called anywhere else.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
        >>> coordinator = sd.ClusterCoordinator(strategy)
        >>> values = [coordinator.schedule(sd.get_current_worker_index) for _ in range(2)]
        >>> [value.fetch() for value in values]
        [0, 1]
    """
    closure, tracer = running_closure.get(), active_tracer()
    if closure is None:
        raise FailedPreconditionError(
            "get_current_worker_index was called where no worker runs. Call it in a function that ClusterCoordinator.schedule runs, or in "
            "the function of a per-worker dataset."
        )
    strategy = cast("_HasCopies", closure.strategy)
    return strategy.worker_numbers[closure.worker] if tracer is None else tracer.read(strategy.worker_copies.index())
