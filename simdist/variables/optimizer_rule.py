"""The update rule of an optimizer: how it changes the cells of each task.

An update is applied to each group of cells by itself, on the task that holds them, with the optimizer's slots, its count of
steps and its learning rate beside the cells. That gives the result of one device where the parts are independent of each other
(`simdist.variables.independence`): an update that reduces over a whole variable (LAMB, Adafactor) is refused for sharded
variables, and one that reduces over all variables (a global norm in an Optax chain) for variables on several servers.

Each group counts the updates that were applied to it: its count cannot disagree with its variables. An update that changes variables of
some groups alone is counted by the others, too. Where variables get other cells, the state goes along (`simdist.variables.moved_state`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax

from simdist.caches import BoundedCache
from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.process_state import kept_state
from simdist.program.arrays import Array
from simdist.program.fixed_reads import watching_reads
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import VariableHandle
from simdist.program.saved_parts import built
from simdist.program.tracing import active_tracer
from simdist.program.values import Aval
from simdist.variables.handles import adopted, has_variable, variable_of
from simdist.variables.independence import is_elementwise, require_independent, require_whole_or_elementwise
from simdist.variables.keras_copies import Role, begins_with_values
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, core_of, is_keras_optimizer, learning_rate_of
from simdist.variables.moved_state import MovedState
from simdist.variables.optimizer_attributes import Fingerprint, fingerprint_of
from simdist.variables.row_rule import (
    RowUpdate,
    changed_state,
    counting_kernel,
    has_state_of_unknown_tables,
    leaves_rows_alone,
    warn_of_dense_updates,
)
from simdist.variables.slot_optimizer import (
    SlotOptimizer,
    depends_on_values,
    keras_slot_optimizer,
    optax_slot_optimizer,
    renewed_slot_optimizer,
)
from simdist.variables.slots import OptimizerSlots, copies_of, require_one_value, unplaced, whole_of
from simdist.variables.state import Cell, Group, Layout, Owner, owner_of
from simdist.variables.update_rule import UpdateRule
from simdist.variables.variable import Variable

__all__ = ["OptimizerRule", "is_count"]

# Numbers of rows for which a rule keeps how it changes them: a step has one, or a few where its batches differ.
KEPT_FORMS = 32


class OptimizerRule(UpdateRule):
    """The rule by which an `Update` of an optimizer changes a group; one object for each set of variables.

    The first operands of its kernels are the group's arrays: cells, the optimizer's own state, and what else lies there.
    """

    def __init__(
        self,
        optimizer: KerasOptimizer | GradientTransformation,
        variables: Sequence[Variable],
        lazy_rows: bool = False,
        holder: object = None,
    ) -> None:
        self.optimizer = optimizer
        self.holder = optimizer if holder is None else holder
        self.lazy_rows = lazy_rows
        self.variables = list(variables)
        self.changes_each_alone: bool | None = None  # not asked yet (`simdist.variables.rule_parts`)
        self.is_used_once = False  # whether a step is about to apply it that is traced anew each time: outside of every other step
        self.slot_optimizers: dict[Owner, SlotOptimizer] = {}
        self.optimized: dict[Owner, list[tuple[int, Cell]]] = {}
        self.slots: OptimizerSlots | None = None
        self._begins_with_values: bool | None = None  # not tried yet
        self._is_independent = False  # not known yet
        self._known_cells: list[list[Cell]] = []  # of the variables, when the state was made for them
        self._fingerprint: Fingerprint = {}  # none yet
        self._of_rows: BoundedCache[tuple[tuple[Cell, Aval], ...], SlotOptimizer | None] = BoundedCache(KEPT_FORMS)
        self._leaves_alone: dict[tuple[int, ...], bool] = {}  # whether rows without a gradient stay, by the numbers of the tables

    def __repr__(self) -> str:
        return f"OptimizerRule({type(self.optimizer).__name__})"

    def join(
        self,
        owner: Owner,
        variables: Sequence[VariableHandle],
        cells: list[tuple[int, Cell]],
        layout: Layout,
    ) -> None:
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
        require_whole_or_elementwise(self.optimizer, slot_optimizer, own)
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
        self._of_rows.clear()
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
        self._of_rows.clear()
        self._leaves_alone.clear()
        self._fingerprint = present
        self.variables[0].placement.store.layout.outdate()

    def changes(self, variable: VariableHandle) -> bool:
        if is_keras_optimizer(self.optimizer):
            is_rate = adopted(learning_rate_of(core_of(self.optimizer))) is variable  # which a rule reads, and leaves as it is
            return has_variable(self.optimizer, variable) and not is_rate
        state = {id(cell) for slot_optimizer in self.slot_optimizers.values() for cell in slot_optimizer.cells}
        return any(id(cell) in state for cell in variable_of(variable).placement.cells)

    def _present_fingerprint(self) -> Fingerprint:
        return fingerprint_of(self.optimizer) if is_keras_optimizer(self.optimizer) else {}

    def _renewed(self, owner: Owner, changed: Sequence[str]) -> SlotOptimizer:
        assert is_keras_optimizer(self.optimizer)
        pairs = [(self.variables[number], cell) for number, cell in self.optimized[owner]]
        renewed = renewed_slot_optimizer(self.slot_optimizers[owner], self.optimizer, pairs, changed)
        require_whole_or_elementwise(self.optimizer, renewed, [cell for _, cell in pairs])
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
        except (TypeError, ValueError) as error:
            if [id(variable) for variable, _ in pairs] == list(map(id, self.variables)):  # `==` of variables compares their values
                raise
            raise InvalidArgumentError(
                f"The Optax rule cannot be used for {', '.join(cell.name for _, cell in pairs)}, which is what {pairs[0][1].task} holds of "
                f"{len(self.variables)} variables: {str(error).splitlines()[0]}. Each server applies it to the variables that it has. "
                "Give labels and masks as a function of them (lambda params: [...]), and not as a list for all; or make an optimizer for "
                "each part of the variables."
            ) from error

    def _values(self, pairs: Sequence[tuple[Variable, Cell]]) -> list[Array] | None:
        with jax.ensure_compile_time_eval():
            return self.variables[0].placement.store.unseen_cells([cell for _, cell in pairs])

    def build(self) -> None:
        """Create the optimizer's state for all variables, before a step needs it."""
        store = self.variables[0].placement.store
        for owner in dict.fromkeys(owner_of(cell) for variable in self.variables for cell in variable.placement.cells):
            self.join(owner, self.variables, [], store.layout)

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

    def state(self) -> dict[str, Variable]:
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

    def kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval]) -> Kernel:
        """The kernel that takes the group's arrays and the gradients, and gives the group's new arrays.

        Args:
            group: of the variables' cells and of the optimizer's state; perhaps with others, which it leaves alone.
            positions: in the group, of the cells that the gradients belong to.
            operand_avals: of the gradients.
        """
        owner, size = owner_of(group.cells[0]), len(group.cells)
        slot_optimizer = self.slot_optimizers[owner]
        own = [cell.position for variable in self.variables for cell in variable.placement.cells if owner_of(cell) == owner]

        def run(*arrays: jax.Array) -> list[jax.Array]:
            return changed_state(slot_optimizer, own, arrays[:size], dict(zip(positions, arrays[size:], strict=True)))

        with kept_state(), watching_reads(self._refuse_read):
            return kernel_of(f"apply {type(self.optimizer).__name__}", run, [*(cell.aval for cell in group.cells), *operand_avals])

    def counting_owners(self, replica: int) -> Sequence[Owner]:
        return list(dict.fromkeys(owner_of(cell) for variable in self.variables for cell in variable.placement.changed_by(replica)))

    def counting_group(self, owner: Owner) -> Group:
        return self.slot_optimizers[owner].cells[0].group

    def counting_kernel(self, group: Group) -> Kernel:
        owner = owner_of(group.cells[0])
        own = [cell.position for _, cell in self.optimized[owner]]
        with kept_state(), watching_reads(self._refuse_read):
            return counting_kernel(f"apply {type(self.optimizer).__name__}", group, self.slot_optimizers[owner], own)

    def row_kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval], rows: Sequence[tuple[int, Aval]]) -> Kernel:
        with kept_state(), watching_reads(self._refuse_read):
            return self._row_update(group, positions, operand_avals, rows).kernel(self._rows_only(group, rows))

    def row_sum_kernel(
        self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval], rows: Sequence[tuple[int, Aval]]
    ) -> Kernel:
        with kept_state(), watching_reads(self._refuse_read):
            return self._row_update(group, positions, operand_avals, rows, pairs=True).kernel(self._rows_only(group, rows))

    def _refuse_read(self, variable: VariableHandle) -> None:
        """Refuse what the rule reads while it is traced: kept with its program, it would be a constant.

        Raises:
            InvalidArgumentError: a variable other than those of a Keras optimizer, in a rule that is used more than once.
        """
        if self.is_used_once or (is_keras_optimizer(self.optimizer) and has_variable(self.optimizer, variable)):
            return
        raise InvalidArgumentError(
            f"{type(self.optimizer).__name__} reads the variable {variable.name!r}, for instance in its learning rate, and each later step "
            "would take the number of the first one. A rule is given the count of steps, values and gradients alone. Let a rate depend on "
            "the count; or assign it between steps: with Keras to optimizer.learning_rate, with Optax to what "
            "optax.inject_hyperparams(optax.sgd)(learning_rate=...) keeps in its state, sd.Optimizer(...).saved_state()."
        )

    def changes_rows_alone(self, group: Group, rows: Sequence[tuple[int, Aval]]) -> bool:
        return self._rows_only(group, rows) is not None

    def _row_update(
        self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval], rows: Sequence[tuple[int, Aval]], pairs: bool = False
    ) -> RowUpdate:
        owner = owner_of(group.cells[0])
        own = [cell for variable in self.variables for cell in variable.placement.cells if owner_of(cell) == owner]
        return RowUpdate(self.optimizer, group, own, self.slot_optimizers[owner], positions, operand_avals, rows, pairs)

    def _rows_only(self, group: Group, rows: Sequence[tuple[int, Aval]]) -> SlotOptimizer | None:
        """The slot optimizer of rows, in the place of tables, where the rule leaves all other rows alone; None where it changes them."""
        # Every replica of a step asks.
        return self._of_rows.get(
            tuple([(group.cells[position], aval) for position, aval in rows]), lambda: self._found_rows_only(group, rows)
        )

    def _found_rows_only(self, group: Group, rows: Sequence[tuple[int, Aval]]) -> SlotOptimizer | None:
        owner = owner_of(group.cells[0])
        counts = {id(group.cells[position]): aval for position, aval in rows}
        slot_optimizer, avals = self._with_counts(owner, counts)
        tables = [number for number, (_, cell) in enumerate(self.optimized[owner]) if id(cell) in counts]
        if len(tables) > 1 and has_state_of_unknown_tables(self.slot_optimizers[owner], [group.cells[position] for position, _ in rows]):
            return None
        if not is_elementwise(slot_optimizer, avals):
            return None
        key = tuple([self.optimized[owner][number][0] for number in tables])
        if not self.lazy_rows and key not in self._leaves_alone:  # found once, and not for each shard
            # Of no rows everything could be said.
            some = {cell: Aval((max(1, aval.shape[0]), *aval.shape[1:]), aval.dtype) for cell, aval in counts.items()}
            self._leaves_alone[key] = leaves_rows_alone(*self._with_counts(owner, some), tables)
        if self.lazy_rows or self._leaves_alone[key]:
            return slot_optimizer
        warn_of_dense_updates(type(self.optimizer).__name__, [group.cells[position] for position, _ in rows])
        return None

    def _with_counts(self, owner: Owner, counts: Mapping[int, Aval]) -> tuple[SlotOptimizer, list[Aval]]:
        """The slot optimizer of so many rows in the place of tables, which are given by identity; and the shapes of its cells."""
        held = [(self.variables[number], cell) for number, cell in self.optimized[owner]]
        cells = [(variable, Cell(cell.name, counts.get(id(cell), cell.aval), cell.task)) for variable, cell in held]
        build = keras_slot_optimizer if is_keras_optimizer(self.optimizer) else optax_slot_optimizer
        slot_optimizer = build(self.optimizer, cells)  # pyright: ignore[reportArgumentType]
        return slot_optimizer, [cell.aval for _, cell in cells]


def _path_of(role: Role, number: int) -> str:
    """The path of a variable of the state: the number of each slot, and of the variable that it belongs to."""
    return f"slots/{role.number}/{number}" if role.kind == "slot" else f"{role.kind}/{role.number}"


def is_count(path: str) -> bool:
    """Whether a path in an optimizer, behind the number of a rule, is that of the rule's count of steps."""
    return path.partition("/")[2] == _path_of(Role("iteration"), -1)
