"""Lanes of replicas: the equal calls of the replicas of a step as one entry.

The replicas of a synchronous step call the same kernels, each on its own rows. Such calls are collected until all
replicas have made them; then the ledger notes *one* entry, whose kernel runs the calls one after the other and gives their
results as a stack: one array [lanes, ...] for each result. What a replica gets is a *lane* of that stack. What reads all
lanes in order (a sum over the replicas, the next call of all of them) takes the stack as it is; a lane that is read
by itself is cut out.

Numbers: class E1. XLA may give a kernel other bits in a loop than on its own. So a kernel is tried before it is mapped
(mapped.py), and one whose bits differ is called for each lane by itself. Calls that are few, that turn out not to be equal, or
that are read before all have come, are noted one by one: the bits are the same. With numerics="vmap" the calls are one batched
kernel, and nothing is tried: class E2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import jax
import numpy as np

from simdist.caches import bounded
from simdist.ledger.entry import Site, Where
from simdist.ledger.mapped import Form, batched_kernel, mapped_kernel
from simdist.ledger.stacked_batch import can_be_stacked, stacked, stacked_arrays
from simdist.program.arrays import Array, Arrays
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.step_iterator import StepBatch
from simdist.program.values import Aval, Bundle, BundleType, stacked_type

__all__ = ["ReplicaLane", "ReplicaLanes", "lane_kernel", "lanes_of", "stack_of"]


# A smaller array is copied for each lane: nearly all are, and their kernels are the same, whatever the arrays are.
LARGE_BYTES = 1 << 16
# So few calls are noted one by one: to try whether a loop keeps their bits takes a second, and the loop saves microseconds a step, if any.
FEW_LANES = 3
# That one kernel cuts out of a stack: its code takes the longer to compile the more there are.
LANES_AT_ONCE = 64
ON_THEIR_OWN = ("off", "shard_map")
"""Where each call is noted by itself: "shard_map" finds equal calls itself, and spreads them over devices."""


class LaneLedger(Protocol):
    """What lanes need of the ledger."""

    numerics: str

    def site(self, kernel: Kernel, reads: Sequence[BundleType], writes: Sequence[BundleType]) -> Site: ...
    def call(
        self, site: Site, inputs: Sequence[Bundle], batch: StepBatch | None = None, host: Arrays = (), where: Where = None
    ) -> Sequence[Bundle]: ...


class ReplicaLane(Bundle):
    """What one replica gets of a call that all have made.

    Attributes:
        calls: the calls, as long as they are not noted.
        stack: the results of all of them, once they are noted as one entry; None before, and where each was noted by itself.
        whole: the result that it stands for, where its call was noted by itself, or all calls were the same; None otherwise.
        number: of the replica.
    """

    __slots__ = ("calls", "number", "stack", "whole")

    def __init__(self, avals: BundleType, calls: _EqualCalls, number: int) -> None:
        super().__init__(avals)
        self.calls: _EqualCalls | None = calls
        self.stack: Bundle | None = None
        self.whole: Bundle | None = None
        self.number = number

    def settle(self) -> None:
        """Note the calls that have been made, if all have not come yet."""
        if self.calls is not None:
            self.calls.note_singly()

    def take(self, bundle: Bundle) -> None:
        """Be this bundle, which nobody else holds."""
        self.arrays, self.register, self.made_by, self.file = bundle.arrays, bundle.register, bundle.made_by, bundle.file
        bundle.file = None


class ReplicaLanes:
    """The calls of the replicas of one step.

    Args:
        ledger: notes them.
        count: how many replicas there are.
    """

    def __init__(self, ledger: LaneLedger, count: int) -> None:
        self.ledger = ledger
        self.count = count
        self._counts: list[dict[Site, int]] = [{} for _ in range(count)]
        self._calls: dict[tuple[Site, int], _EqualCalls] = {}

    def call(
        self, lane: int, site: Site, inputs: Sequence[Bundle], batch: StepBatch | None = None, host: Arrays = (), where: Where = None
    ) -> Sequence[Bundle]:
        """A replica's call of a kernel; as `Ledger.call`."""
        if self.count == 1 or self.ledger.numerics in ON_THEIR_OWN or site.kernel.runs_at_once:
            return self.ledger.call(site, inputs, batch, host, where)
        counts = self._counts[lane]
        number = counts[site] = counts.get(site, -1) + 1
        calls = self._calls.get((site, number))
        if calls is None:
            calls = self._calls[site, number] = _EqualCalls(self.ledger, site, self.count)
        outputs = calls.add(lane, list(inputs), batch, host, where)
        if calls.is_noted and len(calls.contributions) == self.count:
            del self._calls[site, number]
        return outputs

    def close(self) -> None:
        """Note what is left, for which some replicas have not come."""
        for calls in self._calls.values():
            calls.note_singly()
        self._calls.clear()


Call = tuple[list[Bundle], StepBatch | None, Arrays, Where]


