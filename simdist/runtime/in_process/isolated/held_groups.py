"""The groups that one task holds: their present versions, and which of them were joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.errors import FailedPreconditionError
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.in_process.computing import arrays_of, call_kernel

__all__ = ["HeldGroups"]


class HeldGroups:
    """As far as a task knows: by number.

    Attributes:
        bundles: the present version of each group.
        versions: how often each was changed.
        joined: of a group that was joined with others: the new one, and for each of its arrays the position there.
    """

    def __init__(self) -> None:
        self.bundles: dict[int, Bundle | None] = {}
        self.versions: dict[int, int] = {}
        self.joined: dict[int, tuple[int, tuple[int, ...]]] = {}

    def put(self, group: int, bundle: Bundle) -> None:
        """Hold a group from now on."""
        self.bundles[group], self.versions[group] = bundle, 0

    def join(self, group: int, bundle: Bundle, joined: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        """Hold a group that was made of others; who names one of these means its part."""
        self.put(group, bundle)
        for old, positions in joined:
            self.forget(old)
            self.joined[old] = group, positions

    def forget(self, group: int) -> None:
        """Hold a group no longer."""
        self.bundles.pop(group, None)
        self.versions.pop(group, None)

    def present(self, group: int) -> Bundle:
        """The present version of a group.

        Raises:
            FailedPreconditionError: this task does not hold it.
        """
        if group in self.joined:
            new, positions = self.joined[group]
            arrays = arrays_of(self.present(new))
            return Bundle.of([arrays[position] for position in positions])
        bundle = self.bundles.get(group)
        if bundle is None:
            raise FailedPreconditionError(f"Group {group} was asked for, and this task does not hold it. Send it with PutGroup first.")
        return bundle

    def change(self, group: int, kernel: Kernel, given: Bundle, where: str) -> None:
        """Make the next version of a group, of its arrays and the given ones."""
        before = self.present(group)
        self._replace(group, call_kernel(kernel, [before, given], [before.avals], where=where)[0])

    def _replace(self, group: int, bundle: Bundle) -> None:
        if group in self.joined:
            new, positions = self.joined[group]
            arrays: list[Any] = list(arrays_of(self.present(new)))
            for position, array in zip(positions, arrays_of(bundle), strict=True):
                arrays[position] = array
            self._replace(new, Bundle.of(arrays))
        else:
            self.bundles[group] = bundle
            self.versions[group] += 1
