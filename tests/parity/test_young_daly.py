"""A job that fails and comes back takes as long as Young and Daly say, and with their interval the least.

The job is that of lesson 09. Its machine, disk and failures are simulated; beside it, the same story is told by arithmetic alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from classroom.young_daly import (
    INTERVALS_S,
    InFiles,
    OnDisk,
    best_interval,
    expected_stretch,
    failing_cluster,
    job,
    lowest_of_parabola,
    moments_of_failure,
)

SEEDS = 20
SAMPLE = 4
SAVE_S, RESTART_S, WORK_S = 5.0, 10.0, 20_000.0


def end_by_arithmetic(interval_s: float, seed: int) -> float:
    """When the job ends: a piece of work counts if no failure comes before it is saved, and a failure while the machine is down prolongs
    that."""
    failures = iter(moments_of_failure(seed, 2 * WORK_S))
    now_s, done_s, failure_s = 0.0, 0.0, next(failures)
    while done_s < WORK_S:
        if now_s + interval_s + SAVE_S < failure_s:
            now_s, done_s = now_s + interval_s + SAVE_S, done_s + interval_s
            continue
        while failure_s < now_s + interval_s + SAVE_S:
            now_s, failure_s = failure_s + RESTART_S, next(failures)
            if now_s < failure_s:
                break
    return now_s


def measured(interval_s: float, seeds: int) -> list[float]:
    found: list[float] = []
    for seed in range(seeds):
        cluster = failing_cluster(seed)
        found.append(job(cluster, OnDisk(cluster), interval_s))
    return found


@pytest.mark.parametrize("interval_s", INTERVALS_S)
def test_job_ends_when_arithmetic_says(interval_s: int) -> None:
    expected = [end_by_arithmetic(interval_s, seed) / WORK_S for seed in range(SAMPLE)]
    np.testing.assert_allclose(measured(interval_s, SAMPLE), expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*never fired")
def test_checkpoints_in_files_take_as_long_as_those_without() -> None:
    def end_s(kind: type[InFiles] | type[OnDisk]) -> float:
        with failing_cluster(seed=1, until_s=3000.0) as cluster:
            job(cluster, kind(cluster), 100, 1200)
            assert len(list(cluster.trace.instants.where(category="crash"))) == 1
            return cluster.now

    assert end_s(InFiles) == pytest.approx(end_s(OnDisk), abs=1e-6)


def test_formula_has_its_least_stretch_at_youngs_interval() -> None:
    intervals_s = np.geomspace(10, 1000, 2001)
    best_s = intervals_s[np.argmin([expected_stretch(float(interval_s)) for interval_s in intervals_s])]
    assert best_interval() == 100.0
    assert best_s == pytest.approx(best_interval(), rel=0.05)
    assert [round(expected_stretch(interval_s), 3) for interval_s in (50, 100, 200)] == [1.142, 1.118, 1.149]


def test_arithmetic_of_many_failures_is_the_formula() -> None:
    for interval_s in INTERVALS_S:
        stretches = [end_by_arithmetic(interval_s, seed) / WORK_S for seed in range(200)]
        assert np.mean(stretches) == pytest.approx(expected_stretch(interval_s), rel=0.005)


@pytest.mark.exhaustive
def test_stretch_is_that_of_the_formula_and_least_at_its_interval() -> None:
    stretches = {interval_s: measured(interval_s, SEEDS) for interval_s in INTERVALS_S}
    for interval_s, found in stretches.items():
        error = np.std(found, ddof=1) / np.sqrt(SEEDS)
        assert abs(np.mean(found) - expected_stretch(interval_s)) < max(0.005, 3 * error)
        assert np.mean(found) == pytest.approx(expected_stretch(interval_s), rel=0.02)
    means = [float(np.mean(found)) for found in stretches.values()]
    assert INTERVALS_S[int(np.argmin(means))] == best_interval()
    assert lowest_of_parabola(INTERVALS_S, means) == pytest.approx(best_interval(), rel=0.1)
