"""A dataset that is shared among the replicas of several workers, step by step.

The input is pure: no clock, no devices. It says which rows each replica of each worker gets in which step, and how many
rows all of them get together, since a loss is averaged over the true global batch. It can be seen as a whole, or by
one worker that runs in a process of its own; under the policy DATA both see the same parts, whatever the batch sizes,
because every worker passes over the same global batches.

Invariants: under DATA every row of a global batch belongs to exactly one part of its step; pass number k of any view
sees the shuffles in the same order as pass number k of any other.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from simdist.data.caching import reads_once, shuffles_of
from simdist.data.dataset import Dataset
from simdist.data.iterator import DatasetIterator
from simdist.data.leaves import ArraySpec, Element, Tree, unflatten
from simdist.data.options import AutoShardPolicy
from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError
from simdist.input.context import InputOptions, require_common_pipeline
from simdist.input.prefetch import Pace
from simdist.input.rebatch import Rebatched
from simdist.input.sharding import applied_policy, shard_for_worker
from simdist.input.shared_batches import SharedBatches
from simdist.input.steps import InputIterator
from simdist.input.view import InputView
from simdist.input.worker_pipelines import WorkerPipelines
from simdist.program.restored_together import furthest

__all__ = ["DistributedInput"]


class DistributedInput(InputView):
    """The steps of a dataset of global batches, shared among the replicas of all workers.

    Under DATA each batch is cut into parts as equal as can be, the larger ones first, and worker w gets parts w, w + W,
    and so on, of W workers. Under FILE, HINT and OFF each worker reads batches of its own, which last for W steps.

    Args:
        dataset: a batched dataset, or any iterable of batches: nested arrays with equal first dimensions.
        num_workers: workers, 1 or more.
        replicas_per_worker: replicas of each, 1 or more.
        policy: how workers share the elements; None does what the dataset's options say.
        input_options: one pipeline per worker is the only way here.
        legacy_split: under DATA, and where the pipeline does not tell its batch size, cut parts of the rounded-up size until
            the rows run out, as tf.distribute does; False cuts equal parts of whatever comes.

    Raises:
        NotImplementedError: one pipeline per replica was asked for, which needs a function that makes them.
        NotFoundError, InvalidArgumentError: the policy cannot be followed (see `shard_for_worker`).

    Example:
        >>> rows = Dataset.range(16).batch(8)
        >>> step = next(iter(DistributedInput(rows, num_workers=2, replicas_per_worker=2)))
        >>> [[part.value().tolist() for part in worker] for worker in step.parts]
        [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    """

    def __init__(
        self,
        dataset: Dataset | Iterable[Element],
        num_workers: int = 1,
        replicas_per_worker: int = 1,
        policy: AutoShardPolicy | None = None,
        *,
        input_options: InputOptions | None = None,
        legacy_split: bool = False,
    ) -> None:
        super().__init__(num_workers, replicas_per_worker)
        if input_options is not None:
            require_common_pipeline(input_options)
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset.from_iterable(dataset)
        self.policy = applied_policy(self.dataset, self.num_workers, policy)
        self.legacy_split = legacy_split
        self._first_bases = [shuffle.iterations for shuffle in shuffles_of(self.dataset.node)]  # of the first pass of any view
        self._next_bases = self._first_bases
        self._shards: dict[int, Dataset] = {}

    def worker_pipeline(self, index: int) -> DistributedInput:
        """The parts of one worker only, as its own process sees them.

        Args:
            index: which worker, from 0.

        Returns:
            An input whose steps have one worker. Under DATA they are those of the global view and know all sizes; else
            they end with the worker's own data, and ``sizes`` is None.

        Example:
            >>> view = DistributedInput(Dataset.range(8).batch(4), num_workers=2).worker_pipeline(1)
            >>> [step.parts[0][0].value().tolist() for step in view], next(iter(view)).sizes
            ([[2, 3], [6, 7]], ((2,), (2,)))
        """
        view = copy(self)
        view.restrict(self.only(index))
        return view

    def restrict(self, workers: range) -> None:
        """Show the parts of some workers only, from the first pass on."""
        self.workers, self.is_whole = workers, len(workers) == self.num_workers
        self._next_bases = self._first_bases

    def __iter__(self) -> InputIterator:
        bases = self._begin_pass()
        if self.policy is AutoShardPolicy.DATA:
            even = self.dataset.static_batch_size is not None or not self.legacy_split
            batches = DatasetIterator(self.dataset.node, bases)
            return SharedBatches(
                batches, self.num_workers, self.replicas_per_worker, self.workers, even=even, on_restore=self._follow_position
            )
        size, per_worker = self.dataset.static_batch_size, self.replicas_per_worker

        def of_worker(worker: int) -> list[Rebatched]:
            return [Rebatched(DatasetIterator(self.shard(worker).node, bases), size, self.num_workers, per_worker, worker)]

        return WorkerPipelines(
            list(map(of_worker, self.workers)),
            per_worker,
            complete=self.is_whole,
            num_workers=self.num_workers,
            away={worker: of_worker(worker) for worker in self.away},
            full_steps=lambda: size is not None and not size % self.num_replicas and self.dataset.node.full_batches,
            on_restore=self._follow_position,
        )

    def shard(self, worker: int) -> Dataset:
        """What one worker reads; made once, so that a cache in it serves all passes."""
        if worker not in self._shards:
            self._shards[worker] = shard_for_worker(self.dataset, self.num_workers, worker, self.policy)
        return self._shards[worker]

    def _begin_pass(self) -> Sequence[int]:
        """In which iteration of each shuffle a new pass of this view begins."""
        bases = self._next_bases
        self._follow(bases)
        for shuffle, base in zip(shuffles_of(self.dataset.node), bases, strict=True):
            shuffle.iterations = max(shuffle.iterations, base + 1)
        return bases

    def _follow(self, bases: Sequence[int]) -> None:
        """The next pass comes after one that began with these iterations."""
        self._next_bases = [base + 1 for base in bases]

    def _follow_position(self, position: Position) -> None:
        """The next pass comes after the one that was restored."""
        self._next_bases = furthest(self, [base + 1 for base in position["sources"][0]["shuffles"]])

    def cardinality(self) -> int:
        """Number of steps under DATA; -1 without an end, -2 where only running can tell."""
        total = self.dataset.cardinality()
        return total if self.policy is AutoShardPolicy.DATA or total <= 0 else -2

    @property
    def reads_once(self) -> bool:
        return reads_once(self.dataset.node)

    def pace(self, worker: int) -> Pace:
        """Each worker makes whole global batches: under DATA one for every step, else one that lasts for W steps of W workers."""
        return Pace(self.dataset.options().seconds_per_element, self.dataset.prefetched)

    @property
    def element_spec(self) -> Tree:
        """Shape and dtype of one replica's part; the first dimension is None unless all parts always have one size.

        Example:
            >>> DistributedInput(Dataset.range(8).batch(4, drop_remainder=True), replicas_per_worker=2).element_spec
            ArraySpec(shape=(2,), dtype='int32')
        """
        node = self.dataset.node
        structure, leaves = node.spec()
        # Workers with data of their own may have ended before others, and then get parts without rows.
        static = node.full_batches and (self.num_workers == 1 or self.policy is AutoShardPolicy.DATA)
        return unflatten(structure, [self.part_spec(leaf, static=static) for leaf in leaves])

    def part_spec(self, leaf: ArraySpec, *, static: bool) -> ArraySpec:
        """One component of a part."""
        if not leaf.shape:
            raise InvalidArgumentError(
                "an element without a first axis cannot be split among replicas; expected a batched dataset; add .batch(global_batch_size)"
            )
        rows = leaf.shape[0]
        even = static and rows is not None and not rows % self.num_replicas
        return ArraySpec((rows // self.num_replicas if even and rows is not None else None, *leaf.shape[1:]), leaf.dtype)
