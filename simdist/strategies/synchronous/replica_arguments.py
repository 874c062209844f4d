"""What each replica gets of the arguments of a step."""

from __future__ import annotations

from collections.abc import Callable

from simdist.errors import InvalidArgumentError
from simdist.input.replica_feed import ReplicaFeed
from simdist.program.arrays import Tree
from simdist.program.per_replica import PerReplica

__all__ = ["ReplicaArguments", "require_count"]


class ReplicaArguments:
    """The arguments of one call of a step.

    Args:
        count: of the replicas that this program drives.

    Attributes:
        parts: the values, one for each replica, among them.
        feeds: the iterators among them.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.parts: list[PerReplica] = []
        self.feeds: list[ReplicaFeed] = []

    def resolver(self, local_rank: int) -> Callable[[Tree], Tree]:
        """Gives what one replica gets of an argument.

        It notes values of replicas in `parts`, and does not raise where there are too many: another strategy may take the step over. It
        notes iterators in `feeds`.

        Raises:
            InvalidArgumentError: an argument has no value for this replica.
        """

        def resolve(leaf: Tree) -> Tree:
            if isinstance(leaf, PerReplica):
                if local_rank >= len(leaf.values):
                    raise _wrong_count(leaf, self.count)
                if not local_rank:
                    self.parts.append(leaf)
                return leaf.values[local_rank]
            if isinstance(leaf, ReplicaFeed):
                if not local_rank:
                    self.feeds.append(leaf)
                return leaf.replica(local_rank)
            return leaf

        return resolve

    def align(self) -> None:
        """Let all replicas stand before the same batch: one that was dropped, or stopped by an error, may not have taken its part."""
        for feed in self.feeds:
            feed.align()


def require_count(value: PerReplica, count: int) -> None:
    """Refuse values of another number of replicas than there are.

    Raises:
        InvalidArgumentError: they are.
    """
    if len(value.values) != count:
        raise _wrong_count(value, count)


def _wrong_count(value: PerReplica, count: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"A PerReplica of {len(value.values)} values was given to a step on {count} replicas. Give one value for each replica; "
        "strategy.distribute_values_from_function and strategy.run make such values."
    )
