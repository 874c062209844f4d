"""Copies of Keras optimizers for the cells of one task, and the role of each variable of an optimizer.

Keras numbers an optimizer's variables, but the copies for two tasks have different variables under one number. What tells them
apart is when they are made: Keras walks over the trained variables while it builds, so a slot that appears while it stands at
variable i belongs to variable i. That holds for every optimizer, one's own included.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.process_state import TaskContext, active_context
from simdist.program.arrays import Array, jax_array
from simdist.program.values import Aval
from simdist.variables.keras_objects import (
    KerasOptimizer,
    KerasVariable,
    core_of,
    counter_of,
    decays,
    excludes_by_name,
    is_scaling,
    learning_rate_of,
    rename,
    set_schedule,
    without_clipping,
)
from simdist.variables.optimizer_attributes import another_of, carry_attributes, require_all_carried
from simdist.variables.overwriting import is_overwritten
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = [
    "LARGE_BYTES",
    "UNUSED_RATE",
    "Role",
    "apart",
    "begins_with_values",
    "built_roles",
    "clips_with_update",
    "copy_for",
    "stand_in_for",
]

# What stands in for a variable of so many bytes takes no memory.
LARGE_BYTES = 2 << 20

Kept = TypeVar("Kept")


class Role(NamedTuple):
    """The role of a variable of an optimizer.

    Attributes:
        kind: "iteration", "learning_rate", "slot" (of one trained variable), "shared" (of all of them), or "unused": from before `build`.
        owner: of a slot: the number of the trained variable.
        number: among those of the same kind and owner, in the order in which they were made.
    """

    kind: str
    owner: int = -1
    number: int = 0


UNUSED_RATE = Role("unused", number=-1)
"""Of the learning rate with which a copy was created that then follows a schedule."""


def apart(make: Callable[[], Kept]) -> Kept:
    """Run with a Keras state of its own: no strategy adopts the variables, no name is used up."""
    before = active_context()
    state = TaskContext(before.process)
    state.replace(before)
    try:
        return make()
    finally:
        before.replace(state)


class _Walked(list[KerasVariable]):
    """The trained variables; notes at which of them Keras stands when the optimizer gets a variable."""

    def __init__(self, trained: Sequence[KerasVariable], optimizer: KerasOptimizer) -> None:
        super().__init__(trained)
        self.optimizer = optimizer
        self.at = -1
        self.roles: dict[int, Role] = {}
        self.counts: Counter[int] = Counter()
        self.known = {id(variable) for variable in optimizer.variables}
        self.length = len(optimizer.variables)

    def __iter__(self) -> Iterator[KerasVariable]:
        for number, variable in enumerate(super().__iter__()):
            self.note(number)
            yield variable
        self.note(-1)

    def note(self, number: int) -> None:
        """New variables were created at the last stop; the next is `number`."""
        for variable in self._created():
            self.known.add(id(variable))
            self.roles[id(variable)] = Role("shared" if self.at < 0 else "slot", self.at, self.counts[self.at])
            self.counts[self.at] += 1
        self.at = number

    def _created(self) -> list[KerasVariable]:
        """The new variables, in their order: sought from the end, where they are, since there is a stop at each trained variable."""
        variables, found = self.optimizer.variables, dict[int, KerasVariable]()
        missing, self.length = len(variables) - self.length, len(variables)
        if self.at < 0 or missing < 0:  # what is no longer listed would count for one that is new
            missing = self.length
        for variable in reversed(variables):
            if id(variable) not in self.known:
                found[id(variable)] = variable
                missing -= 1
            elif missing <= 0:
                break
        return [*found.values()][::-1]


def built_roles(optimizer: KerasOptimizer, trained: Sequence[KerasVariable]) -> list[Role]:
    """Build a Keras optimizer for variables, and return the role of each of its own, in their order."""
    walked, core = _Walked(trained, optimizer), core_of(optimizer)
    type(optimizer).build(optimizer, walked)  # what waits for its variables gets them when they are placed, and not here
    walked.note(-1)
    roles = walked.roles
    roles[id(counter_of(core))], roles[id(learning_rate_of(core))] = Role("iteration"), Role("learning_rate")
    unused_rate = next((v for v in core.variables if v.name == "learning_rate" and id(v) not in roles), None)
    others = itertools.count()
    return [roles.get(id(v)) or (UNUSED_RATE if v is unused_rate else Role("unused", number=next(others))) for v in optimizer.variables]


def copy_for(
    optimizer: KerasOptimizer, cells: Sequence[tuple[Variable, Cell]], values: Sequence[Array] | None = None
) -> tuple[KerasOptimizer, list[Role]]:
    """An optimizer of the same configuration, built for cells.

    Args:
        optimizer: the user's.
        cells: (variable, cell) pairs.
        values: of the cells, where its slots begin with them (`begins_with_values`); default zeros.

    Returns:
        The copy, and the roles of its variables; the owner of a slot is a number among the pairs.

    Raises:
        InvalidArgumentError: it does something to whole variables, and these are sharded; or no other one can be like it.
    """
    core = core_of(optimizer)
    copy = _unbuilt_copy(core, cells)
    if is_scaling(optimizer):
        copy = type(optimizer)(copy, initial_scale=optimizer.initial_scale, dynamic_growth_steps=optimizer.dynamic_growth_steps)
    stand_ins = [stand_in_for(variable, cell) for variable, cell in cells]
    for stand_in, value in zip(stand_ins, values or (), strict=False):
        stand_in.assign(value)
    roles = built_roles(copy, stand_ins)
    require_all_carried(core, core_of(copy))
    if core.weight_decay:
        left_out = [s for s, (v, _) in zip(stand_ins, cells, strict=True) if not _decays(core, v)]
        core_of(copy).exclude_from_weight_decay(var_list=left_out)
    return copy, roles


def begins_with_values(optimizer: KerasOptimizer, variables: Sequence[Variable]) -> bool:
    """Whether slots of a Keras optimizer begin with what its variables hold, as those of ScheduleFreeAdamW do: tried with two values."""
    variable = next((one for one in variables if not is_overwritten(one)), variables[0])  # what is overwritten has no slots
    probe = Cell(variable.name, Aval((2, 2), variable.aval.dtype), "")

    def first_slots(value: float) -> list[bytes]:
        copy, _ = copy_for(optimizer, [(variable, probe)], [np.full((2, 2), value, np.float32)])
        return [np.asarray(slot.value).tobytes() for slot in copy.variables]

    return apart(lambda: first_slots(0.0) != first_slots(0.7))


def stand_in_for(variable: Variable, cell: Cell | None = None) -> KerasVariable:
    """A Keras variable of the shape of a cell, with the name and the constraint of its variable; overwritten with its gradient as it is.

    Raises:
        InvalidArgumentError: a constraint, and the cell is a shard.
    """
    import keras

    aval = variable.aval if cell is None else cell.aval
    stand_in: KerasVariable = keras.Variable(jax_array(np.zeros(aval.shape, jnp.dtype(aval.dtype))), name=variable.name.rsplit("/", 1)[-1])
    if aval.size_bytes >= LARGE_BYTES:
        # Its shape is all that counts: zeros that take no memory.
        stand_in.__dict__["_value"] = np.broadcast_to(np.zeros((), jnp.dtype(aval.dtype)), aval.shape)
    rename(stand_in, variable.name)
    constraint = None if variable.keras_variable is None else variable.keras_variable.constraint
    if constraint is not None and cell is not None and cell.range is not None:
        raise InvalidArgumentError(f"{variable.name} has a constraint and is sharded; constraints need the whole variable.")
    stand_in.constraint = constraint
    stand_in.overwrite_with_gradient = is_overwritten(variable)
    return stand_in


def clips_with_update(optimizer: KerasOptimizer, variable: Variable) -> bool:
    """Whether gradients are clipped where they are applied, as only there they are complete: accumulated, or averaged over workers."""
    strategy = variable.placement.store.strategy
    return bool(core_of(optimizer).gradient_accumulation_steps) or (strategy is not None and strategy.averages_updates)


def _unbuilt_copy(optimizer: KerasOptimizer, cells: Sequence[tuple[Variable, Cell]]) -> KerasOptimizer:
    import keras

    copy = another_of(optimizer)
    carry_attributes(optimizer, copy, lambda: _built(another_of(optimizer), cells))
    if clips_with_update(optimizer, cells[0][0]):
        _require_whole_to_clip(optimizer, cells)
    else:
        without_clipping(copy)
    schedule = learning_rate_of(optimizer)
    if not isinstance(schedule, keras.Variable):
        set_schedule(copy, schedule)
    return copy


def _built(copy: KerasOptimizer, cells: Sequence[tuple[Variable, Cell]]) -> KerasOptimizer:
    built_roles(copy, [stand_in_for(variable, cell) for variable, cell in cells])
    return copy


def _require_whole_to_clip(optimizer: KerasOptimizer, cells: Sequence[tuple[Variable, Cell]]) -> None:
    """Gradients that are accumulated, or averaged over workers, are clipped where that is done: a norm must be that of all that lies there.

    Raises:
        InvalidArgumentError: variables are sharded.
    """
    if (optimizer.clipnorm or optimizer.global_clipnorm) and any(cell.range is not None for _, cell in cells):
        raise InvalidArgumentError(
            "Clipping by norm together with gradient_accumulation_steps, mode='sync' or mode='bounded' needs whole variables, and these "
            "are sharded. Use clipvalue, or no variable_partitioner."
        )


def _decays(optimizer: KerasOptimizer, variable: Variable) -> bool:
    own = variable.keras_variable
    return not excludes_by_name(optimizer, variable.name) if own is None else decays(optimizer, own)
