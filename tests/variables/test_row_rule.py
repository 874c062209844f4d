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


def rate_from_0() -> Any:
    return own.schedules.PolynomialDecay(0.0, 500, end_learning_rate=0.3)


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
    "SGD that adds up gradients of 7 steps": (False, lambda: own.SGD(0.1, gradient_accumulation_steps=7)),
    "optax that adds up gradients of 5 steps": (False, lambda: optax.MultiSteps(optax.sgd(0.1), 5).gradient_transformation()),
    "values are bounded": (False, lambda: bounded(5.0)),
    "values are bounded by a large number": (False, lambda: bounded(500.0)),
    "momentum": (False, lambda: own.SGD(0.1, momentum=0.9)),
    "Adam": (False, lambda: own.Adam(0.1)),
}


@pytest.mark.parametrize(("expected", "make"), RULES.values(), ids=RULES)
def test_a_rule_leaves_rows_alone_if_it_does_so_at_every_step(expected: bool, make: Callable[[], Any]) -> None:
    with sd.OneDeviceStrategy().scope():
        table = sd.Variable([[1.0, 2.0]] * 5, name="table")
    optimizer: Any = make()
    build: Any = keras_slot_optimizer if is_keras_optimizer(optimizer) else optax_slot_optimizer
    slots = build(optimizer, [(table, table.placement.cells[0])])
    assert leaves_rows_alone(slots, [Aval((5, 2), "float32")], [0]) is expected
