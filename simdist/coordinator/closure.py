"""A closure: one scheduled call, and how a worker finds what it has to run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import jax

from simdist.arguments import name_of_function
from simdist.coordinator.handed_out import NumberedBatches
from simdist.coordinator.known_steps import keep_step, known_step
from simdist.coordinator.options import CoordinatorOptions
from simdist.coordinator.per_worker import PerWorker, PerWorkerDataset, PerWorkerIterator, PerWorkerResource, PipelineNumber
from simdist.coordinator.refusals import second_step
from simdist.coordinator.remote_value import RemoteValue, Result
from simdist.coordinator.sent_values import sent
from simdist.data.iterator import DatasetIterator
from simdist.data.surroundings import note_names, warn_of_changed_names
from simdist.errors import CancelledError, InvalidArgumentError, OutOfRangeError, TimedOutError
from simdist.input import DistributedIterator, InputContext
from simdist.jax_settings import OpenSetting, has_another_width, open_settings, opened, trace_settings
from simdist.program.arrays import Tree, bytes_of_arrays
from simdist.program.bound_call import BoundCall
from simdist.program.explained_errors import explained, require_of_dataset
from simdist.program.function import StepFunction
from simdist.program.taken_batches import fits_at_once
from simdist.program.values import snapshot
from simdist.runtime.work import Drawn, LinkedStep, RunningClosure, StepCall, TakeStep, Worker, running_closure
from simdist.runtime.worker_replicas import LinkedReplicas, ReplicaCalls
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.server_input import making_dataset

__all__ = ["Closure", "new_closure"]

Taken: TypeAlias = tuple[PipelineNumber, DatasetIterator | DistributedIterator]
"""An iterator that a closure takes batches of, and of which pipeline it is."""

MAX_TIME_OUTS = CoordinatorOptions.tolerated_time_outs


@dataclass
class Closure:
    """One scheduled call; of a traced function, as `WorkerStep`. `repeat` steps of it are one closure, and `keeps_each` says whether the
    results of all of them are kept.

    `key` is equal for calls of one step with the same arguments, of one strategy; None where that is not known. `resuming` are the
    arguments whose positions count, and `taken` the iterators, with their pipelines, of each worker that has run the closure;
    `handed_out` are the batches that it takes by number; `begun` is the worker that was sent it last; `drawn` as of `WorkerStep`;
    `jax_settings` are those in which it was scheduled, and in which its Python runs; `argument_bytes` as of `WorkerStep`;
    `has_resources` says whether there are per-worker resources among the arguments.
    """

    strategy: ParameterServerStrategy
    fn: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    result: Result
    repeat: int = 1
    keeps_each: bool = False
    key: Hashable = None
    tolerated_time_outs: int = MAX_TIME_OUTS
    time_outs: int = 0
    begun: str = ""
    resuming: tuple[PerWorkerIterator, ...] = ()
    handed_out: tuple[NumberedBatches, ...] = ()
    taken: dict[str, list[Taken]] = field(default_factory=dict[str, list["Taken"]])
    drawn: dict[int, Drawn] = field(default_factory=dict[int, Drawn])
    jax_settings: Sequence[OpenSetting] = ()
    argument_bytes: int = 0
    has_resources: bool = False

    def may_be_tried_again(self) -> bool:
        """Whether a closure of which a message was lost is run once more; not for ever, as the way may never open again."""
        self.time_outs += 1
        return self.time_outs <= self.tolerated_time_outs

    def timed_out_too_often(self, error: TimedOutError) -> TimedOutError:
        """The error of a closure that is not run again after its last message was lost; it says how to be more patient."""
        return TimedOutError(
            f"{error} The closure was run again {self.tolerated_time_outs} times after such an error; ClusterCoordinator(..., "
            "tolerated_time_outs=n) runs it again n times."
        )

    def accepted(self, worker: str) -> None:
        """The closure counts, as this worker has run it: what it has taken of datasets is used up."""
        for per_worker, (pipeline, iterator) in zip(self.resuming, self.taken.get(worker, ()), strict=False):
            per_worker.note(pipeline, iterator.state_dict())

    def cancelled(self, cause: BaseException | None) -> CancelledError:
        """The error of a closure that is dropped, as another failed or (None) nobody wants it; it says whether anything of it may count."""
        why = "the call that had scheduled it ended early" if cause is None else f"another closure failed: {cause!r}"
        counts = "It has changed nothing."
        if self.begun and not self.strategy.serving.in_rounds:
            counts = f"It had begun on {self.begun}: what it had changed by then counts."
        return CancelledError(f"Closure {self.result.number} was cancelled, because {why}. {counts}")

    def _keep_pipelines(self, worker: Worker) -> None:
        """Let a worker that runs the closure again take the batches of its first run, which no other closure takes meanwhile.

        Where closures count exactly once, servers know the updates of that run, and would confirm those of other batches without them.
        """
        serving = self.strategy.serving
        if not serving.exactly_once or serving.in_rounds:
            return
        taken = next(iter(self.taken.values()), None)
        for place, iterator in enumerate(self.resuming):
            pipeline = iterator.dataset.free_pipeline(worker.name) if taken is None else taken[place][0]
            iterator.dataset.give_pipeline(pipeline, worker.name)

    def run(self, worker: Worker, take: TakeStep) -> object:
        """Call a plain function, on this worker; steps that it calls are steps of this closure."""
        changing: list[StepFunction] = []  # steps that have changed something, or have failed and perhaps have

        def take_step(fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
            if changing and self.strategy.serving.in_rounds:
                raise second_step(fn.name, self.result.number, worker.name)
            changing.append(fn)
            result = take(replace(self, fn=fn, args=tuple(args), kwargs=kwargs, repeat=1, key=None, jax_settings=open_settings()))
            running = running_closure.get()
            assert running is not None
            running.changed.extend(changed := result.changed())
            if not changed:
                changing.pop()
            engine = self.strategy.engine
            return None if engine.numerics == "off" else result.value(engine)

        self._keep_pipelines(worker)
        with self._running_on(worker, take_step):
            args, kwargs = jax.tree_util.tree_map(lambda leaf: self._resolved(sent(leaf), worker), (self.args, self.kwargs))
            self._note_taken(worker)
            try:
                return sent(self.fn(*args, **kwargs))
            except (StopIteration, RuntimeError) as error:  # whoever waits for the closure is no loop over its dataset
                require_of_dataset(error, name_of_function(self.fn, "closure"))
                raise self._has_run_out(worker) from error
            except (TypeError, ValueError) as error:
                if (clearer := explained(error, name_of_function(self.fn, "closure"), args, kwargs)) is None:
                    raise
                raise clearer from error

    def ready(self, worker: Worker) -> tuple[StepCall, LinkedStep] | None:
        """The arguments and the program that this worker had for the same call before, where they fit once more."""
        self._keep_pipelines(worker)
        known = known_step(worker, self.fn, self.key) if self.key is not None and isinstance(self.fn, StepFunction) else None
        if known is None or not all(iterator.is_in_place(worker) for iterator in self.resuming):
            return None
        if isinstance(known[0], ReplicaCalls):
            known[0].align(self._resumed(worker))  # before other batches take the place of those that some replicas have not taken
        for batches in self.handed_out:
            batches.put_in_place(worker)
        self._note_taken(worker)
        return known if self.still_fits(known[1], known[0]) else None

    def bind(self, worker: Worker) -> StepCall:
        """The arguments of a traced function, on this worker."""
        assert isinstance(self.fn, StepFunction)
        bind = self.fn.bind if self.strategy.replicas is None else partial(self.strategy.replicas.bind, self.fn)
        with self._running_on(worker):
            args, kwargs = self._with_resources(worker)
            call = bind(args, kwargs, lambda leaf: self._resolved(leaf, worker))
        if isinstance(call, ReplicaCalls):
            call.align(self._resumed(worker))
        self._note_taken(worker)
        return call

    def link(self, worker: Worker, call: StepCall) -> LinkedStep:
        """The program of the next step, linked: once for all workers, again when the layout of the variables has changed."""
        try:
            with self._running_on(worker):
                if isinstance(self.fn, StepFunction) and not self.fn.traces:
                    warn_of_changed_names(self.fn.fn, "schedule")
                linked = self.linked(call, worker.name)
        except StopIteration:
            raise self._has_run_out(worker) from None
        arrays = call.calls[0].arrays if isinstance(call, ReplicaCalls) else call.arrays
        if self.key is not None and not arrays and isinstance(self.fn, StepFunction):
            keep_step(worker, self.fn, self.key, (call, linked))
        return linked

    def _has_run_out(self, worker: Worker) -> OutOfRangeError:
        empty = " Where its share has no rows at all (there may be more workers than rows), repeat() does not help: give each worker some."
        counted = worker.steps or isinstance(self.fn, StepFunction)  # what a plain function takes by itself is no step
        steps = (
            f"; the worker has taken {worker.steps} step{'' if worker.steps == 1 else 's'}, of all its datasets together" if counted else ""
        )
        return OutOfRangeError(
            f"The dataset of {worker.name} has run out{steps}. Schedule fewer {'steps' if counted else 'closures'}, or end the dataset "
            f"with .repeat().{'' if worker.steps else empty}"
        )

    def linked(self, call: StepCall, worker: str) -> LinkedStep:
        """As `link`, without code of a worker.

        Raises:
            StopIteration: an iterator has not enough elements left.
        """
        assert isinstance(self.fn, StepFunction)
        if isinstance(call, ReplicaCalls):
            assert self.strategy.replicas is not None
            return self.strategy.replicas.linked(self.fn, call, worker)
        return self.strategy.link(self.fn, self.strategy.programs.program(self.fn, call), worker)

    def still_fits(self, linked: LinkedStep, call: StepCall) -> bool:
        """Whether the same program can be run once more."""
        if isinstance(linked, LinkedReplicas):
            assert isinstance(call, ReplicaCalls) and self.strategy.replicas is not None
            return self.strategy.replicas.still_fits(linked, call)
        assert isinstance(call, BoundCall)
        return linked.version == self.strategy.store.layout.version and fits_at_once(linked.program, call)

    @contextmanager
    def _running_on(
        self, worker: Worker, take_step: Callable[[StepFunction, Sequence[Tree], dict[str, Tree]], Tree] | None = None
    ) -> Iterator[None]:
        """While code of users runs: what it calls can know that it is called in a closure, and JAX is set as where it was scheduled."""
        with (
            opened(self.jax_settings),
            running_closure.replaced(RunningClosure(self.result.number, worker.name, self.strategy, self.strategy.engine, take_step)),
        ):
            yield

    def _with_resources(self, worker: Worker) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments, with what the worker has made of resources: parts of the structure, as it may be a dict of arrays, say."""
        if not self.has_resources:
            return self.args, self.kwargs
        return jax.tree_util.tree_map(
            lambda leaf: self._resolved(leaf, worker) if isinstance(leaf, PerWorkerResource) else leaf, (self.args, self.kwargs)
        )

    def _resolved(self, leaf: object, worker: Worker) -> object:
        if not isinstance(leaf, PerWorker):
            return leaf
        if not isinstance(leaf, (PerWorkerDataset, PerWorkerIterator)):
            return leaf.on(worker, self._input_context)
        making_dataset.set(worker.name)
        try:
            own = leaf.on(worker, self._input_context)
        finally:
            making_dataset.set("")
        if leaf in self.resuming:
            leaf.put_in_place(worker)
        return own

    def _note_taken(self, worker: Worker) -> None:
        """Note which iterators the closure takes batches of: what they have given counts when the closure does."""
        if self.resuming:
            pipelines = [iterator.dataset.pipeline_number(worker.name) for iterator in self.resuming]
            self.taken[worker.name] = list(zip(pipelines, self._resumed(worker), strict=True))
            for iterator, pipeline in zip(self.resuming, pipelines, strict=True):
                iterator.dataset.need_pipeline(pipeline, self.result)

    def _resumed(self, worker: Worker) -> list[DatasetIterator | DistributedIterator]:
        """The worker's iterators of the datasets that are resumed."""
        return [worker.local[iterator.number] for iterator in self.resuming]

    def _input_context(self, worker: Worker) -> InputContext:
        return self.strategy.input_context(worker.name)


