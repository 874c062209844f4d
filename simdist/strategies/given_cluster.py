"""The cluster that a strategy was given: a `Cluster`, or a resolver that knows one.

Which arguments a strategy takes beside these, it says itself.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from simdist.errors import FailedPreconditionError
from simdist.runtime.cluster import Cluster
from simdist.runtime.controlled import is_controlled

__all__ = ["cluster_behind", "require_cluster"]


@runtime_checkable
class _KnowsCluster(Protocol):
    """A resolver of a simulated cluster."""

    @property
    def cluster(self) -> object: ...


def cluster_behind(given: object) -> object:
    """The cluster of a resolver that knows one; anything else, the cluster itself too, as it is.

    Example:
        >>> cluster = Cluster({"worker": 2})
        >>> cluster_behind(cluster.resolver) is cluster_behind(cluster) is cluster, cluster_behind("worker:0")
        (True, 'worker:0')
    """
    return given.cluster if isinstance(given, _KnowsCluster) else given


def require_cluster(given: object, name: str) -> None:
    """Refuse what a strategy cannot run on.

    Args:
        given: a cluster, or None where the strategy makes one of this machine alone.
        name: of the strategy's class.

    Raises:
        TypeError: it is something else.
        FailedPreconditionError: None was given in the program of a session, which could not stop another cluster.
    """
    if not isinstance(given, (Cluster, type(None))):
        raise TypeError(f"cluster is {given!r}; expected an sd.Cluster, or None for one of this machine alone")
    if given is None and is_controlled.get():
        raise FailedPreconditionError(
            f"{name} was made without cluster= in the program of a session, which controls the time of one cluster only. Give it that "
            f"cluster: sd.{name}(..., cluster=cluster)."
        )
