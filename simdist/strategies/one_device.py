"""`OneDeviceStrategy`: everything on one device, as the reference for all other strategies.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.program.scope import register_default
from simdist.strategies import context
from simdist.strategies.devices import device_names
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["OneDeviceStrategy"]


class OneDeviceStrategy(SynchronousStrategy):
    """All variables and all computation on one device.

    Args:
        device: its name; default "cpu:0", the machine's own processor.

    Raises:
        InvalidArgumentError: no device, or several.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.OneDeviceStrategy("cpu:0")
        >>> with strategy.scope():
        ...     v = sd.Variable(2.0, name="v")
        >>> float(v)
        2.0
    """

    def __init__(self, device: str = "cpu:0") -> None:
        names = device_names([device])
        if len(names) != 1:
            raise InvalidArgumentError(f"device={device!r} must name one device, for example 'cpu:0'.")
        self.device = names[0]
        super().__init__()

    def replica_devices(self) -> list[str]:
        return [self.default_device if self.device == "cpu:0" else f"{self.default_device}/{self.device}"]

    def run_step(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Run a step that was called directly; where nobody has chosen a strategy, the one whose variables it uses runs it."""
        if context.has_strategy() or not context.is_default(self):
            return super().run_step(fn, args, kwargs)
        try:
            return self._run_for_owner(fn, args, kwargs)
        except context.StepBelongsTo as found:
            fn.owner = found.owner
        return self._run_for_owner(fn, args, kwargs)

    def _run_for_owner(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        if fn.owner is None or fn.owner is self:
            return super().run_step(fn, args, kwargs)
        return fn.owner.run_step(fn, args, kwargs)


register_default(OneDeviceStrategy)
