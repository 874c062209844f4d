"""What an optimizer keeps beside the variables: one part for each owner, all of it or nothing, and its count."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import ResourceExhaustedError
from simdist.variables.optimizer_rule import OptimizerRule
from simdist.variables.rule_state import is_count
from simdist.variables.state import Owner, owner_of


def on_servers(wrapped: Any, hardware: Any = None) -> tuple[list[Any], OptimizerRule]:
    """Two variables, one on each server, and the rule of an optimizer for both."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}, hardware=hardware or {}))
    with strategy.scope():
        variables = [sd.Variable(np.full(4, number, np.float32)) for number in range(2)]
    return variables, OptimizerRule(wrapped, variables)


def owners(variables: list[Any]) -> list[Owner]:
    return [owner_of(cell) for variable in variables for cell in variable.placement.cells]


@pytest.mark.parametrize("wrapped", [keras.optimizers.Adam(0.1), optax.adam(0.1)], ids=["keras", "optax"])
def test_each_owner_has_its_part_in_one_group_with_its_cells(wrapped: Any) -> None:
    variables, rule = on_servers(wrapped)
    assert not rule.state.is_built
    rule.state.build()
    assert rule.state.is_built
    assert list(rule.state.slot_optimizers) == owners(variables)
    for variable in variables:
        (cell,) = variable.placement.cells
        state = rule.state.slot_optimizers[owner_of(cell)].cells
        assert {one.group for one in state} == {cell.group}
        assert sum(one.aval.size_bytes for one in state if one.kind == "slot") >= 2 * cell.aval.size_bytes


def test_a_server_that_is_full_leaves_nothing_of_its_part() -> None:
    small = {"ps": sd.hardware.Device(memory=40.0)}  # room for the variable, not for its moments
    variables, rule = on_servers(keras.optimizers.Adam(0.1), small)
    layout = variables[0].placement.store.layout
    before = len(layout.groups)
    with pytest.raises(ResourceExhaustedError):
        rule.state.build()
    assert len(layout.groups) == before
    assert not rule.state.slot_optimizers
    assert not rule.state.is_built


def test_a_rule_is_asked_to_forget_when_the_attributes_of_its_optimizer_change() -> None:
    wrapped = keras.optimizers.SGD(0.1, momentum=0.5)
    _, rule = on_servers(wrapped)
    rule.state.build()
    before = dict(rule.state.slot_optimizers)
    rule.state.renew()
    assert rule.state.slot_optimizers == before
    rule._leaves_alone[0,] = True
    wrapped.momentum = 0.9
    rule.state.renew()
    assert rule.state.slot_optimizers != before
    assert not rule._leaves_alone


def test_what_is_saved_has_paths_of_which_one_is_the_count() -> None:
    _, rule = on_servers(optax.adam(0.1))
    rule.state.build()
    saved = rule.state.saved()
    assert [path for path in saved if is_count(f"0/{path}")] == ["iteration/0"]
    assert rule.state.count() == 0
    assert sorted(variable.shape for path, variable in saved.items() if path.startswith("slots/")) == [(4,)] * 4
