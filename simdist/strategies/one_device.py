"""`OneDeviceStrategy`: everything on one device. What all other strategies are compared with.

Taught in lesson 02.
"""

from __future__ import annotations

from simdist.errors import InvalidArgumentError
from simdist.program.function import StepFunction
from simdist.strategies import calling
from simdist.strategies.context import register_default
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


register_default(OneDeviceStrategy)
StepFunction.run_here = staticmethod(calling.run_local)
