"""The engines that there are. A new one is one more line here, and has to pass all of this folder."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from simdist.hardware import Device, ethernet_10g
from simdist.runtime.base import Engine
from simdist.runtime.simulated.engine import SimulatedEngine

__all__ = ["ENGINES", "MakeEngine"]

MakeEngine = Callable[..., Any]


def simulated(devices: Mapping[str, Device], seed: int = 0) -> Engine:
    return SimulatedEngine(dict(devices), ethernet_10g, seed, "deferred")


def in_process(devices: Mapping[str, Device], seed: int = 0) -> Engine:
    if importlib.util.find_spec("simdist.runtime.in_process") is None:
        pytest.skip("there is no simdist.runtime.in_process yet")
    found: Any = importlib.import_module("simdist.runtime.in_process.engine")
    return found.InProcessEngine(list(devices), ethernet_10g, seed)


def isolated(devices: Mapping[str, Device], seed: int = 0) -> Engine:
    pytest.importorskip("flatbuffers")
    found: Any = importlib.import_module("simdist.runtime.in_process.isolated")
    return found.IsolatedEngine(list(devices), ethernet_10g, seed)


ENGINES: dict[str, MakeEngine] = {"simulated": simulated, "in process": in_process, "isolated": isolated}
