"""An engine of each kind, with a chief, two workers and two parameter servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isinf
from types import SimpleNamespace
from typing import Any

import pytest

from simdist.hardware import Device
from simdist.runtime.base import Engine
from tests.runtime.conformance.driver import POOLS, Driver
from tests.runtime.conformance.engines import ENGINES

TASKS = ("chief:0", "worker:0", "worker:1", "ps:0", "ps:1")
WORKERS = ("worker:0", "worker:1")
MEMORY_BYTES = 1e6


def require_finite_memory(engine: Engine) -> None:
    """Leave out a test of full memories for an engine whose devices never are."""
    if isinf(engine.memory("worker:0").capacity_bytes):
        pytest.skip("the devices of this engine have endless memories")


@pytest.fixture(params=ENGINES)
def make_engine(request: Any) -> Iterator[Callable[..., Engine]]:
    """Makes engines of one kind; they are closed in the end."""
    made: list[Engine] = []

    def make(seed: int = 0, strategy: Any = None) -> Engine:
        engine: Engine = ENGINES[request.param]({task: Device(memory=MEMORY_BYTES) for task in TASKS}, seed=seed)
        made.append(engine)
        POOLS[engine] = engine.start_workers(WORKERS, strategy or SimpleNamespace())
        return engine

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()


@pytest.fixture
def driver(engine: Engine) -> Driver:
    return Driver(engine)
