"""A training that was interrupted and begun again ends as one that was not: bit by bit, whatever was interrupted, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
BATCH, BATCHES, EPOCHS = 4, 5, 3
X = np.random.default_rng(0).random((BATCH * BATCHES, 3), np.float32)
Y = X.sum(1, keepdims=True) * 3 + 1


class Interrupted(Exception):
    """Ends a training, as a crash would."""


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": lambda: sd.OneDeviceStrategy("cpu:0"),
    "mirrored": lambda: sd.MirroredStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "central": lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"]),
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
    "a server": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
    "in process": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, engine="in_process")),
}


class Rows(keras.utils.PyDataset):
    """The batches, by number."""

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, number: int) -> Any:
        return X[number * BATCH :][:BATCH], Y[number * BATCH :][:BATCH]


def generated() -> Iterator[Any]:
    """Batches without an end."""
    rows = Rows()
    while True:
        yield from (rows[number] for number in range(BATCHES))


def shuffled_once() -> sd.Dataset:
    return sd.Dataset.from_tensor_slices((X, Y)).shuffle(len(X)).batch(BATCH)


def shuffled_forever() -> sd.Dataset:
    return sd.Dataset.from_tensor_slices((X, Y)).shuffle(len(X)).repeat().batch(BATCH)


DATA: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": BATCH, "shuffle": True},
    "dataset": lambda: {"x": shuffled_once()},
    "endless dataset": lambda: {"x": shuffled_forever(), "steps_per_epoch": BATCHES},
    "PyDataset": lambda: {"x": Rows()},
    "generator": lambda: {"x": generated(), "steps_per_epoch": BATCHES},
}


@dataclass(frozen=True)
class Training:
    """A kind of training.

    Attributes:
        per_execution: steps of one execution.
        callbacks: whether those take part that count and change things.
        own_step: whether the model has a train_step of its own.
    """

    strategy: str = "mirrored"
    data: str = "arrays"
    save_freq: Any = 1
    per_execution: int = 1
    callbacks: bool = False
    own_step: bool = False


@dataclass
class Outcome:
    """What a training has come to.

    Attributes:
        calls: the epoch and the batch of each call of on_train_batch_end.
        epochs: that have ended.
    """

    history: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    values: list[bytes] = field(default_factory=list[bytes])
    iterations: int = 0
    calls: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    epochs: int = 0


class Watch(keras.callbacks.Callback):
    """Notes the calls, and interrupts the training at one of them.

    Args:
        when: the name of a hook, and which call of it, from 0.
    """

    def __init__(self, outcome: Outcome, when: tuple[str, int] | None) -> None:
        super().__init__()
        self.outcome = outcome
        self.when = when
        self.epoch = -1
        self.counts: dict[str, int] = {}

    def _called(self, name: str) -> None:
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        if self.when == (name, number):
            raise Interrupted

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch
        self._called("epoch begin")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._called("epoch end")
        self.outcome.epochs += 1

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._called("batch begin")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._called("batch end")
        self.outcome.calls.append((self.epoch, batch))

    def on_test_begin(self, logs: Any = None) -> None:
        self._called("test begin")


class OwnStep(keras.Sequential):
    """A model whose step is its own, in the stateless form, with one more log."""

    def train_step(self, state: Any, data: Any) -> Any:
        trained, others, slots, counts = state
        x, y = data

        def loss_of(trained: Any) -> Any:
            found, after, *_ = self.stateless_call(trained, others, x, training=True)
            return self.compute_loss(x=x, y=y, y_pred=found), (found, after)

        (loss, (_, others)), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained)
        trained, slots = self.optimizer.stateless_apply(slots, gradients, trained)
        return {"loss": loss, "twice": 2 * loss}, (trained, others, slots, counts)


def model_of(training: Training, initializer: str) -> Any:
    with STRATEGIES[training.strategy]().scope():
        k = keras.layers
        layers = [keras.Input((3,)), k.BatchNormalization(), k.Dropout(0.3), k.Dense(1, kernel_initializer=initializer)]
        model = (OwnStep if training.own_step else keras.Sequential)(layers)
        metrics: list[Any] = [] if training.own_step else ["mae"]
        model.compile(keras.optimizers.Adam(0.05), "mse", metrics=metrics, steps_per_execution=training.per_execution)
    return model


def run(training: Training, directory: str, interrupt: tuple[str, int] | None = None, initializer: str = "ones") -> Outcome:
    """Train a new model, on a new cluster."""
    outcome = Outcome()
    model = model_of(training, initializer)
    callbacks: list[Any] = [keras.callbacks.BackupAndRestore(directory, training.save_freq), Watch(outcome, interrupt)]
    options = DATA[training.data]()
    if training.callbacks:
        found = keras.callbacks
        callbacks += [
            found.EarlyStopping("val_loss", patience=1, min_delta=0.3, restore_best_weights=True),
            found.LearningRateScheduler(lambda epoch, rate: rate * (0.9 if epoch else 1.0)),
            found.ReduceLROnPlateau("loss", patience=1, min_delta=10.0, factor=0.5),
        ]
        options |= {"validation_data": (X[:8], Y[:8]), "validation_batch_size": 4}
    try:
        outcome.history = model.fit(**options, epochs=EPOCHS, verbose=0, callbacks=callbacks).history
    except Interrupted:
        return outcome
    variables = [*model.variables, *model.optimizer.variables, *(v for metric in model.metrics for v in metric.variables)]
    outcome.values = [np.asarray(v).tobytes() for v in variables]
    outcome.iterations = int(model.optimizer.iterations)
    assert list(Path(directory).iterdir()) == [], "the backups of a training that has ended are deleted"
    return outcome


@cache
def uninterrupted(training: Training) -> Outcome:
    return run(training, mkdtemp())


def calls_saved(training: Training, calls: list[tuple[int, int]], epochs_ended: int) -> int:
    """How many of these calls are in the last backup."""
    if training.save_freq == "epoch":
        return sum(epoch < epochs_ended for epoch, _ in calls)
    saved = since = before = 0
    for number, (_, batch) in enumerate(calls):
        since += batch + 1 - (before if batch >= before else 0)
        before = batch + 1
        if since >= training.save_freq:
            saved, since = number + 1, 0
    return saved


def check(training: Training, interrupt: tuple[str, int]) -> None:
    """Interrupt a training, begin it again with other first weights, and compare its end."""
    expected, directory = uninterrupted(training), mkdtemp()
    first = run(training, directory, interrupt)
    assert not first.history, "it was interrupted"
    saved = calls_saved(training, first.calls, first.epochs)
    assert saved, "there is a backup"
    second = run(training, directory, initializer="zeros")
    assert second.calls == expected.calls[saved:]
    assert repr(second.history) == repr(expected.history)
    assert second.values == expected.values and second.iterations == expected.iterations


INTERRUPTS = [
    ("batch end", 6),
    ("batch begin", 6),
    ("epoch end", 1),
    ("epoch begin", 2),
    ("batch end", BATCHES - 1),
    ("batch begin", BATCHES),
]
GRID = [
    (Training(strategy, data, save_freq), interrupt)
    for strategy in STRATEGIES
    for data in DATA
    for save_freq in (1, 3, "epoch")
    for interrupt in INTERRUPTS
    if save_freq != "epoch" or interrupt[1] not in (BATCHES - 1,)
]
SAMPLE = [(Training("one device", "generator", "epoch"), ("epoch begin", 2))]
FEATURES = [
    Training(strategy, data, save_freq, per_execution, callbacks, own_step)
    for strategy in ("mirrored", "workers", "a server")
    for data in ("arrays", "PyDataset", "endless dataset")
    for save_freq in (1, 3, "epoch")
    for per_execution in (1, 4)
    for callbacks in (False, True)
    for own_step in (False, True)
    if (per_execution > 1) + callbacks + own_step
    if not (own_step and strategy == "a server")
]


@pytest.mark.parametrize(("training", "interrupt"), sampled(GRID, SAMPLE))
def test_a_training_ends_as_if_it_had_not_been_interrupted(training: Training, interrupt: tuple[str, int]) -> None:
    check(training, interrupt)


FEATURE_SAMPLE = [
    Training("mirrored", "arrays", 3, callbacks=True),
    Training("workers", "endless dataset", 3, per_execution=4, own_step=True),
]


@pytest.mark.parametrize("training", sampled(FEATURES, FEATURE_SAMPLE))
def test_callbacks_own_steps_and_executions_of_several_steps_go_on_as_well(training: Training) -> None:
    check(training, ("batch end", 7 if training.per_execution == 1 else 3))


# -- parameter servers ----------------------------------------------------------------------------------------------------


def test_workers_that_have_datasets_of_their_own_go_on_with_the_step(tmp_path: Path) -> None:
    def train(interrupt: tuple[str, int] | None) -> Outcome:
        outcome = Outcome()
        with sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 2})).scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("adam", "mse")
        creator = sd.DatasetCreator(lambda context: shuffled_forever())
        callbacks = [keras.callbacks.BackupAndRestore(tmp_path, 4), Watch(outcome, interrupt)]
        with suppress(Interrupted):
            outcome.history = model.fit(creator, epochs=2, steps_per_epoch=10, verbose=0, callbacks=callbacks).history
        outcome.iterations = int(model.optimizer.iterations)
        return outcome

    first = train(("batch end", 13))
    assert 13 <= first.iterations <= 16, "those that were under way end, and count"
    second = train(None)
    assert second.calls == [(1, number) for number in range(2, 10)] and second.iterations == 20 and len(second.history["loss"]) == 2


# -- what is refused ------------------------------------------------------------------------------------------------------


def dense(*units: int, metrics: Any = ()) -> Any:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), *map(keras.layers.Dense, units), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=list(metrics))
    return model


OTHERS = {"other units": lambda: dense(5), "more layers": lambda: dense(4, 4), "more metrics": lambda: dense(4, metrics=["mae"])}


@pytest.mark.parametrize("other", sampled(OTHERS, ["more layers"]))
def test_a_backup_of_another_model_is_refused(other: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "verbose": 0}
    backup = keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
    dense(4).fit(X, Y, callbacks=backup, **options)
    with pytest.raises(InvalidArgumentError, match=r"of another model"):
        OTHERS[other]().fit(X, Y, callbacks=backup, **options)


@pytest.mark.parametrize(("size", "rows"), [(BATCH * 2, len(X)), (BATCH, len(X) - BATCH)])
def test_a_backup_within_an_epoch_of_other_data_is_refused(size: int, rows: int, tmp_path: Path) -> None:
    backup, outcome = (lambda: keras.callbacks.BackupAndRestore(tmp_path, 1)), Outcome()
    with pytest.raises(Interrupted):
        dense(2).fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[backup(), Watch(outcome, ("batch begin", 3))])
    with pytest.raises(InvalidArgumentError, match=r"after batch 3 of 5 of an epoch, and this training has .*another batch_size"):
        dense(2).fit(X[:rows], Y[:rows], batch_size=size, verbose=0, callbacks=[backup()])


@pytest.mark.exhaustive
def test_a_damaged_backup_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    def backup() -> Any:
        return keras.callbacks.BackupAndRestore(tmp_path, 1, double_checkpoint=True)

    outcome = Outcome()
    with pytest.raises(Interrupted):
        dense(2).fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[backup(), Watch(outcome, ("batch begin", 3))])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup-2", "backup-3", "backup.index.json"]
    (tmp_path / "backup-3" / "_METADATA").write_text("{")
    with pytest.warns(UserWarning, match="backup-3' is damaged"):
        dense(2).fit(X, Y, batch_size=BATCH, verbose=0, callbacks=[backup(), Watch(outcome, None)])
    assert outcome.calls == [(0, number) for number in (0, 1, 2, 2, 3, 4)] and not list(tmp_path.iterdir())


def test_a_model_of_no_strategy_has_the_callback_of_keras(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, verbose=0, callbacks=keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False))
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] and not list(tmp_path.glob("backup*"))
