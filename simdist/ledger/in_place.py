"""Changes in place: an update of rows writes into the buffer of the version before, where nothing needs that version any more.

Versions of a table are registers like all others. An update of rows makes a new one from one that is dead after it: no pending entry reads
its tables, and no bundle holds it. Then the buffer is donated to the computation, which XLA lets write into it; otherwise the table is
copied. So how much is copied is a matter of time, and never of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import jax

from simdist.caches import of_each
from simdist.ledger.entry import Branch, Entry, Site
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.program.arrays import Array
from simdist.program.kernels import Kernel, compiler_options
from simdist.program.row_kernels import row_form

__all__ = ["DonatingKernel", "InPlace", "changes_rows", "donating", "uses_tables"]


class InPlace:
    """Finds the updates of rows among the entries of a queue that may write in place, and makes them.

    Args:
        entries: all that are pending.
        branches: the ledger's.
        files: the ledger's.

    Attributes:
        dead: numbers of such entries.
    """

    def __init__(self, entries: Sequence[Entry], branches: Sequence[Branch], files: Sequence[RegisterFile]) -> None:
        self.files = files
        self.branches = branches
        self.dead: dict[int, Entry] = {}
        if any(file.tables for file in files):
            self._find(entries)

    def _find(self, entries: Sequence[Entry]) -> None:
        free = {file.number: set(file.free) for file in self.files if file.tables}
        kinds: dict[int, tuple[bool, list[int]]] = {}  # of each branch, whether it changes rows, and which reads use tables
        needed: dict[int, bool] = {}  # by register: whether the next entry that concerns its tables reads them; else it writes them
        for number in range(len(entries) - 1, -1, -1):
            entry = entries[number]
            _, code, reads, writes, _, _ = entry
            if code not in kinds:
                kinds[code] = self._kind(self.branches[code].site)
            changes, using = kinds[code]
            if changes:
                register = reads[0]
                if not needed.get(register, register not in free.get(register >> INDEX_BITS, ())):
                    self.dead[number] = entry
            for register in writes:
                if register >> INDEX_BITS in free:
                    needed[register] = False
            for position in using:
                if reads[position] >> INDEX_BITS in free:
                    needed[reads[position]] = True

    def _kind(self, site: Site) -> tuple[bool, list[int]]:
        tables = {file.avals: file.tables for file in self.files if file.tables}
        using = [number for number, avals in enumerate(site.reads) if avals in tables and uses_tables(site, number, tables[avals])]
        return changes_rows(site), using

    def run(self, number: int, run_kernel: Callable[[Kernel | DonatingKernel, Sequence[Array]], tuple[jax.Array, ...]]) -> None:
        """Make an update in place; what it was made from is gone. Arrays that came from outside are copied, once."""
        _, code, reads, writes, fed, _ = self.dead[number]
        branch = self.branches[code]
        arrays: list[Array] = []
        for register in reads:
            arrays.extend(self.files[register >> INDEX_BITS].get(register))
        file = self.files[reads[0] >> INDEX_BITS]
        kernel = branch.site.kernel if reads[0] in file.borrowed else donating(branch.site.kernel, file.tables)
        results = run_kernel(kernel, [*arrays, *branch.arguments(fed)])
        file.lose_tables(reads[0])
        for register, part in zip(writes, branch.site.split(results), strict=True):
            self.files[register >> INDEX_BITS].put(register, part)


def changes_rows(site: Site) -> bool:
    """Whether a site changes rows of its first bundle, which is of a kind with tables."""
    form = row_form(site.kernel)
    return form is not None and bool(site.files) and bool(site.files[0].tables) and any(port.output is not None for port in form.ports)


def uses_tables(site: Site, position: int, tables: frozenset[int]) -> bool:
    """Whether the kernel of a site uses the tables of one of the bundles that it reads."""
    first = list(accumulate(map(len, site.reads), initial=0))[position]
    return any(site.kernel.used[first + table] for table in tables)


class DonatingKernel:
    """A kernel of rows, compiled so that it writes into those of these inputs that are tables which it changes."""

    def __init__(self, kernel: Kernel, inputs: frozenset[int]) -> None:
        form = row_form(kernel)
        assert form is not None
        tables = tuple([port.input for port in form.ports if port.output is not None and port.input in inputs])
        self.name = kernel.name
        self.jitted = jax.jit(kernel.function, donate_argnums=tables, compiler_options=compiler_options())

    def __call__(self, *arrays: Array) -> tuple[jax.Array, ...]:
        return tuple(self.jitted(*arrays))


@of_each("kernels that change tables in place")
def _by_inputs(kernel: Kernel) -> dict[frozenset[int], DonatingKernel]:
    return {}


def donating(kernel: Kernel, inputs: frozenset[int]) -> DonatingKernel:
    """A kernel of rows, compiled so that it writes into the tables that it changes.

    Args:
        inputs: numbers of those inputs that nobody needs afterwards.
    """
    known = _by_inputs(kernel)
    if inputs not in known:
        known[inputs] = DonatingKernel(kernel, inputs)
    return known[inputs]
