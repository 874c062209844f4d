"""What an outer optimizer moves: what steps have changed since the last average, and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optax
import pytest

import simdist as sd
from simdist import keras

OUTER: dict[str, Callable[[], Any]] = {
    "Keras": lambda: keras.optimizers.SGD(0.5, momentum=0.9),
    "Optax": lambda: optax.sgd(0.5, momentum=0.9),
}


class Two:
    """Two variables that are trained in turns; each step moves one by 3 on average."""

    def __init__(self, outer: Any) -> None:
        self.strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2, outer_optimizer=outer)
        with self.strategy.scope():
            self.v, self.w = sd.Variable(0.0, name="v"), sd.Variable(10.0, name="w")
        self.steps = [self._step_of(self.v), self._step_of(self.w)]

    def _step_of(self, variable: sd.Variable) -> Callable[[Any], Any]:
        with self.strategy.scope():
            optimizer = sd.Optimizer(optax.sgd(1.0))
        run = self.strategy.run
        return sd.function(lambda own: run(lambda g: optimizer.apply_gradients([(-g, variable)]), args=(own,)))

    def train(self, *numbers: int) -> tuple[float, float]:
        for number in numbers:
            self.steps[number](sd.PerReplica([1.0, 2.0]))
        return float(self.v.numpy()), float(self.w.numpy())


@pytest.mark.parametrize("kind", OUTER)
def test_what_no_step_has_changed_stays_where_it_is_whatever_its_momentum(kind: str) -> None:
    two = Two(OUTER[kind]())
    assert two.train(0, 0) == pytest.approx((3.0, 10.0))
    assert two.train(1, 1, 1, 1) == pytest.approx((3.0, 13.0 + 0.9 * 3.0 + 3.0))
    if kind == "Keras":  # a slot without a gradient stays as well
        assert two.train(0, 0)[0] == pytest.approx(3.0 + 0.9 * 3.0 + 3.0)


def test_a_checkpoint_knows_what_has_changed_since_the_last_average(tmp_path: Path) -> None:
    def made() -> tuple[Two, sd.Checkpoint]:
        two = Two(OUTER["Keras"]())
        return two, sd.Checkpoint(v=two.v, w=two.w)

    two, checkpoint = made()
    two.train(0, 0, 1, 1, 0)
    path = checkpoint.save(tmp_path / "saved")
    again, reading = made()
    reading.restore(path)
    assert again.train(1) == pytest.approx(two.train(1))
    assert again.train(0, 0) == pytest.approx(two.train(0, 0))


def test_what_has_died_before_the_first_step_is_no_hindrance() -> None:
    two = Two(OUTER["Optax"]())
    two.w = two.v
    del two.steps[1]
    gc.collect()
    assert two.train(0, 0, 0)[0] == pytest.approx(6.0)


def test_a_loss_scale_is_refused_where_there_is_no_loss() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="Give the optimizer inside"):
        Two(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0)))
