"""The plans by which entries are computed: one call after the other, many in one scan, or wave by wave.

XLA does not promise that a computation has the same last bits inside a scan as on its own. Almost all kernels do (they are
compiled without fused multiply-add); a few reductions are vectorised in another order. So a kernel is tried before it is
replayed: its first entries are computed both ways, and one whose bits differ is called by itself from then on. The
equality of the plans (class E1) does not rest on hope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simdist.program.entry import Branch, Entry, describe
from simdist.program.kernels import Kernel
from simdist.program.registers import INDEX_BITS, RegisterFile
from simdist.program.replay import Machine
from simdist.program.sharded_waves import ShardedWaves
from simdist.program.values import BundleType, num_bytes
from simdist.program.waves import Waves

__all__ = ["Plans"]

# A stretch shorter than this is computed call by call: compiling a scan would take longer.
REPLAY_FROM = 2_048
# A call that reads more than this (the gradients of many replicas) is made by itself.
WIDE_BYTES = 2 << 20
# Entries that are computed both ways, to see whether the bits agree.
TRIAL = 64


class Plans:
    """Computes entries into the register files of a ledger.

    Args:
        numerics: the ledger's word: "replay", "loop", "vmap" and "shard_map" fix the plan.
        branches: the ledger's, which grow.
        files: the ledger's, which grow.
        devices: of "shard_map".

    Attributes:
        waves: of "vmap" and "shard_map".
        proved, refuted: kernels that have the same bits in a scan, and those that have not.
    """

    def __init__(self, numerics: str, branches: list[Branch], files: dict[BundleType, RegisterFile], devices: Sequence[Any] = ()) -> None:
        self.numerics = numerics
        self.branches = branches
        self.files = files
        self.machine = Machine()
        self.waves = ShardedWaves(devices) if numerics == "shard_map" else Waves()
        self.proved: set[int] = set()
        self.refuted: set[int] = set()

    def run(self, entries: Sequence[Entry]) -> None:
        """Compute entries in order."""
        if not entries:
            return
        if self.numerics == "replay" or (self.numerics == "deferred" and len(entries) >= REPLAY_FROM and not self._wide(entries)):
            self._replay(entries)
        elif self.numerics in ("vmap", "shard_map"):
            self.waves.run(entries, self.branches, list(self.files.values()))
        else:
            self._loop(entries)

    def _wide(self, entries: Sequence[Entry]) -> bool:
        """Whether some call reads so much that a scan would spend its time on moving registers."""
        codes = {entry[1] for entry in entries}
        return any(sum(map(num_bytes, self.branches[code].site.reads)) > WIDE_BYTES for code in codes)

    def run_kernel(self, kernel: Kernel, arguments: Sequence[Any], where: Any) -> tuple[Any, ...]:
        """Call a kernel; its error says where in the run it happened."""
        try:
            return kernel(*arguments)
        except Exception as error:
            error.add_note(f"while computing {kernel.name} of {describe(where)}")
            raise

    def _loop(self, entries: Sequence[Entry]) -> None:
        files = list(self.files.values())
        for _, code, reads, writes, fed, where in entries:
            branch = self.branches[code]
            arrays: list[Any] = []
            for register in reads:
                arrays.extend(files[register >> INDEX_BITS].get(register))
            results = self.run_kernel(branch.site.kernel, [*arrays, *branch.arguments(fed)], where)
            for register, part in zip(writes, branch.site.split(results), strict=True):
                files[register >> INDEX_BITS].loose[register] = part

    def _replay(self, entries: Sequence[Entry]) -> None:
        kernels = {id(self.branches[code].site.kernel) for code in {entry[1] for entry in entries}}
        if kernels & self.refuted:
            self._loop(entries)
        elif kernels <= self.proved:
            self.machine.run(entries, self.branches, self.files)
        else:
            self._try(entries[:TRIAL])
            if len(entries) > TRIAL:
                self._replay(entries[TRIAL:])

    def _try(self, entries: Sequence[Entry]) -> None:
        """Compute entries both ways, and note which kernels may be replayed."""
        files = list(self.files.values())
        registers = sorted({register for entry in entries for register in (*entry[2], *entry[3])})
        # Not every register that is only written has been given numbers already.
        before = {r: files[r >> INDEX_BITS].get(r) for r in registers if files[r >> INDEX_BITS].has(r)}
        self._loop(entries)
        called = {r: files[r >> INDEX_BITS].get(r) for r in registers}
        for register, arrays in before.items():
            files[register >> INDEX_BITS].loose[register] = arrays
        self.machine.run(entries, self.branches, self.files)
        kernels = {id(self.branches[entry[1]].site.kernel) for entry in entries}
        if all(_equal(called[r], files[r >> INDEX_BITS].get(r)) for r in registers):
            self.proved |= kernels
        else:
            self.refuted |= kernels
            for register, arrays in called.items():
                files[register >> INDEX_BITS].loose[register] = arrays


def _equal(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(first, second, strict=True))
