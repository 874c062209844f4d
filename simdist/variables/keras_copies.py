"""Copies of Keras optimizers for the cells of one task, and the role of each variable of an optimizer.

Keras numbers an optimizer's variables, but the copies for two tasks have different variables under one number. What tells them
apart is when they are made: Keras walks over the trained variables while it builds, so a slot that appears while it stands at
variable i belongs to variable i. That holds for every optimizer, one's own included.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from simdist.errors import InvalidArgumentError
from simdist.process_state import TaskContext, active_context
from simdist.variables.state import Cell

__all__ = ["Role", "apart", "built_roles", "copy_for", "core_of", "is_scaling", "stand_in_for"]

CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")
BEFORE_THE_UPDATE = (*CLIPPING, "loss_scale_factor")


class Role(NamedTuple):
    """The role of a variable of an optimizer.

    Attributes:
        kind: "iteration", "learning_rate", "slot" (of one trained variable), "shared" (of all of them), or "unused".
        owner: of a slot: the number of the trained variable.
        number: among those of the same kind and owner, in the order in which they were made.
    """

    kind: str
    owner: int = -1
    number: int = 0


def is_scaling(optimizer: Any) -> bool:
    """Whether it is a Keras `LossScaleOptimizer`, which wraps another one."""
    return hasattr(optimizer, "inner_optimizer") and hasattr(optimizer, "dynamic_growth_steps")


def core_of(optimizer: Any) -> Any:
    """The optimizer that changes the variables: the one inside of a `LossScaleOptimizer`, or the optimizer itself."""
    return optimizer.inner_optimizer if is_scaling(optimizer) else optimizer


def apart(make: Callable[[], Any]) -> Any:
    """Run with a Keras state of its own: no strategy adopts the variables, no name is used up."""
    before, state = active_context(), TaskContext()
    state.replace(before)
    try:
        return make()
    finally:
        before.replace(state)


class _Walked(list[Any]):
    """The trained variables; notes at which of them Keras stands when the optimizer gets a variable."""

    def __init__(self, trained: Sequence[Any], optimizer: Any) -> None:
        super().__init__(trained)
        self.optimizer = optimizer
        self.at = -1
        self.roles: dict[int, Role] = {}
        self.counts: Counter[int] = Counter()
        self.known = {id(variable) for variable in optimizer.variables}

    def __iter__(self) -> Iterator[Any]:
        for number, variable in enumerate(super().__iter__()):
            self.note(number)
            yield variable
        self.note(-1)

    def note(self, number: int) -> None:
        """New variables were created at the last stop; the next is `number`."""
        for variable in self.optimizer.variables:
            if id(variable) not in self.known:
                self.known.add(id(variable))
                self.roles[id(variable)] = Role("shared" if self.at < 0 else "slot", self.at, self.counts[self.at])
                self.counts[self.at] += 1
        self.at = number


def built_roles(optimizer: Any, trained: Sequence[Any]) -> list[Role]:
    """Build a Keras optimizer for variables, and return the role of each of its own, in their order."""
    walked, core = _Walked(trained, optimizer), core_of(optimizer)
    optimizer.build(walked)
    walked.note(-1)
    roles = walked.roles
    roles[id(core._iterations)], roles[id(core._learning_rate)] = Role("iteration"), Role("learning_rate")
    return [roles.get(id(variable), Role("unused", number=number)) for number, variable in enumerate(optimizer.variables)]


def copy_for(optimizer: Any, cells: Sequence[tuple[Any, Cell]]) -> tuple[Any, list[Role]]:
    """An optimizer of the same configuration, built for cells.

    Args:
        optimizer: the user's.
        cells: (variable, cell) pairs.

    Returns:
        The copy, and the roles of its variables; the owner of a slot is a number among the pairs.

    Raises:
        InvalidArgumentError: it does something to whole variables, and these are sharded.
    """
    core = core_of(optimizer)
    copy = _unbuilt_copy(core, cells)
    if is_scaling(optimizer):
        copy = type(optimizer)(copy, initial_scale=optimizer.initial_scale, dynamic_growth_steps=optimizer.dynamic_growth_steps)
    stand_ins = [stand_in_for(variable, cell) for variable, cell in cells]
    roles = built_roles(copy, stand_ins)
    if core.weight_decay:
        left_out = [s for s, (v, _) in zip(stand_ins, cells, strict=True) if not _decays(core, v)]
        core_of(copy).exclude_from_weight_decay(var_list=left_out)
    return copy, roles


def stand_in_for(variable: Any, cell: Cell | None = None) -> Any:
    """A Keras variable of the shape of a cell, with the name and the constraint of its variable.

    Raises:
        InvalidArgumentError: a constraint, and the cell is a shard.
    """
    import keras

    aval = variable.aval if cell is None else cell.aval
    stand_in = keras.Variable(jnp.zeros(aval.shape, aval.dtype), name=variable.name.rsplit("/", 1)[-1])
    stand_in._path = variable.name
    constraint = getattr(getattr(variable, "keras_variable", None), "constraint", None)
    if constraint is not None and cell is not None and cell.rows is not None:
        raise InvalidArgumentError(f"{variable.name} has a constraint and is sharded; constraints need the whole variable.")
    stand_in.constraint = constraint
    return stand_in


def _unbuilt_copy(optimizer: Any, cells: Sequence[tuple[Any, Cell]]) -> Any:
    import keras

    with warnings.catch_warnings():
        # Keras converts its own learning rate to numpy in a way that numpy 2 warns of.
        warnings.simplefilter("ignore", DeprecationWarning)
        config = optimizer.get_config()
    # What belongs to whole gradients is done before they are cut (`simdist.variables.optimizer`).
    for name in BEFORE_THE_UPDATE:
        if name in config and not (name in CLIPPING and config.get("gradient_accumulation_steps")):
            config[name] = None
    config.pop("name", None)
    if not isinstance(config.get("learning_rate"), float):
        config["learning_rate"] = 0.001
    _require_whole_to_clip(config, cells)
    copy = type(optimizer).from_config(config)
    schedule = optimizer._learning_rate
    if not isinstance(schedule, keras.Variable):
        copy._learning_rate = schedule
    return copy


def _require_whole_to_clip(config: dict[str, Any], cells: Sequence[tuple[Any, Cell]]) -> None:
    """Accumulated gradients are clipped where they are accumulated, so a norm must be that of all that lies there.

    Raises:
        InvalidArgumentError: variables are sharded.
    """
    if (config.get("clipnorm") or config.get("global_clipnorm")) and any(cell.rows is not None for _, cell in cells):
        raise InvalidArgumentError(
            "Clipping by norm together with gradient_accumulation_steps needs whole variables, and these are sharded. Use clipvalue, or no "
            "variable_partitioner."
        )


def _decays(optimizer: Any, variable: Any) -> bool:
    own = getattr(variable, "keras_variable", None)
    if own is not None:
        return optimizer._use_weight_decay(own)
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return pattern is None or pattern.search(variable.name) is None
