"""A trace is plain data that can leave its process; what is tied to a running cluster says that it cannot."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from simdist.trace import Trace

COPIES = [pytest.param(lambda thing: pickle.loads(pickle.dumps(thing)), id="pickle"), pytest.param(copy.deepcopy, id="deepcopy")]


@pytest.fixture
def run() -> tuple[sd.Cluster, sd.RemoteValue]:
    """A cluster that ran four closures, with a crash, and the value of the first."""
    cluster = sd.Cluster({"worker": 2, "ps": 1}, seed=3)
    cluster.faults.crash("worker:1", at=1e-5, restart_after=1e-3)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(1.0, name="v")
    coordinator = sd.ClusterCoordinator(strategy)
    values = [coordinator.schedule(sd.function(lambda: v.assign_add(1.0))) for _ in range(4)]
    coordinator.join()
    return cluster, values[0]


@pytest.mark.parametrize("duplicate", COPIES)
def test_copy_of_a_trace_has_the_same_digest_and_views(duplicate: Callable[[Any], Any], run: tuple[sd.Cluster, Any]) -> None:
    trace = run[0].trace
    other = duplicate(trace)
    assert type(other) is Trace
    assert other.digest() == trace.digest()
    assert other.summary() == trace.summary()
    assert other.sums() == trace.sums() != {}
    assert (list(other.spans), list(other.instants), list(other.counters)) == (
        list(trace.spans),
        list(trace.instants),
        list(trace.counters),
    )
    assert duplicate(other).sums() == trace.sums()


@pytest.mark.parametrize("duplicate", COPIES)
def test_copy_of_a_trace_goes_its_own_way(duplicate: Callable[[Any], Any]) -> None:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 0.5, bytes=8)
    other = duplicate(trace)
    other.span("worker:0", "compute", "step", 0.5, 1.0)
    trace.counter("ps:0", "queue", 1.0, 2.0)
    assert (len(trace.spans), len(other.spans), len(trace.counters), len(other.counters)) == (1, 2, 1, 0)


@pytest.mark.parametrize("duplicate", COPIES)
def test_cluster_and_remote_value_say_what_to_take_instead(duplicate: Callable[[Any], Any], run: tuple[Any, Any]) -> None:
    for thing in run:
        with pytest.raises(TypeError, match=r"a cluster lives in this process, with all that it has\. Take .*cluster\.trace"):
            duplicate(thing)
