"""The state of optimizers in checkpoints: whatever holds the slots, what comes after a restore is what would have come without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.checkpoint import files
from simdist.errors import InvalidArgumentError

variable: Any = sd.Variable
START = np.linspace(-1, 1, 20, dtype=np.float32).reshape(10, 2)
GRADIENTS = np.random.default_rng(0).normal(size=(8, 10, 2)).astype(np.float32)
BEFORE, AFTER = 3, 3

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: keras.optimizers.Adam(0.1),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    "schedule": lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "averages": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=4.0, dynamic_growth_steps=2),
    "optax adam": lambda: optax.adam(0.1),
    "optax chain": lambda: optax.chain(optax.trace(0.9), optax.scale_by_schedule(optax.exponential_decay(-0.1, 2, 0.5))),
    "optax sgd": lambda: optax.sgd(0.1),
}
OWNERS: dict[str, Callable[[], Any]] = {
    "one device": lambda: sd.OneDeviceStrategy("cpu:0"),
    "mirrored": lambda: sd.MirroredStrategy(2),
    "one server": lambda: servers(1, None),
    "three servers": lambda: servers(3, None),
    "two shards": lambda: servers(2, sd.FixedShardsPartitioner(2)),
    "three shards": lambda: servers(3, sd.FixedShardsPartitioner(3)),
    "in process": lambda: servers(2, sd.FixedShardsPartitioner(5), engine="in_process"),
}


def servers(count: int, partitioner: Any, **options: Any) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": count}, **options), variable_partitioner=partitioner)


class Training:
    """Two variables and their optimizer, which takes a step for each gradient."""

    def __init__(self, optimizer: str, owner: str) -> None:
        self.strategy = OWNERS[owner]()
        with self.strategy.scope():
            self.variables = [variable(START, name="a"), variable(START[0], name="b")]
            self.optimizer: Any = sd.Optimizer(OPTIMIZERS[optimizer]())
        self.checkpoint = sd.Checkpoint(variables=self.variables, optimizer=self.optimizer)

        @sd.function
        def step(gradient: Any) -> None:
            def in_replica(gradient: Any) -> None:
                gradient = gradient * self.scale()
                self.optimizer.apply_gradients(zip([gradient, gradient[0]], self.variables, strict=True))

            self.strategy.run(in_replica, args=(gradient,))

        self.step = step

    def scale(self) -> Any:
        """By how much the loss is larger than it should be."""
        optimizer = self.optimizer.wrapped
        return optimizer.scale_loss(jnp.float32(1.0)) if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else 1.0

    def take(self, gradients: Any) -> list[list[float]]:
        """The values after each of some steps."""
        scale = 1.0 / self.strategy.num_replicas_in_sync
        if isinstance(self.optimizer.wrapped, keras.optimizers.LossScaleOptimizer):
            self.optimizer.build(self.variables)
        found: list[list[float]] = []
        for gradient in gradients:
            if isinstance(self.strategy, sd.ParameterServerStrategy):
                coordinator = sd.ClusterCoordinator(self.strategy)
                coordinator.schedule(self.step, args=(gradient,))
                coordinator.join()
            else:
                self.step(gradient * scale)
            found.append([float(x) for v in self.variables for x in v.numpy().ravel()])
        return found


@cache
def saved(optimizer: str, owner: str) -> tuple[str, list[list[float]]]:
    """A checkpoint after some steps, and the values after each of the next ones."""
    training = Training(optimizer, owner)
    training.take(GRADIENTS[:BEFORE])
    path = training.checkpoint.save(Path(mkdtemp(), "ckpt"))
    return path, training.take(GRADIENTS[BEFORE : BEFORE + AFTER])


CASES = [(optimizer, old, new) for optimizer in OPTIMIZERS for old in OWNERS for new in OWNERS]
SAMPLE = [
    ("Adam", "two shards", "three shards"),
    ("loss scale", "one device", "mirrored"),
    ("optax chain", "two shards", "in process"),
]


@pytest.mark.parametrize(("optimizer", "old", "new"), sampled(CASES, SAMPLE))
def test_an_optimizer_goes_on_as_if_nothing_had_been(optimizer: str, old: str, new: str) -> None:
    """Its slots do not exist before its first step, so their values wait."""
    path, expected = saved(optimizer, old)
    training = Training(optimizer, new)
    status = training.checkpoint.restore(path)
    found = training.take(GRADIENTS[BEFORE : BEFORE + AFTER])
    status.assert_consumed()
    np.testing.assert_allclose(found, expected, rtol=2e-6 if old != new else 0)
    assert int(training.optimizer.iterations) == BEFORE + AFTER


@pytest.mark.parametrize("optimizer", sampled(OPTIMIZERS, ["Adam"]))
def test_slots_that_exist_at_the_restore_go_on_as_well(optimizer: str) -> None:
    path, expected = saved(optimizer, "two shards")
    training = Training(optimizer, "two shards")
    training.take(GRADIENTS[-2:])
    training.checkpoint.restore(path).assert_consumed()
    assert training.take(GRADIENTS[BEFORE : BEFORE + AFTER]) == expected


def adam_by_hand(value: np.ndarray, m: np.ndarray, v: np.ndarray, steps: int, gradients: np.ndarray) -> np.ndarray:
    """Kingma and Ba, 2015, algorithm 1, with Keras' place for epsilon."""
    for t, gradient in enumerate(gradients, steps + 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        value = value - rate * m / (np.sqrt(v) + 1e-7)
    return value


def test_the_slots_in_the_files_are_those_of_adam_by_hand() -> None:
    path, expected = saved("Adam", "two shards")
    read = files.read(Path(path))[1]
    count, m, v = (read[f"optimizer/vars/{number}"] for number in (0, 2, 3))
    mean = sum(0.1 * 0.9 ** (BEFORE - 1 - t) * GRADIENTS[t] for t in range(BEFORE))
    np.testing.assert_allclose(m, mean, rtol=1e-5, atol=1e-7)
    found = adam_by_hand(read["variables/0"], m, v, int(count), GRADIENTS[BEFORE : BEFORE + AFTER])
    np.testing.assert_allclose(found.ravel(), expected[-1][:20], rtol=1e-5, atol=1e-6)
    assert count == BEFORE


def test_plain_keras_goes_on_from_the_same_slots() -> None:
    """An optimizer of Keras in no strategy: its values wait for its slots, too (B230)."""
    path, expected = saved("Adam", "two shards")
    for built in (True, False):
        variables = [keras.Variable(START * 0), keras.Variable(START[0] * 0)]
        optimizer = OPTIMIZERS["Adam"]()
        if built:
            optimizer.build(variables)
        status = sd.Checkpoint(variables=variables, optimizer=optimizer).restore(path)
        for gradient in GRADIENTS[BEFORE : BEFORE + AFTER]:
            optimizer.apply(list(map(keras.ops.convert_to_tensor, (gradient, gradient[0]))), variables)
        found = [float(x) for v in variables for x in np.asarray(v).ravel()]
        np.testing.assert_allclose(found, expected[-1], rtol=2e-5)
        status.assert_consumed()


@pytest.mark.parametrize("is_wrapped", [True, False], ids=["sd.Optimizer", "Keras"])
@pytest.mark.parametrize("optimizer", ["Adam", "loss scale"])
def test_variables_that_exist_before_build_get_the_values_that_they_have_after_it(optimizer: str, is_wrapped: bool) -> None:
    """Of a `LossScaleOptimizer` some have other numbers before `build` than after it."""
    path, _ = saved(optimizer, "mirrored")
    other = Training(optimizer, "mirrored")
    inner = other.optimizer.wrapped
    sd.Checkpoint(optimizer=other.optimizer if is_wrapped else inner).restore(path).expect_partial()
    assert int(inner.iterations) == BEFORE
    np.testing.assert_allclose(inner.learning_rate, 0.1)
    other.optimizer.build(other.variables)
    read = files.read(Path(path))[1]
    for number, found in enumerate(inner.variables):
        np.testing.assert_array_equal(np.asarray(found), read[f"optimizer/vars/{number}"], err_msg=found.path)


def test_each_variable_of_a_multi_optimizer_gets_its_value(tmp_path: Path) -> None:
    """The numbers of those of its second optimizer depend on the slots of the first."""

    def multi() -> tuple[Any, Any]:
        variables = [keras.Variable(np.ones(2, np.float32), name="a"), keras.Variable(np.ones(3, np.float32), name="b")]
        of_names = keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.25, momentum=0.5), {"a": keras.optimizers.Adam(0.1)})
        return variables, keras.optimizers.MultiOptimizer(of_names)

    variables, optimizer = multi()
    optimizer.apply([np.ones(2, np.float32), np.ones(3, np.float32)], variables)
    path = sd.Checkpoint(optimizer=optimizer).save(tmp_path / "ckpt")
    others, other = multi()
    sd.Checkpoint(optimizer=other).restore(path).expect_partial()
    assert int(other.iterations) == 1
    other.build(others)
    for before, after in zip(optimizer.variables, other.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(after), np.asarray(before), err_msg=before.path)


