"""A collective in closed form carries what it carries event by event, also where it fails on the way; and the trace says who waited."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

BEGINS_S, LASTS_S = 0.00017625, 0.0044666  # the all-reduce of 4 MB by three workers, as a ring


def counted(fraction: float | None, event_by_event: bool, algorithm: str = "ring") -> tuple[dict[str, Any], dict[str, Any], sd.Cluster]:
    """The bytes that tasks have sent, and links carried, when a worker dies at this part of an all-reduce; None: nobody dies."""
    cluster = sd.Cluster({"worker": 3}, numerics="off")
    if event_by_event:
        cluster.faults.delay("worker:0", "worker:1", seconds=1.0, at=1e5)
    options = sd.CommunicationOptions(algorithm=algorithm)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, communication_options=options)
    with strategy.scope():
        variable = sd.Variable(np.zeros((1000, 1000), np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(variable.value, variable)])))
    if fraction is None:
        step()
    else:
        cluster.faults.crash("worker:2", at=BEGINS_S + fraction * LASTS_S)
        with pytest.raises(sd.errors.UnavailableError):
            step()
    summary = cluster.trace.summary()
    links = {link.name: link.bytes_carried for link in cluster.world.fabric.links() if link.bytes_carried}
    return {name: task["bytes_sent"] for name, task in summary["tasks"].items()}, links, cluster


@pytest.mark.parametrize("algorithm", ["ring", "recursive doubling", "binomial"])
@pytest.mark.parametrize("fraction", [None, 0.05, 0.3, 0.5, 0.9])
@pytest.mark.sample
def test_bytes_are_those_of_the_transfers_also_where_a_collective_fails(fraction: float | None, algorithm: str) -> None:
    sent, carried, _ = counted(fraction, False, algorithm)
    expected_sent, expected_carried, _ = counted(fraction, True, algorithm)
    assert sent == pytest.approx(expected_sent)
    assert carried == pytest.approx(expected_carried)


def test_a_ring_that_fails_on_the_way_has_carried_a_part() -> None:
    whole = 4e6 * 4 / 3
    assert list(counted(None, False)[1].values()) == pytest.approx([whole] * 6)
    assert all(0 < num_bytes < 0.1 * whole for num_bytes in counted(0.05, False)[1].values())


def test_replicas_that_wait_for_a_collective_that_fails_are_seen_waiting() -> None:
    *_, cluster = counted(0.5, False)
    waits = [span for span in cluster.trace.spans if span.category == "wait"]
    assert {span.lane for span in waits} == {"worker:0", "worker:1"}
    assert {span.facts["error"] for span in waits} == {"UnavailableError"}
    assert (
        cluster.trace.critical_path().segments[-1].span.category == "wait" if hasattr(cluster.trace.critical_path(), "segments") else waits
    )
    assert max(span.end_s for span in waits) == cluster.now


@pytest.mark.parametrize("algorithm", ["ring", "recursive doubling", "binomial", "double tree"])
@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.2, 0.5, 0.77, 0.999])
@pytest.mark.sample
def test_a_fault_that_is_planned_meanwhile_and_comes_later_changes_nothing(fraction: float, algorithm: str) -> None:
    """From then on the bytes go as flows: they end when they would have ended, and each is counted once."""

    def reduced(planned: bool) -> tuple[float, dict[str, float], dict[str, float]]:
        cluster = sd.Cluster({"worker": 5}, numerics="off")
        options = sd.CommunicationOptions(algorithm=algorithm)
        strategy = sd.MultiWorkerMirroredStrategy(cluster, communication_options=options)
        with strategy.scope():
            variable = sd.Variable(np.zeros((1000, 1000), np.float32))
            optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
        step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(variable.value, variable)])))
        if planned:
            plan = lambda: cluster.faults.delay("worker:0", "worker:1", seconds=1.0, at=1e5)  # noqa: E731
            cluster.world.clock.after(begins_s + fraction * (ends_s - begins_s), lambda _: plan())
        step()
        (begun,) = {span.start_s for span in cluster.trace.spans if span.category == "collective"}
        bounds.append((begun, max(span.end_s for span in cluster.trace.spans if span.category == "collective")))
        tasks = {name: task["bytes_sent"] for name, task in cluster.trace.summary()["tasks"].items()}
        return cluster.now, tasks, {link.name: link.bytes_carried for link in cluster.world.fabric.links()}

    bounds: list[tuple[float, float]] = []
    begins_s = ends_s = 0.0
    expected = reduced(planned=False)
    begins_s, ends_s = bounds[0]
    found = reduced(planned=True)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other)
