"""Steps that a program with parameter servers runs on its chief: slow, as no worker helps, and useful for a look at values.

The chief runs such a step as a worker runs a closure: it reads variables over the network and sends its updates to the servers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from simdist.errors import OutOfRangeError
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.program.operations import Program
from simdist.runtime.base import Engine
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.serving import Serving
from simdist.runtime.work import Drawn, LinkedStep, StepCall, StepResult, Worker, WorkerPool
from simdist.runtime.worker_replicas import ReplicaCalls
from simdist.strategies.served_programs import ServedPrograms
from simdist.strategies.worker_replicas import WorkerReplicas
from simdist.variables.variable import Variable
from simdist.variables.variable_store import VariableStore

__all__ = ["CoordinatorSteps"]

log = logging.getLogger("simdist")


class ServerStrategy(Protocol):
    """What running a step on the chief needs of a strategy with parameter servers."""

    engine: Engine
    store: VariableStore[Variable]
    programs: ServedPrograms
    serving: Serving
    replicas: WorkerReplicas | None

    def link(self, fn: StepFunction, program: Program, worker: str, /) -> LinkedProgram: ...


class _StepOnCoordinator:
    """One step, as `WorkerStep`."""

    repeat = 1
    keeps_each = False
    argument_bytes = 0  # they are here

    def __init__(self, strategy: ServerStrategy, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> None:
        self.strategy = strategy
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.drawn: dict[int, Drawn] = {}

    def ready(self, worker: Worker) -> None:
        return None

    def bind(self, worker: Worker) -> StepCall:
        replicas = self.strategy.replicas
        return self.fn.bind(self.args, self.kwargs) if replicas is None else replicas.bind(self.fn, self.args, self.kwargs)

    def link(self, worker: Worker, call: StepCall) -> LinkedStep:
        replicas = self.strategy.replicas
        try:
            if isinstance(call, ReplicaCalls):
                assert replicas is not None
                return replicas.linked(self.fn, call, worker.name)
            program = self.strategy.programs.program(self.fn, call)
        except StopIteration:
            raise OutOfRangeError("The dataset has run out. Take fewer steps, or end it with .repeat().") from None
        return self.strategy.link(self.fn, program, worker.name)

    def still_fits(self, linked: LinkedStep, call: StepCall) -> bool:
        return False


class CoordinatorSteps:
    """Runs steps on the chief, and warns of it once.

    Args:
        strategy: whose steps they are.
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy: ServerStrategy = strategy
        self._pool: WorkerPool | None = None
        self._has_warned = False

    def warn(self, what: str) -> None:
        """Warn, the first time, of what runs on the coordinator and not on a worker."""
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s was called on the coordinator, outside of a scheduled function, and runs on %s: no worker helps. Use "
                "ClusterCoordinator(strategy).schedule(fn) for training.",
                what,
                self.strategy.engine.chief,
            )

    def run(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Run a step on the chief; its values, as numpy arrays, or None where no numbers are computed."""
        engine = self.strategy.engine
        engine.require_usable(f"The step {fn.name} was called")
        self.warn(f"The step {fn.name}")
        if self._pool is None:
            replicas = self.strategy.replicas
            local = None if replicas is None else replicas.local
            # A step of the chief belongs to no round, and is not run again: it ends with its program.
            serving = replace(self.strategy.serving, in_rounds=False, exactly_once=False)
            self._pool = engine.start_workers([engine.chief], self.strategy, serving, local)  # pyright: ignore[reportArgumentType]
        handle = self._pool.call(engine.chief, _StepOnCoordinator(self.strategy, fn, args, kwargs), 0)
        result = handle.wait()
        handle.accept()
        assert isinstance(result, StepResult)
        return None if engine.numerics == "off" else result.value(engine)
