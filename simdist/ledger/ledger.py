"""The ledger: it notes kernel calls while the schedule runs ahead, and computes them late.

The schedule of a virtual cluster depends on shapes, not on values. So the simulator only notes entries ("kernel k of
these registers and these rows of a batch gives those registers") and computes them when a value is read, or
when the ledger is full.

Invariants:

- A read computes what it needs and no more, and changes no bit of what is computed later.
- Whatever ends a computation early (Ctrl-C, an error, a full memory), another read gives the same bits (pending.py).
- An entry whose results cannot be reached any more is not computed: what a crash discarded costs nothing.
- The plans (``eager``: at once; ``loop``: one call an entry; ``replay``: one scan for many entries) run the same
  kernels on the same inputs, so their bits agree (class E1); those of ``vmap`` and ``shard_map`` nearly so (class E2).
- With numerics "off" nothing is noted, and asking for a value is an error.

What may live in this file: noting and reading. Not: when to compute what (computing.py), nor how (plans.py), clocks, tasks, strategies.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.core
import numpy as np

from simdist.arguments import known_word
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.ledger.computing import Computing
from simdist.ledger.entry import Branch, Entry, Site, Where
from simdist.ledger.heap import Heaps
from simdist.ledger.lane_kernels import lane_kernel, lanes_of
from simdist.ledger.pending import Pending
from simdist.ledger.plans import ComputePlans
from simdist.ledger.registers import RegisterFile
from simdist.ledger.replica_lane import ReplicaLane, num_lanes, stacks_of
from simdist.ledger.replica_lanes import ReplicaLanes
from simdist.ledger.sharded import JaxDevice, mesh_devices
from simdist.program.arrays import Array, Arrays
from simdist.program.kernels import Kernel
from simdist.program.row_kernels import row_form
from simdist.program.step_iterator import ColumnTable, StepBatch
from simdist.program.values import Aval, Bundle, BundleType, aval_of, num_bytes

__all__ = ["NUMERICS", "Ledger"]

NUMERICS = ("deferred", "eager", "off", "replay", "loop", "vmap", "shard_map")
# A table of so many bytes is kept in one buffer, of which rows are read and changed; a smaller one is copied sooner.
TABLE_BYTES = 1 << 16


class Ledger:
    """Notes kernel calls, and computes them when their results are needed.

    Args:
        numerics: "deferred" (late; call by call or by replay, whichever suits the length), "replay" or "loop" (late,
            by that plan alone), "vmap" (late, in batches: class E2), "shard_map" (the same, a batch's entries side by side
            on several JAX devices: class E2), "eager" (at once: the reference), or "off" (timing only).
        jax_devices: of "shard_map", each once; None: all of this process.

    Attributes:
        pending: what is still to be computed.
        computing: computes it.

    Raises:
        InvalidArgumentError: an unknown word, or devices that cannot work together or have nothing to do.
    """

    def __init__(self, numerics: str = "deferred", jax_devices: Sequence[JaxDevice] | None = None) -> None:
        numerics = known_word(numerics, "numerics", NUMERICS)
        if jax_devices is not None and numerics != "shard_map":
            raise InvalidArgumentError(
                f'jax_devices= says where numerics="shard_map" computes, but this is numerics={numerics!r}. Leave one of them out.'
            )
        self.numerics = numerics
        self.files: dict[BundleType, RegisterFile] = {}
        self.branches: list[Branch] = []
        devices = mesh_devices(jax_devices) if numerics == "shard_map" else ()
        self._files: list[RegisterFile] = []
        self._heaps = Heaps()
        self.pending = Pending(self._files, self._heaps.all)
        self.plans = ComputePlans(numerics, self.pending, self.branches, self.files, devices)
        self._branch_numbers: dict[tuple[Site, str | None], int] = {}
        self._sites: dict[tuple[Kernel, tuple[BundleType, ...], tuple[BundleType, ...]], Site] = {}
        self._unread: list[int] = []
        self._noted = 0
        self.computing = Computing(self.pending, self.plans, self._files, self._unread)

    @property
    def entries(self) -> list[Entry]:
        """The pending entries."""
        return self.pending.entries

    @property
    def computed(self) -> int:
        """The number of entries that have been computed."""
        return self.pending.computed

    @property
    def compilations(self) -> int:
        """The number of scans that were compiled."""
        return self.plans.machine.compilations

    # -- noting ---------------------------------------------------------------------------------------------------

    def site(self, kernel: Kernel, reads: Sequence[BundleType], writes: Sequence[BundleType]) -> Site:
        """The place that calls a kernel with bundles of these types and groups its results like this."""
        key = (kernel, tuple(reads), tuple(writes))
        if key not in self._sites:
            self._keep_tables(kernel, reads)
            self._sites[key] = Site(kernel, tuple(reads), tuple(writes), [self._file(avals) for avals in writes])
        return self._sites[key]

    def _keep_tables(self, kernel: Kernel, reads: Sequence[BundleType]) -> None:
        """Keep tables that a kernel reads or changes by rows out of the heaps, where they are large."""
        of_rows, start = row_form(kernel), 0
        if of_rows is None or self.numerics in ("off", "eager"):
            return
        for avals in reads:
            numbers = [port.input - start for port in of_rows.ports if start <= port.input < start + len(avals)]
            large = [number for number in numbers if avals[number].size_bytes >= TABLE_BYTES]
            if large:
                file = self._file(avals)
                file.by_rows = True
                if not file.tables.issuperset(large):
                    self.plans.keep_out(file, large)
            start += len(avals)

    def call(
        self, site: Site, inputs: Sequence[Bundle], batch: StepBatch | None = None, host: Arrays = (), where: Where = None
    ) -> Sequence[Bundle]:
        """Note one call of a kernel.

        Args:
            site: which kernel, with what kinds of bundles.
            inputs: its first inputs, bundle after bundle.
            batch: the inputs after those, if any.
            host: its last inputs: small arrays made on the host (random keys, step arguments).
            where: (task, step, second), for error messages.

        Returns:
            One bundle for each of `site.writes`.
        """
        if self.numerics == "off":
            return site.blanks
        if self.numerics == "eager" or site.kernel.runs_at_once:
            return self._call_now(site, inputs, batch, host, where)
        table = None if batch is None else batch.table
        branch = site.branches.get(table)
        if branch is None:
            branch = self._branch(site, table, batch)
        reads: list[int] = []
        for bundle in inputs:
            if bundle.file is None:
                self._take_up(bundle)
            bundle.made_by = -1
            reads.append(bundle.register)
        self._noted = number = self._noted + 1
        writes: list[int] = []
        outputs: list[Bundle] = []
        for file in site.files:
            register = file.free.pop() if file.free else file.new()
            writes.append(register)
            outputs.append(Bundle(file.avals, None, file, register, number))
        if batch is not None:
            if table is None:
                host = (*batch.leaves(), *host)
                self.computing.fed_bytes += num_bytes(site.fed)
            else:
                rows = batch.rows
                assert rows is not None
                host = (rows, *host)
        self.pending.entries.append((number, branch, reads, writes, host, where))
        self.computing.make_room_if_full(number)
        return outputs

    def _call_now(self, site: Site, inputs: Sequence[Bundle], batch: StepBatch | None, host: Arrays, where: Where) -> list[Bundle]:
        arrays: list[Array] = [array for bundle in inputs for array in self.arrays(bundle)]
        if batch is not None:
            arrays.extend(batch.leaves())
        with jax.core.eval_context():
            results = self.plans.calls.run_kernel(site.kernel, [*arrays, *host], where)
        self.pending.computed += 1
        return [Bundle(avals, part) for avals, part in zip(site.writes, site.split(results), strict=True)]

    def _file(self, avals: BundleType) -> RegisterFile:
        if avals not in self.files:
            self.files[avals] = RegisterFile(len(self._files), avals, self._unread, self._heaps)
            self._files.append(self.files[avals])
        return self.files[avals]

    def _take_up(self, bundle: Bundle) -> None:
        """Give a bundle that exists already a register which no pending entry uses."""
        if isinstance(bundle, ReplicaLane) and self._cut_out(bundle):
            return
        file = self._file(bundle.avals)
        register = file.new() if self.entries or self.pending.flight or not file.free else file.free.pop()
        assert bundle.arrays is not None
        file.loose[register] = bundle.arrays
        if file.tables:
            file.borrowed.add(register)
        bundle.register = register
        bundle.file = file  # last: who finds a file finds a register

    def _cut_out(self, lane: ReplicaLane) -> bool:
        """Whether a lane, of whose stack an entry needs it alone, has a register now; its numbers may be there already."""
        lane.settle()
        if lane.whole is not None:
            if lane.whole.file is None:
                self._take_up(lane.whole)
            lane.whole.made_by = -1
            lane.register = lane.whole.register  # which the lane keeps alive, as it keeps the bundle
            return True
        if lane.file is None and lane.arrays is None and lane.stack is not None:
            kernel = lane_kernel(lane.stack.avals)
            site = self.site(kernel, [lane.stack.avals], [lane.avals])
            lane.take(self.call(site, [lane.stack], None, (np.array(lane.row, np.int32),), "a lane")[0])
        return lane.file is not None

    def _branch(self, site: Site, table: ColumnTable | None, batch: StepBatch | None) -> int:
        fed = site.fed
        if table is not None:
            assert batch is not None and batch.rows is not None
            fed = (aval_of(batch.rows), *fed[len(table.columns) :])
        key = (site, None if table is None else table.key)
        if key not in self._branch_numbers:
            self._branch_numbers[key] = len(self.branches)
            self.branches.append(
                Branch(site, table, tuple(Aval(aval.shape, "int32") if table and n == 0 else aval for n, aval in enumerate(fed)))
            )
        site.branches[table] = self._branch_numbers[key]
        return site.branches[table]

    def lanes(self, count: int) -> ReplicaLanes:
        """Collects the equal calls of so many replicas, to note them as one."""
        return ReplicaLanes(self, count)

    # -- computing ------------------------------------------------------------------------------------------------

    def arrays(self, bundle: Bundle) -> Arrays:
        """The arrays of a bundle, computed now unless they are known.

        Raises:
            FailedPreconditionError: the cluster computes no numbers.
        """
        if isinstance(bundle, ReplicaLane):
            self._read_lane(bundle)
        if bundle.arrays is None:
            if self.numerics == "off":
                raise FailedPreconditionError(
                    'A value was asked for, but this cluster was made with numerics="off" and computes none. '
                    'Use numerics="deferred" to get values; timing is the same.'
                )
            self.computing.of_registers([bundle.register])
            assert bundle.file is not None
            if bundle.file.tables:
                return tuple([np.array(array) for array in bundle.file.get(bundle.register)])  # the tables will be changed in place
            bundle.arrays = bundle.file.get(bundle.register)
        return bundle.arrays

    def _read_lane(self, lane: ReplicaLane) -> None:
        lane.settle()
        if lane.whole is not None:
            lane.arrays = self.arrays(lane.whole)
        elif lane.arrays is None and lane.file is None and lane.stack is not None:
            lane.arrays = tuple([np.array(np.asarray(leaf)[lane.row]) for leaf in self.arrays(lane.stack)])

    def parts(self, bundle: Bundle) -> Arrays:
        """The arrays of a bundle, to put them together anew; where no numbers are computed, what stands in for them."""
        if self.numerics == "off" and bundle.arrays is None:
            return tuple(np.broadcast_to(np.zeros((), jax.numpy.dtype(aval.dtype)), aval.shape) for aval in bundle.avals)
        return self.arrays(bundle)

    def compute(self, bundles: Sequence[Bundle]) -> None:
        """Compute several bundles in one go: much less work than one after the other, where they need the same entries.

        Where there are long calls, the lanes of one stack, all of them in order, are promises of JAX afterwards: nobody waits here.
        """
        pending = [bundle for bundle in map(_source, bundles) if bundle.arrays is None]
        if pending and self.numerics != "off":
            self.computing.of_registers([bundle.register for bundle in pending])
            for bundle in pending:
                assert bundle.file is not None
                if not bundle.file.tables:
                    bundle.arrays = bundle.file.get(bundle.register)
        stacks = stacks_of(bundles) if self.plans.has_long_calls else []
        if stacks and all(stack.arrays is not None for stack in stacks):
            lanes = [arrays for stack in stacks for arrays in lanes_of(stack, num_lanes(stack))]
            for lane, arrays in zip(bundles, lanes, strict=True):
                lane.arrays = arrays

    def flush(self) -> None:
        """Compute everything that can still be reached."""
        self.computing.flush()

    def begin(self) -> None:
        """Begin to compute what can still be reached, where enough long calls have been noted, and let the schedule go on meanwhile."""
        self.computing.begin(self._noted)


def _source(bundle: Bundle) -> Bundle:
    """The bundle to be computed for one that is asked for: for a lane its stack, unless it has a register of its own."""
    if not isinstance(bundle, ReplicaLane):
        return bundle
    bundle.settle()
    if bundle.whole is not None:
        return bundle.whole
    return bundle if bundle.stack is None or bundle.file is not None or bundle.arrays is not None else bundle.stack
