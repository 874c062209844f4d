"""Which rules leave rows without a gradient alone: at every step, and not only at the first ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.program.values import Aval
from simdist.variables.keras_objects import is_keras_optimizer
from simdist.variables.row_rule import leaves_rows_alone
from simdist.variables.slot_optimizer import keras_slot_optimizer, optax_slot_optimizer

own = keras.optimizers
ADDED_STEPS = (2, 5, 7, 64, 65, 70, 100, 128)


def rate_from_0() -> Any:
    return own.schedules.PolynomialDecay(0.0, 500, end_learning_rate=0.3)


def rate_of_step(step: int) -> Any:
    """A rate that is not 0 at one step only."""
    return own.schedules.PiecewiseConstantDecay([step - 1, step], [0.0, 0.3, 0.0])


def added_up(steps: int) -> optax.GradientTransformation:
    return optax.MultiSteps(optax.sgd(0.1), steps).gradient_transformation()


def decayed_late(step: int) -> optax.GradientTransformation:
    return optax.chain(optax.add_decayed_weights(0.1), optax.sgd(lambda count: jnp.where(count == step, 0.1, 0.0)))


def bounded(limit: float) -> optax.GradientTransformation:
    """Values beyond a limit are brought back to it."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        return [jnp.clip(value + change, -limit, limit) - value for value, change in zip(params, updates, strict=True)], state

    return optax.chain(optax.sgd(0.1), optax.GradientTransformation(lambda params: optax.EmptyState(), update))


RULES: dict[str, tuple[bool, Callable[[], Any]]] = {
    "SGD": (True, lambda: own.SGD(0.1)),
    "SGD with a rate that is 0 at first": (True, lambda: own.SGD(rate_from_0())),
    "Adagrad": (True, lambda: own.Adagrad(0.1)),
    "optax.adagrad": (True, lambda: optax.adagrad(0.1)),
    "SGD, decay": (False, lambda: own.SGD(0.1, weight_decay=0.1)),
    "SGD, decay, with a rate that is 0 now": (False, lambda: own.SGD(0.0, weight_decay=0.1)),
    "SGD, decay, with a rate that is 0 at first": (False, lambda: own.SGD(rate_from_0(), weight_decay=0.1)),
    **{f"SGD that adds up gradients of {n} steps": (False, lambda n=n: own.SGD(0.1, gradient_accumulation_steps=n)) for n in ADDED_STEPS},
    **{f"optax that adds up gradients of {n} steps": (False, lambda n=n: added_up(n)) for n in ADDED_STEPS},
    "SGD with clipped gradients": (True, lambda: own.SGD(0.1, clipvalue=0.5)),
    "SGD with scaled losses": (True, lambda: own.LossScaleOptimizer(own.SGD(0.1))),
    "SGD, decay, with a rate that is 0 for long": (False, lambda: own.SGD(rate_of_step(777), weight_decay=0.1)),
    "optax with a rate that begins late": (True, lambda: optax.sgd(optax.piecewise_constant_schedule(0.0, {777: 0.1}))),
    "optax, decay, with a rate that begins late": (False, lambda: decayed_late(777)),
    "optax, unless gradients are not finite": (True, lambda: optax.apply_if_finite(optax.adagrad(0.1), 3)),
    "values are bounded": (False, lambda: bounded(5.0)),
    "values are bounded by a large number": (False, lambda: bounded(500.0)),
    "momentum": (False, lambda: own.SGD(0.1, momentum=0.9)),
    "Adam": (False, lambda: own.Adam(0.1)),
}


@pytest.mark.parametrize(("expected", "make"), RULES.values(), ids=RULES)
@pytest.mark.sample(2)
def test_a_rule_leaves_rows_alone_if_it_does_so_at_every_step(expected: bool, make: Callable[[], Any]) -> None:
    with sd.OneDeviceStrategy().scope():
        table = sd.Variable([[1.0, 2.0]] * 5, name="table")
    optimizer: Any = make()
    build: Any = keras_slot_optimizer if is_keras_optimizer(optimizer) else optax_slot_optimizer
    slots = build(optimizer, [(table, table.placement.cells[0])])
    assert leaves_rows_alone(slots, [Aval((5, 2), "float32")], [0]) is expected


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_tables_of_half_precision_are_left_alone_by_a_rule_that_computes_in_float32(dtype: str) -> None:
    with sd.OneDeviceStrategy().scope():
        table = sd.Variable(jnp.ones((5, 2), dtype), name="table")
    slots = optax_slot_optimizer(optax.sgd(jnp.float32(0.1)), [(table, table.placement.cells[0])])
    assert leaves_rows_alone(slots, [Aval((5, 2), dtype)], [0])
