"""What it costs to build a step of many operations, or an optimizer of many variables: what is visited, counted. Nothing measures time."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import keras
import pytest

import simdist as sd
from simdist.program import cutting
from simdist.runtime import linking
from simdist.variables import keras_copies

OPERATIONS = 60


def counted(monkeypatch: pytest.MonkeyPatch, owner: ModuleType | type, name: str, counts: Counter[str], function: Any) -> None:
    """Count the calls of a function by its name."""

    def call(*arguments: Any) -> Any:
        counts[name] += 1
        return function(*arguments)

    monkeypatch.setattr(owner, name, call, raising=False)


def test_a_step_of_many_kernels_is_cut_and_linked_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, counts = sd.MirroredStrategy(2), Counter[str]()
    with strategy.scope():
        v = sd.Variable(jnp.ones(2))

    @sd.function
    def step() -> Any:
        def replica() -> Any:
            x = v.value
            for _ in range(OPERATIONS):
                x = sd.get_replica_context().all_reduce("sum", x) * 0.5
            return x.sum()

        return strategy.reduce("mean", strategy.run(replica), axis=None)

    counted(monkeypatch, cutting, "variables_in", counts, cutting.variables_in)
    counted(monkeypatch, linking._Linker, "_consumed", counts, linking._Linker._consumed)
    assert float(step()) == 2.0
    assert OPERATIONS < counts["variables_in"] < 20 * OPERATIONS
    assert OPERATIONS < counts["_consumed"] < 5 * OPERATIONS


def test_slots_of_an_optimizer_are_found_where_it_has_added_them(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, counts = [keras.Variable(jnp.ones(2)) for _ in range(OPERATIONS)], Counter[str]()
    counted(monkeypatch, keras_copies, "id", counts, id)
    for optimizer in (keras.optimizers.Adam(0.1), keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1))):
        roles = keras_copies.built_roles(optimizer, trained)
        slots = [(role.owner, role.number) for role in roles if role.kind == "slot"]
        assert slots == [(owner, number) for owner in range(OPERATIONS) for number in range(2)]
    assert counts["id"] < 40 * OPERATIONS


class Leaving(keras.optimizers.SGD):
    """One that lists its learning rate before it is built, and not any more then."""

    @property
    def variables(self) -> list[Any]:
        listed = super().variables
        return [listed[0], *listed[2:]] if self.built and len(listed) > 2 else listed


class Doubling(keras.optimizers.SGD):
    """One that lists each slot twice."""

    @property
    def variables(self) -> list[Any]:
        listed = super().variables
        return [*listed[:2], *(slot for slot in listed[2:] for _ in range(2))]


@pytest.mark.parametrize(("optimizer", "times"), [(Leaving, 1), (Doubling, 2)])
def test_slots_are_found_where_the_list_gets_shorter_or_has_some_twice(optimizer: Any, times: int) -> None:
    roles = keras_copies.built_roles(optimizer(0.1, momentum=0.9), [keras.Variable(jnp.ones(2)) for _ in range(3)])
    assert [(role.owner, role.number) for role in roles if role.kind == "slot"] == [(owner, 0) for owner in range(3) for _ in range(times)]
