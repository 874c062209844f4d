"""Several resolvers as one: a cluster whose parts are described in different places.

The rule of merging: where every part lists a job's tasks without holes, the lists are appended in the order of the
resolvers; where one of them is sparse, each task keeps its own index, and no index may appear twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simdist.cluster.resolver import ClusterResolver, Found, checked_id, checked_type
from simdist.cluster.spec import ClusterSpec
from simdist.errors import InvalidArgumentError, did_you_mean

__all__ = ["DuplicateTaskError", "UnionResolver"]


class DuplicateTaskError(InvalidArgumentError, KeyError):
    """Two resolvers name one task of a sparse job."""

    __str__ = Exception.__str__  # a KeyError would show the message in quotes


class UnionResolver(ClusterResolver):
    """Several resolvers as one: their tasks one after another; the identity is the first resolver's.

    Args:
        *resolvers: the resolvers, at least one.
        task_type: used instead of the first resolver's.
        task_id: used instead of the first resolver's.
        rpc_layer: used instead of the first resolver's.

    Raises:
        InvalidArgumentError: without a resolver, or with an unknown keyword.
        TypeError: if an argument is no resolver.
        DuplicateTaskError: from `cluster_spec`, if a job is sparse and two resolvers name one of its indices.

    Example:
        >>> from simdist.cluster import SimpleClusterResolver
        >>> union = UnionResolver(
        ...     SimpleClusterResolver(ClusterSpec({"worker": ["a:1"]})),
        ...     SimpleClusterResolver(ClusterSpec({"worker": ["b:1"], "ps": ["p:1"]})),
        ... )
        >>> union.cluster_spec().as_dict()
        {'worker': ['a:1', 'b:1'], 'ps': ['p:1']}
    """

    def __init__(
        self,
        *resolvers: ClusterResolver,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        **unknown: object,
    ) -> None:
        for name in unknown:
            known = did_you_mean(name, ["task_type", "task_id", "rpc_layer"])
            raise InvalidArgumentError(f"UnionResolver has no argument {name!r}. {known}")
        if not resolvers:
            raise InvalidArgumentError("UnionResolver needs at least one resolver.")
        self._resolvers = [_checked_resolver(resolver) for resolver in resolvers]
        self._task_type = checked_type(task_type)
        self._task_id = checked_id(task_id)
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The clusters of all resolvers, merged."""
        specs = [resolver.cluster_spec() for resolver in self._resolvers]
        jobs = dict.fromkeys(job for spec in specs for job in spec.jobs)
        return ClusterSpec({job: _merged(job, [spec for spec in specs if job in spec]) for job in jobs})

    def found(self) -> Found:
        """The identity of the first resolver."""
        first = self._resolvers[0]
        return Found(first.task_type, first.task_id, first.rpc_layer, first.environment)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The address of a task of the merged cluster; without an identity, the first resolver's answer."""
        if task_type is None and task_id is None and (self.task_type is None or self.task_id is None):
            return self._resolvers[0].master(rpc_layer=self.rpc_layer if rpc_layer is None else rpc_layer)
        return super().master(task_type, task_id, rpc_layer)

    def num_accelerators(self, task_type: str | None = None, task_id: int | None = None) -> Mapping[str, int]:
        """What the first resolver says."""
        return self._resolvers[0].num_accelerators(task_type, task_id)


def _checked_resolver(resolver: object) -> ClusterResolver:
    if not isinstance(resolver, ClusterResolver):
        raise TypeError(f"UnionResolver takes ClusterResolver objects; got {resolver!r}.")
    return resolver


def _merged(job: str, specs: Sequence[ClusterSpec]) -> list[str] | dict[int, str]:
    """The tasks of one job in all specs: appended where every spec is dense, else by their own indices."""
    tables = [{index: spec.task_address(job, index) for index in spec.task_indices(job)} for spec in specs]
    if all(len(table) == max(table, default=-1) + 1 for table in tables):
        return [address for table in tables for address in table.values()]
    merged: dict[int, str] = {}
    for table in tables:
        for index, address in table.items():
            if index in merged:
                raise DuplicateTaskError(
                    f"two resolvers name task {job}:{index} ({merged[index]!r} and {address!r}): "
                    f"give job {job!r} as lists, or with other indices."
                )
            merged[index] = address
    return merged
