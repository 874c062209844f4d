"""`sleep`: virtual seconds pass for the caller, in a notebook cell, a main or a closure.

Taught in lesson 00.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from simdist.arguments import number
from simdist.errors import FailedPreconditionError
from simdist.program.scope import open_scopes
from simdist.program.tracing import active_tracer
from simdist.runtime.cluster import Cluster, newest_cluster
from simdist.simulation.fiber import current_fiber

__all__ = ["Clock", "present_clock", "sleep"]


class Clock(Protocol):
    """What has a time that can pass: the clock of a fiber, or an engine."""

    @property
    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


@runtime_checkable
class OnCluster(Protocol):
    """A scope whose variables lie on a cluster."""

    @property
    def cluster(self) -> Cluster: ...


def sleep(seconds: float, cluster: Cluster | None = None) -> None:
    """Block for so many virtual seconds; the rest of the cluster goes on.

    Args:
        seconds: virtual seconds, 0 or more.
        cluster: whose clock. Default, in this order: that of the task whose main or closure calls; of the strategy in scope; of
            the innermost ``with cluster:``; of the cluster that was made last. The program of a session has opened and made none but
            its own: it begins with the cluster of its run.

    Raises:
        TypeError: `seconds` is no number.
        InvalidArgumentError: `seconds` is negative, not a number, or endless.
        FailedPreconditionError: there is no cluster, it is closed, or the call stands in a traced step, whose Python runs only once.

    Example:
        >>> import simdist as sd
        >>> with sd.Cluster({"worker": 1}) as cluster:
        ...     sd.sleep(2.5)
        ...     print(cluster.now)
        2.5
    """
    if active_tracer() is not None:
        raise FailedPreconditionError(
            "sd.sleep was called in a traced step, whose Python runs once and not in each step. Give the step a duration instead: "
            "@sd.function(seconds=...)."
        )
    clock = present_clock(cluster)
    if clock is None:
        raise FailedPreconditionError(
            f"sd.sleep needs a cluster whose time passes; got {cluster!r}. Make one: sd.Cluster({{'worker': 1}})."
        )
    clock.sleep(number(seconds, "seconds"))


def present_clock(cluster: object = None) -> Clock | None:
    """The clock whose seconds `sleep` lets pass where it is called; None where there is none.

    Args:
        cluster: as of `sleep`.
    """
    fiber, scope = current_fiber(), next(reversed(open_scopes.get()), None)
    if cluster is None and fiber is not None:
        return fiber.clock
    if cluster is None and isinstance(scope, OnCluster):
        cluster = scope.cluster
    if cluster is None:
        cluster = newest_cluster()
    return cluster.engine if isinstance(cluster, Cluster) else None
