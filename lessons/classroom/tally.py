"""The clusters and the program of lesson 07, for its exercises, and what its tables show of a run.

`tally` is that of the notebook, word for word.
"""

from __future__ import annotations

import jax
import numpy as np

import simdist as sd
from simdist.hardware import Device, Network

__all__ = ["make_cluster", "outcome", "tally", "timetable", "two_buildings"]

LATENCY_S = 0.02  # of each message
FAR_S = 0.04  # of one to another building, or from there
NETWORK = Network(bandwidth=1e9, latency=LATENCY_S)


def make_cluster(workers=3, network=NETWORK):
    """Make a cluster with two servers, in which a message takes 20 ms and nothing but steps takes long."""
    quick = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=1e-4)
    return sd.Cluster(
        {"worker": workers, "ps": 2},
        seed=7,
        hardware={"worker": Device(launch_overhead=0.0), "ps": quick, "chief": quick},
        network=network,
    )


def two_buildings():
    """Make the same cluster, with ps:1 in another building."""
    # Half of the latency of a message is of the port at each end, and that of ps:1 has the rest of its longer way.
    return make_cluster(network=NETWORK.with_port("ps:1", latency=FAR_S - LATENCY_S / 2))


def tally(cluster, closures=12, **options):
    """Let each closure make a mark at its number, on a page of each server; return how many marks there are."""
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        left = sd.Variable(np.zeros(closures, np.float32), name="left")
        right = sd.Variable(np.zeros(closures, np.float32), name="right")

    @sd.function(seconds=1.0)
    def step(number):
        mark = jax.nn.one_hot(number, closures)
        left.assign_add(mark)
        right.assign_add(mark)

    coordinator = sd.ClusterCoordinator(strategy)
    for number in range(closures):
        coordinator.schedule(step, (np.int32(number),))
    coordinator.join()
    return np.array([left.numpy(), right.numpy()], int)


def outcome(plan, closures=36, **options):
    """Count the closures that are lost and those that count twice under a plan of faults, and the seconds of the run."""
    cluster = two_buildings()
    for kind, task, when in plan:
        getattr(cluster.faults, kind)(task, **when)
    try:
        pages = tally(cluster, closures, **options)
    except sd.errors.SimdistError as error:
        return type(error).__name__, cluster.now
    lost, twice = (pages == 0).any(axis=0).sum(), (pages > 1).any(axis=0).sum()
    return int(lost), int(twice), cluster.now


def timetable(cluster: sd.Cluster, closures: int) -> None:
    """Print of the first closures: the worker, the begin, the updates on both servers, the end, and when the chief knows of it.

    In rounds no update belongs to one closure, and a reply may be lost with its worker: there is a dash then.
    """
    spans = cluster.trace.spans
    retries = list(cluster.trace.instants.where(category="retry"))
    print("closure  worker    begin   on ps:0  on ps:1     end   chief")
    ended = sorted(spans.where(category="closure"), key=lambda span: span.facts["closure"])
    for span in ended[:closures]:
        number = span.facts["closure"]
        applied = {
            one.lane: one.end_s
            for one in spans.where(category="apply")
            if one.facts.get("worker") == span.lane and span.start_s < one.start_s < span.end_s
        }
        is_lost = any(retry.facts["closure"] == number and retry.time_s > span.end_s for retry in retries)
        left, right = (in_seconds(applied.get(server)) for server in ("ps:0", "ps:1"))
        known = in_seconds(None if is_lost else span.end_s + LATENCY_S)
        print(f"{number:>7}  {span.lane} {span.start_s:>7.2f} {left:>9} {right:>8} {span.end_s:>7.2f} {known:>7}")


def in_seconds(moment_s: float | None) -> str:
    """A moment with two digits, and a dash for one that there is not."""
    return "-" if moment_s is None else f"{moment_s:.2f}"
