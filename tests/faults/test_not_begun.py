"""A fault that is planned changes nothing before it begins: no time, no order, no bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import simdist as sd

FAR_S = 1e5
FAULTS: dict[str, Callable[[sd.Cluster], object]] = {
    "pause": lambda cluster: cluster.faults.pause("worker:1", at=FAR_S, until=FAR_S + 1.0),
    "partition": lambda cluster: cluster.faults.partition("worker:1", "worker:0", at=FAR_S),
    "lost host": lambda cluster: cluster.faults.lose_host("worker:1", at=FAR_S),
    "drop": lambda cluster: cluster.faults.drop("worker:1", "worker:0", probability=0.5, at=FAR_S),
    "delay": lambda cluster: cluster.faults.delay("worker:1", "worker:0", 1.0, at=FAR_S),
    "slow link": lambda cluster: cluster.faults.slow_link("worker:1", "worker:0", 2.0, at=FAR_S),
    "predicate": lambda cluster: cluster.faults.pause("worker:1", when=lambda present: present.now > FAR_S, until=2 * FAR_S),
}


def train(plan: Callable[[sd.Cluster], object], **options: object) -> tuple[str, float, bytes]:
    """The digest, the end and the weights of a training of three workers, whose ring adds in its own order."""
    cluster = sd.Cluster({"worker": 3})
    plan(cluster)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, **options)
    x = np.random.default_rng(0).normal(size=(36, 5)).astype(np.float32)
    with strategy.scope():
        w = sd.Variable(np.ones(5, np.float32))

    @sd.function
    def step(rows: object) -> None:
        def replica(rows: object) -> None:
            _, (gradient,) = sd.value_and_grad(lambda: ((rows @ w.value) ** 2).mean(), [w])()
            w.assign_sub(0.1 * sd.get_replica_context().all_reduce("mean", gradient))

        strategy.run(replica, args=(rows,))

    for rows in strategy.distribute_dataset(sd.Dataset.from_tensor_slices(x).batch(12)):
        step(rows)
    return cluster.trace.digest(), cluster.now, w.numpy().tobytes()


@pytest.mark.filterwarnings("ignore:The fault")
@pytest.mark.parametrize("options", [{}, {"devices_per_worker": 2}], ids=["one device", "two devices"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.sample
def test_a_fault_that_has_not_begun_changes_nothing(fault: str, options: dict[str, object]) -> None:
    assert train(FAULTS[fault], **options) == train(lambda _: None, **options)


def test_the_runs_part_where_the_fault_begins() -> None:
    def program(cluster: sd.Cluster) -> None:
        strategy = sd.MultiWorkerMirroredStrategy(cluster)
        with strategy.scope():
            v = sd.Variable(np.zeros(100_000, np.float32))
        step = sd.function(seconds=0.1)(
            lambda: strategy.run(lambda: v.assign_add(sd.get_replica_context().all_reduce("sum", v.value + 1.0)))
        )
        for _ in range(6):
            step()

    calm, hit = (sd.Session(program, sd.Cluster({"worker": 3})) for _ in range(2))
    hit.inject({"kind": "pause", "task": "worker:1", "at": 0.35, "until": 0.85})
    for session in (calm, hit):
        session.advance()
    assert sd.compare(calm, hit).same_until_s >= 0.35


@pytest.mark.parametrize(
    ("count", "last"), [(8, "The fault"), (9, "Another fault never fired, too"), (2_000, "1,992 other faults never fired")]
)
def test_of_many_faults_that_never_fired_a_few_are_named(count: int, last: str) -> None:
    cluster = sd.Cluster({"worker": 1})
    for number in range(count):
        cluster.faults.slow("worker:0", 2.0, at=1e6 + number)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cluster.close()
    texts = [str(each.message) for each in caught]
    assert len(texts) == min(count, 9) and texts[-1].startswith(last) and all(text.startswith("The fault slow") for text in texts[:8])
