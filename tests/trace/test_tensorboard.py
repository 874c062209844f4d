"""Scalars over virtual time: what falls into which bin, and a file that is the same for the same trace."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError, UnavailableError
from simdist.trace import Trace
from simdist.trace.tensorboard import scalars


def series(trace: Trace, tag: str, bins: int) -> dict[int, float]:
    return {scalar.step: scalar.value for scalar in scalars(trace, bins) if scalar.tag == tag}


@pytest.fixture
def trace() -> Trace:
    """Four virtual seconds: two workers that step once a second, one of them a little later."""
    trace = Trace()
    for step in range(4):
        trace.span("worker:0", "read", "read", step, step + 0.25, bytes=100)
        trace.span("worker:0", "compute", "step", step + 0.25, step + 0.5)
        trace.span("ps:0", "apply", "sgd", step + 0.5, step + 0.75, worker="worker:0")
        trace.span("worker:0", "update", "update", step + 0.5, step + 1.0, bytes=40)
    trace.counter("chief:0", "queue", 1.0, 4.0)
    trace.counter("chief:0", "queue", 1.5, 2.0)
    trace.counter("chief:0", "queue", 3.0, 0.0)
    trace.total("worker:0", "bytes_sent", 160)
    trace.total("worker:0 -> ps:0", "link_bytes", 160)
    return trace


def test_steps_are_updates_by_virtual_second(trace: Trace) -> None:
    assert series(trace, "steps_per_s/worker:0", bins=4) == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0}
    assert series(trace, "steps_per_s/worker:0", bins=8) == {number: 2.0 * (number % 2 == 0) for number in range(1, 9)}


def test_steps_of_a_task_that_sends_no_updates_are_its_computations() -> None:
    trace = Trace()
    for lane in ("worker:0/gpu:0", "worker:0/gpu:1"):
        trace.span(lane, "compute", "step", 0.0, 1.0)
        trace.span(lane, "compute", "step", 1.0, 2.0)
    assert series(trace, "steps_per_s/worker:0", bins=1) == {1: 1.0}


def test_ends_of_steps_are_counted_whatever_the_steps_are_made_of(trace: Trace) -> None:
    for end_s in (2.0, 4.0):
        trace.step_ended("worker:0", end_s)
    assert series(trace, "steps_per_s/worker:0", bins=4) == {1: 0.0, 2: 1.0, 3: 0.0, 4: 1.0}
    trace.step_undone("worker:0")
    assert series(trace, "steps_per_s/worker:0", bins=1) == {1: 0.25}


def steps_of(trace: Trace) -> dict[str, float]:
    """How many steps each task has taken, by the scalars."""
    return {scalar.tag: round(scalar.value * trace.end_s()) for scalar in scalars(trace, 1) if scalar.tag.startswith("steps_per_s/")}


def test_a_step_with_several_collectives_is_one_step() -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable(np.ones(4, np.float32))

    def replica() -> None:
        value = variable.value
        for _ in range(3):
            value = jnp.tanh(sd.get_replica_context().all_reduce(sd.ReduceOp.SUM, value)) * 0.5

    step = sd.function(lambda: strategy.run(replica))
    for _ in range(8):
        step()
    assert len(cluster.trace.spans.where(lane="worker:0", category="compute")) > 8
    assert steps_of(cluster.trace) == {"steps_per_s/worker:0": 8, "steps_per_s/worker:1": 8}


def test_a_closure_with_several_updates_is_one_step() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variable = sd.Variable(0.0)
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def step() -> None:
        variable.assign_add(1.0)
        variable.assign(variable.value * 0.5)

    for _ in range(8):
        coordinator.schedule(step)
    coordinator.join()
    assert len(cluster.trace.spans.where(lane="worker:0", category="update")) > 8
    assert steps_of(cluster.trace) == {"steps_per_s/worker:0": 8}


def test_a_step_in_which_a_replica_dies_is_none() -> None:
    cluster = sd.Cluster({"worker": 2}, hardware={"worker": sd.hardware.Device(jitter=sd.hardware.Uniform(1.0, 3.0))}, seed=3)
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    step = sd.function(lambda: strategy.run(lambda: jnp.zeros(())), seconds=1.0)
    step()
    slower = max(cluster.trace.spans.where(category="compute"), key=lambda span: span.end_s)
    cluster.faults.crash(slower.lane, at=cluster.now + 2.9)
    with pytest.raises(UnavailableError):
        for _ in range(20):
            step()
    whole = len(cluster.trace.spans.where(lane=slower.lane, category="compute"))
    assert steps_of(cluster.trace) == {"steps_per_s/worker:0": whole, "steps_per_s/worker:1": whole}


def test_bytes_are_counted_where_their_spans_ended(trace: Trace) -> None:
    assert series(trace, "bytes_per_s/worker:0", bins=4) == dict.fromkeys(range(1, 5), 140.0)
    assert series(trace, "bytes_per_s/worker:0", bins=1) == {1: 140.0}


def test_queue_is_the_mean_over_time_of_each_bin(trace: Trace) -> None:
    assert series(trace, "queue/chief:0", bins=4) == {1: 0.0, 2: 3.0, 3: 2.0, 4: 0.0}
    assert series(trace, "queue/chief:0", bins=1) == {1: 5.0 / 4}


def test_staleness_is_there_only_where_updates_are(trace: Trace) -> None:
    assert series(trace, "staleness/ps:0", bins=8) == {2: 0.0, 4: 0.0, 6: 0.0, 8: 0.0}


def test_totals_stand_at_the_end(trace: Trace) -> None:
    assert series(trace, "bytes_sent/worker:0", bins=4) == {4: 160.0}
    assert series(trace, "link_bytes/worker:0 -> ps:0", bins=4) == {4: 160.0}


def test_wall_time_is_virtual_and_rises(trace: Trace) -> None:
    times_s = [scalar.wall_time_s for scalar in scalars(trace, bins=4)]
    assert times_s == sorted(times_s)
    assert set(times_s) == {1.0, 2.0, 3.0, 4.0}


def test_same_trace_gives_the_same_bytes(trace: Trace, tmp_path: Path) -> None:
    first, second = trace.to_tensorboard(tmp_path / "a" / "b"), trace.to_tensorboard(str(tmp_path / "c"))
    assert first.read_bytes() == second.read_bytes()
    assert trace.to_tensorboard(tmp_path / "c") == second, "a second call replaces the file"
    assert [path.name for path in (tmp_path / "c").iterdir()] == [second.name]


def test_trace_without_duration_has_no_scalars(tmp_path: Path) -> None:
    assert list(scalars(Trace())) == []
    assert Trace().to_tensorboard(tmp_path).stat().st_size > 0


def test_no_bins_are_refused(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="bins"):
        trace.to_tensorboard(tmp_path, bins=0)
    for bins in (1.5, "a", None, True):
        with pytest.raises(TypeError, match="bins"):
            trace.to_tensorboard(tmp_path, bins=bins)  # pyright: ignore[reportArgumentType]


def test_file_as_directory_is_refused(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidArgumentError, match="must not be or lie below a file"):
            trace.to_tensorboard(path)
