"""Whatever worker dies whenever: training ends, every closure has run at least once, none is lost."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd

CLOSURES = 24


def run(seed: int, restart: bool) -> tuple[sd.Cluster, list[float], float]:
    draw = np.random.default_rng(seed)
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=seed)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        total = sd.Variable(np.zeros(4), name="total")
    coordinator = sd.ClusterCoordinator(strategy)
    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(1000).batch(2))
    iterator = iter(dataset)

    @sd.function
    def step(iterator: object) -> object:
        next(iterator)  # pyright: ignore[reportArgumentType]
        total.assign_add(np.ones(4, np.float32))
        return total.value[0]

    worker = f"worker:{draw.integers(3)}"
    cluster.faults.crash(worker, at=float(draw.random() * 0.0027), restart_after=float(draw.random() * 0.001) if restart else None)
    values = [coordinator.schedule(step, args=(iterator,)) for _ in range(CLOSURES)]
    coordinator.join()
    assert coordinator.done()
    return cluster, [float(value.fetch()) for value in values], float(total.numpy()[0])


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.sample(2)
def test_killing_a_worker_at_a_random_moment_loses_no_closure(seed: int) -> None:
    cluster, values, total = run(seed, restart=seed % 2 == 0)
    retries = len(cluster.trace.instants.where(category="retry"))
    assert len(values) == CLOSURES
    assert CLOSURES <= total <= CLOSURES + retries
    assert len(cluster.trace.instants.where(category="crash")) == 1


def test_some_of_these_crashes_hit_a_running_closure() -> None:
    hits = sum(len(run(seed, restart=True)[0].trace.instants.where(category="retry")) for seed in range(12))
    assert hits > 0


def test_killed_parameter_server_raises_once_and_cancels_what_is_queued() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(np.zeros(1000), name="v")
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def read() -> object:
        return v.value.sum()

    cluster.faults.crash("ps:0", at=0.0004)
    values = [coordinator.schedule(read) for _ in range(60)]
    with pytest.raises(sd.errors.UnavailableError, match="ps:0"):
        coordinator.join()
    coordinator.join()
    with pytest.raises(sd.errors.CancelledError):
        values[-1].fetch()
    with pytest.raises(sd.errors.UnavailableError, match="lost its variables"):
        v.numpy()
