"""Going on with the survivors: what a step is given, and what becomes of variables when a worker dies between steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from tests.strategies.conftest import weights


@pytest.mark.parametrize("given", ["argument", "keyword", "nested", "run", "closed over"])
def test_parts_that_were_cut_before_cannot_be_cut_again(given: str) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), on_failure="continue")
    parts = sd.PerReplica([np.float32(1.0), np.float32(2.0)])

    def doubled(x: Any) -> Any:
        return strategy.run(lambda part: part * 2.0, args=(x,))

    calls: dict[str, Callable[[], Any]] = {
        "argument": lambda: sd.function(doubled)(parts),
        "keyword": lambda: sd.function(doubled)(x=parts),
        "nested": lambda: sd.function(lambda batch: doubled(batch["x"][0]))({"x": [parts]}),
        "run": lambda: doubled(parts),
        "closed over": lambda: sd.function(lambda: doubled(parts))(),
    }
    with pytest.raises(sd.errors.InvalidArgumentError, match="Values for 2 replicas, such as the parts of a batch, do not fit fewer"):
        calls[given]()


FAULTS: dict[str, Callable[[sd.Cluster], object]] = {
    "none": lambda cluster: None,
    "a worker dies in a step": lambda cluster: cluster.faults.crash("worker:2", at=cluster.now + 1e-5),
    "a worker dies between steps": lambda cluster: cluster.faults.crash("worker:2", at=cluster.now),
    "bytes are lost": lambda cluster: cluster.faults.drop(EVERYBODY, EVERYBODY, at=cluster.now, until=cluster.now + 1.0),
}
EVERYBODY = ["worker:0", "worker:1", "worker:2"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("given", ["itself", "nested", "not distributed"])
def test_each_row_counts_once_wherever_the_iterator_stands(given: str, fault: str) -> None:
    cluster = sd.Cluster({"worker": 3})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")
    with strategy.scope():
        total = sd.Variable(np.float32(0.0), aggregation=sd.VariableAggregation.SUM)
    rows = sd.Dataset.range(600).batch(6)
    iterator = iter(rows if given == "not distributed" else strategy.distribute_dataset(rows))

    @sd.function
    def step(given: Any) -> None:
        iterator = given["data"][0] if isinstance(given, dict) else given
        strategy.run(lambda part: total.assign_add(part.sum()), args=(next(iterator),))

    batches = 0
    for number in range(5):
        if number == 2:
            FAULTS[fault](cluster)
        step({"data": [iterator]} if given == "nested" else iterator)
        batches += strategy.num_replicas_in_sync if given == "not distributed" else 1
    assert float(total.numpy()) == np.arange(6 * batches).sum()


def test_a_worker_dies_between_two_steps_that_take_turns_with_two_iterators() -> None:
    """The iterator that did not see the death is cut for the replicas that are left, too."""
    cluster = sd.Cluster({"worker": 3})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")
    with strategy.scope():
        total = sd.Variable(np.float32(0.0), aggregation=sd.VariableAggregation.SUM)
    first, second = (iter(strategy.distribute_dataset(sd.Dataset.range(at, at + 60).batch(6))) for at in (0, 600))
    step = sd.function(lambda iterator: strategy.run(lambda part: total.assign_add(part.sum()), args=(next(iterator),)))
    for number in range(4):
        if number == 2:
            cluster.faults.crash("worker:2", at=cluster.now + 1e-5)
        step(first)
        step(second)
    assert strategy.num_replicas_in_sync == 2
    assert float(total.numpy()) == np.arange(24).sum() + np.arange(600, 624).sum()


# -- between steps ------------------------------------------------------------------------------------------------------


def dead_between_steps() -> tuple[Any, sd.Cluster, sd.Variable, sd.Variable]:
    """A strategy of three workers of which one has died since the last step; what each counts for itself, and a mean of copies."""
    cluster = sd.Cluster({"worker": 3})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")
    with strategy.scope():
        counted = sd.Variable(np.float32(0.0), synchronization=ON_READ, aggregation=sd.VariableAggregation.SUM)
        weight = sd.Variable(np.float32(1.0), aggregation=sd.VariableAggregation.MEAN)
    sd.function(lambda: strategy.run(lambda: counted.assign_add(1.0)))()
    cluster.faults.crash("worker:1", at=cluster.now, restart_after=0.1)
    sd.sleep(1e-3, cluster)
    return strategy, cluster, counted, weight


ON_READ = sd.VariableSynchronization.ON_READ


def test_what_each_counts_can_be_read_after_a_death_without_the_share_of_the_dead(caplog: pytest.LogCaptureFixture) -> None:
    strategy, cluster, counted, _ = dead_between_steps()
    now_s = cluster.now
    assert float(counted.numpy()) == 2.0
    assert cluster.now == now_s and strategy.num_replicas_in_sync == 2
    assert "what it alone had added" in caplog.text


def test_what_each_counts_can_be_set_after_a_death() -> None:
    strategy, _, counted, _ = dead_between_steps()
    counted.assign(6.0)
    assert float(counted.numpy()) == 6.0
    sd.function(lambda: strategy.run(lambda: counted.assign_add(1.0)))()
    assert float(counted.numpy()) == 8.0


def test_survivors_save_and_restore_after_a_death(tmp_path: Path) -> None:
    strategy, cluster, counted, weight = dead_between_steps()
    checkpoint = sd.Checkpoint(counted=counted, weight=weight)
    path = checkpoint.save(tmp_path / "c")
    sd.sleep(0.2, cluster)  # it is up again, and has nothing yet
    counted.assign(0.0)
    weight.assign(0.0)
    checkpoint.restore(path).assert_consumed()
    assert (float(counted.numpy()), float(weight.numpy())) == (2.0, 1.0)
    sd.function(lambda: strategy.run(lambda: counted.assign_add(1.0)))()
    assert (float(counted.numpy()), strategy.num_replicas_in_sync) == (5.0, 3)


def test_of_replicas_that_are_all_dead_a_read_is_an_error() -> None:
    _, cluster, counted, _ = dead_between_steps()
    for worker in ("worker:0", "worker:2"):
        cluster.faults.crash(worker, at=cluster.now)
    sd.sleep(1e-3, cluster)
    with pytest.raises(sd.errors.UnavailableError):
        counted.numpy()


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("restart_after", [None, 1e-4])
@pytest.mark.parametrize("callback", ["backup", "manager", "sleep"])
def test_fit_goes_on_when_a_worker_dies_while_a_callback_takes_time(
    build: Any, regression: sd.Dataset, tmp_path: Path, callback: str, restart_after: float | None
) -> None:
    def fitted(at: float | None) -> tuple[float, list[np.ndarray]]:
        cluster = sd.Cluster({"worker": 3})
        model = build(sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue"))
        if at is not None:
            cluster.faults.crash("worker:1", at=at, restart_after=restart_after)
        manager = sd.CheckpointManager(sd.Checkpoint(model=model), cluster.directory("managed"), max_to_keep=1)
        act: dict[str, Callable[[], object]] = {"manager": manager.save, "sleep": lambda: sd.sleep(0.005, cluster)}
        callbacks: list[Any] = [keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: act[callback]())]
        if callback == "backup":
            callbacks = [keras.callbacks.BackupAndRestore(cluster.directory("backup"))]
        model.fit(regression, epochs=2, verbose=0, callbacks=callbacks)
        return cluster.now, weights(model)

    ends_s, expected = fitted(None)
    for part in (0.3, 0.55, 0.8, 0.95):
        _, found = fitted(ends_s * part)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_an_iterator_that_cannot_go_back_is_refused() -> None:
    class Ours:
        def next_batch(self) -> Any: ...
        def peek(self, i: int = 0) -> Any: ...

    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), on_failure="continue")
    with pytest.raises(sd.errors.InvalidArgumentError, match="a Ours cannot go back"):
        strategy.step(sd.function(lambda iterator: None), (Ours(),), {})


def test_a_generator_that_cannot_go_back_is_refused_before_anybody_dies() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), on_failure="continue")
    step = sd.function(lambda iterator: strategy.run(lambda x: x.sum(), args=(next(iterator),)))

    def batches() -> Any:
        yield from np.ones((3, 4), np.float32)

    for given in (batches(), iter([np.ones(4, np.float32)])):
        with pytest.raises(sd.errors.InvalidArgumentError, match=r"a generator, or another iterator, gives them only once\. Give"):
            step(iter(strategy.distribute_dataset(given)))
    for again in (batches, [np.ones(4, np.float32)]):
        step(iter(strategy.distribute_dataset(sd.Dataset.from_iterable(again))))
    step(iter(strategy.distribute_dataset(sd.Dataset.from_iterable(batches()).cache())))
