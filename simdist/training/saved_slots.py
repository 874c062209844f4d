"""Whose each variable of a Keras optimizer is: the trained variable of a slot, and where that stands in the model.

An optimizer keeps the slots of one kind in a list, or a dict, that has one for each variable that it was built for, in this order; Keras
asks it for them by the number of the variable. That holds for one's own optimizers as well.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast
from weakref import ref

import keras

from simdist.program.saved_parts import SlotOf
from simdist.variables.keras_objects import BOOKKEEPING, KerasOptimizer, core_of, holds_optimizers, trained_variables
from simdist.variables.optimizer_rule import OptimizerRule

__all__ = ["note_model", "slots_of"]

MODEL = "_simdist_model"
Positions: TypeAlias = Callable[[Any], Mapping[int, str]]
"""Where the variables of a model stand in it, by their identity."""


def note_model(optimizer: object, model: keras.Model) -> None:
    """Let an optimizer know the model that was compiled with it."""
    vars(optimizer)[MODEL] = ref(model)


def slots_of(optimizer: KerasOptimizer, positions_in: Positions) -> list[SlotOf]:
    """Whose each variable of an optimizer is, in their order.

    Args:
        optimizer: built.
        positions_in: of a model.
    """
    model = vars(optimizer).get(MODEL, lambda: None)()
    positions = {} if model is None else positions_in(model)
    owners: dict[int, SlotOf] = {}
    rules: list[OptimizerRule] = vars(optimizer).get("_simdist_rules", [])
    for part in _parts_of(optimizer):
        trained = trained_variables(part)
        ours = rules[0].variables if rules and len(rules[0].variables) == len(trained) else trained
        base = 1 + max((owner.number for owner in owners.values()), default=-1)
        found = [SlotOf(base + number, ours[number], positions.get(id(one), "")) for number, one in enumerate(trained)]
        for slots in _for_each(part, len(trained)):
            owners |= {id(slot): owner for slot, owner in zip(slots, found, strict=True) if slot is not None}
    return [owners.get(id(variable), SlotOf()) for variable in optimizer.variables]


def _parts_of(optimizer: KerasOptimizer) -> Sequence[KerasOptimizer]:
    return cast("Any", optimizer).optimizers if holds_optimizers(optimizer) else [core_of(optimizer)]


def _for_each(optimizer: KerasOptimizer, count: int) -> list[Sequence[object]]:
    """What an optimizer keeps for each of so many variables: one thing, or None."""
    kept: list[Sequence[object]] = []
    for name, value in vars(optimizer).items():
        items = list(cast("Mapping[object, object]", value).values()) if isinstance(value, dict) else value
        if name not in BOOKKEEPING and isinstance(items, list) and len(cast("list[object]", items)) == count:
            kept.append(cast("list[object]", items))
    return [items for items in kept if all(one is None or isinstance(one, keras.Variable) for one in items)]