def test_an_optimizer_of_another_kind_is_refused_or_reported(tmp_path: Path) -> None:
    training = Training("SGD", "one device")
    training.take(GRADIENTS[:1])
    status = training.checkpoint.restore(saved("Adam", "one device")[0])
    with pytest.raises(AssertionError, match="values that nothing has taken: optimizer/vars/2"):
        status.assert_consumed()
    other = Training("Adam", "one device")
    other.take(GRADIENTS[:1])
    with pytest.raises(AssertionError, match="no value for optimizer/vars/2"):
        other.checkpoint.restore(saved("SGD", "one device")[0]).assert_consumed()
    with other.strategy.scope():
        v = variable(START[:, :1], name="a")
        optimizer = sd.Optimizer(keras.optimizers.Adam(0.1))
        optimizer.build([v, variable(START[0], name="b")])
    with pytest.raises(InvalidArgumentError, match="optimizer/vars/2 has shape"):
        sd.Checkpoint(optimizer=optimizer).restore(saved("Adam", "one device")[0])


def test_an_optimizer_alone_takes_its_values_when_its_slots_are_made() -> None:
    path, _ = saved("Adam", "two shards")
    training = Training("Adam", "three shards")
    status = sd.Checkpoint(optimizer=training.optimizer).restore(path).expect_partial()
    assert status.waiting == ["optimizer"]
    training.optimizer.build(training.variables)
    assert not status.waiting and int(training.optimizer.iterations) == BEFORE
    assert status.superfluous == ["variables/0", "variables/1"]


