"""The cluster and the program of lesson 07, for its exercises, and what its tables show of a run.

`tally` is that of the notebook, word for word.
"""

from __future__ import annotations

import jax
import numpy as np

import simdist as sd
from simdist.hardware import Device, Network

__all__ = ["make_cluster", "outcome", "tally", "timetable"]


def make_cluster(workers=3):
    """Make a cluster with two servers, in which a message takes 20 ms and nothing but steps takes long."""
    quick = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=1e-4)
    return sd.Cluster(
        {"worker": workers, "ps": 2},
        seed=7,
        hardware={"worker": Device(launch_overhead=0.0), "ps": quick, "chief": quick},
        network=Network(bandwidth=1e9, latency=0.02),
    )


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
    cluster = make_cluster()
    for kind, task, when in plan:
        getattr(cluster.faults, kind)(task, **when)
    try:
        pages = tally(cluster, closures, **options)
    except sd.errors.SimdistError as error:
        return type(error).__name__, cluster.now
    lost, twice = (pages == 0).any(axis=0).sum(), (pages > 1).any(axis=0).sum()
    return int(lost), int(twice), cluster.now


def timetable(cluster: sd.Cluster, closures: int) -> None:
    """Print of the first closures: the worker, the begin, the updates on both servers, the end, and when the chief knows of it."""
    spans = cluster.trace.spans
    print("closure  worker    begin   on ps:0  on ps:1     end   chief")
    ended = sorted(spans.where(category="closure"), key=lambda span: span.facts["closure"])
    for span in ended[:closures]:
        mine = [
            one for one in spans.where(category="apply") if one.facts["worker"] == span.lane and span.start_s < one.start_s < span.end_s
        ]
        left_s, right_s = [next(one.end_s for one in mine if one.lane == server) for server in ("ps:0", "ps:1")]
        times = f"{span.start_s:>7.2f} {left_s:>9.2f} {right_s:>8.2f} {span.end_s:>7.2f} {span.end_s + 0.02:>7.2f}"
        print(f"{span.facts['closure']:>7}  {span.lane} {times}")
