"""Per-worker values: one dataset, iterator or resource on each worker, made there, and made again when it comes back.

Taught in lesson 07.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from simdist.coordinator.known_steps import forget_steps_with
from simdist.coordinator.remote_value import Result
from simdist.coordinator.table_copies import bring_tables
from simdist.data import Dataset
from simdist.data.iterator import DatasetIterator
from simdist.data.positions import Position
from simdist.data.surroundings import note_names, warn_of_changed_names
from simdist.errors import AbortedError, ClosureInputError, FailedPreconditionError, InvalidArgumentError, UnavailableError
from simdist.input import DistributedDataset, DistributedIterator, InputContext
from simdist.program.function import StepFunction
from simdist.program.tracing import active_tracer
from simdist.runtime.work import Worker
from simdist.strategies.base import Strategy
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.uncopied import Uncopied

__all__ = ["PerWorker", "PerWorkerDataset", "PerWorkerIterator", "PerWorkerResource", "PipelineNumber"]

T = TypeVar("T")
_numbers = itertools.count()

OWNERS = "per-worker values that live"  # in the memory of a worker: what it has made of each, by number
PIPELINES = "pipelines of per-worker values"  # in the memory of a worker: of which pipeline it has made each, by number

PipelineNumber: TypeAlias = int | str
"""What identifies a pipeline, whichever worker has it."""


class PerWorker(Uncopied, Generic[T], instead="Make another one, of which each worker makes its own."):
    """Something that each worker makes for itself when it first needs it.

    Args:
        strategy: whose workers these are; None: of the strategy under which it is scheduled.
    """

    name = "per-worker value"
    strategy: Strategy | None = None

    def __init__(self, strategy: Strategy | None = None) -> None:
        self.strategy = strategy
        self.number = next(_numbers)

    def make(self, worker: Worker, context: InputContext) -> T:
        """Make this worker's own."""
        raise FailedPreconditionError(f"{type(self).__name__} cannot be made on {worker.name}.")

    def on(self, worker: Worker, context_of: Callable[[Worker], InputContext]) -> T:
        """This worker's own; made now if this incarnation has none.

        Raises:
            ClosureInputError: it cannot be made; the next closure that needs it tries again.
            UnavailableError, AbortedError: it needs a task that is gone.
        """
        if self.number not in worker.local:
            _release_unused(worker)
            try:
                worker.local[self.number] = self.make(worker, context_of(worker))
                worker.local[OWNERS][self.number] = weakref.ref(self)
            except (ClosureInputError, UnavailableError, AbortedError):
                raise
            except Exception as error:
                raise ClosureInputError(f"{worker.name} could not make its {self.name}: {type(error).__name__}: {error}") from error
        return worker.local[self.number]


def _release_unused(worker: Worker) -> None:
    """Forget what this worker has made for per-worker values that are gone."""
    owners: dict[int, weakref.ref[Any]] = worker.local.setdefault(OWNERS, {})
    gone = {number for number, owner in owners.items() if owner() is None}
    if gone:
        _forget(worker, gone)
        for number in gone:
            del owners[number]


def _forget(worker: Worker, numbers: set[int]) -> None:
    """Forget what this worker has made for per-worker values, and the steps that it knows with them."""
    for number in numbers:
        worker.local.pop(number, None)
    forget_steps_with(worker, numbers)


def _made_of(value: PerWorker[Any], worker: Worker) -> PipelineNumber | None:
    """The pipeline of which a worker has made its own; None where it has made none."""
    return worker.local.get(PIPELINES, {}).get(value.number)


def _of_its_pipeline(value: PerWorker[Any], dataset: PerWorkerDataset, worker: Worker, make: Callable[[], T]) -> T:
    """A worker's own, made again where it is of a pipeline that the worker does not have any more."""
    if _made_of(value, worker) not in (None, dataset.pipeline_number(worker.name)):
        _forget(worker, {value.number})
    found = make()
    worker.local.setdefault(PIPELINES, {})[value.number] = dataset.pipeline_number(worker.name)
    return found


