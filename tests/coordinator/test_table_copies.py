"""Lookup tables are copied to each worker, once in the life of its process."""

from __future__ import annotations

from typing import Any

import simdist as sd

WORDS = ["a", "b", "c"]


def trained(crash_at: float | None = None, engine: str = "simulated") -> sd.Cluster:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, engine=engine)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        lookup = sd.StringLookup(vocabulary=WORDS, name="words")
        seen = sd.Variable(0.0)

    def dataset() -> sd.Dataset:
        return sd.Dataset.from_tensor_slices(WORDS).map(lookup).batch(1).repeat()

    @sd.function
    def step(iterator: Any) -> None:
        seen.assign_add(next(iterator).sum().astype("float32"))

    coordinator = sd.ClusterCoordinator(strategy)
    iterator, another = (iter(coordinator.create_per_worker_dataset(dataset)) for _ in range(2))
    if crash_at is not None:
        cluster.faults.crash("worker:1", at=crash_at, restart_after=0.001)
    for _ in range(60):
        coordinator.schedule(step, args=(iterator,))
    for _ in range(4):
        coordinator.schedule(step, args=(another,))
    coordinator.join()
    return cluster


def copies(cluster: sd.Cluster) -> list[str]:
    return sorted(span.lane for span in cluster.trace.spans.where(category="setup") if span.name.startswith("table words"))


def test_each_worker_gets_a_copy_before_its_dataset_and_its_bytes_are_sent_by_the_chief() -> None:
    cluster = trained()
    spans = [span for span in cluster.trace.spans.where(category="setup") if span.name.startswith("table")]
    assert copies(cluster) == ["worker:0", "worker:1"]
    assert cluster.trace.totals["chief:0", "bytes_sent"] == sum(span.facts["bytes"] for span in spans) > 0
    first_steps = {span.lane: span.start_s for span in reversed(list(cluster.trace.spans.where(category="update")))}
    assert all(span.end_s - span.start_s > 0.0 and span.end_s <= first_steps[span.lane] for span in spans)


def test_the_first_step_of_a_worker_waits_for_its_copy() -> None:
    trace = trained().trace
    for worker in ("worker:0", "worker:1"):
        copy, first = (trace.spans.where(lane=worker, category=category)[0] for category in ("setup", "compute"))
        assert trace.record(first.cause) == copy
        assert copy.cause < first.cause


def test_a_worker_that_comes_back_gets_its_copy_again() -> None:
    assert copies(trained(crash_at=0.002)) == ["worker:0", "worker:1", "worker:1"]


def test_without_time_nothing_travels() -> None:
    assert all(span.end_s == 0.0 for span in trained(engine="in_process").trace.spans.where(category="setup"))
