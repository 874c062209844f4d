"""The state of an optimizer for one set of variables: slots, a count of steps and a learning rate, beside the variables of each owner.

Each group counts the updates that were applied to it: its count cannot disagree with its variables. Where variables get other cells, the
state goes along (`simdist.variables.moved_state`); where a Keras optimizer gets other attributes, it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax

from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.program.arrays import Array
from simdist.program.saved_parts import built
from simdist.program.tracing import active_tracer
from simdist.variables.independence import UNFIT, require_independent, require_whole_or_elementwise, unfit
from simdist.variables.keras_copies import Role, begins_with_values
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, is_keras_optimizer
from simdist.variables.layout import Layout
from simdist.variables.moved_state import MovedState
from simdist.variables.optimizer_attributes import Fingerprint, fingerprint_of
from simdist.variables.slot_optimizer import (
    SlotOptimizer,
    depends_on_values,
    keras_slot_optimizer,
    optax_slot_optimizer,
    renewed_slot_optimizer,
)
from simdist.variables.slots import OptimizerSlots, copies_of, require_one_value, unplaced, whole_of
from simdist.variables.state import Cell, Owner, owner_of
from simdist.variables.variable import Variable

__all__ = ["RuleState", "is_count"]


class RuleState:
    """What an optimizer keeps beside the variables that it changes.

    Args:
        optimizer: which it is.
        variables: that it changes.
        holder: whose parts are saved with checkpoints.
        changed: is called when the slot optimizers are others than before.

    Attributes:
        slot_optimizers: by owner, how its cells and its state change.
        optimized: by owner, its cells of the variables, with the numbers of these.
        slots: of a Keras optimizer.
    """

    def __init__(
        self,
        optimizer: KerasOptimizer | GradientTransformation,
        variables: list[Variable],
        holder: object,
        changed: Callable[[], None],
    ) -> None:
        self.optimizer = optimizer
        self.variables = variables
        self.holder = holder
        self.slot_optimizers: dict[Owner, SlotOptimizer] = {}
        self.optimized: dict[Owner, list[tuple[int, Cell]]] = {}
        self.slots: OptimizerSlots | None = None
        self._changed = changed
        self._begins_with_values: bool | None = None  # not tried yet
        self._is_independent = False  # not known yet
        self._known_cells: list[list[Cell]] = []  # of the variables, when the state was made for them
        self._fingerprint: Fingerprint = {}  # none yet

    def join(self, owner: Owner, layout: Layout) -> None:
        """Give the cells of one owner the optimizer's state, in one group with them."""
        if self.slot_optimizers and self._known_cells != self._present_cells():
            self._follow_variables(layout)
        cells = self._cells_of(owner)
        own = [cell for _, cell in cells]
        if owner in self.slot_optimizers:
            self.renew()
            layout.join([*own, *self.slot_optimizers[owner].cells])
            return
        slot_optimizer = self._slot_optimizer(cells)
        require_whole_or_elementwise(self.optimizer, slot_optimizer, [(self.variables[number], cell) for number, cell in cells])
        if not self._is_independent:
            require_independent(self.optimizer, self.variables)
            self._is_independent = True
        before = layout.newest
        try:
            for cell, array in zip(slot_optimizer.cells, slot_optimizer.initial, strict=True):
                layout.add(cell, array)
            layout.join([*own, *slot_optimizer.cells])
        except SimdistError:
            layout.take_back(before)  # a server is down, or full: nothing is left of the slots
            raise
        self.slot_optimizers[owner], self.optimized[owner] = slot_optimizer, cells
        self._known_cells = self._present_cells()
        self._fingerprint = self._fingerprint or self._present_fingerprint()
        self._bind(layout)
        if self.is_built:
            built(self.holder)

    def _bind(self, layout: Layout) -> None:
        if self.slots is not None:
            self.slots.bind(
                {owner: (slot_optimizer, self.optimized[owner]) for owner, slot_optimizer in self.slot_optimizers.items()}, layout
            )

    def _present_cells(self) -> list[list[Cell]]:
        return [list(variable.placement.cells) for variable in self.variables]

    def _cells_of(self, owner: Owner) -> list[tuple[int, Cell]]:
        """The cells of one owner, with the numbers of their variables."""
        return [(number, cell) for number, v in enumerate(self.variables) for cell in v.placement.cells if owner_of(cell) == owner]

    def _follow_variables(self, layout: Layout) -> None:
        """Let the state go along with variables that have other cells than at the last update: copies that may differ, other replicas."""
        self.renew()
        store, before = self.variables[0].placement.store, layout.newest
        owners = dict.fromkeys(owner_of(cell) for cells in self._present_cells() for cell in cells)
        optimized = {owner: self._cells_of(owner) for owner in owners}
        moved = MovedState(self.slot_optimizers, self.optimized, layout, store.unseen_cells)
        known = set(moved.cells)
        with jax.ensure_compile_time_eval():
            taken = {owner: moved.taken_by(self._slot_optimizer(cells, moved), owner, cells) for owner, cells in optimized.items()}
        try:
            for slot_optimizer in taken.values():
                for cell, array in zip(slot_optimizer.cells, slot_optimizer.initial, strict=True):
                    if cell not in known:
                        layout.add(cell, array)
        except SimdistError:
            layout.take_back(before)
            raise
        for owner, slot_optimizer in taken.items():
            layout.join([*(cell for _, cell in optimized[owner]), *slot_optimizer.cells])
        self.slot_optimizers, self.optimized, self._known_cells = taken, optimized, self._present_cells()
        layout.drop(list(known.difference(cell for slot_optimizer in taken.values() for cell in slot_optimizer.cells)))
        self._changed()
        self._bind(layout)

    def renew(self) -> None:
        """Go on with the attributes and the schedule that a Keras optimizer has now; its slots and its count stay.

        Raises:
            InvalidArgumentError: they need other slots.
        """
        present = self._present_fingerprint()
        if not self.slot_optimizers or present == self._fingerprint:
            return
        changed = sorted(name for name in {*present, *self._fingerprint} if present.get(name) != self._fingerprint.get(name))
        with jax.ensure_compile_time_eval():
            require_independent(self.optimizer, self.variables)
            self.slot_optimizers = {owner: self._renewed(owner, changed) for owner in self.slot_optimizers}
        self._changed()
        self._fingerprint = present
        self.variables[0].placement.store.layout.outdate()

    def _present_fingerprint(self) -> Fingerprint:
        return fingerprint_of(self.optimizer) if is_keras_optimizer(self.optimizer) else {}

    def _renewed(self, owner: Owner, changed: Sequence[str]) -> SlotOptimizer:
        assert is_keras_optimizer(self.optimizer)
        pairs = [(self.variables[number], cell) for number, cell in self.optimized[owner]]
        renewed = renewed_slot_optimizer(self.slot_optimizers[owner], self.optimizer, pairs, changed)
        require_whole_or_elementwise(self.optimizer, renewed, pairs)
        return renewed

    def _slot_optimizer(self, cells: Sequence[tuple[int, Cell]], moved: MovedState | None = None) -> SlotOptimizer:
        pairs = [(self.variables[number], cell) for number, cell in cells]
        if not is_keras_optimizer(self.optimizer):
            assert isinstance(self.optimizer, GradientTransformation)
            return self._optax_slot_optimizer(self.optimizer, pairs)
        slots = self.slots = self.slots or OptimizerSlots(self.optimizer, self.variables)
        if self._begins_with_values is None:
            self._begins_with_values = begins_with_values(self.optimizer, self.variables)
        values = self._values(pairs) if self._begins_with_values else None

        def first_value(role: Role) -> Array | None:
            return None if moved is not None and moved.has(role, cells) else slots.first_value(role, cells)

        return keras_slot_optimizer(self.optimizer, pairs, first_value, values)

    def _optax_slot_optimizer(self, optimizer: GradientTransformation, pairs: Sequence[tuple[Variable, Cell]]) -> SlotOptimizer:
        try:
            return optax_slot_optimizer(optimizer, pairs, self._values(pairs) if depends_on_values(optimizer, pairs) else None)
        except UNFIT as error:
            if [id(variable) for variable, _ in pairs] == list(map(id, self.variables)):  # `==` of variables compares their values
                raise unfit([cell.name for _, cell in pairs], error) from error
            raise InvalidArgumentError(
                f"The Optax rule cannot be used for {', '.join(cell.name for _, cell in pairs)}, which is what {pairs[0][1].task} holds of "
                f"{len(self.variables)} variables: {str(error).splitlines()[0].rstrip('.')}. Each server applies it to the variables that "
                "it has. Give labels and masks as a function of them (lambda params: [...]), and not as a list for all; or make an "
                "optimizer for each part of the variables."
            ) from error

    def _values(self, pairs: Sequence[tuple[Variable, Cell]]) -> list[Array] | None:
        with jax.ensure_compile_time_eval():
            return self.variables[0].placement.store.unseen_cells([cell for _, cell in pairs])

    def build(self) -> None:
        """Create the optimizer's state for all variables, before a step needs it."""
        store = self.variables[0].placement.store
        for owner in dict.fromkeys(owner_of(cell) for variable in self.variables for cell in variable.placement.cells):
            self.join(owner, store.layout)

    def count(self) -> int | jax.Array:
        """The number of updates of an Optax transformation.

        Raises:
            FailedPreconditionError: a step asks before there is a count.
        """
        tracer = active_tracer()
        if not self.slot_optimizers:
            if tracer is not None:
                raise FailedPreconditionError(
                    "The optimizer has no count of steps yet. Call its build() with the variables before the step."
                )
            return 0
        cells = [slot_optimizer.cells[-1] for slot_optimizer in self.slot_optimizers.values()]
        counter = unplaced("optimizer/iterations", *copies_of(self.variables[0].placement, cells))
        return int(counter.numpy()) if tracer is None else counter.traced_value(tracer)

    def saved(self) -> dict[str, Variable]:
        """The optimizer's state as variables of whole values, by path: the number of each slot, and of the variable that it belongs to."""
        cells: dict[tuple[Role, int], list[Cell]] = {}
        order: dict[Cell, int] = {}  # of the trained variable's cells: a task may have several, between those of others
        for owner, slot_optimizer in self.slot_optimizers.items():
            for role, cell in zip(slot_optimizer.roles, slot_optimizer.cells, strict=True):
                number, trained_cell = self.optimized[owner][role.owner] if role.kind == "slot" else (-1, cell)
                order[cell] = self.variables[number].placement.cells.index(trained_cell) if role.kind == "slot" else -1
                cells.setdefault((role._replace(owner=number), number), []).append(cell)
        found: dict[str, Variable] = {}
        for (role, number), of_role in cells.items():
            require_one_value(type(self.optimizer).__name__, role, of_role)
            trained = self.variables[max(number, 0)].placement
            if role.kind == "slot":
                of_role.sort(key=order.__getitem__)
            path = _path_of(role, number)
            found[path] = unplaced(path, *whole_of(trained, of_role) if role.kind == "slot" else copies_of(trained, of_role))
        return found

    @property
    def is_built(self) -> bool:
        """Whether the state of all its variables exists."""
        return all(owner_of(cell) in self.slot_optimizers for variable in self.variables for cell in variable.placement.cells)


def _path_of(role: Role, number: int) -> str:
    """The path of a variable of the state: the number of each slot, and of the variable that it belongs to."""
    return f"slots/{role.number}/{number}" if role.kind == "slot" else f"{role.kind}/{role.number}"


def is_count(path: str) -> bool:
    """Whether a path in an optimizer, behind the number of a rule, is that of the rule's count of steps."""
    return path.partition("/")[2] == _path_of(Role("iteration"), -1)
