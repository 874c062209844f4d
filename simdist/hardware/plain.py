"""Figures of hardware as plain data, for texts, and back.

    {"is": "Device", "flops": 1e12, "jitter": {"is": "TwoPoint", "low": 1.0, "high": 5.0, "probability": 0.1}}

Figures that have their default are left out. What is read back equals what was written. Only the classes of this package are known, by
their names; nothing else is looked up or imported.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, cast

from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.hardware.devices import Device
from simdist.hardware.disks import DiskModel
from simdist.hardware.jitter import Exponential, LogNormal, NoJitter, TwoPoint, Uniform
from simdist.hardware.networks import Network, Override
from simdist.hardware.topology import FlatSwitch, Racks, Torus

__all__ = ["hardware_from_plain", "plain_hardware"]

KNOWN: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (Device, DiskModel, Exponential, FlatSwitch, LogNormal, Network, NoJitter, Override, Racks, Torus, TwoPoint, Uniform)
}
DEEPEST = 4  # a network has a topology and overrides, a device a jitter: nothing goes deeper


def plain_hardware(value: object) -> Any:
    """A device, a disk, a network or a part of one as plain data.

    Raises:
        InvalidArgumentError: its class is not one of this package.

    Example:
        >>> from simdist.hardware import ethernet_1g
        >>> plain_hardware(ethernet_1g.in_racks(4))["topology"]
        {'is': 'Racks', 'tasks_per_rack': 4}
    """
    if isinstance(value, (tuple, list)):
        return [plain_hardware(item) for item in cast("tuple[object, ...]", value)]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    name = type(value).__name__
    if not is_dataclass(value) or isinstance(value, type) or KNOWN.get(name) is not type(value):
        raise InvalidArgumentError(f"{value!r} has no text: its class is not one of simdist.hardware. {did_you_mean(name, KNOWN)}")
    figures = {item.name: getattr(value, item.name) for item in fields(value)}
    differing = {item.name: figures[item.name] for item in fields(value) if figures[item.name] != _default(item)}
    return {"is": name, **{field: plain_hardware(figure) for field, figure in differing.items()}}


def hardware_from_plain(given: Any, depth: int = DEEPEST) -> Any:
    """The device, the disk, the network or the part of one that plain data describe.

    Args:
        given: what `plain_hardware` made.
        depth: how deeply it may be nested; default 4.

    Raises:
        InvalidArgumentError: a class or a figure that is not known, a figure that makes no sense, or too deep a nest.

    Example:
        >>> hardware_from_plain({"is": "TwoPoint", "low": 1.0, "high": 5.0, "probability": 0.1})
        TwoPoint(low=1.0, high=5.0, probability=0.1)
    """
    if depth < 0:
        raise InvalidArgumentError("The description of hardware is nested too deeply.")
    if isinstance(given, list):
        return tuple(hardware_from_plain(item, depth - 1) for item in cast("list[Any]", given))
    if not isinstance(given, dict):
        return given
    figures = cast("dict[str, Any]", dict(given))
    name = figures.pop("is", None)
    cls = KNOWN.get(name) if isinstance(name, str) else None
    if cls is None:
        raise InvalidArgumentError(f"is={name!r} is no hardware that is known. {did_you_mean(str(name), KNOWN)}")
    known = [item.name for item in fields(cls)]
    for field in figures:
        if field not in known:
            raise InvalidArgumentError(f"{name} has no figure {field!r}. {did_you_mean(str(field), known)}")
    try:
        return cls(**{field: hardware_from_plain(figure, depth - 1) for field, figure in figures.items()})
    except TypeError as error:
        raise InvalidArgumentError(f"This is no {name}: {error}") from error


def _default(item: Field[Any]) -> object:
    return item.default if item.default_factory is MISSING else item.default_factory()