def new_closure(
    strategy: ParameterServerStrategy,
    fn: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    result: Result,
    repeat: int,
    tolerated_time_outs: int,
    keeps_each: bool = False,
) -> Closure:
    """A closure with the arguments of this moment; arguments as of `Closure`.

    Raises:
        InvalidArgumentError: there is a `RemoteValue` in the arguments, or a per-worker value of another strategy; or the step has
            numbers of another width than the program.
    """
    leaves, structure, args, kwargs = _of_this_moment(args, kwargs)
    numbers = _numbers_of(leaves, strategy)
    # The numbers, and a weak reference, so that what is known of a call keeps no per-worker value alive, and no strategy. A worker may
    # have run the same function for another coordinator: with other variables, or another number of replicas.
    settings = trace_settings()
    if isinstance(fn, StepFunction) and has_another_width(settings.opened):
        raise InvalidArgumentError(
            f"{fn.name} was scheduled inside of `with jax.enable_x64(...)`, and servers apply its updates later, outside. Set the width of "
            'numbers for the whole program, before the cluster is made: jax.config.update("jax_enable_x64", True).'
        )
    # What a resource contains may change, by functions that are given it.
    has_resources = any(isinstance(leaf, PerWorkerResource) for leaf in leaves)
    is_known = len(numbers) == len(leaves) and not has_resources
    key = (weakref.ref(strategy), (structure, settings), *numbers) if is_known else None
    if isinstance(fn, StepFunction) and not fn.traces:
        note_names(fn.fn)
    resuming = tuple([leaf for leaf in leaves if isinstance(leaf, PerWorkerIterator) and leaf.dataset.resume])
    handed_out = tuple([leaf for leaf in leaves if isinstance(leaf, NumberedBatches)])
    return Closure(
        strategy,
        fn,
        tuple(args),
        dict(kwargs),
        result,
        repeat,
        keeps_each,
        key,
        tolerated_time_outs,
        resuming=resuming,
        handed_out=handed_out,
        jax_settings=settings.opened if isinstance(fn, StepFunction) else open_settings(),  # what is traced depends on no others
        argument_bytes=bytes_of_arrays(leaves) if len(numbers) < len(leaves) else 0,
        has_resources=has_resources,
    )


