"""Which cluster a coordinator drives: of a `Cluster`, of its resolver, or of a resolver in a launched main.

In a notebook the cluster is given. In a main that ``cluster.launch`` has started, a resolver only describes it (`TFConfigClusterResolver`
does, in the program for all roles); the cluster itself is the one on which the main runs.
"""

from __future__ import annotations

from simdist.cluster import ClusterResolver, ClusterSpec, TFConfigClusterResolver, spec_of
from simdist.errors import InvalidArgumentError
from simdist.runtime.cluster import Cluster
from simdist.runtime.launched_main import launched_main
from simdist.strategies.given_cluster import cluster_behind

__all__ = ["coordinated_cluster"]

SERVING = ("worker", "ps")


def coordinated_cluster(given: object) -> tuple[ClusterResolver, Cluster]:
    """The resolver and the cluster that an argument of a strategy means; None is that of TF_CONFIG.

    Raises:
        InvalidArgumentError: it is neither, a resolver of no cluster or of another one, or the resolver of a task that serves; or there is
            no worker, or no ps.

    Example:
        >>> cluster = Cluster({"worker": 2, "ps": 1})
        >>> coordinated_cluster(cluster) == coordinated_cluster(cluster.resolver) == (cluster.resolver, cluster)
        True
    """
    resolver, cluster = _resolved(given)
    for job in SERVING:
        if job not in cluster.spec.jobs or cluster.spec.num_tasks(job) == 0:
            raise InvalidArgumentError(
                f"ParameterServerStrategy needs at least one {job} task; the cluster has {cluster.spec.as_dict()!r}."
            )
    return resolver, cluster


def _resolved(given: object) -> tuple[ClusterResolver, Cluster]:
    cluster = cluster_behind(given)
    if isinstance(cluster, Cluster):
        return cluster.resolver, cluster
    main = launched_main.get()
    found = "nothing" if given is None else type(given).__name__
    given = TFConfigClusterResolver() if given is None else given
    if not isinstance(given, ClusterResolver) or main is None:
        raise InvalidArgumentError(
            f"ParameterServerStrategy needs an sd.Cluster (or its .resolver); got {found}. "
            'For example sd.Cluster({"worker": 3, "ps": 2}). TF_CONFIG, or a resolver that only describes a cluster, is enough '
            "in a main that cluster.launch runs."
        )
    if given.task_type in SERVING:
        raise InvalidArgumentError(
            f"{given.task_type}:{given.task_id} serves, and cannot coordinate. Start sd.Server(resolver.cluster_spec(), "
            "resolver.task_type, resolver.task_id).join() there, and make the strategy in the main of the chief."
        )
    spec, launched = spec_of(given), main.cluster.spec
    if _training(spec) != _training(launched):
        raise InvalidArgumentError(
            f"The resolver describes the cluster {spec.as_dict()!r}, but this main was launched on {launched.as_dict()!r}. Leave TF_CONFIG "
            "as it was set for this task."
        )
    return given, main.cluster


def _training(spec: ClusterSpec) -> dict[str, object]:
    """The jobs of a spec without its evaluator, which it may leave out, and without a chief, which coordinates anyhow."""
    return {job: tasks for job, tasks in spec.as_dict().items() if job not in ("evaluator", "chief")}
