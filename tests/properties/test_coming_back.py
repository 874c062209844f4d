"""Whatever crashes, and whenever: after recovery a synchronous training ends with the bits of the run without failures.

The training is a loop of one's own in launched mains, with slots, dropout, a shuffled input and a backup every three steps. What draws
random numbers before the first backup has explicit seeds, because a main that starts again is another incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.checkpoint.directory import found_in
from simdist.checkpoint.files import read

STEPS, EVERY, ROWS = 10, 3, 48
RNG = np.random.default_rng(0)
X, Y = RNG.random((ROWS, 3)).astype("float32"), RNG.random((ROWS, 1)).astype("float32")

STRATEGIES: dict[str, tuple[int, Callable[[], Any]]] = {
    "one device": (1, sd.OneDeviceStrategy),
    "mirrored": (1, lambda: sd.MirroredStrategy(2)),
    "central storage": (1, lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"])),
    "workers": (2, sd.MultiWorkerMirroredStrategy),
    "three workers": (3, sd.MultiWorkerMirroredStrategy),
}


@dataclass
class Seen:
    """What the mains have noted on their way.

    Attributes:
        confirmed: the steps of the checkpoints that were confirmed as saved.
        lost: steps that were confirmed, and not found after a restart.
        newest: the checkpoint that was confirmed last.
    """

    confirmed: list[int] = field(default_factory=list[int])
    lost: list[int] = field(default_factory=list[int])
    newest: Path | None = None


def train(directory: str, make: Callable[[], Any], seen: Seen) -> dict[str, Any]:
    strategy = make()
    with strategy.scope():
        w, b = sd.Variable(np.full((3, 1), 0.1, "float32"), name="w"), sd.Variable(np.zeros(1, "float32"), name="b")
        step = sd.Variable(0, name="step", trainable=False, aggregation=sd.VariableAggregation.ONLY_FIRST_REPLICA)
        total = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)
        optimizer, dropout = sd.Optimizer(optax.adam(0.1)), keras.layers.Dropout(0.5, seed=3)
        dropout.build((None, 3))
    data = sd.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS, seed=5).repeat().batch(12)
    iterator = iter(strategy.distribute_dataset(data))

    @sd.function
    def train_step(batch: Any) -> None:
        def replica_step(x: Any, y: Any) -> None:
            def loss() -> Any:
                return jnp.sum((dropout(x, training=True) @ w.value + b.value - y) ** 2) / 12

            value, gradients = sd.value_and_grad(loss, [w, b])()
            optimizer.apply_gradients(zip(gradients, [w, b], strict=True))
            total.assign_add(value)

        strategy.run(replica_step, args=next(batch))
        step.assign_add(1)

    checkpoint = sd.Checkpoint(w=w, b=b, step=step, total=total, optimizer=optimizer, dropout=dropout, input=iterator)
    manager = sd.CheckpointManager(checkpoint, directory, max_to_keep=2)
    newest = max(seen.confirmed, default=0)
    manager.restore_or_initialize()
    if int(step.numpy()) < newest:
        seen.lost.append(newest)
    while (done := int(step.numpy())) < STEPS:
        train_step(iterator)
        if not (done + 1) % EVERY:
            try:
                path = manager.save()
            except sd.errors.ResourceExhaustedError:
                continue  # the disk is full: this one is not confirmed, in none of the mains
            if strategy.is_chief:
                seen.confirmed.append(done + 1)
                seen.newest = Path(path)
    return {"w": w.numpy(), "b": b.numpy(), "total": total.numpy(), "step": int(step.numpy())}


def watch(directory: str, whole: list[Path]) -> None:
    """Read each visible checkpoint; raises where one is not whole."""
    while True:
        for found in found_in(Path(directory)):
            if found.path not in whole:
                read(found.path)
                whole.append(found.path)
        sd.sleep(0.001)


def run(name: str, plan: Callable[[Any], None] = lambda faults: None) -> tuple[dict[str, Any], float]:
    """What the first worker returned, and when it all ended."""
    workers, make = STRATEGIES[name]
    seen, whole = Seen(), list[Path]()
    with sd.Cluster({"worker": workers, "evaluator": 1}, disks=sd.hardware.hdd) as cluster:
        directory = cluster.directory("saved")
        plan(cluster.faults)
        cluster.launch(watch, job="evaluator", args=(directory, whole), restart="always")
        mains = cluster.launch(train, restart="always", args=(directory, make, seen))
        mains.join()
        assert not seen.lost
        kept = [found.path for found in found_in(Path(directory))]
        assert len(kept) <= 2
        assert seen.newest is None or seen.newest == kept[-1]
        return mains.results["worker:0"], cluster.now


@cache
def undisturbed(name: str) -> tuple[dict[str, Any], float]:
    result, end_s = run(name)
    assert result["step"] == STEPS
    return result, end_s


KINDS = ("crash", "crash two", "torn write", "slow disk", "crash while torn", "full disk", "crash while full", "evaluator too")
CASES = [(name, number) for number in range(200) for name in STRATEGIES]


def planned(kind: str, workers: int, at: float, second: float, rng: np.random.Generator) -> Callable[[Any], None]:
    task, other = (f"worker:{rng.integers(workers)}" for _ in range(2))

    def plan(faults: Any) -> None:
        if kind in ("crash", "crash two", "crash while torn", "crash while full", "evaluator too"):
            faults.crash(task, at=at, restart_after=0.2)
        if kind == "crash two":
            faults.crash(other, at=second, restart_after=0.3)
        if kind in ("torn write", "crash while torn"):
            faults.torn_write("worker:0", at=at / 2)
        if kind in ("full disk", "crash while full"):
            faults.disk_full("worker:0", at=at / 2, until=second)
        if kind == "evaluator too":
            faults.crash("evaluator:0", at=second, restart_after=0.1)
        if kind == "slow disk":
            faults.disk_slow("worker:0", 4.0, at=at, until=at + 0.2)
            faults.crash("worker:0", at=at + 0.1, restart_after=0.2)

    return plan


@pytest.mark.filterwarnings("ignore:.*never fired")
@pytest.mark.parametrize(
    ("name", "number"), sampled(CASES, [(name, 17 * place) for place, name in enumerate(STRATEGIES) if name != "workers"])
)
def test_a_training_ends_with_the_bits_of_the_run_without_failures(name: str, number: int) -> None:
    rng = np.random.default_rng([number, len(name)])
    expected, end_s = undisturbed(name)
    kind = KINDS[number % len(KINDS)]
    at, second = sorted(rng.uniform(0.0, end_s, 2))
    result, _ = run(name, planned(kind, STRATEGIES[name][0], at, second, rng))
    for key, value in expected.items():
        assert np.array_equal(result[key], value), (kind, at, second, key)
