"""Backups of launched mains: whichever crashes, and when, the training ends as it would have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from tests.training.test_backup_and_restore import BATCH, BATCHES, Interrupted, Outcome, Rows, Watch, X, Y, shuffled_once

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own


@dataclass
class Mains:
    """What launched mains have come to.

    Attributes:
        ends: history and values, by worker.
        calls: those of the last incarnation, by worker.
        seconds: of the calls of worker 0.
    """

    ends: list[Any]
    calls: list[Any]
    seconds: list[float]
    restarts: dict[str, int]


def launched(directory: str, interrupt: tuple[str, int] | None = None, crash: tuple[str, float] | None = None) -> Mains:
    """Two mains train with dropout, on rows in an order of their own."""
    seconds: list[float] = []

    def main() -> Any:
        outcome = Outcome()
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
            model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
        seconds.clear()
        note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seconds.append(cluster.now))
        callbacks = [keras.callbacks.BackupAndRestore(directory, 3), Watch(outcome, interrupt), note]
        try:
            history = model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0, callbacks=callbacks).history
        except Interrupted:
            return None, []
        return (repr(history), [np.asarray(v).tobytes() for v in (*model.variables, *model.optimizer.variables)]), outcome.calls

    with sd.Cluster({"worker": 2}) as cluster:
        if crash is not None:
            cluster.faults.crash(crash[0], at=crash[1], restart_after=1.0)
        run = cluster.launch(main, restart="always")
        run.join()
        results = [run.results[task] for task in ("worker:0", "worker:1")]
        return Mains([end for end, _ in results], [calls for _, calls in results], seconds[::2], dict(run.restarts))


@cache
def undisturbed() -> Mains:
    return launched(mkdtemp())


CRASHES = [("worker:0", 7, 6), ("worker:1", 7, 6), ("worker:1", 1, 0)]


@pytest.mark.parametrize(("task", "after", "saved"), sampled(CRASHES, CRASHES[:1]))
def test_a_worker_that_crashes_changes_nothing(task: str, after: int, saved: int) -> None:
    """All mains start again, with other first weights and other orders of their own, and go on from the backup of the chief."""
    expected = undisturbed()
    found = launched(mkdtemp(), crash=(task, expected.seconds[after] + 1e-5))
    assert found.restarts == {"worker:0": 1, "worker:1": 1}
    assert found.ends == expected.ends and found.calls == [calls[saved:] for calls in expected.calls]


@pytest.mark.exhaustive
def test_mains_of_a_new_cluster_go_on() -> None:
    directory = mkdtemp()
    assert launched(directory, ("batch begin", 7)).ends == [None, None]
    found = launched(directory)
    assert found.ends == undisturbed().ends and found.calls == [calls[6:] for calls in undisturbed().calls]


def test_the_backup_of_the_beginning_begins_a_py_dataset_with_the_order_of_its_first_epoch() -> None:
    """The batch with which the model is built is of an order before it."""

    def end(has_failed: bool) -> Any:
        directory, left = mkdtemp(), [1] if has_failed else []

        def fail(batch: int, logs: Any) -> None:
            if left and left.pop():
                raise sd.errors.UnavailableError("a disk was lost")

        def main() -> Any:
            with sd.OneDeviceStrategy().scope():
                model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
                model.compile("sgd", "mse")
            callbacks = [keras.callbacks.BackupAndRestore(directory), keras.callbacks.LambdaCallback(on_train_batch_end=fail)]
            return model.fit(Rows(), steps_per_epoch=BATCHES - 2, verbose=0, callbacks=callbacks).history, model.get_weights()[0].tolist()

        run = sd.Cluster({"worker": 1}).launch(main, restart="always")
        run.join()
        assert run.restarts == {"worker:0": int(has_failed)}
        return run.results

    assert end(True) == end(False)


class Unheard(keras.callbacks.RemoteMonitor):
    """Sends nothing; of launched mains the chief alone has it."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """There is no server."""


def test_best_weights_are_those_of_all_mains_beside_a_callback_that_only_the_chief_has() -> None:
    """The chief's list of callbacks is longer than those of others."""
    directory, x = mkdtemp(), np.random.default_rng(0).random((64, 4), np.float32)

    def main(crashed: str) -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
            model.compile(keras.optimizers.SGD(0.1), "mse")
        data = sd.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(8).repeat()
        stop = keras.callbacks.EarlyStopping("loss", patience=3, min_delta=0.1, restore_best_weights=True)
        backup = keras.callbacks.BackupAndRestore(f"{directory}/{crashed}")
        model.fit(data, epochs=12, steps_per_epoch=4, verbose=0, callbacks=[Unheard(), stop, backup])
        return stop.best_epoch, [weight.tolist() for weight in model.get_weights()]

    def results(crashed: str) -> list[Any]:
        with sd.Cluster({"worker": 2}) as cluster:
            if crashed:
                cluster.faults.crash(crashed, after_steps=14, restart_after=1.0)
            run = cluster.launch(main, restart="always", args=(crashed,))
            run.join()
            assert bool(crashed) is bool(sum(dict(run.restarts).values()))
            return [run.results[task] for task in ("worker:0", "worker:1")]

    expected = results("")
    assert expected[0][0] == 1 and results("worker:1") == expected


def coordinated(data: str, crash_s: float | None) -> tuple[Any, int]:
    """A launched coordinator trains; its chief may crash and start again."""

    def main() -> Any:
        resolver = sd.TFConfigClusterResolver()
        if resolver.task_type in ("worker", "ps"):
            sd.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id).join()
            return None
        with sd.ParameterServerStrategy(resolver, mode="sync").scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("adam", "mse")
        rows: Any = {"x": X, "y": Y, "batch_size": BATCH} if data == "arrays" else {"x": shuffled_once()}
        backup = keras.callbacks.BackupAndRestore(directory, 2)
        history = model.fit(**rows, epochs=2, verbose=0, callbacks=[backup]).history
        return repr(history), [np.asarray(v).tobytes() for v in (*model.variables, *model.optimizer.variables)]

    directory = mkdtemp()
    with sd.Cluster({"chief": 1, "worker": 2, "ps": 2}) as cluster:
        if crash_s is not None:
            cluster.faults.crash("chief", at=crash_s, restart_after=0.1)
        run = cluster.launch(main, job=["chief", "worker", "ps"], restart="always")
        run.join()
        return run.results["chief:0"], run.restarts["chief:0"]


@pytest.mark.parametrize("data", sampled(["arrays", "dataset"], ["arrays"]))
def test_a_coordinator_that_crashes_before_its_first_regular_backup_begins_with_the_same_rows(data: str) -> None:
    (expected, _), (found, restarts) = coordinated(data, None), coordinated(data, 0.0029)
    assert restarts == 1
    assert found == expected
