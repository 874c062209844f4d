"""A closure: one scheduled call, and how a worker finds what it has to run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from simdist.coordinator.per_worker import PerWorker
from simdist.coordinator.remote_value import Result
from simdist.errors import OutOfRangeError
from simdist.input import InputContext
from simdist.program.bound_call import BoundCall, fits_at_once
from simdist.program.function import StepFunction
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.work import RunningClosure, Worker, running_closure
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["Closure"]

# So often a closure is run again because a message of it was lost; then that is its error.
MAX_TIME_OUTS = 5


@dataclass
class Closure:
    """One scheduled call; of a traced function, as `WorkerStep`. `repeat` steps of it are one closure.

    `key` is equal for calls of the same step with the same arguments; None where that is not known.
    """

    strategy: ParameterServerStrategy
    fn: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    result: Result
    repeat: int = 1
    key: Hashable = None
    time_outs: int = 0

    def may_be_tried_again(self) -> bool:
        """Whether a closure of which a message was lost is run once more; not for ever, as the way may never open again."""
        self.time_outs += 1
        return self.time_outs <= MAX_TIME_OUTS

    def run(self, worker: Worker) -> object:
        """Call a plain function, on this worker."""
        with self._running_on(worker):
            args, kwargs = jax.tree_util.tree_map(lambda leaf: self._resolved(leaf, worker), (self.args, self.kwargs))
            return self.fn(*args, **kwargs)

    def ready(self, worker: Worker) -> tuple[BoundCall, LinkedProgram] | None:
        """The arguments and the program that this worker had for the same call before, where they fit once more."""
        known: tuple[BoundCall, LinkedProgram] | None = worker.local.get(self.key) if self.key is not None else None
        return known if known is not None and self.still_fits(known[1], known[0]) else None

    def bind(self, worker: Worker) -> BoundCall:
        """The arguments of a traced function, on this worker."""
        assert isinstance(self.fn, StepFunction)
        with self._running_on(worker):
            return self.fn.bind(self.args, self.kwargs, lambda leaf: self._resolved(leaf, worker))

    def link(self, worker: Worker, call: BoundCall) -> LinkedProgram:
        """The program of the next step, linked: once for all workers, again when the layout of the variables has changed."""
        assert isinstance(self.fn, StepFunction)
        try:
            with self._running_on(worker):
                program = self.fn.program(call, self.strategy.programs)
        except StopIteration:
            raise OutOfRangeError(
                f"The dataset of {worker.name} has run out; the worker has taken {worker.steps} steps, of all its datasets together. "
                "Schedule fewer steps, or end the dataset with .repeat()."
            ) from None
        linked = self.strategy.link(program, worker.name)
        if self.key is not None and not call.arrays:
            worker.local[self.key] = call, linked
        return linked

    def still_fits(self, linked: LinkedProgram, call: BoundCall) -> bool:
        """Whether the same program can be run once more."""
        return linked.version == self.strategy.store.layout.version and fits_at_once(linked.program, call)

    @contextmanager
    def _running_on(self, worker: Worker) -> Iterator[None]:
        """While code of users runs: what it calls can know that it is called in a closure."""
        running_closure.set(RunningClosure(self.result.number, worker.name, self.strategy, self.strategy.engine))
        try:
            yield
        finally:
            running_closure.set(None)

    def _resolved(self, leaf: object, worker: Worker) -> object:
        return leaf.on(worker, self._input_context) if isinstance(leaf, PerWorker) else leaf

    def _input_context(self, worker: Worker) -> InputContext:
        numbers = self.strategy.worker_numbers
        return InputContext(len(numbers), numbers[worker.name], self.strategy.num_replicas_in_sync)
