"""Whose each variable of a Keras optimizer is: the trained variable of a slot, and where that stands in the model.

Keras begins the name of a slot with the path of the variable that it was made for, however the optimizer keeps it: one's own may have
tuples, or dicts of dicts. Where several variables have one path, or a slot has another name, the list, tuple or dict counts in which it is
kept, alone or with others, that has something for each variable that the optimizer was built for, in this order.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast
from weakref import ref

import keras

from simdist.program.saved_parts import SlotOf
from simdist.variables.handles import shown_name
from simdist.variables.keras_objects import BOOKKEEPING, KerasOptimizer, KerasVariable, core_of, holds_optimizers, trained_variables
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
            owners |= {id(slot): owner for each, owner in zip(slots, found, strict=True) for slot in each}
        numbers = _by_beginning(trained)
        named = [(slot, _number_in(numbers, slot.name)) for slot in part.variables]
        owners |= {id(slot): found[number] for slot, number in named if number is not None}
    return [owners.get(id(variable), SlotOf()) for variable in optimizer.variables]


def _parts_of(optimizer: KerasOptimizer) -> Sequence[KerasOptimizer]:
    return cast("Any", optimizer).optimizers if holds_optimizers(optimizer) else [core_of(optimizer)]


def _for_each(optimizer: KerasOptimizer, count: int) -> Iterator[Sequence[Sequence[KerasVariable]]]:
    """What an optimizer keeps for each of so many variables, in their order: one slot, several in a list, a tuple or a dict, or none."""
    for name, value in vars(optimizer).items():
        if name not in BOOKKEEPING:
            yield from _lists_in(value, count)


def _lists_in(kept: object, count: int) -> Iterator[Sequence[Sequence[KerasVariable]]]:
    """The containers that have something for each of so many variables, in a container; that itself, if it is one."""
    items = _items_of(kept)
    if items is None:
        return
    slots = [_slots_in(item) for item in items]
    if len(items) == count and all(each is not None and len({slot.name for slot in each}) == len(each) for each in slots):
        yield [each for each in slots if each is not None]
        return
    for item in items:  # several lists: each of slots of one kind, whose names are equal where the paths of variables are
        yield from _lists_in(item, count)


def _slots_in(kept: object) -> Sequence[KerasVariable] | None:
    """The variables in a container, or one alone; None where there is something else, too."""
    if kept is None or isinstance(kept, keras.Variable):
        return [] if kept is None else [kept]
    items = _items_of(kept)
    if items is None:
        return None
    found = [_slots_in(item) for item in items]
    return None if any(each is None for each in found) else [slot for each in found if each is not None for slot in each]


def _items_of(kept: object) -> Sequence[object] | None:
    """What is in a list, a tuple or a dict; None of anything else."""
    if isinstance(kept, dict):
        return list(cast("Mapping[object, object]", kept).values())
    return cast("Sequence[object]", kept) if isinstance(kept, (list, tuple)) else None


def _by_beginning(trained: Sequence[KerasVariable]) -> dict[str, int | None]:
    """The numbers of variables by how the names of their slots begin; None where several have one path."""
    found: dict[str, int | None] = {}
    for number, variable in enumerate(trained):
        beginning = str(shown_name(variable)).replace("/", "_")
        found[beginning] = None if beginning in found else number
    return found


def _number_in(numbers: Mapping[str, int | None], name: str) -> int | None:
    """The number of the variable that a slot was made for, by its name; None where that does not tell it."""
    beginning = name
    while beginning:
        beginning = beginning.rpartition("_")[0]
        if beginning in numbers:
            return numbers[beginning]
    return None
