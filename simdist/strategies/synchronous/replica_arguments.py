"""What each replica gets of the arguments of a step."""

from __future__ import annotations

from collections.abc import Callable

from simdist.errors import InvalidArgumentError
from simdist.input.replica_feed import ReplicaFeed
from simdist.program.arrays import Tree
from simdist.program.per_replica import PerReplica

__all__ = ["ReplicaArguments"]


class ReplicaArguments:
    """The arguments of one call of a step.

    Args:
        count: of the replicas that this program drives.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._surplus: list[PerReplica] = []

    def resolver(self, local_rank: int) -> Callable[[Tree], Tree]:
        """Gives what one replica gets of an argument.

        It notes those with more values than replicas, and does not raise: another strategy may take the step over.

        Raises:
            InvalidArgumentError: an argument has no value for this replica.
        """

        def resolve(leaf: Tree) -> Tree:
            if isinstance(leaf, PerReplica):
                if local_rank >= len(leaf.values):
                    raise self._refusal(leaf)
                if len(leaf.values) > self.count:
                    self._surplus.append(leaf)
                return leaf.values[local_rank]
            return leaf.replica(local_rank) if isinstance(leaf, ReplicaFeed) else leaf

        return resolve

    def require_no_surplus(self) -> None:
        """Refuse arguments with more values than replicas.

        Raises:
            InvalidArgumentError: there was one.
        """
        if self._surplus:
            raise self._refusal(self._surplus[0])

    def _refusal(self, value: PerReplica) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"A PerReplica of {len(value.values)} values was given to a step on {self.count} replicas. Give one value for each replica; "
            "strategy.distribute_values_from_function and strategy.run make such values."
        )
