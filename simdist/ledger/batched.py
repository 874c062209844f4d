"""Waves: entries that do not wait for each other, as one batched call.

An entry belongs to the first wave in which all its inputs are known. The entries of one wave that call the same kernel are
stacked, each a *lane*, computed by one ``vmap`` of it, and cut apart again. For accelerators, where a thousand small kernels
should be a few large ones; on a CPU replay is faster, because stacking copies. `sharded_waves.py` spreads the lanes over several
devices.

Numbers: class E2. A batched kernel may add in another order, so this plan is chosen by name only (``numerics="vmap"``), never
by a stopwatch. Wave sizes are filled up to powers of two, so that few sizes are compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from simdist.ledger.entry import Branch, Entry
from simdist.ledger.pending import Pending
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.program.kernels import Kernel, compiler_options

__all__ = ["LaneFunction", "Batches"]

LaneFunction = Callable[..., Sequence[jax.Array]]
Version = tuple[int, int]  # a register, and how often it had been written before


class Batches:
    """Computes entries wave by wave, and keeps the batched kernels."""

    def __init__(self) -> None:
        self._batched: dict[int, LaneFunction] = {}

    def run(self, entries: Sequence[Entry], branches: Sequence[Branch], pending: Pending, noted: Sequence[Any] = ()) -> None:
        """Compute entries; the results are loose in the files.

        Args:
            entries: the first ones of the queue.
            branches: the ledger's.
            pending: the queue, which those that are done leave, also where an error ends this early.
            noted: asks for a stop at the end of a call, as soon as there is something in it.
        """
        lanes = _Lanes(entries, branches, pending.files)
        try:
            for code, indices in lanes.calls():
                if noted:
                    break
                results = self._call(branches[code].site.kernel, [lanes.arguments(index) for index in indices])
                for index, result in zip(indices, results, strict=True):
                    lanes.put(index, result)
        finally:
            pending.put_loose(lanes.done, lanes.results())

    def _call(self, kernel: Kernel, arguments: list[list[Any]]) -> list[tuple[Any, ...]]:
        if len(arguments) == 1 or not any(kernel.used):  # or there is nothing to stack: all lanes are equal
            return [self.single(kernel, arguments[0])] * len(arguments)
        batched = self._batched.get(id(kernel))
        if batched is None:
            batched = self._batched[id(kernel)] = self.batched(jax.vmap(_of_used(kernel)))
        filled = [*arguments, *[arguments[-1]] * (self.lanes(len(arguments)) - len(arguments))]
        columns = [column for column, used in zip(zip(*filled, strict=True), kernel.used, strict=True) if used]
        return self.cut(batched(*self.stacked(columns)), len(arguments))

    # -- where the lanes lie: on the device that JAX uses by itself -----------------------------------------------

    def single(self, kernel: Kernel, arguments: list[Any]) -> tuple[Any, ...]:
        """The results of an entry that is alone in its wave."""
        return kernel(*arguments)

    def lanes(self, count: int) -> int:
        """How many lanes are computed for so many entries."""
        return 1 << (count - 1).bit_length()

    def batched(self, function: LaneFunction) -> LaneFunction:
        """A function of arrays whose first axis is the lane, compiled."""
        return jax.jit(function, compiler_options=compiler_options())

    def stacked(self, columns: list[tuple[Any, ...]]) -> list[jax.Array]:
        """For each input of the kernel one array, from that of each lane."""
        return [jnp.stack(column) for column in columns]

    def cut(self, results: Sequence[jax.Array], count: int) -> list[tuple[Any, ...]]:
        """The results of the first lanes, each by itself."""
        return [tuple(result[lane] for result in results) for lane in range(count)]


def _of_used(kernel: Kernel) -> LaneFunction:
    """The kernel as a function of those inputs that it uses: an optimizer's state, say, need not be stacked for a gradient."""

    def run(*arrays: Any) -> Sequence[jax.Array]:
        given = iter(arrays)
        pairs = zip(kernel.used, kernel.in_avals, strict=True)
        return kernel.function(*[next(given) if used else jnp.zeros(aval.shape, aval.dtype) for used, aval in pairs])

    return run


class _Lanes:
    """The entries of a stretch, what they read and write, and what is known by now.

    Attributes:
        done: for each entry, whether its results are known.
    """

    def __init__(self, entries: Sequence[Entry], branches: Sequence[Branch], files: Sequence[RegisterFile]) -> None:
        self.entries = entries
        self.branches = branches
        self.files = files
        self.done = [False] * len(entries)
        self._reads, self._writes, self._waves = _arranged(entries)
        self._left = _readers(self._reads, self._writes)
        self._values: dict[Version, tuple[Any, ...]] = {}

    def calls(self) -> Iterator[tuple[int, list[int]]]:
        """(branch, places of its entries) of each batched call, wave by wave."""
        for wave in self._waves:
            yield from wave.items()

    def arguments(self, index: int) -> list[Any]:
        """What an entry's kernel is called with."""
        read = [array for version in self._reads[index] for array in self._value(version)]
        return [*read, *self.branches[self.entries[index][1]].arguments(self.entries[index][4])]

    def put(self, index: int, results: tuple[Any, ...]) -> None:
        """Keep the results of an entry, and forget what nobody reads again."""
        writes = self._writes[index]
        self._values.update(zip(writes, self.branches[self.entries[index][1]].site.split(results), strict=True))
        # From here on it is not computed again, so what it has read may go.
        self.done[index] = True
        self._left.subtract(self._reads[index])
        for version in (*self._reads[index], *writes):
            if not self._left[version]:
                self._values.pop(version, None)

    def results(self) -> list[list[tuple[Any, ...] | None]]:
        """For each entry that is done, its results, as far as anybody needs them."""
        return [list(map(self._values.get, writes)) for writes, done in zip(self._writes, self.done, strict=True) if done]

    def _value(self, version: Version) -> tuple[Any, ...]:
        found = self._values.get(version)
        return found if found is not None else self.files[version[0] >> INDEX_BITS].get(version[0])


def _arranged(entries: Sequence[Entry]) -> tuple[list[list[Version]], list[list[Version]], list[dict[int, list[int]]]]:
    """What each entry reads and writes, with registers told apart by their writers; and the waves: places by branch."""
    count: dict[int, int] = {}
    level_of: dict[Version, int] = {}
    reads: list[list[Version]] = []
    writes: list[list[Version]] = []
    batches: list[dict[int, list[int]]] = []
    for index, (_, code, read, written, _, _) in enumerate(entries):
        reads.append([(register, count.get(register, 0)) for register in read])
        level = max((level_of.get(version, -1) for version in reads[-1]), default=-1) + 1
        made: list[Version] = []
        for register in written:
            count[register] = count.get(register, 0) + 1
            made.append((register, count[register]))
            level_of[made[-1]] = level
        writes.append(made)
        while len(batches) <= level:
            batches.append({})
        batches[level].setdefault(code, []).append(index)
    return reads, writes, batches


def _readers(reads: list[list[Version]], writes: list[list[Version]]) -> Counter[Version]:
    """How often each version is still to be read; the last one of a register once more, by whoever looks at it afterwards."""
    last = {register: (register, count) for made in writes for register, count in made}
    return Counter([*(version for read in reads for version in read), *last.values()])
