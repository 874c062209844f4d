"""The update rule of an optimizer: how it changes the cells of each task.

An update is applied to each group of cells by itself, on the task that holds them, with the optimizer's slots, its count of
steps and its learning rate beside the cells. That gives the result of one device where the parts are independent of each other
(`simdist.variables.independence`): an update that reduces over a whole variable (LAMB, Adafactor) is refused for sharded
variables, and one that reduces over all variables (a global norm in an Optax chain) for variables on several servers.

An update that changes variables of some groups alone is counted by the others, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax

from simdist.caches import BoundedCache
from simdist.errors import InvalidArgumentError
from simdist.process_state import kept_state
from simdist.program.fixed_reads import watching_reads
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import VariableHandle
from simdist.program.values import Aval
from simdist.variables.handles import adopted, has_variable, variable_of
from simdist.variables.independence import VariableCells, is_elementwise, numbers_of
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, core_of, is_keras_optimizer, learning_rate_of
from simdist.variables.layout import Layout
from simdist.variables.row_rule import (
    RowUpdate,
    changed_state,
    counting_kernel,
    has_state_of_unknown_tables,
    leaves_rows_alone,
    warn_of_dense_updates,
    warn_of_rule_of_tables,
    warn_of_sums_of_steps,
)
from simdist.variables.rule_state import RuleState
from simdist.variables.slot_optimizer import (
    SlotOptimizer,
    keras_slot_optimizer,
    optax_slot_optimizer,
)
from simdist.variables.state import Cell, Group, Owner, owner_of
from simdist.variables.update_rule import UpdateRule
from simdist.variables.variable import Variable

__all__ = ["OptimizerRule"]

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
        self.lazy_rows = lazy_rows
        self.variables = list(variables)
        self.state = RuleState(optimizer, self.variables, optimizer if holder is None else holder, self._forget_rows)
        self.changes_each_alone: bool | None = None  # not asked yet (`simdist.variables.rule_parts`)
        self.is_used_once = False  # whether a step is about to apply it that is traced anew each time: outside of every other step
        self._of_rows: BoundedCache[tuple[tuple[Cell, Aval], ...], SlotOptimizer | None] = BoundedCache(KEPT_FORMS)
        self._leaves_alone: dict[tuple[int, ...], bool] = {}  # whether rows without a gradient stay, by the numbers of the tables
        self._follows_shapes: dict[tuple[int, ...], bool] = {}  # whether it does with some rows something else than with tables
        self._named: set[tuple[int, ...]] = set()  # tables for which was said that lazy_rows has no effect

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
        self.state.join(owner, layout)

    def changes(self, variable: VariableHandle) -> bool:
        if is_keras_optimizer(self.optimizer):
            is_rate = adopted(learning_rate_of(core_of(self.optimizer))) is variable  # which a rule reads, and leaves as it is
            return has_variable(self.optimizer, variable) and not is_rate
        state = {id(cell) for slot_optimizer in self.state.slot_optimizers.values() for cell in slot_optimizer.cells}
        return any(id(cell) in state for cell in variable_of(variable).placement.cells)

    def has_named(self, variable: Variable) -> bool:
        """Whether it has said of a table that lazy_rows has no effect, because of the rule."""
        return any(self.variables[number] is variable for key in self._named for number in key)

    def kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval]) -> Kernel:
        """The kernel that takes the group's arrays and the gradients, and gives the group's new arrays.

        Args:
            group: of the variables' cells and of the optimizer's state; perhaps with others, which it leaves alone.
            positions: in the group, of the cells that the gradients belong to.
            operand_avals: of the gradients.
        """
        owner, size = owner_of(group.cells[0]), len(group.cells)
        slot_optimizer = self.state.slot_optimizers[owner]
        own = [cell.position for variable in self.variables for cell in variable.placement.cells if owner_of(cell) == owner]

        def run(*arrays: jax.Array) -> list[jax.Array]:
            return changed_state(slot_optimizer, own, arrays[:size], dict(zip(positions, arrays[size:], strict=True)))

        with kept_state(), watching_reads(self._refuse_read):
            return kernel_of(f"apply {type(self.optimizer).__name__}", run, [*(cell.aval for cell in group.cells), *operand_avals])

    def counting_owners(self, replica: int) -> Sequence[Owner]:
        return list(dict.fromkeys(owner_of(cell) for variable in self.variables for cell in variable.placement.changed_by(replica)))

    def counting_group(self, owner: Owner) -> Group:
        return self.state.slot_optimizers[owner].cells[0].group

    def counting_kernel(self, group: Group) -> Kernel:
        owner = owner_of(group.cells[0])
        own = [cell.position for _, cell in self.state.optimized[owner]]
        with kept_state(), watching_reads(self._refuse_read):
            return counting_kernel(f"apply {type(self.optimizer).__name__}", group, self.state.slot_optimizers[owner], own)

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

    def _forget_rows(self) -> None:
        self._of_rows.clear()
        self._leaves_alone.clear()
        self._follows_shapes.clear()

    def _row_update(
        self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval], rows: Sequence[tuple[int, Aval]], pairs: bool = False
    ) -> RowUpdate:
        owner = owner_of(group.cells[0])
        own = [cell for variable in self.variables for cell in variable.placement.cells if owner_of(cell) == owner]
        return RowUpdate(self.optimizer, group, own, self.state.slot_optimizers[owner], positions, operand_avals, rows, pairs)

    def _rows_only(self, group: Group, rows: Sequence[tuple[int, Aval]]) -> SlotOptimizer | None:
        """The slot optimizer of rows, in the place of tables, where the rule leaves all other rows alone; None where it changes them."""
        # Every replica of a step asks.
        return self._of_rows.get(
            tuple([(group.cells[position], aval) for position, aval in rows]), lambda: self._found_rows_only(group, rows)
        )

    def _found_rows_only(self, group: Group, rows: Sequence[tuple[int, Aval]]) -> SlotOptimizer | None:
        owner = owner_of(group.cells[0])
        counts = {id(group.cells[position]): aval for position, aval in rows}
        slot_optimizer, of_rows = self._with_counts(owner, counts)
        tables = [number for number, (_, cell) in enumerate(self.state.optimized[owner]) if id(cell) in counts]
        changed = [group.cells[position] for position, _ in rows]
        if len(tables) > 1 and has_state_of_unknown_tables(self.state.slot_optimizers[owner], changed):
            return None
        key = tuple([self.state.optimized[owner][number][0] for number in tables])
        if key not in self._follows_shapes:  # found once, and not for each shard
            of_tables = [(self.variables[number], cell) for number, cell in self.state.optimized[owner]]
            known = numbers_of(self.optimizer, self.state.slot_optimizers[owner], of_tables)
            self._follows_shapes[key] = numbers_of(self.optimizer, slot_optimizer, of_rows) != known
        if self._follows_shapes[key] or not is_elementwise(self.optimizer, slot_optimizer, of_rows, tables):
            if self.lazy_rows and key not in self._named:
                self._named.add(key)
                warn_of_rule_of_tables(type(self.optimizer).__name__, changed)
            return None
        adds_up_steps = not self.state.slot_optimizers[owner].summed.isdisjoint(tables)
        if self.lazy_rows and adds_up_steps and key not in self._named:
            self._named.add(key)
            warn_of_sums_of_steps(changed)
        # Where a sum of several steps is applied, other rows are in it, too.
        is_lazy = self.lazy_rows and not adds_up_steps
        if not is_lazy and key not in self._leaves_alone:
            # Of no rows everything could be said.
            some = {cell: Aval((max(1, aval.shape[0]), *aval.shape[1:]), aval.dtype) for cell, aval in counts.items()}
            of_some, cells = self._with_counts(owner, some)
            self._leaves_alone[key] = leaves_rows_alone(of_some, [cell.aval for _, cell in cells], tables)
        if is_lazy or self._leaves_alone[key]:
            return slot_optimizer
        if not self.lazy_rows:
            warn_of_dense_updates(type(self.optimizer).__name__, changed)
        return None

    def _with_counts(self, owner: Owner, counts: Mapping[int, Aval]) -> tuple[SlotOptimizer, VariableCells]:
        """The slot optimizer of so many rows in the place of tables, which are given by identity; and its cells."""
        held = [(self.variables[number], cell) for number, cell in self.state.optimized[owner]]
        cells = [(variable, Cell(cell.name, counts.get(id(cell), cell.aval), cell.task)) for variable, cell in held]
        build = keras_slot_optimizer if is_keras_optimizer(self.optimizer) else optax_slot_optimizer
        return build(self.optimizer, cells), cells  # pyright: ignore[reportArgumentType]
