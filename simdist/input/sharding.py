"""Which elements of one dataset each worker reads: the policies AUTO, FILE, DATA, HINT and OFF.

FILE shares out whole files: the shard is put below the shuffles of the file names, so that each worker shuffles files of
its own. DATA lets every worker run the whole pipeline and keep its share of each element: some of the parts that a batch
is cut into, or every so many-th of elements that are not batches. HINT shards where the pipeline says so. AUTO is FILE
where there are files for every worker, and DATA otherwise. A step after the files that counts elements (``take``, ``skip``, ``shard``,
``enumerate``), or goes by those before (``take_while``, ``scan``, ``unique``), would do so for each worker under FILE: there AUTO is DATA,
and FILE, where it is asked for, warns.

Invariants: under DATA, and under FILE and HINT where no step counts elements after the shard, every element is read by exactly one worker;
one worker reads the dataset as it is.

Taught in lesson 08.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from simdist.arguments import whole_number
from simdist.data import streams
from simdist.data.batch import Batch
from simdist.data.caching import Cache
from simdist.data.choosing import Mixture
from simdist.data.dataset import Dataset
from simdist.data.files import FileNames, FromFiles
from simdist.data.folding import Scan
from simdist.data.functions import Map
from simdist.data.grouping import Enumerate
from simdist.data.joining import Zip
from simdist.data.leaves import Array, ArraySpec
from simdist.data.nodes import INFINITE, UNKNOWN, Node, Pass, Reorder, Spec
from simdist.data.options import AutoShardPolicy
from simdist.data.reorder import EveryNth, HintedShard, Prefetch, Repeat, Shuffle, Skip, Take
from simdist.data.selecting import TakeWhile, Unique
from simdist.data.streams import Pull
from simdist.errors import InvalidArgumentError, NotFoundError
from simdist.input.rebatch import replica_batch_sizes

__all__ = ["applied_policy", "shard_for_worker"]


def shard_for_worker(
    dataset: Dataset, num_workers: int, index: int, policy: AutoShardPolicy | None = None, *, replicas_per_worker: int = 1
) -> Dataset:
    """What one worker reads of a dataset that all workers share.

    Args:
        dataset: the dataset that all workers have been given.
        num_workers: workers, 1 or more; one alone gets the dataset as it is.
        index: which worker, from 0.
        policy: how to share; None does what the dataset's options say.
        replicas_per_worker: replicas of each worker. Under DATA a batch is cut into one part for every replica of all
            workers, and this worker's elements are parts ``index``, ``index + num_workers``, and so on.

    Returns:
        The dataset of this worker; it may be empty where there are fewer elements than workers.

    Raises:
        NotFoundError: FILE, and the elements do not come from files; HINT, and no shard is marked. One worker, which
            reads everything, needs neither.
        InvalidArgumentError: FILE, and there are fewer files than workers; there is no such worker.

    Example:
        >>> batches = Dataset.range(8).batch(4)
        >>> [[part.tolist() for part in shard_for_worker(batches, 2, worker)] for worker in (0, 1)]
        [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    """
    workers = whole_number(num_workers, "num_workers", 1)
    replicas = whole_number(replicas_per_worker, "replicas_per_worker", 1)
    if whole_number(index, "index", 0) >= workers:
        raise InvalidArgumentError(f"worker index is {index} of {workers}; expected 0 to {workers - 1}")
    node, policy = dataset.node, _chosen(dataset, workers, policy)
    if policy is AutoShardPolicy.HINT:
        node = rewritten(node, lambda found: EveryNth(found.sources[0], workers, index) if isinstance(found, HintedShard) else None)
    elif policy is AutoShardPolicy.FILE and workers > 1:
        node = rewritten(node, lambda found: file_shard(found, workers, index))
    elif policy is AutoShardPolicy.DATA and workers > 1:
        node = EveryNth(node, workers, index) if node.table() is not None else WorkerParts(node, workers, index, replicas)
    return dataset if node is dataset.node else Dataset(node, dataset.options())


def applied_policy(dataset: Dataset, num_workers: int, policy: AutoShardPolicy | None = None) -> AutoShardPolicy:
    """The policy that takes effect: never AUTO, and one that this dataset can be shared by.

    Args:
        dataset: the dataset that is shared.
        num_workers: workers, 1 or more.
        policy: what is asked for; None is what the dataset's options say.

    Raises:
        NotFoundError: as `shard_for_worker`.
        InvalidArgumentError: as `shard_for_worker`.

    Example:
        >>> applied_policy(Dataset.range(4).batch(2), 2).name
        'DATA'
    """
    chosen = _chosen(dataset, num_workers, policy)
    counting = counting_step(dataset.node) if chosen is AutoShardPolicy.FILE and num_workers > 1 else None
    if counting is not None:
        warnings.warn(
            f"under the policy FILE each of {num_workers} workers reads files of its own, and {counting.label} sees the elements of each "
            "worker alone, not those of the dataset; use AutoShardPolicy.AUTO or DATA to let it see all, or put it before the files "
            "are read",
            stacklevel=2,
        )
    return chosen


def _chosen(dataset: Dataset, num_workers: int, policy: AutoShardPolicy | None) -> AutoShardPolicy:
    """The policy that takes effect, without a warning of what it counts."""
    node = dataset.node
    asked = dataset.options().auto_shard_policy if policy is None else AutoShardPolicy(policy)
    if asked is AutoShardPolicy.HINT and num_workers > 1 and not any(isinstance(found, HintedShard) for found in steps_of(node)):
        raise NotFoundError(
            f"the policy HINT was asked for, and {node.describe()} marks no place to shard at; "
            "expected one .shard(SHARD_HINT, SHARD_HINT); add it, or use AutoShardPolicy.AUTO"
        )
    if asked is AutoShardPolicy.FILE and num_workers > 1:
        require_files(node, num_workers)
    if asked is not AutoShardPolicy.AUTO:
        return asked
    joined = any(isinstance(found, (Mixture, Zip)) for found in steps_of(node))
    if joined or not is_file_based(node) or (num_workers > 1 and counting_step(node) is not None):
        return AutoShardPolicy.DATA
    fewest = fewest_files(node)
    if fewest >= num_workers:
        return AutoShardPolicy.FILE
    warnings.warn(
        f"{fewest} file(s) cannot be shared among {num_workers} workers, so every worker reads all files and keeps its part of "
        "each batch (the policy DATA); write more files to read each only once",
        stacklevel=4,
    )
    return AutoShardPolicy.DATA


def require_files(node: Node, num_workers: int) -> None:
    if not is_file_based(node):
        raise NotFoundError(
            f"the policy FILE was asked for, and {node.describe()} does not read files only; "
            "expected Dataset.from_files or Dataset.list_files as its source; use AutoShardPolicy.DATA"
        )
    fewest = fewest_files(node)
    if fewest < num_workers:
        raise InvalidArgumentError(
            f"the policy FILE was asked for, and {node.describe()} has {fewest} file(s) for {num_workers} workers; "
            f"expected at least {num_workers}; write more files, or use AutoShardPolicy.DATA"
        )


def steps_of(node: Node) -> list[Node]:
    """This step and all before it."""
    return [node, *(step for source in node.sources for step in steps_of(source))]


def is_file_based(node: Node) -> bool:
    """True if all elements come from files: those of every part of a concatenation, say."""
    if isinstance(node, (FromFiles, FileNames)):
        return True
    return bool(node.sources) and all(map(is_file_based, node.sources))


def counting_step(node: Node) -> Node | None:
    """A step after the files whose result depends on the elements before, or on their number; None where there is none."""
    if isinstance(node, (FromFiles, FileNames)):
        return None
    counts = (
        isinstance(node, (Enumerate, Scan, TakeWhile, Unique))
        or (isinstance(node, Take) and node.count >= 0)
        or (isinstance(node, Skip) and node.count != 0)
        or (isinstance(node, EveryNth) and node.num_shards > 1)
    )
    return node if counts else next((step for step in map(counting_step, node.sources) if step is not None), None)


def fewest_files(node: Node) -> int:
    """Number of files of the source that has the fewest."""
    if isinstance(node, FromFiles):
        return count_of(sharding_step(node.names))
    if isinstance(node, FileNames):
        return node.cardinality()
    return min(map(fewest_files, node.sources))


def count_of(names: Node) -> int:
    """How many names a pipeline of names gives."""
    total = names.cardinality()
    if total == UNKNOWN:
        return len(streams.drained(names.open(Pass())))
    return 1 << 31 if total == INFINITE else total


def sharding_step(names: Node) -> Node:
    """The step after which file names are shared out: below what only reorders, repeats or renames them."""
    while isinstance(names, (Shuffle, Repeat, Prefetch, Cache, Map)):
        names = names.source
    return names


def file_shard(node: Node, num_workers: int, index: int) -> Node | None:
    """A file source with this worker's files only; None for any other step."""
    if isinstance(node, FileNames):
        return EveryNth(node, num_workers, index)
    if isinstance(node, FromFiles):
        step = sharding_step(node.names)
        share = EveryNth(step, num_workers, index)
        return FromFiles(rewritten(node.names, lambda found: share if found is step else None), node.reader)
    return None


def rewritten(node: Node, replace: Callable[[Node], Node | None], known: dict[Node, Node] | None = None) -> Node:
    """The pipeline with some steps replaced; what is used twice stays one."""
    known = {} if known is None else known
    if node not in known:
        found = replace(node)
        if found is None:
            sources = tuple(rewritten(source, replace, known) for source in node.sources)
            found = node if sources == node.sources else node.over(sources)
        known[node] = found
    return known[node]


class WorkerParts(Reorder):
    """The parts of each batch of shape [b, ...] that belong to one of w workers; of elements that are no batches, every w-th."""

    def __init__(self, source: Node, num_workers: int, index: int, replicas_per_worker: int) -> None:
        super().__init__(source, f"parts({index} of {num_workers})")
        self.num_workers, self.index, self.replicas_per_worker = num_workers, index, replicas_per_worker

    @property
    def fixed(self) -> bool:
        return False

    @property
    def static_batch_size(self) -> int | None:
        return None

    @property
    def full_batches(self) -> bool:
        return False

    def over(self, sources: tuple[Node, ...]) -> Node:
        return WorkerParts(sources[0], self.num_workers, self.index, self.replicas_per_worker)

    def open(self, one_pass: Pass) -> Pull:
        pull = self.source.open_elements(one_pass)
        position = 0
        rest: list[Batch] = []

        def pull_parts(limit: int) -> Array:
            nonlocal position, rest
            while not rest and len(chunk := pull(1)):
                rest = self.share(chunk[0], position)
                position += 1
            out, rest = rest[:limit], rest[limit:]
            return streams.as_objects(out)

        return pull_parts

    def share(self, batch: Batch, position: int) -> list[Batch]:
        """This worker's parts of the element at `position`."""
        if not batch.is_batched:
            return [batch] if position % self.num_workers == self.index else []
        sizes = replica_batch_sizes(batch.num_rows, self.num_workers * self.replicas_per_worker)
        return batch.split(sizes)[self.index :: self.num_workers]

    def cardinality(self) -> int:
        total = self.source.cardinality()
        if self.source.batched_table() is None and total > 0:
            return UNKNOWN
        return total if total < 0 else total * self.replicas_per_worker

    def spec(self) -> Spec:
        structure, leaves = self.source.spec()
        if not all(leaf.shape for leaf in leaves):
            return structure, leaves
        return structure, tuple(ArraySpec((None, *leaf.shape[1:]), leaf.dtype) for leaf in leaves)
