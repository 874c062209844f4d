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
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from simdist.program.entry import Branch, Entry
from simdist.program.kernels import Kernel, compiler_options
from simdist.program.registers import INDEX_BITS, RegisterFile

__all__ = ["LaneFunction", "Waves"]

LaneFunction = Callable[..., Sequence[jax.Array]]
Version = tuple[int, int]  # a register, and how often it had been written before


class Waves:
    """Computes entries wave by wave, and keeps the batched kernels."""

    def __init__(self) -> None:
        self._batched: dict[int, LaneFunction] = {}

    def run(self, entries: Sequence[Entry], branches: Sequence[Branch], files: Sequence[RegisterFile]) -> None:
        """Compute all entries; the results are loose in the files."""
        reads, writes, waves = _arranged(entries)
        left = _readers(reads, writes)
        values: dict[Version, tuple[Any, ...]] = {}
        for wave in waves:
            for code, places in wave.items():
                branch = branches[code]
                arguments = [
                    [
                        *(array for version in reads[place] for array in _value(version, values, files)),
                        *branch.arguments(entries[place][4]),
                    ]
                    for place in places
                ]
                for place, results in zip(places, self._call(branch.site.kernel, arguments), strict=True):
                    values.update(zip(writes[place], branch.site.split(results), strict=True))
                    left.subtract(reads[place])
                    for version in (*reads[place], *writes[place]):
                        if not left[version]:
                            values.pop(version, None)
        for (register, _), arrays in values.items():
            files[register >> INDEX_BITS].loose[register] = arrays

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


def _arranged(entries: Sequence[Entry]) -> tuple[list[list[Version]], list[list[Version]], list[dict[int, list[int]]]]:
    """What each entry reads and writes, with registers told apart by their writers; and the waves: places by branch."""
    count: dict[int, int] = {}
    level_of: dict[Version, int] = {}
    reads: list[list[Version]] = []
    writes: list[list[Version]] = []
    waves: list[dict[int, list[int]]] = []
    for place, (_, code, read, written, _, _) in enumerate(entries):
        reads.append([(register, count.get(register, 0)) for register in read])
        level = max((level_of.get(version, -1) for version in reads[-1]), default=-1) + 1
        made: list[Version] = []
        for register in written:
            count[register] = count.get(register, 0) + 1
            made.append((register, count[register]))
            level_of[made[-1]] = level
        writes.append(made)
        while len(waves) <= level:
            waves.append({})
        waves[level].setdefault(code, []).append(place)
    return reads, writes, waves


def _readers(reads: list[list[Version]], writes: list[list[Version]]) -> Counter[Version]:
    """How often each version is still to be read; the last one of a register once more, by whoever looks at it afterwards."""
    last = {register: (register, count) for made in writes for register, count in made}
    return Counter([*(version for read in reads for version in read), *last.values()])


def _value(version: Version, values: dict[Version, tuple[Any, ...]], files: Sequence[RegisterFile]) -> tuple[Any, ...]:
    found = values.get(version)
    return found if found is not None else files[version[0] >> INDEX_BITS].get(version[0])
