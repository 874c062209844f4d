"""The equal calls of the replicas of a step: they are collected, and noted as few entries.

All of them are one entry, whose kernel is a loop over the lanes. Where the calls take long and the processor has several cores, they are
cut into as many *parts*: each is an entry with a stack of its own, and the parts are computed side by side (call_by_call.py). A
kernel that reads what parts have given is cut into the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, compress, pairwise
from typing import Protocol

from simdist.ledger import side_by_side
from simdist.ledger.call_by_call import HEAVY_BYTES
from simdist.ledger.entry import Site, Where
from simdist.ledger.lane_kernels import joining_kernel
from simdist.ledger.mapped import Form, batched_kernel, mapped_kernel
from simdist.ledger.replica_lane import ReplicaLane, num_lanes, stacks_of, whole_of
from simdist.ledger.stacked_batch import can_be_stacked, stacked, stacked_arrays
from simdist.program.arrays import Array, Arrays
from simdist.program.kernels import Kernel
from simdist.program.step_iterator import StepBatch
from simdist.program.values import Bundle, BundleType, num_bytes, stacked_type

__all__ = ["EqualCalls", "LaneLedger"]

# A smaller array is copied for each lane: nearly all are, and their kernels are the same, whatever the arrays are.
LARGE_BYTES = 1 << 16
# So few calls are noted one by one: to try whether a loop keeps their bits takes a second, and the loop saves microseconds a step, if any.
FEW_LANES = 3
IN_PARTS = ("deferred", "loop")
"""The words of numerics with which calls are made one by one, so that parts can be computed side by side."""


class LaneLedger(Protocol):
    """What lanes need of the ledger."""

    numerics: str

    def site(self, kernel: Kernel, reads: Sequence[BundleType], writes: Sequence[BundleType]) -> Site: ...
    def call(
        self, site: Site, inputs: Sequence[Bundle], batch: StepBatch | None = None, host: Arrays = (), where: Where = None
    ) -> Sequence[Bundle]: ...


Call = tuple[list[Bundle], StepBatch | None, Arrays, Where]


class EqualCalls:
    """The calls at one place of a step, of which each replica makes one.

    Args:
        ledger: notes them.
        site: the place.
        count: how many replicas there are.
    """

    def __init__(self, ledger: LaneLedger, site: Site, count: int) -> None:
        self.ledger = ledger
        self.site = site
        self.count = count
        self.contributions: dict[int, Call] = {}
        self.lanes: dict[int, list[ReplicaLane]] = {}
        self.is_noted = False
        # The first call that was noted by itself, and what it gave: those that read the same get the same.
        self.first: tuple[list[Bundle], Sequence[Bundle]] | None = None

    def add(self, number: int, inputs: list[Bundle], batch: StepBatch | None, host: Arrays, where: Where) -> Sequence[Bundle]:
        """One replica has come. Returns what it gets."""
        self.contributions[number] = call = (inputs, batch, host, where)
        if self.is_noted:
            return self._alone(call)
        outputs = self.lanes[number] = [ReplicaLane(avals, self) for avals in self.site.writes]
        if len(self.contributions) == self.count:
            self._note()
        return outputs

    def _note(self) -> None:
        """All have come."""
        calls = [self.contributions[number] for number in range(self.count)]
        columns = [_Column([call[0][position] for call in calls]) for position in range(len(self.site.reads))]
        if self._depends_on_its_inputs_alone() and all(column.is_one for column in columns):
            self._share(self.ledger.call(self.site, *calls[0]))
            return
        is_batched = self.ledger.numerics == "vmap"
        if (not is_batched and self.count <= FEW_LANES) or not can_be_stacked([call[1] for call in calls]):
            self.note_singly()
            return
        fed_once = self._fed_once(calls)
        edges = self._edges(columns, fed_once)
        inputs = [self._input(column, edges) for column in columns]
        forms = tuple([form for form, _ in inputs])
        make = batched_kernel if is_batched else mapped_kernel
        kernels = [make(self.site.kernel, self.site.reads, forms, end - first, fed_once) for first, end in pairwise(edges)]
        if None in kernels:
            self.note_singly()
            return
        self.is_noted = True
        for part, ((first, end), kernel) in enumerate(zip(pairwise(edges), kernels, strict=True)):
            assert kernel is not None
            given = [bundle for _, parts in inputs for bundle in parts[part]]
            self._note_part(kernel, given, calls[first:end], first, fed_once)
        self._forget()

    def _note_part(self, kernel: Kernel, given: Sequence[Bundle], calls: Sequence[Call], first: int, fed_once: frozenset[int]) -> None:
        """Note the calls of some replicas that follow each other as one entry."""
        columns = list(zip(*[call[2] for call in calls], strict=True))
        start = len(self.site.kernel.in_avals) - len(columns)
        host = tuple([arrays[0] if place in fed_once else stacked_arrays(arrays) for place, arrays in enumerate(columns, start)])
        site = self.ledger.site(kernel, [bundle.avals for bundle in given], [stacked_type(avals, len(calls)) for avals in self.site.writes])
        stacks = self.ledger.call(site, given, stacked([call[1] for call in calls]), host, calls[0][3])
        for row in range(len(calls)):
            for lane, stack in zip(self.lanes[first + row], stacks, strict=True):
                lane.be_row(stack, row)

    def _fed_once(self, calls: Sequence[Call]) -> frozenset[int]:
        """Of the kernel's inputs those from the host that are the same large array for all lanes."""
        columns = list(zip(*(call[2] for call in calls), strict=True))
        end = len(self.site.kernel.in_avals)
        return frozenset([end - len(columns) + number for number, column in enumerate(columns) if _is_one_large_array(column)])

    def _edges(self, columns: Sequence[_Column], fed_once: frozenset[int]) -> list[int]:
        """Where the parts begin, and where the last one ends: as in the stacks that are read, if they agree."""
        cuts = {tuple(map(num_lanes, column.stacks)) for column in columns if column.stacks}
        if len(cuts) > 1:
            return [0, self.count]
        parts = self._num_parts(columns, fed_once)
        return list(accumulate(cuts.pop() if cuts else [self.count // parts] * parts, initial=0))

    def _num_parts(self, columns: Sequence[_Column], fed_once: frozenset[int]) -> int:
        """Into how many equal parts the calls are cut: as many as there are cores, where each still takes long."""
        if self.ledger.numerics not in IN_PARTS:
            return 1
        kernel = self.site.kernel
        is_one = [column.is_one for column, avals in zip(columns, self.site.reads, strict=True) for _ in avals]
        is_one += [place in fed_once for place in range(len(is_one), len(kernel.in_avals))]
        all_bytes = [aval.size_bytes for aval in kernel.in_avals]
        together = sum(compress(all_bytes, is_one))
        each = sum(all_bytes) - together + num_bytes(kernel.out_avals)
        possible = range(1, min(side_by_side.num_cores(), self.count // 2) + 1)
        equal = [parts for parts in possible if self.count % parts == 0]
        return max([parts for parts in equal if together + each * (self.count // parts) >= HEAVY_BYTES], default=1)

    def _input(self, column: _Column, edges: Sequence[int]) -> tuple[Form, list[Sequence[Bundle]]]:
        """How the lanes read one input, and the bundles of it that each part is given."""
        if column.is_one:
            return Form.SHARED, [column.bundles[:1]] * (len(edges) - 1)
        if not column.stacks:
            return Form.SEPARATE, [column.bundles[first:end] for first, end in pairwise(edges)]
        stacks = column.stacks if len(column.stacks) == len(edges) - 1 else [self._joined(column.stacks)]
        return Form.STACKED, [[stack] for stack in stacks]

    def _joined(self, stacks: Sequence[Bundle]) -> Bundle:
        kernel = joining_kernel(tuple([stack.avals for stack in stacks]))
        return self.ledger.call(self.ledger.site(kernel, [stack.avals for stack in stacks], [kernel.out_avals]), stacks, where="stacks")[0]

    def _share(self, outputs: Sequence[Bundle]) -> None:
        """All calls were the same: one result is enough."""
        self.is_noted = True
        for lanes in self.lanes.values():
            for lane, output in zip(lanes, outputs, strict=True):
                lane.stand_for(output)
        self._forget()

    def note_singly(self) -> None:
        """Note each call that has been made by itself."""
        if self.is_noted:
            return
        self.is_noted = True
        for number in sorted(self.contributions):
            for lane, output in zip(self.lanes[number], self._alone(self.contributions[number]), strict=True):
                lane.stand_for(output)
        self._forget()

    def _alone(self, call: Call) -> Sequence[Bundle]:
        """What a call gives that is not noted together with the others."""
        wholes = list(map(whole_of, call[0]))
        if self.first is not None and all(one is other for one, other in zip(self.first[0], wholes, strict=True)):
            return self.first[1]
        outputs = self.ledger.call(self.site, *call)
        if self.first is None and self._depends_on_its_inputs_alone():
            self.first = (wholes, outputs)
        return outputs

    def _depends_on_its_inputs_alone(self) -> bool:
        """Whether calls with the same bundles are one call: nothing is fed to them, and they do nothing but to give results."""
        return not self.site.fed and not self.site.kernel.closed.effects

    def _forget(self) -> None:
        self.contributions = dict.fromkeys(self.contributions, ([], None, (), None))
        self.lanes.clear()


class _Column:
    """What all lanes read as one of their inputs.

    Attributes:
        bundles: lane by lane.
        is_one: whether they are all the same.
        stacks: whose lanes they are, where they are not the same; none where they are something else.
    """

    def __init__(self, bundles: list[Bundle]) -> None:
        self.bundles = bundles
        first = whole_of(bundles[0])
        self.is_one = all(whole_of(bundle) is first for bundle in bundles)
        self.stacks = [] if self.is_one else stacks_of(bundles)


def _is_one_large_array(arrays: Sequence[Array]) -> bool:
    """Whether all lanes are fed the same array, of which a stack would have a copy for each."""
    return arrays[0].nbytes >= LARGE_BYTES and all(array is arrays[0] for array in arrays)