class _EqualCalls:
    """The calls at one place of a step, of which each replica makes one."""

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
        outputs = self.lanes[number] = [ReplicaLane(avals, self, number) for avals in self.site.writes]
        if len(self.contributions) == self.count:
            self._note()
        return outputs

    def _note(self) -> None:
        """All have come."""
        calls = [self.contributions[number] for number in range(self.count)]
        forms = [_form([call[0][position] for call in calls]) for position in range(len(self.site.reads))]
        if self._depends_on_its_inputs_alone() and all(form is Form.SHARED for form in forms):
            self._share(self.ledger.call(self.site, *calls[0]))
            return
        batches = [call[1] for call in calls]
        is_batched = self.ledger.numerics == "vmap"
        if not is_batched and self.count <= FEW_LANES:
            self.note_singly()
            return
        make = batched_kernel if is_batched else mapped_kernel
        columns = list(zip(*(call[2] for call in calls), strict=True))
        end = len(self.site.kernel.in_avals)
        fed_once = frozenset([end - len(columns) + number for number, column in enumerate(columns) if _is_one_large_array(column)])
        kernel = make(self.site.kernel, self.site.reads, tuple(forms), self.count, fed_once) if can_be_stacked(batches) else None
        if kernel is None:
            self.note_singly()
            return
        batch = stacked(batches)
        self.is_noted = True
        inputs = [bundle for form, position in zip(forms, range(len(forms)), strict=True) for bundle in _given(form, position, calls)]
        host = tuple([column[0] if _is_one_large_array(column) else stacked_arrays(column) for column in columns])
        reads = [bundle.avals for bundle in inputs]
        site = self.ledger.site(kernel, reads, [stacked_type(avals, self.count) for avals in self.site.writes])
        stacks = self.ledger.call(site, inputs, batch, host, calls[0][3])
        for lanes in self.lanes.values():
            for lane, stack in zip(lanes, stacks, strict=True):
                lane.stack, lane.calls = stack, None
        self._forget()

    def _share(self, outputs: Sequence[Bundle]) -> None:
        """All calls were the same: one result is enough."""
        self.is_noted = True
        for lanes in self.lanes.values():
            for lane, output in zip(lanes, outputs, strict=True):
                lane.whole, lane.calls = output, None
        self._forget()

    def note_singly(self) -> None:
        """Note each call that has been made by itself."""
        if self.is_noted:
            return
        self.is_noted = True
        for number in sorted(self.contributions):
            for lane, output in zip(self.lanes[number], self._alone(self.contributions[number]), strict=True):
                lane.whole, lane.calls = output, None
        self._forget()

    def _alone(self, call: Call) -> Sequence[Bundle]:
        """What a call gives that is not noted together with the others."""
        wholes = list(map(_whole, call[0]))
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


def stack_of(bundles: Sequence[Bundle]) -> Bundle | None:
    """The stack whose lanes these are, all of them in order; None where there is none."""
    first = bundles[0]
    if not isinstance(first, ReplicaLane) or first.stack is None or first.stack.avals[0].shape[:1] != (len(bundles),):
        return None
    stack = first.stack
    for number, bundle in enumerate(bundles):
        if not isinstance(bundle, ReplicaLane) or bundle.stack is not stack or bundle.number != number:
            return None
    return stack


def lanes_of(stack: Bundle, count: int) -> list[Arrays]:
    """The numbers of each lane of a stack that is computed, or promised: these are promises too, and nobody waits here."""
    assert stack.arrays is not None
    # Few calls, because JAX lets few wait for what is being computed; a call for each lane would wait itself.
    at_once, width = min(count, LANES_AT_ONCE), len(stack.avals)
    lanes: list[Arrays] = []
    for first in range(0, count, at_once):
        start = min(first, count - at_once)  # the last call begins with lanes that are there already
        given = stack.arrays if at_once == count else (*stack.arrays, np.array(start, np.int32))
        leaves = _lanes_kernel(stack.avals, count, at_once)(*given)
        lanes += [leaves[number * width : (number + 1) * width] for number in range(first - start, at_once)]
    return lanes


@bounded("kernels that cut a stack apart", size=64)
def _lanes_kernel(stack: BundleType, count: int, at_once: int) -> Kernel:
    """The kernel that cuts lanes out of a stack of this type: the leaves of the first, then those of the next, and so on.

    Where these are not all lanes, it is given the number of the first one behind the stack.
    """

    def run(*arrays: jax.Array) -> list[jax.Array]:
        if at_once < count:
            *leaves, start = arrays
            arrays = tuple([jax.lax.dynamic_slice_in_dim(leaf, start, at_once) for leaf in leaves])
        return [leaf[number] for number in range(at_once) for leaf in arrays]

    return kernel_of("lanes", run, [*stack, Aval((), "int32")] if at_once < count else stack)


@bounded("kernels that cut out a lane", size=256)
def lane_kernel(stack: BundleType) -> Kernel:
    """The kernel that cuts one lane out of a stack of this type: of the stack, and the lane's number."""

    def run(*arrays: jax.Array) -> list[jax.Array]:
        *leaves, number = arrays
        return [jax.lax.dynamic_index_in_dim(leaf, number, keepdims=False) for leaf in leaves]

    return kernel_of("lane", run, [*stack, Aval((), "int32")])


def _form(bundles: Sequence[Bundle]) -> Form:
    """How the lanes read one input: all the same bundle, a stack, or each its own."""
    wholes = list(map(_whole, bundles))
    if all(bundle is wholes[0] for bundle in wholes):
        return Form.SHARED
    return Form.STACKED if stack_of(bundles) is not None else Form.SEPARATE


def _is_one_large_array(arrays: Sequence[Array]) -> bool:
    """Whether all lanes are fed the same array, of which a stack would have a copy for each."""
    return arrays[0].nbytes >= LARGE_BYTES and all(array is arrays[0] for array in arrays)


def _whole(bundle: Bundle) -> Bundle:
    """What a lane stands for, where all of them get one result."""
    return bundle.whole or bundle if isinstance(bundle, ReplicaLane) else bundle


def _given(form: Form, position: int, calls: Sequence[Call]) -> list[Bundle]:
    """The bundles of one input."""
    bundles = [call[0][position] for call in calls]
    if form is Form.SHARED:
        return bundles[:1]
    stack = stack_of(bundles) if form is Form.STACKED else None
    return bundles if stack is None else [stack]
