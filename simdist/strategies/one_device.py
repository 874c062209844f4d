"""`OneDeviceStrategy`: everything on one device, as the reference for all other strategies.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.program.scope import register_default
from simdist.runtime.cluster import Cluster
from simdist.runtime.controlled import is_controlled
from simdist.strategies import context
from simdist.strategies.devices import device_names, require_task
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["OneDeviceStrategy"]

T = TypeVar("T")


class OneDeviceStrategy(SynchronousStrategy):
    """All variables and all computation on one device.

    Args:
        device: its name; default "cpu:0", the machine's own processor.
        cluster: where it is, on the first worker; None: this machine alone.

    Raises:
        InvalidArgumentError: no device, several, or one of another task.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.OneDeviceStrategy("cpu:0")
        >>> with strategy.scope():
        ...     v = sd.Variable(2.0, name="v")
        >>> float(v)
        2.0
    """

    cluster_resolver = None  # as of all strategies of one machine

    def __init__(self, device: str = "cpu:0", cluster: Cluster | None = None) -> None:
        names = device_names([device])
        if len(names) != 1:
            raise InvalidArgumentError(f"device={device!r} must name one device, for example 'cpu:0'.")
        self.device = names[0]
        super().__init__(cluster)
        require_task([device], self.default_device)

    def replica_devices(self) -> list[str]:
        return [self.default_device if self.device == "cpu:0" else f"{self.default_device}/{self.device}"]

    def run_step(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Run a step that was called directly; where no strategy is chosen, the one that the step uses runs it.

        Raises:
            FailedPreconditionError: no strategy is chosen, and the step uses several.
        """
        if context.has_strategy() or not context.is_default(self):
            return super().run_step(fn, args, kwargs)
        try:
            return self._run_for_owner(fn, args, kwargs)
        except context.StepBelongsTo as found:
            owner = fn.owner = found.owner
        try:
            return self._run_for_owner(fn, args, kwargs)
        except context.StepBelongsTo as found:
            raise FailedPreconditionError(
                f"Mixing different strategies: {fn.name} uses both {owner!r} and {found.owner!r}. Make a step for each of them."
            ) from None

    def eagerly(self, fn: Callable[[], T], name: str, counts: bool = True) -> T:
        """As every strategy; where none is chosen, the one whose variables the function uses runs it."""
        try:
            return super().eagerly(fn, name, counts)
        except context.StepBelongsTo as found:
            return found.owner.eagerly(fn, name, counts)

    def _run_for_owner(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        if fn.owner is None or fn.owner is self:
            return super().run_step(fn, args, kwargs)
        return fn.owner.run_step(fn, args, kwargs)


def _default() -> OneDeviceStrategy:
    """That of code which has chosen no strategy; in the program of a session, too, on a cluster of this machine alone."""
    return OneDeviceStrategy(cluster=Cluster({"worker": 1}) if is_controlled.get() else None)


register_default(_default)
