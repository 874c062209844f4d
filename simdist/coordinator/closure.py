"""A closure: one scheduled call, and how a worker finds what it has to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from simdist.coordinator.per_worker import PerWorker
from simdist.coordinator.remote_value import Result
from simdist.data import InputContext
from simdist.errors import OutOfRangeError
from simdist.program.function import BoundCall, StepFunction, fits_at_once
from simdist.runtime.base import Worker
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.linking import link, prepare
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["Closure"]


@dataclass
class Closure:
    """One scheduled call; of a traced function, as `WorkerStep`. `repeat` steps of it are one closure."""

    strategy: ParameterServerStrategy
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Result
    repeat: int = 1

    @property
    def is_traced(self) -> bool:
        return isinstance(self.fn, StepFunction)

    def run(self, worker: Worker) -> Any:
        """Call a plain function, on this worker."""
        args, kwargs = jax.tree_util.tree_map(lambda leaf: self._resolved(leaf, worker), (self.args, self.kwargs))
        return self.fn(*args, **kwargs)

    def bind(self, worker: Worker) -> BoundCall:
        """The arguments of a traced function, on this worker."""
        assert isinstance(self.fn, StepFunction)
        return self.fn.bind(self.args, self.kwargs, lambda leaf: self._resolved(leaf, worker))

    def _resolved(self, leaf: Any, worker: Worker) -> Any:
        if not isinstance(leaf, PerWorker):
            return leaf
        workers = self.strategy.workers
        context = InputContext(len(workers), workers.index(worker.name), self.strategy.num_replicas_in_sync)
        return leaf.on(worker, context)

    def link(self, worker: Worker, call: BoundCall) -> LinkedProgram:
        """The program of the next step, linked: once for all workers, again when the layout of the variables has changed."""
        assert isinstance(self.fn, StepFunction)
        try:
            program = self.fn.program(call, context=id(self.strategy))
        except StopIteration:
            raise OutOfRangeError(
                f"The dataset of {worker.name} has run out after {worker.steps} steps. Schedule fewer steps, or end the dataset "
                "with .repeat()."
            ) from None
        layout, known = self.strategy.store.layout, self.strategy.linked
        linked = known.get(id(program))
        if linked is None or linked.version != layout.version:
            prepare(program, layout)
            linked = known[id(program)] = link(program, layout)
        return linked

    def still_fits(self, linked: LinkedProgram, call: BoundCall) -> bool:
        """Whether the same program can be run once more."""
        return linked.version == self.strategy.store.layout.version and fits_at_once(linked.program, call)
