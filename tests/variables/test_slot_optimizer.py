"""The state of optimizers as cells: what each of them is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.variables.slot_optimizer import optax_slot_optimizer


def roles(rule: Any, *shapes: tuple[int, ...]) -> list[tuple[str, int, int]]:
    with sd.OneDeviceStrategy().scope():
        variables = [sd.Variable(np.zeros(shape, np.float32)) for shape in shapes]
    slots = optax_slot_optimizer(rule, [(variable, variable.placement.cells[0]) for variable in variables])
    return [(role.kind, role.owner, role.number) for role in slots.roles]


ONE_EACH = [("slot", 0, 0), ("slot", 1, 0)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (optax.adagrad(0.1), ONE_EACH),
        (optax.chain(optax.clip(1.0), optax.trace(0.9)), ONE_EACH),
        (optax.masked(optax.trace(0.9), [True, False]), [("slot", 0, 0)]),
        (optax.masked(optax.trace(0.9), [False, True]), [("slot", 1, 0)]),
        (optax.multi_transform({"a": optax.adagrad(0.1), "b": optax.adagrad(0.2)}, ["a", "b"]), [("slot", 0, 0), ("slot", 1, 1)]),
        (optax.multi_transform({"a": optax.trace(0.9), "b": optax.sgd(0.2)}, ["b", "a"]), [("slot", 1, 0)]),
    ],
    ids=["adagrad", "chain", "masked, the first", "masked, the second", "two rules", "one of two has slots"],
)
def test_a_slot_belongs_to_its_variable_also_where_a_rule_leaves_others_out(rule: Any, expected: list[tuple[str, int, int]]) -> None:
    found = roles(rule, (3, 2), (3, 2))
    assert [role for role in found if role[0] == "slot"] == expected
    assert found[-1][0] == "iteration"


@pytest.mark.parametrize("built", [False, True])
def test_launched_mains_without_numbers_train_in_the_time_that_those_with_numbers_take(built: bool) -> None:
    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            w, optimizer = sd.Variable(np.ones((8, 8), np.float32)), sd.Optimizer(keras.optimizers.Adam(0.1))
            if built:
                optimizer.build([w])

        def replica(x: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: keras.ops.mean(x @ w.value), [w])()
            optimizer.apply_gradients(zip(gradients, [w], strict=True))

        step = sd.function(lambda x: strategy.run(replica, args=(x,)))
        for _ in range(2):
            step(np.ones((4, 8), np.float32))

    ends: list[float] = []
    for numerics in ("deferred", "off"):
        with sd.Cluster({"worker": 2}, numerics=numerics) as cluster:
            cluster.launch(main).join()
            ends.append(cluster.now)
    assert ends[0] == ends[1] > 0
