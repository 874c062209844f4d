"""What a cluster is, as plain data, and back: its spec, seed, numerics, hardware, network, and its disks where they are not the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from simdist.arguments import whole_number
from simdist.cluster import ClusterSpec
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.hardware import Device, DiskModel, Network, nvme
from simdist.hardware.plain import hardware_from_plain, plain_hardware
from simdist.runtime.cluster import Cluster

__all__ = ["cluster_from_plain", "plain_cluster"]

MOST_TASKS = 20_000
FIELDS = {"spec", "seed", "numerics", "hardware", "network"}
OPTIONAL = {"disks"}


def plain_cluster(cluster: Cluster) -> dict[str, Any]:
    """A cluster as plain data, from which another of the same kind is made.

    Raises:
        FailedPreconditionError: it computes on JAX devices of this machine.
        InvalidArgumentError: its hardware is of a class that is not one of this package.

    Example:
        >>> plain_cluster(Cluster({"worker": 3}, seed=7))["spec"]
        {'worker': 3}
    """
    if cluster.jax_devices is not None:
        raise FailedPreconditionError("The cluster computes on JAX devices of this machine, which have no text. Leave jax_devices= out.")
    disks = {} if cluster.disks == nvme else {"disks": _plain_by_job(cluster.disks)}
    counts = {job: cluster.spec.num_tasks(job) for job in cluster.spec.jobs}
    return {
        "spec": counts if ClusterSpec(counts) == cluster.spec else cluster.spec.as_dict(),
        "seed": cluster.seed,
        "numerics": cluster.numerics,
        "hardware": _plain_by_job(cluster.hardware),
        "network": plain_hardware(cluster.network),
        **disks,
    }


def _plain_by_job(models: object) -> Any:
    """A model for all tasks, or one for each job."""
    if isinstance(models, Mapping):
        return {job: plain_hardware(model) for job, model in cast("Mapping[str, object]", models).items()}
    return plain_hardware(models)


def cluster_from_plain(given: Any) -> Cluster:
    """The cluster that plain data describe.

    Raises:
        InvalidArgumentError: a field that is not known or is missing, one that makes no sense, or more than 20,000 tasks.

    Example:
        >>> cluster_from_plain(plain_cluster(Cluster({"worker": 3}, seed=7)))
        Cluster({'worker': 3}, seed=7, now=0.000000 s)
    """
    if not isinstance(given, dict) or set(cast("dict[str, Any]", given)) - OPTIONAL != FIELDS or not isinstance(given["spec"], dict):
        raise InvalidArgumentError(f"This is no cluster: expected the fields {sorted(FIELDS)}, and perhaps {sorted(OPTIONAL)}.")
    if sum(map(_num_tasks, cast("dict[str, Any]", given["spec"]).values())) > MOST_TASKS:
        raise InvalidArgumentError(f"The cluster has more than {MOST_TASKS:,} tasks, which no shared session may have.")
    network = _part(given["network"], Network)
    hardware, disks = _by_job(given["hardware"], Device), _by_job(given["disks"], DiskModel) if "disks" in given else None
    try:
        return Cluster(_spec(given["spec"]), given["seed"], hardware, network, given["numerics"], disks=disks)
    except (TypeError, UnicodeError) as error:
        raise InvalidArgumentError(f"This is no cluster: {error}") from error


def _spec(given: dict[str, Any]) -> dict[str, Any]:
    """A spec whose sparse jobs have whole numbers as keys again, which are text in JSON."""
    try:
        return {
            job: {int(index): address for index, address in cast("dict[str, Any]", tasks).items()} if isinstance(tasks, dict) else tasks
            for job, tasks in given.items()
        }
    except ValueError as error:
        raise InvalidArgumentError(f"This is no cluster: {error}") from error


def _num_tasks(tasks: Any) -> int:
    if isinstance(tasks, (list, dict)):
        return len(cast("list[Any]", tasks))
    try:
        return whole_number(tasks, "number of tasks", 0)
    except TypeError as error:
        raise InvalidArgumentError(f"This is no cluster: {error}") from error


def _by_job(given: Any, kind: type[Any]) -> Any:
    if isinstance(given, dict) and "is" not in given:
        return {job: _part(model, kind) for job, model in cast("dict[str, Any]", given).items()}
    return _part(given, kind)


def _part(given: Any, kind: type[Any]) -> Any:
    found = hardware_from_plain(given)
    if not isinstance(found, kind):
        raise InvalidArgumentError(f"This is no cluster: {given!r:.200} is no {kind.__name__}.")
    return found
