"""Lesson 08: the closed form of its second exercise against the cluster, and the clusters in which only declared time passes."""

from __future__ import annotations

import pytest
from classroom.lesson_08 import JOBS, SLOW_INPUT, SLOW_INPUT_MS, slow_run, total_of
from classroom.reading import dataset_of_rows, make_strategy, read_steps, timed_job, times_read, visits, with_time

import simdist as sd

BATCHES = sd.Dataset.range(1000).batch(1)


@pytest.mark.parametrize(("steps", "load", "step", "prefetch"), [job for job in JOBS if job[3]])
def test_formula_of_the_exercise_is_what_the_cluster_takes(steps: int, load: float, step: float, prefetch: int) -> None:
    cluster = timed_job(with_time(BATCHES, load).prefetch(prefetch), steps, step)
    assert 1000 * cluster.now == pytest.approx(total_of(steps, load, step, prefetch), abs=1e-6)


def test_loop_that_loads_for_itself_hides_nothing() -> None:
    steps, load, step, _ = JOBS[0]
    cluster = timed_job(BATCHES, steps, step, before_step=lambda number: load)
    assert 1000 * cluster.now == pytest.approx(total_of(*JOBS[0]), abs=1e-6)


def test_rows_of_all_replicas_are_seen_step_by_step() -> None:
    strategy = make_strategy(workers=2)
    steps = read_steps(strategy, strategy.distribute_dataset(sd.Dataset.range(6).batch(4)))
    assert steps == [[[0, 1], [2, 3]], [[4], [5]]]
    assert times_read(steps, num_rows=7) == [1, 1, 1, 1, 1, 1, 0]


def test_weights_count_visits() -> None:
    counts, strategy = visits(dataset_of_rows().take(8).batch(2).concatenate(dataset_of_rows().take(2).batch(2)))
    assert counts == [2, 2, 1, 1, 1, 1, 1, 1] + 16 * [0]
    assert len(strategy.cluster.trace.spans.where(category="closure")) == 5


def test_first_wait_of_the_slow_input_is_its_load_and_every_step_takes_as_long() -> None:
    cluster = slow_run()
    waits = list(cluster.trace.spans.where(lane=SLOW_INPUT, category="input"))
    assert 1000 * waits[0].duration_s == pytest.approx(SLOW_INPUT_MS)
    assert 1000 * (waits[-1].end_s - waits[-2].end_s) == pytest.approx(SLOW_INPUT_MS)
    others = [span.duration_s for span in cluster.trace.spans.where(category="input") if span.lane != SLOW_INPUT]
    assert len(others) == 3
