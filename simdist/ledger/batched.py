"""The plan `vmap`: entries that do not depend on each other, as one batched call.

An entry belongs to the first level at which all its inputs are known. The entries of one level that call the same kernel are
computed by one ``vmap`` of it, each in a *lane*. For accelerators, where a thousand small kernels should be a few large ones; on a CPU
replay is faster, because stacking copies. `sharded.py` spreads the lanes over several devices.

What an entry costs here is a few microseconds of Python and no call of JAX: the results stay together (stack_lanes.py), the next call takes
them as they are, and rows of a table are gathered from its columns, which lie on the device.

Numbers: class E2. A batched kernel may add in another order, so this plan is chosen by name only (``numerics="vmap"``), never
by a stopwatch. Batch sizes are filled up to powers of two, so that few sizes are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, compress

import jax
import jax.numpy as jnp
import numpy as np

from simdist.ledger.entry import Branch, Entry, describe
from simdist.ledger.levels import Stretch
from simdist.ledger.pending import Pending
from simdist.ledger.registers import RegisterFile
from simdist.ledger.stack_lanes import Column, Holder, Lane, LaneStack, Numbers, cut_apart, gathered, put_together
from simdist.ledger.summed_calls import summed_calls, summing_kernel
from simdist.program.arrays import Array, Arrays, HostArray
from simdist.program.kernels import Kernel, compiler_options
from simdist.program.step_iterator import ColumnTable

__all__ = ["Batches", "BatchedFunction", "LaneFunction"]

LaneFunction = Callable[[Sequence[jax.Array], Sequence[jax.Array]], Sequence[jax.Array]]
"""A kernel, from the columns of a table and what else goes into one lane."""
BatchedFunction = Callable[[Sequence[Array], Sequence[Array]], Sequence[jax.Array]]
"""The same for all lanes: the columns of the table as they are, of all else an array [lanes, ...]."""
Given = tuple[list[Column], list[Arrays]]
"""For each bundle that a kernel reads, the numbers of all entries; for each entry, what it was fed."""

# Tables with more bytes than this stay on the host, and only the rows of a batch are sent to the device.
TABLE_BYTES = 1 << 30


class Batches:
    """Computes entries level by level, and keeps the batched kernels."""

    def __init__(self) -> None:
        self.on_host = jax.default_backend() == "cpu"
        self.finds_rows = not self.on_host  # also those of an entry by itself; on a host numpy is as fast
        self._by_row: dict[Kernel, BatchedFunction] = {}
        self._batched: dict[tuple[Kernel, int], BatchedFunction] = {}
        self._tables: dict[ColumnTable, tuple[jax.Array, ...]] = {}

    def run(self, entries: Sequence[Entry], branches: Sequence[Branch], pending: Pending, noted: Sequence[BaseException] = ()) -> None:
        """Compute entries; the results are loose in the files.

        Args:
            entries: the first ones of the queue.
            branches: the ledger's.
            pending: the queue, which those that are done leave, also where an error ends this early.
            noted: asks for a stop at the end of a call, as soon as there is something in it.
        """
        stretch, summed = Stretch(entries, pending.files), self.summed(pending, len(entries), branches)
        try:
            for level, calls in enumerate(stretch.levels):
                for code, of_level in calls.items():
                    left = [index for index in of_level if not stretch.done[index]] if summed else of_level
                    for indices in _in_calls(branches[code].site.kernel, left):
                        if noted:
                            return
                        with _named(branches[code].site.kernel, [entries[index] for index in indices]):
                            self._compute(stretch, indices, entries, branches, summed.get(indices[0], {}) if len(left) == 1 else {})
                stretch.forget(level)
        finally:
            if all(stretch.done):
                unheld = pending.unheld_after(len(entries))
                pending.put_registers(self._thinned(stretch.registers(), unheld, pending.files), unheld, len(entries))
            else:
                pending.put_loose(stretch.done, stretch.results())

    def _compute(
        self, stretch: Stretch, indices: Sequence[int], entries: Sequence[Entry], branches: Sequence[Branch], sums: dict[int, int]
    ) -> None:
        """Compute entries of one level that are one call, with the sums of their stacks where these are all that is needed of them."""
        branch = branches[entries[indices[0]][1]]
        read = [stretch.read(indices, position) for position in range(len(branch.site.reads))]
        given = read, [entries[index][4] for index in indices]
        if not sums:
            stretch.put(indices, self._call(branch, given))
            return
        made = self._alone(branch, summing_kernel(entries, branches, indices[0], sums), given)
        for position, adder in sums.items():
            stretch.put([adder], [made[position]])
            made[position] = ()
        stretch.put(indices, made)

    def summed(self, pending: Pending, count: int, branches: Sequence[Branch]) -> dict[int, dict[int, int]]:
        """The calls among the first entries that add up their stacks themselves: by their numbers (`summed_calls`)."""
        return summed_calls(pending.entries, count, branches, pending.files)

    def _call(self, branch: Branch, given: Given) -> Sequence[Holder]:
        """For each bundle that the kernel writes, what holds the numbers of all entries.

        Args:
            branch: what they all are.
            given: for each bundle that it reads, the numbers of all entries; for each entry, what it was fed.
        """
        kernel, (read, fed) = branch.site.kernel, given
        if len(fed) == 1 or not any(kernel.used):  # or there is nothing to stack: all lanes are equal
            return self._alone(branch, kernel, given)
        columns = self._columns(branch)
        key = (kernel, len(kernel.in_avals) - len(branch.site.fed) if columns else 0)
        batched = self._batched.get(key)
        if batched is None:
            batched = self._batched[key] = self.batched(_lane_function(*key))
        results = batched(columns, self._inputs(branch, read, fed, bool(columns)))
        return [LaneStack(part, self) for part in branch.site.split(tuple(results))]

    def _alone(self, branch: Branch, kernel: Kernel, given: Given) -> list[Holder]:
        """The results of the first entry by itself; where its rows are many, as those of all replicas, the device finds them."""
        (read, fed), table = given, branch.table
        first = Column([column.holders[0] for column in read], [column.lanes[0] for column in read])
        arrays = list(chain.from_iterable(first.apart()))
        columns = self._columns(branch) if self.finds_rows else ()
        if not columns or table is None:
            return list[Holder](branch.site.split(self.single(kernel, [*arrays, *branch.arguments(fed[0])])))
        by_row = self._by_row.get(kernel)
        if by_row is None:
            by_row = self._by_row[kernel] = jax.jit(_lane_function(kernel, len(arrays)), compiler_options=compiler_options())
        used = (*kernel.used[: len(arrays)], True, *kernel.used[len(arrays) + len(table.columns) :])
        return list[Holder](branch.site.split(tuple(by_row(columns, list(compress([*arrays, *fed[0]], used))))))

    def _inputs(self, branch: Branch, read: list[Column], fed: list[Arrays], by_row: bool) -> list[Array]:
        """Of all that the kernel uses one array [lanes, ...]; the numbers of its rows stand for the columns of a table."""
        used, lanes, inputs, start = branch.site.kernel.used, self.lanes(len(fed)), list[Array](), 0
        for column, avals in zip(read, branch.site.reads, strict=True):
            wanted = used[start : start + len(avals)]
            if any(wanted):
                inputs += compress(self.stacked(column, lanes), wanted)
            start += len(avals)
        wanted = used[start:]
        if by_row and branch.table is not None:
            wanted = (True, *wanted[len(branch.table.columns) :])
        else:
            fed = [tuple(branch.arguments(given)) for given in fed]
        for position in compress(range(len(wanted)), wanted):
            inputs.append(self._fed([given[position] for given in fed], lanes))
        return inputs

    def _columns(self, branch: Branch) -> tuple[jax.Array, ...]:
        """The columns of the table on the device; none where there is no table, or it has to stay on the host."""
        table = branch.table
        if table is None or table.pending or sum(column.nbytes for column in table.columns) > TABLE_BYTES:
            return ()
        if table not in self._tables:
            self._tables[table] = self.table(table.columns)
        return self._tables[table]

    def _fed(self, arrays: list[Array], lanes: int) -> Array:
        """One array [lanes, ...] of what the host passes."""
        if set(map(type, arrays)) != {np.ndarray}:
            return self.stacked(Column([(array,) for array in arrays], [0] * len(arrays)), lanes)[0]
        arrays += arrays[-1:] * (lanes - len(arrays))
        shape = (lanes, *arrays[0].shape)
        return np.concatenate(arrays).reshape(shape) if len(shape) > 1 else np.array(arrays)

    def _thinned(self, written: dict[int, Numbers], unheld: set[int], files: Sequence[RegisterFile]) -> dict[int, Numbers]:
        """The numbers of registers, with those of others that have to move: out of stacks most of whose lanes are not needed any more."""
        written = {register: numbers for register, numbers in written.items() if register not in unheld}
        found: dict[int, tuple[LaneStack, list[int], list[int]]] = {}  # a stack, and the registers and lanes of it that are needed
        before = [item for file in files for item in file.loose.items() if item[0] not in written and item[0] not in unheld]
        for register, numbers in chain(before, written.items()):
            if isinstance(numbers, Lane):
                stack = numbers.stack
                if id(stack) not in found:
                    found[id(stack)] = (stack, [], [])
                _, registers, lanes = found[id(stack)]
                registers.append(register)
                lanes.append(numbers.index)
        for stack, registers, lanes in found.values():
            if 2 * len(lanes) <= len(stack):
                written.update(zip(registers, self._taken_out(stack, lanes), strict=True))
        return written

    def _taken_out(self, stack: LaneStack, lanes: list[int]) -> Sequence[Numbers]:
        """Lanes without the others of their stack, which would stay alive with them."""
        if self.on_host or len(lanes) == 1:
            return self.cut(stack.leaves, lanes)
        rows = [*lanes, *lanes[-1:] * (self.lanes(len(lanes)) - len(lanes))]
        smaller = LaneStack(self.gathered(stack.leaves, np.array(rows, np.int32)), self)
        return [Lane(smaller, lane) for lane in range(len(lanes))]

    def stacked(self, column: Column, lanes: int) -> Sequence[Array]:
        """For each leaf of a bundle one array [lanes, ...]: that of the last call where it fits, else gathered in one call.

        Args:
            column: the bundle in each lane.
            lanes: how many there shall be; the last one is repeated.
        """
        stack, missing = column.one_stack(), lanes - len(column.lanes)
        if stack is not None:
            if len(stack) == lanes and column.lanes == list(range(len(column.lanes))):
                return stack.leaves
            return self.gathered(stack.leaves, np.array([*column.lanes, *column.lanes[-1:] * missing], np.int32))
        loose = column.apart()
        different = {tuple(map(id, one)): one for one in loose}
        if len(different) == len(loose):
            return self.together([*loose, *loose[-1:] * missing])
        # What many lanes share (variables, as a rule) is stacked once.
        numbers = {key: number for number, key in enumerate(different)}
        rows = [numbers[tuple(map(id, one))] for one in loose]
        pool = list(different.values())
        pool += pool[-1:] * ((1 << (len(pool) - 1).bit_length()) - len(pool))
        return self.gathered(self.pooled(pool), np.array([*rows, *rows[-1:] * missing], np.int32))

    # -- where the lanes lie: on the device that JAX uses by itself -----------------------------------------------

    def single(self, kernel: Kernel, arguments: list[Array]) -> Arrays:
        """The results of an entry that is alone in its batch."""
        return kernel(*arguments)

    def lanes(self, count: int) -> int:
        """How many lanes are computed for so many entries."""
        return 1 << (count - 1).bit_length()

    def batched(self, function: LaneFunction) -> BatchedFunction:
        """A function of the columns of a table and of arrays whose first axis is the lane, compiled."""
        return jax.jit(jax.vmap(function, in_axes=(None, 0)), compiler_options=compiler_options())

    def table(self, columns: Arrays) -> tuple[jax.Array, ...]:
        """The columns of a table on the device."""
        return tuple(jnp.asarray(column) for column in columns)

    def together(self, rows: Sequence[Arrays]) -> Sequence[Array]:
        """One array [lanes, ...] for each leaf, from the bundle of each lane."""
        return put_together(rows, self.on_host)

    def pooled(self, rows: Sequence[Arrays]) -> Sequence[Array]:
        """The same from bundles of which lanes will be made."""
        return put_together(rows, self.on_host)

    def gathered(self, stack: Sequence[Array], rows: HostArray) -> Sequence[jax.Array]:
        """Some rows of each leaf of a stack, for as many lanes."""
        return gathered(stack, rows)

    def cut(self, stack: Sequence[jax.Array], lanes: Sequence[int]) -> list[Arrays]:
        """Lanes of a stack by themselves."""
        return cut_apart(stack, lanes, self.on_host)


def _in_calls(kernel: Kernel, indices: list[int]) -> list[list[int]]:
    """Which entries are one call: all of them, unless the kernel calls back. Python of the user need not know what a lane is."""
    if kernel.calls_back:
        return [[index] for index in indices]
    return [indices] if indices else []


@contextmanager
def _named(kernel: Kernel, entries: Sequence[Entry]) -> Iterator[None]:
    """An error says where in the run it happened."""
    try:
        yield
    except Exception as error:
        others = f" and {len(entries) - 1} more in one batch" if len(entries) > 1 else ""
        error.add_note(f"while computing {kernel.name} of {describe(entries[0][5])}{others}")
        raise


def _lane_function(kernel: Kernel, first: int) -> LaneFunction:
    """The kernel as a function of those inputs that it uses: an optimizer's state, say, need not be stacked for a gradient.

    Args:
        kernel: what is called.
        first: the position of the first input that is a row of a table, if there is one.
    """

    def run(columns: Sequence[jax.Array], lane: Sequence[jax.Array]) -> Sequence[jax.Array]:
        given, arrays = iter(lane), list[jax.Array]()
        for position, (used, aval) in enumerate(zip(kernel.used, kernel.in_avals, strict=True)):
            if columns and position == first:
                rows = next(given)
                arrays += [column[rows] for column in columns]
            if not first <= position < first + len(columns):
                arrays.append(next(given) if used else jnp.zeros(aval.shape, aval.dtype))
        return kernel.function(*arrays)

    return run