def _of_this_moment(
    args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[Sequence[object], Hashable, Sequence[object], Mapping[str, object]]:
    """The leaves of arguments, their structure, and the arguments as they are now."""
    if not kwargs:
        for arg in args:
            if not isinstance(arg, PerWorker):
                break
        else:  # as in nearly all steps; JAX would take longer to find it
            return args, len(args), args, kwargs
    leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
    now: tuple[Sequence[object], Mapping[str, object]] = jax.tree_util.tree_unflatten(structure, list(map(snapshot, leaves)))
    return leaves, structure, *now


def _numbers_of(leaves: Sequence[object], strategy: ParameterServerStrategy) -> list[int]:
    """The numbers of the per-worker values among these."""
    numbers: list[int] = []
    for leaf in leaves:
        if isinstance(leaf, PerWorker):
            if leaf.strategy not in (None, strategy):
                raise InvalidArgumentError(
                    f"A per-worker {leaf.name} of another strategy was passed to schedule: each worker would take the part of a worker of "
                    "that cluster. Make it with this coordinator: coordinator.create_per_worker_dataset(...)."
                )
            numbers.append(leaf.number)
        elif isinstance(leaf, RemoteValue):
            raise InvalidArgumentError("A RemoteValue was passed to schedule. Fetch it first: schedule(fn, args=(value.fetch(),)).")
    return numbers