class PerWorkerDataset(PerWorker[Dataset | DistributedDataset]):
    """A dataset on each worker. ``iter()`` gives an iterator on each worker.

    Args:
        strategy: whose workers these are.
        source: the dataset, or a function that makes it; or one that was distributed from a function. A function under ``@sd.function``
            is called as it is.
        pipelines: the input contexts of the workers that there are. Each keeps its own for as long as this dataset lives, also when others
            join or leave. A worker that joins takes over the pipeline of one that has left; where there is none, it gets one of that
            moment.
        resume: whether the iterator of a worker that comes back goes on where closures that count have left it; so does that of a worker
            that takes over a pipeline.
        workers: gives the names of the workers that there are; default: those of `pipelines`.

    Raises:
        InvalidArgumentError: a function under ``@sd.function(seconds=...)``.
    """

    name = "dataset"

    def __init__(
        self,
        strategy: Strategy,
        source: Dataset | DistributedFromFunction | Callable[[], object],
        pipelines: Mapping[str, InputContext] | None = None,
        resume: bool = False,
        workers: Callable[[], Collection[str]] | None = None,
    ) -> None:
        super().__init__(strategy)
        if isinstance(source, StepFunction):
            if source.seconds is not None:
                raise InvalidArgumentError("A function that makes a dataset is no step, so it cannot have @sd.function(seconds=...).")
            source = source.fn
        note_names(source)
        self.source = source
        self.pipelines = dict(pipelines or {})
        self.resume = resume
        self._new_numbers = itertools.count()
        self._numbers: dict[str, PipelineNumber] = {worker: next(self._new_numbers) for worker in self.pipelines}
        self._workers = workers or (lambda: self.pipelines)
        self._needed: WeakValueDictionary[PipelineNumber, Result] = WeakValueDictionary()  # the closures that took them last

    def make(self, worker: Worker, context: InputContext) -> Dataset | DistributedDataset:
        bring_tables(worker)
        warn_of_changed_names(self.source, "create_per_worker_dataset")
        made = self.source if isinstance(self.source, (Dataset, DistributedFromFunction)) else self.source()
        if isinstance(made, DistributedFromFunction):
            made = made.on_worker(self._pipeline_of(worker.name, context))
        if not isinstance(made, (Dataset, DistributedDataset)):
            raise InvalidArgumentError(f"A per-worker dataset must be an sd.Dataset; the function returned {type(made).__name__}.")
        return made

    def _pipeline_of(self, worker: str, context: InputContext) -> InputContext:
        if worker not in self.pipelines:
            there = self._workers()
            left = next((name for name in self.pipelines if name not in there), None)
            self.pipelines[worker] = context if left is None else self.pipelines.pop(left)
            self._numbers[worker] = next(self._new_numbers) if left is None else self._numbers.pop(left)
        return self.pipelines[worker]

    def on(self, worker: Worker, context_of: Callable[[Worker], InputContext]) -> Dataset | DistributedDataset:
        return _of_its_pipeline(self, self, worker, lambda: super(PerWorkerDataset, self).on(worker, context_of))

    def pipeline_number(self, worker: str) -> PipelineNumber:
        """What identifies the pipeline that a worker has, whichever had it before; its own name where it has none."""
        return self._numbers.get(worker, worker)

    def give_pipeline(self, number: PipelineNumber, worker: str) -> None:
        """Let a worker have this pipeline, and the one that has it now the pipeline of that worker."""
        own = self.pipeline_number(worker)
        holder = next((name for name, known in self._numbers.items() if known == number), str(number))
        if own == number:
            return
        self._numbers[worker], self._numbers[holder] = number, own
        contexts = self.pipelines.pop(worker, None), self.pipelines.pop(holder, None)
        self.pipelines.update({name: context for name, context in zip((holder, worker), contexts, strict=True) if context is not None})

    def need_pipeline(self, number: PipelineNumber, closure: Result) -> None:
        """A closure takes elements of this pipeline, and takes the same ones where it is run again."""
        self._needed[number] = closure

    def free_pipeline(self, worker: str) -> PipelineNumber:
        """The worker's own pipeline, or another one where a closure has taken elements of that which is still to be run again."""
        own = self.pipeline_number(worker)
        closures = [(number, self._needed.get(number)) for number in (own, *self._numbers.values())]
        return next((number for number, closure in closures if closure is None or closure.state != "pending"), own)

    def __iter__(self) -> PerWorkerIterator:
        """An iterator on each worker.

        Raises:
            FailedPreconditionError: a step is being traced.
        """
        if active_tracer() is not None:
            raise FailedPreconditionError(
                "iter() was called on a per-worker dataset in a step, which would begin the dataset anew. Call iter() at the coordinator, "
                "and pass the iterator to the step: coordinator.schedule(step_fn, args=(iterator,))."
            )
        return PerWorkerIterator(self)


class PerWorkerIterator(PerWorker[DatasetIterator | DistributedIterator]):
    """An iterator on each worker; pass it to a step, and call ``next`` there.

    Attributes:
        accepted: of a dataset that is resumed: where each pipeline stands after the last closure that counts of the worker that has it.
    """

    name = "iterator"

    def __init__(self, dataset: PerWorkerDataset) -> None:
        super().__init__(dataset.strategy)
        self.dataset = dataset
        self.accepted: dict[int | str, Position] = {}

    def make(self, worker: Worker, context: InputContext) -> DatasetIterator | DistributedIterator:
        return iter(self.dataset.on(worker, lambda _: context))

    def on(self, worker: Worker, context_of: Callable[[Worker], InputContext]) -> DatasetIterator | DistributedIterator:
        return _of_its_pipeline(self, self.dataset, worker, lambda: super(PerWorkerIterator, self).on(worker, context_of))

    def note(self, pipeline: PipelineNumber, position: Position) -> None:
        """A closure counts that has taken elements of this pipeline, up to there."""
        self.accepted[pipeline] = position

    def is_in_place(self, worker: Worker) -> bool:
        """Whether the worker's iterator is of the pipeline that it has, and stands where the next closure has to begin."""
        iterator: DatasetIterator | DistributedIterator | None = worker.local.get(self.number)
        pipeline = self.dataset.pipeline_number(worker.name)
        return iterator is not None and _made_of(self, worker) == pipeline and iterator.state_dict() == self.accepted.get(pipeline)

    def put_in_place(self, worker: Worker) -> None:
        """Let the worker's iterator stand after the last batch of a closure that counts: its process is new, or a closure did not count."""
        iterator: DatasetIterator | DistributedIterator = worker.local[self.number]
        position = self.accepted.setdefault(self.dataset.pipeline_number(worker.name), iterator.state_dict())
        if iterator.state_dict() != position:
            iterator.go_to(position)

    def __iter__(self) -> PerWorkerIterator:
        return self

    def __next__(self) -> NoReturn:
        raise FailedPreconditionError(
            "next() was called on a per-worker iterator at the coordinator, but its elements live on the workers. Pass the iterator "
            "to a step: coordinator.schedule(step_fn, args=(iterator,)), and call next(iterator) in step_fn."
        )


class PerWorkerResource(PerWorker[object]):
    """What a function makes on each worker."""

    name = "resource"

    def __init__(self, strategy: Strategy, fn: Callable[[], object]) -> None:
        super().__init__(strategy)
        note_names(fn)
        self.fn = fn

    def make(self, worker: Worker, context: InputContext) -> object:
        warn_of_changed_names(self.fn, "create_per_worker_resource")
        return self.fn()
