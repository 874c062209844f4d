"""Specs are checked where they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.estimator import CheckpointSaverListener, EstimatorSpec, EvalSpec, ModeKeys, TrainSpec

SGD = sd.Optimizer(optax.sgd(0.1))


def data() -> None:
    """No dataset: nobody calls it."""


class Exporting:
    name = "a"

    def export(self, **_: Any) -> None:
        return


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: EstimatorSpec("fit"), ValueError, "mode='fit'"),
        (lambda: EstimatorSpec("train", loss=1.0), ValueError, "Missing train_op"),
        (lambda: EstimatorSpec("train", train_op=SGD), ValueError, "Missing loss"),
        (lambda: EstimatorSpec("eval"), ValueError, "Missing loss"),
        (lambda: EstimatorSpec("infer"), ValueError, "Missing predictions"),
        (lambda: EstimatorSpec("eval", loss=jnp.ones(2)), ValueError, r"shape \(2,\); expected a scalar"),
        (lambda: EstimatorSpec("train", loss=1.0, train_op="sgd"), TypeError, "train_op is 'sgd'"),  # type: ignore[arg-type]
        (lambda: EstimatorSpec("eval", loss=1.0, eval_metric_ops={"loss": keras.metrics.Mean()}), ValueError, "'loss'"),
        (lambda: EstimatorSpec("eval", loss=1.0, eval_metric_ops={"a": 1.0}), TypeError, "a metric of Keras"),  # type: ignore[dict-item]
        (lambda: EstimatorSpec("eval", loss=1.0, scaffold=1), ValueError, "has scaffold"),  # type: ignore[arg-type]
        (lambda: EstimatorSpec("infer", predictions=1, export_outputs={}), ValueError, "has export_outputs"),  # type: ignore[arg-type]
        (lambda: EstimatorSpec("infer", predictions=1, training_hooks=[]), ValueError, "has training_hooks"),  # type: ignore[arg-type]
        (lambda: EstimatorSpec("infer", predictions=1, export_outputs={"a": 1}), ValueError, "has export_outputs"),  # type: ignore[arg-type]
        (lambda: TrainSpec(1), TypeError, "input_fn is 1"),  # type: ignore[arg-type]
        (lambda: TrainSpec(data, max_steps=0), ValueError, "max_steps is 0"),
        (lambda: TrainSpec(data, hooks=[1]), ValueError, "no sessions"),
        (lambda: TrainSpec(data, saving_listeners=[1]), TypeError, "saving_listeners has 1"),  # type: ignore[list-item]
        (lambda: TrainSpec(data, saving_listeners=CheckpointSaverListener()), TypeError, "expected a list"),  # type: ignore[arg-type]
        (lambda: EvalSpec("a"), TypeError, "input_fn is 'a'"),  # type: ignore[arg-type]
        (lambda: EvalSpec(data, steps=0), ValueError, "steps is 0"),
        (lambda: EvalSpec(data, name=1), TypeError, "name is 1"),  # type: ignore[arg-type]
        (lambda: EvalSpec(data, start_delay_secs=-1), ValueError, "start_delay_secs"),
        (lambda: EvalSpec(data, throttle_secs=-1), ValueError, "throttle_secs"),
        (lambda: EvalSpec(data, hooks=[1]), ValueError, "no sessions"),
        (lambda: EvalSpec(data, exporters=1), TypeError, "exporters has 1"),  # type: ignore[arg-type]
        (lambda: EvalSpec(data, exporters=[Exporting(), Exporting()]), ValueError, "two of the name 'a'"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_defaults_are_those_of_tensorflow() -> None:
    spec = EvalSpec(data)
    assert (spec.steps, spec.name, spec.start_delay_secs, spec.throttle_secs, spec.all_exporters) == (100, None, 120, 600, ())
    assert TrainSpec(data).max_steps is None and TrainSpec(data).saving_listeners == ()
    assert [*ModeKeys] == ["train", "eval", "infer"]


def test_exporters_may_be_one_or_several() -> None:
    one = Exporting()
    assert EvalSpec(data, exporters=one).all_exporters == EvalSpec(data, exporters=[one]).all_exporters == (one,)


def test_a_loss_of_one_element_and_other_optimizers_will_do() -> None:
    for optimizer in (SGD, keras.optimizers.Adam()):
        assert EstimatorSpec("train", loss=jnp.ones((1,)), train_op=optimizer).train_op is optimizer
