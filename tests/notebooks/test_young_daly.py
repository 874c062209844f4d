"""The job of lesson 09, with intervals that are far from the best one."""

from __future__ import annotations

import numpy as np
import pytest
from classroom.young_daly import InFiles, OnDisk, expected_stretch, failing_cluster, job

import simdist as sd
from simdist.errors import InvalidArgumentError


def stretch(interval_s: int, seed: int) -> float:
    cluster = failing_cluster(seed)
    return job(cluster, OnDisk(cluster), interval_s)


def test_formula_holds_for_intervals_that_are_far_too_long() -> None:
    found = [stretch(3200, seed) for seed in range(12)]
    error = float(np.std(found, ddof=1)) / len(found) ** 0.5
    assert abs(float(np.mean(found)) - expected_stretch(3200)) <= 3 * error
    assert max(found) > 4, "failures go on for as long as the job does"


@pytest.mark.parametrize("kind", [InFiles, OnDisk])
def test_job_that_outlives_its_failures_says_so(kind: type[InFiles] | type[OnDisk]) -> None:
    cluster = failing_cluster(0, until_s=500.0)
    with pytest.raises(InvalidArgumentError, match="not over at 500 s, and no failures are planned after that"):
        job(cluster, kind(cluster), 100, work=1200)


def test_cluster_without_planned_failures_has_no_limit() -> None:
    cluster = sd.Cluster({"worker": 1})
    assert job(cluster, OnDisk(cluster), 100, work=1200) == pytest.approx(1.0, abs=0.01)