@pytest.mark.exhaustive
def test_an_optimizer_with_several_sets_of_variables_has_the_state_of_each(tmp_path: Path) -> None:
    def made() -> tuple[Any, Any, Any]:
        with sd.MirroredStrategy(2).scope() as strategy:
            pair = [variable([1.0]), variable([2.0, 3.0])]
            return strategy or sd.get_strategy(), pair, sd.Optimizer(optax.adam(0.1))

    def train(pair: Any, optimizer: Any) -> None:
        @sd.function
        def step() -> None:
            for v in pair:
                optimizer.apply_gradients([(v * 0.5 + 1.0, v)])

        step()

    _, pair, optimizer = made()
    train(pair, optimizer)
    path = sd.Checkpoint(pair=pair, optimizer=optimizer).save(tmp_path / "ckpt")
    train(pair, optimizer)
    _, others, other = made()
    status = sd.Checkpoint(pair=others, optimizer=other).restore(path)
    train(others, other)
    status.assert_consumed()
    assert [v.numpy().tolist() for v in others] == [v.numpy().tolist() for v in pair]


LABELLED = optax.multi_transform(
    {"matrix": optax.adam(0.1), "vector": optax.sgd(0.1, momentum=0.9)},
    lambda leaves: ["matrix" if leaf.ndim == 2 else "vector" for leaf in leaves],
)


def labelled(strategy: Any) -> tuple[Any, Any, Any]:
    """A matrix and a vector, each with a rule of its own, and what takes a step."""
    with strategy.scope():
        variables, optimizer = [variable(np.ones((3, 2))), variable(np.ones(5))], sd.Optimizer(LABELLED)
        optimizer.build(variables)

    @sd.function
    def step() -> None:
        strategy.run(lambda: optimizer.apply_gradients([(v.value * 0.5, v) for v in variables]))

    def take() -> list[Any]:
        if isinstance(strategy, sd.ParameterServerStrategy):
            coordinator = sd.ClusterCoordinator(strategy)
            coordinator.schedule(step)
            coordinator.join()
        else:
            step()
        return [v.numpy() for v in variables]

    return sd.Checkpoint(variables=variables, optimizer=optimizer), take, strategy


def test_slots_of_rules_by_labels_find_their_place_also_from_servers_that_hold_one_label_each(tmp_path: Path) -> None:
    servers, alone = (lambda count: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": count}))), sd.OneDeviceStrategy
    for number, (source, target) in enumerate([(servers(2), alone()), (alone(), servers(2)), (servers(2), servers(1))]):
        checkpoint, take, _ = labelled(source)
        take()
        path = checkpoint.save(tmp_path / f"{number}")
        expected = take()
        other, take_other, _ = labelled(target)
        other.restore(path).assert_consumed()
        for own, its in zip(take_other(), expected, strict=True):
            np.testing.assert_allclose(own, its, rtol=1e-6)


@pytest.mark.parametrize(
    ("saved_by", "restored_by", "words"),
    [("Adagrad", "RMSprop", "'velocity' of an optimizer, and the checkpoint has a 'accumulator'"), ("Adam", "Adamax", "'norm'")],
)
@pytest.mark.parametrize("scoped", [True, False])
def test_an_optimizer_of_another_kind_is_refused_although_its_slots_have_the_same_shapes(
    saved_by: str, restored_by: str, words: str, scoped: bool, tmp_path: Path
) -> None:
    def made(kind: str) -> Any:
        optimizer = getattr(keras.optimizers, kind)(0.1)
        if not scoped:
            optimizer.build([keras.Variable(np.ones(3), name="v")])
            return optimizer
        with sd.MirroredStrategy(2).scope():
            own = sd.Optimizer(optimizer)
            own.build([variable(np.ones(3, np.float32))])
        return own

    path = sd.Checkpoint(optimizer=made(saved_by)).save(tmp_path / "ckpt")
    sd.Checkpoint(optimizer=made(saved_by)).restore(path).assert_consumed()
    with pytest.raises(InvalidArgumentError, match=words):
        sd.Checkpoint(optimizer=made(restored_by)).restore(path)
