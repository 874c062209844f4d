"""What one replica gets of a call that all replicas have made: a lane of a stack, or a result of its own.

What may live in this file: the lane, and which stacks some lanes are. Not: when the calls are noted (equal_calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from simdist.program.values import Bundle, BundleType

__all__ = ["ReplicaLane", "num_lanes", "stacks_of", "whole_of"]


class Collected(Protocol):
    """Calls that are noted when all replicas have made them."""

    def note_singly(self) -> None: ...


class ReplicaLane(Bundle):
    """What one replica gets of a call that all have made.

    Attributes:
        calls: the calls, as long as they are not noted.
        stack: the results of all of them, or of some that were noted as one entry; None before, and where each was noted by itself.
        row: of the stack.
        whole: the result that it stands for, where its call was noted by itself, or all calls were the same; None otherwise.
    """

    __slots__ = ("calls", "row", "stack", "whole")

    def __init__(self, avals: BundleType, calls: Collected) -> None:
        super().__init__(avals)
        self.calls: Collected | None = calls
        self.stack: Bundle | None = None
        self.whole: Bundle | None = None
        self.row = 0

    def settle(self) -> None:
        """Note the calls that have been made, if all have not come yet."""
        if self.calls is not None:
            self.calls.note_singly()

    def be_row(self, stack: Bundle, row: int) -> None:
        """Be a row of this stack."""
        self.stack, self.row, self.calls = stack, row, None

    def stand_for(self, whole: Bundle) -> None:
        """Stand for this bundle."""
        self.whole, self.calls = whole, None

    def take(self, bundle: Bundle) -> None:
        """Be this bundle, which nobody else holds."""
        self.arrays, self.register, self.made_by, self.file = bundle.arrays, bundle.register, bundle.made_by, bundle.file
        bundle.file = None


def num_lanes(stack: Bundle) -> int:
    """How many lanes a stack has."""
    return stack.avals[0].shape[0]


def stacks_of(bundles: Sequence[Bundle]) -> list[Bundle]:
    """The stacks whose lanes these are, in order: all lanes of each, one after the other; none where they are anything else."""
    stacks: list[Bundle] = []
    left = 0
    for bundle in bundles:
        if not isinstance(bundle, ReplicaLane) or bundle.stack is None:
            return []
        if not left:
            stacks.append(bundle.stack)
            left = num_lanes(bundle.stack)
        if bundle.stack is not stacks[-1] or bundle.row != num_lanes(bundle.stack) - left:
            return []
        left -= 1
    return [] if left else stacks


def whole_of(bundle: Bundle) -> Bundle:
    """What a lane stands for, where its result is one by itself; the bundle otherwise."""
    return bundle.whole or bundle if isinstance(bundle, ReplicaLane) else bundle
