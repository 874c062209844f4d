"""A fault that is planned at any moment and changes nothing: collectives end when they would have ended, and every rank gets its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist.collectives import ALGORITHMS

LATE = {"kind": "slow_link", "source": "worker:0", "target": "worker:1", "bandwidth_factor": 2.0, "latency_factor": 1.0, "at": 50.0}
SMALL_PACKS, ONE_PACK = 100, 1_000_000

Program = Callable[[sd.Cluster], list[float]]
CASES = list(product(sorted(ALGORITHMS["all_reduce"]), (2, 3, 4, 5, 6), (SMALL_PACKS, ONE_PACK)))
SAMPLE = [("binomial", 3, ONE_PACK), ("ring", 3, SMALL_PACKS), ("double tree", 3, ONE_PACK), ("recursive doubling", 5, ONE_PACK)]


def sums(algorithm: str, bytes_per_pack: int) -> Program:
    """Three sums over the replicas, in packs that travel one behind the other."""

    def program(cluster: sd.Cluster) -> list[float]:
        options = sd.CommunicationOptions(algorithm=algorithm, bytes_per_pack=bytes_per_pack)
        strategy = sd.MultiWorkerMirroredStrategy(cluster, communication_options=options)
        given = [np.full((rows, 7), 0.5, np.float32) for rows in (3, 11, 5)]

        @sd.function
        def step() -> Any:
            context: Any = sd.get_replica_context()
            return sum(one.sum() for one in context.all_reduce("sum", [one * 2.0 for one in given]))

        return [float(value) for value in strategy.experimental_local_results(strategy.run(step))]

    return program


def cluster_of(num_workers: int) -> sd.Cluster:
    return sd.Cluster({"worker": num_workers}, network=sd.hardware.Network(bandwidth=1.1e6, latency=1.7e-5))


def outcome(session: sd.Session) -> tuple[float, Any, dict[str, float], dict[str, float]]:
    """When it ended, its result, and the bytes of tasks and links."""
    summary = session.trace.summary()
    sent = {lane: figures["bytes_sent"] for lane, figures in summary["lanes"].items()}
    return session.now, session.result, sent, summary["links"]


def goes_on(session: sd.Session, fault: dict[str, Any]) -> sd.Session:
    """The session, with a fault that is planned where it stands, at its end."""
    session.inject(fault)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*never fired")
        session.advance()
    return session


def require_equal(found: tuple[Any, ...], expected: tuple[Any, ...], where: object) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-12), where


@pytest.mark.parametrize(("algorithm", "num_workers", "bytes_per_pack"), sampled(CASES, SAMPLE))
def test_a_late_fault_that_is_planned_after_any_event_changes_nothing(algorithm: str, num_workers: int, bytes_per_pack: int) -> None:
    program = sums(algorithm, bytes_per_pack)
    whole = sd.Session(program, cluster_of(num_workers))
    whole.advance()
    expected = outcome(whole)
    for events in range(1, 1000):
        session = sd.Session(program, cluster_of(num_workers))
        session.advance(events=events)
        if session.state != "paused":
            assert events > 5
            return
        require_equal(outcome(goes_on(session, LATE)), expected, events)


@pytest.mark.parametrize(("algorithm", "num_workers", "bytes_per_pack"), sampled(CASES, SAMPLE))
def test_a_late_fault_that_is_planned_where_a_rank_gets_its_result_changes_nothing(
    algorithm: str, num_workers: int, bytes_per_pack: int
) -> None:
    program = sums(algorithm, bytes_per_pack)
    whole = sd.Session(program, cluster_of(num_workers))
    whole.advance()
    expected = outcome(whole)
    for end_s in sorted({span.end_s for span in whole.trace.spans if span.category == "collective"}):
        session = sd.Session(program, cluster_of(num_workers))
        session.advance(until=end_s)
        if session.state == "paused":
            require_equal(outcome(goes_on(session, LATE)), expected, end_s)
