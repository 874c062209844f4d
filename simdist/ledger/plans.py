"""The plans by which entries are computed: one call after the other, many in one scan, or in batches.

In a scan, a kernel is compiled apart from what stands around it (`simdist.program.apart`), so that it has the bits that it has on its own.
XLA does not promise them. So a kernel is tried before it is replayed: its first entries are computed both ways, and one whose bits
differ is called by itself from then on. The equality of the plans (class E1) does not rest on hope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np

from simdist.ledger.batched import Batches
from simdist.ledger.call_by_call import CallByCall
from simdist.ledger.entry import Branch, Entry
from simdist.ledger.failed_scans import warn_of_defect
from simdist.ledger.heap import Heap
from simdist.ledger.in_place import InPlace
from simdist.ledger.pending import Pending
from simdist.ledger.registers import INDEX_BITS, RegisterFile, index_of
from simdist.ledger.replay import CHUNK, Machine
from simdist.ledger.sharded import JaxDevice, ShardedBatches
from simdist.ledger.table_chains import Passage
from simdist.program.arrays import Array, Arrays, HostArray
from simdist.program.kernels import Kernel
from simdist.program.values import BundleType, num_bytes

__all__ = ["REPLAY_FROM", "ComputePlans"]

# A stretch shorter than this is computed call by call: compiling a scan would take longer.
REPLAY_FROM = 2_048
# The same for a scan that is compiled already: one chunk.
COMPILED_FROM = CHUNK
# A call that reads more than this (the gradients of many replicas) is made by itself.
WIDE_BYTES = 2 << 20
# A call that reads more than this takes longer than to note it; it is not kept for a scan or for a batch of several steps. Tables do not
# count: of many of them few rows are read, and where all of them are, the numbers take so long that little is gained beside the schedule.
LONG_BYTES = 1 << 18
# Entries that are computed both ways, to see whether the bits agree.
TRIAL = 64

BEGUN_EARLY = ("deferred", "loop", "vmap")
"""The words of numerics with which long calls are begun beside the schedule."""
BATCHED = ("vmap", "shard_map")
"""The words of numerics with which entries that do not depend on each other are one call."""


class ComputePlans:
    """Computes the first entries of a ledger's queue into its register files.

    Args:
        numerics: the ledger's word: "replay", "loop", "vmap" and "shard_map" fix the plan.
        pending: the ledger's queue.
        branches: the ledger's, which grow.
        files: the ledger's, which grow.
        devices: of "shard_map".

    Attributes:
        batches: of "vmap" and "shard_map".
        proved: kernels that have the same bits in a scan.
        refuted: kernels that have not, and those of a scan that failed.
    """

    def __init__(
        self,
        numerics: str,
        pending: Pending,
        branches: list[Branch],
        files: dict[BundleType, RegisterFile],
        devices: Sequence[JaxDevice] = (),
    ) -> None:
        self.numerics = numerics
        self.pending = pending
        self.branches = branches
        self.files = files
        self.machine = Machine()
        self.calls = CallByCall(pending, branches)
        self.batches = ShardedBatches(devices) if numerics == "shard_map" else Batches()
        self.proved: set[Kernel] = set()
        self.refuted: set[Kernel] = set()
        self._long: dict[int, int] = {}  # of each branch, what a call reads, if it is long
        self._num_called = 1  # entries to call where no scan can go on: each time twice as many, as each look goes through the queue

    def run(self, count: int, noted: Sequence[BaseException] = (), wait: bool = True) -> None:
        """Compute the first entries of the queue; those that are done leave it.

        Args:
            count: how many.
            noted: asks for a stop, as soon as there is something in it.
            wait: whether the numbers are needed now; a scan may go on otherwise.
        """
        entries = self.pending.entries[:count]
        if self.pending.has_tables and self._have_tables(entries):
            self._with_tables(entries, noted)
        elif self.numerics == "replay" or (self.numerics == "deferred" and self._is_long(entries) and not self._wide(entries)):
            self._replay(entries, noted, wait)
        elif self.numerics in BATCHED:
            self.batches.run(entries, self.branches, self.pending, noted)
        else:
            self.calls.run(entries, noted)

    def add_sums(self, needed: list[bool]) -> None:
        """Add to the entries of the queue that are needed now what can be computed together with them."""
        for call, sums in self.batches.summed(self.pending, len(needed), self.branches).items() if self.numerics in BATCHED else ():
            for adder in sums.values():
                needed[adder] |= needed[call]

    def long_bytes(self, entries: Iterable[Entry]) -> int:
        """How many bytes the long ones of these entries read: they are better begun beside the schedule than kept for a scan or a batch."""
        return sum(map(self._long_bytes_of, [entry[1] for entry in entries])) if self.numerics in BEGUN_EARLY else 0

    @property
    def has_long_calls(self) -> bool:
        """Whether some entry that `long_bytes` was asked for was long."""
        return any(self._long.values())

    def _long_bytes_of(self, code: int) -> int:
        known = self._long.get(code)
        if known is None:
            read_bytes = self._read_bytes(code)
            known = self._long[code] = read_bytes if read_bytes > LONG_BYTES else 0
        return known

    def _is_long(self, entries: Sequence[Entry]) -> bool:
        """Whether a scan of these entries takes less time than a call each."""
        if len(entries) < COMPILED_FROM or len(entries) >= REPLAY_FROM:
            return len(entries) >= REPLAY_FROM
        return self.machine.is_compiled_for(self.branches, self.files) and self._kernels(entries) <= self.proved

    def _with_tables(self, entries: Sequence[Entry], noted: Sequence[BaseException]) -> None:
        """Compute entries some of which read or change tables: by the same plan as others, but never in batches, nor while others wait."""
        least = 1 if self.numerics == "replay" else REPLAY_FROM
        replays = self.numerics in ("deferred", "replay") and len(entries) >= least and not self._wide(entries)
        count = self._passage(entries).num_entries if replays else 0
        if replays and count >= least:
            self._num_called = 1
            self._replay(entries[:count], noted, True)
        elif replays:
            self.calls.run(entries[: count + self._num_called], noted)
            self._num_called = min(2 * self._num_called, REPLAY_FROM)
        else:
            self.calls.run(entries, noted)
        needed = self._needed()
        for file in self.pending.files:
            file.drop_dead(needed)

    def _needed(self) -> set[int]:
        """The registers that entries of the queue read."""
        return {register for entry in self.pending.entries for register in entry[2]}

    def _passage(self, entries: Sequence[Entry]) -> Passage:
        """How the first entries go through the chains of tables, as far as they can be replayed."""
        in_place = InPlace(self.pending.entries, self.branches, self.pending.files).dead
        return self.machine.chains.passage(entries, self.branches, self.pending.files, in_place)

    def _have_tables(self, entries: Sequence[Entry]) -> bool:
        """Whether some call reads or changes what is kept out of the heaps; in batches, which have no heaps, whether it does so by rows."""
        sites = [self.branches[code].site for code in {entry[1] for entry in entries}]
        files = [self.files[avals] for site in sites for avals in (*site.reads, *site.writes) if avals in self.files]
        return any(file.tables and (file.by_rows or self.numerics not in BATCHED) for file in files)

    def _wide(self, entries: Sequence[Entry]) -> bool:
        """Whether some call reads so much that a scan would spend its time on moving registers."""
        return any(self._read_bytes(code) > WIDE_BYTES for code in {entry[1] for entry in entries})

    def _read_bytes(self, code: int) -> int:
        """The bytes of the bundles that the calls of a branch read, without tables."""
        return sum(map(self._moved_bytes, self.branches[code].site.reads))

    def _moved_bytes(self, avals: BundleType) -> int:
        """The bytes of a bundle, without its tables."""
        tables = self.files[avals].tables if avals in self.files else ()
        return num_bytes(avals) - sum([avals[position].size_bytes for position in tables])

    def land(self) -> None:
        """Wait for the scan that goes on; if it fails, its entries stand in the queue again, and its kernels are called from now on."""
        self.refuted |= self._kernels(self.pending.land())

    def keep_out(self, file: RegisterFile, positions: Sequence[int]) -> None:
        """Keep these arrays of a file out of the heap from now on: kernels work otherwise with them in a scan, and are tried anew."""
        self.land()
        file.keep_out(positions, self._needed())
        self.proved.clear()

    def _replay(self, entries: Sequence[Entry], noted: Sequence[BaseException], wait: bool) -> None:
        kernels = self._kernels(entries)
        if kernels & self.refuted:
            self.calls.run(entries, noted)
            return
        count = self._proved_before(entries) if kernels - self.proved else len(entries)
        if count == len(entries):
            self._scan(entries, noted, wait)
        elif count >= TRIAL:
            self._scan(entries[:count], noted, True)
        else:
            count = TRIAL
            self._try(entries[:count], noted)
        if count < len(entries) and not noted:
            self._replay(entries[count:], noted, wait)

    def _proved_before(self, entries: Sequence[Entry]) -> int:
        """How many entries come before the first whose kernel has not been tried."""
        return next(number for number, (_, code, *_) in enumerate(entries) if self.branches[code].site.kernel not in self.proved)

    def _scan(self, entries: Sequence[Entry], noted: Sequence[BaseException], wait: bool) -> None:
        passage = self._passage(entries) if self.pending.has_tables else Passage(len(entries), {}, {})
        found = self._scanned(entries, noted, wait, self._buffers(passage))
        if found is None:
            self.calls.run(entries, noted)
            return
        stacks, buffers, count = found
        if wait:
            done = passage if count == len(entries) else self._passage(entries[:count])
            self.pending.put_stacks(stacks, count, self._tables_in(done, buffers), done.before.values())
        else:
            self.pending.let_fly(stacks, count)

    def _buffers(self, passage: Passage, are_kept: bool = False) -> list[jax.Array]:
        """The buffers of all chains, to be overwritten, unless they are kept; what stands for one that is not used has no meaning."""
        found: list[jax.Array] = []
        for chain, (avals, positions) in enumerate(self.machine.chains.tables):
            if chain in passage.before:
                register = passage.before[chain]
                file = self.pending.files[register >> INDEX_BITS]
                own = map(jax.numpy.asarray, file.take_tables(register))
                found += [array.copy() for array in own] if register in file.borrowed and not are_kept else own
            else:
                found += [jax.numpy.zeros(avals[position].shape, avals[position].dtype) for position in positions]
        return found

    def _tables_in(self, passage: Passage, buffers: Sequence[jax.Array]) -> dict[int, Arrays]:
        """The tables of the registers that a stretch ends with."""
        of_chain: dict[int, list[jax.Array]] = {}
        for (chain, _, _), buffer in zip(self.machine.chains.buffers, buffers, strict=True):
            of_chain.setdefault(chain, []).append(buffer)
        return {register: tuple(of_chain[chain]) for chain, register in passage.after.items()}

    def _try(self, entries: Sequence[Entry], noted: Sequence[BaseException]) -> None:
        """Compute entries both ways, and note which kernels may be replayed; what counts are the numbers of the calls."""
        passage = self._passage(entries) if self.pending.has_tables else Passage(len(entries), {}, {})
        found = self._scanned(entries, noted, True, [buffer.copy() for buffer in self._buffers(passage, True)])
        self.calls.run(entries, noted)
        if found is None or noted:
            return
        stacks = dict(zip(self.pending.heaps, map(np.asarray, found[0]), strict=True))
        tables = self._tables_in(passage, found[1])
        registers = {register for entry in entries for register in (*entry[2], *entry[3])} - set(passage.before.values()) | tables.keys()
        same = all(self._equal_in(stacks, register, tables) for register in registers)
        (self.proved if same else self.refuted).update(self._kernels(entries))

    def _scanned(
        self, entries: Sequence[Entry], noted: Sequence[BaseException], wait: bool, buffers: Sequence[Array] = ()
    ) -> tuple[list[jax.Array], list[jax.Array], int] | None:
        """What a scan gives; None if it fails: call by call, an error says where in the run it happened, and stops only what needs it."""
        try:
            tables = self.machine.tables(self.branches)
        except Exception:  # of a function of a dataset
            self.refuted |= self._kernels(entries)
            return None
        try:
            return self.machine.run(entries, self.branches, self.files, tables, noted, wait, buffers)
        except Exception as error:
            self.refuted |= self._kernels(entries)
            warn_of_defect(error, len(entries))
            return None

    def _equal_in(self, stacks: dict[Heap, HostArray], register: int, tables: Mapping[int, Arrays]) -> bool:
        """Whether a scan has given what the calls gave."""
        file = self.pending.files[register >> INDEX_BITS]
        row = file.packing.get(stacks[file.heap][index_of(register)])
        if not file.tables:
            return _equal(file.get(register), row)
        if register not in tables:
            return True  # a version that is gone
        return _equal((*file.rest_of(register), *file.take_tables(register)), (*row, *tables[register]))

    def _kernels(self, entries: Sequence[Entry]) -> set[Kernel]:
        return {self.branches[code].site.kernel for code in {entry[1] for entry in entries}}


def _equal(first: Sequence[Array], second: Sequence[Array]) -> bool:
    """Whether arrays have the same bits."""
    return all(np.array_equal(_bits_of(a), _bits_of(b)) for a, b in zip(first, second, strict=True))


def _bits_of(array: Array) -> HostArray:
    return np.atleast_1d(np.asarray(array)).view(np.uint8)
