"""What a linked program costs: worked out once, from its kernels, where it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simdist.cost.flops import cost_of
from simdist.errors import ResourceExhaustedError
from simdist.hardware import MemoryAccount, laptop_cpu
from simdist.program.function import StepFunction
from simdist.runtime.linked import ApplyAll, LinkedProgram, RunKernel
from simdist.runtime.linking import link
from simdist.runtime.simulated.engine import SimulatedEngine
from simdist.runtime.simulated.pricing import Prices
from simdist.runtime.updating import prepare
from tests.runtime.conformance.driver import Driver, exchanged
from tests.runtime.conformance.engines import simulated
from tests.runtime.simulated.machines import TASKS


class Scene:
    """Variables of 40 and 80 bytes, and the prices of programs that use them."""

    def __init__(self) -> None:
        self.engine = simulated(dict.fromkeys(TASKS, laptop_cpu))
        assert isinstance(self.engine, SimulatedEngine)
        self.driver = Driver(self.engine)
        self.prices: Prices = self.engine.world.prices
        self.small = self.driver.variable(np.zeros(10, np.float32), "ps:0")
        self.large = self.driver.variable(np.zeros(20, np.float32), "worker:0")

    def linked(self, function: Callable[..., Any], *args: Any, seconds: float | None = None, replicas: int = 1) -> LinkedProgram:
        step = StepFunction(function, seconds)
        program = step.trace(step.bind(args, {}), 0, replicas)
        prepare(program, self.driver.layout)
        return link(program, self.driver.layout)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def kernels(linked: LinkedProgram) -> list[Any]:
    runs = [op for op in linked.operations if isinstance(op, RunKernel)]
    updates = [part for op in linked.operations if isinstance(op, ApplyAll) for part in op.parts]
    return sorted([*runs, *updates], key=lambda op: op.number)


def test_each_kernel_has_a_price_and_a_site_at_its_number(scene: Scene) -> None:
    linked = scene.linked(lambda: scene.small.assign(scene.small.value * 2 + scene.large.value[:10]))
    priced = scene.prices.of(linked)
    found = kernels(linked)
    assert [op.number for op in found] == list(range(len(found)))
    figures = [(cost.flops, cost.bytes_moved, cost.seconds) for cost in map(cost_of, [op.kernel for op in found])]
    assert [(cost.flops, cost.bytes_moved, cost.seconds) for cost in priced.costs] == figures
    assert [site.kernel for site in priced.sites] == [op.kernel for op in found]
    assert priced.early == [()] * len(found)


def test_prices_are_worked_out_once_and_go_with_their_program(scene: Scene) -> None:
    linked = scene.linked(lambda: scene.small.value + 1)
    assert scene.prices.of(linked) is scene.prices.of(linked)
    other = scene.linked(lambda: scene.small.value + 1)
    assert scene.prices.of(other) is not scene.prices.of(linked)
    del linked, other
    assert len(scene.prices._known) == 0


def test_a_declared_time_is_that_of_the_first_kernel_and_updates_cost_what_they_cost(scene: Scene) -> None:
    def step(x: Any) -> Any:
        scene.small.assign_add(x)
        return scene.small.value * 2

    linked = scene.linked(step, np.ones(10, np.float32), seconds=3.0)
    priced, found = scene.prices.of(linked), kernels(linked)
    declared = [priced.costs[op.number].seconds for op in found if isinstance(op, RunKernel)]
    assert len(declared) > 1 and declared == [3.0, *[0.0] * (len(declared) - 1)]
    assert [priced.costs[op.number] for op in found if not isinstance(op, RunKernel)] == [
        cost_of(op.kernel) for op in found if not isinstance(op, RunKernel)
    ]


def test_laying_arrays_beside_each_other_is_free(scene: Scene) -> None:
    linked = scene.linked(lambda x: scene.small.assign(x), np.ones(10, np.float32))
    moves = [op for op in kernels(linked) if isinstance(op, RunKernel) and op.moves_only]
    assert moves
    costs = [scene.prices.of(linked).costs[op.number] for op in moves]
    assert [(cost.flops, cost.bytes_moved, cost.seconds) for cost in costs] == [(0, 0, 0.0)] * len(moves)


def no_room() -> bool:
    """Nothing can be given back."""
    return False


def test_what_lies_on_the_device_of_a_step_needs_no_copy_there(scene: Scene) -> None:
    priced = scene.prices.of(scene.linked(lambda: scene.small.value.sum() + scene.large.value.sum()))
    assert priced.read_bytes == {"ps:0": 40, "worker:0": 80}
    assert priced.peak_bytes >= 120
    account = MemoryAccount(priced.peak_bytes - 1, "chief:0")
    with pytest.raises(ResourceExhaustedError, match="chief:0"):
        priced.require_memory(account, no_room)
    priced.require_memory(MemoryAccount(priced.peak_bytes, "chief:0"), no_room)
    priced.require_memory(MemoryAccount(priced.peak_bytes - 80, "worker:0"), no_room)
    with pytest.raises(ResourceExhaustedError, match="worker:0"):
        priced.require_memory(MemoryAccount(priced.peak_bytes - 81, "worker:0"), no_room)


def test_a_step_that_does_not_fit_is_asked_again_after_room_was_made(scene: Scene) -> None:
    priced = scene.prices.of(scene.linked(lambda: scene.small.value.sum()))
    account = MemoryAccount(priced.peak_bytes + 3, "chief:0")
    account.allocate("a dead variable", 4)

    def make_room() -> bool:
        account.release("a dead variable", 4)
        return True

    priced.require_memory(account, make_room)
    assert account.in_use_bytes == 0


@pytest.mark.parametrize(("takes", "bytes_each"), [(True, 4), (False, 0)])
def test_arguments_that_kernels_take_need_memory(scene: Scene, takes: bool, bytes_each: int) -> None:
    def needs(rows: int) -> int:
        linked = scene.linked(
            lambda x, y: scene.small.assign_add(y + x.sum() if takes else y), np.ones(rows, np.float32), np.ones(10, np.float32)
        )
        return scene.prices.of(linked).peak_bytes

    assert needs(1000) - needs(1) == bytes_each * 999


def test_exchanges_of_what_one_kernel_makes_begin_while_it_still_runs(scene: Scene) -> None:
    def step(x: Any) -> Any:
        first, second = exchanged("all_reduce", x * 2.0), exchanged("all_reduce", (x * 3.0 + 1.0).sum() * x)
        return first, second

    linked = scene.linked(step, np.ones(10, np.float32), replicas=2)
    early = [one for group in scene.prices.of(linked).early for one in group]
    assert early and all(0 <= one.fraction < 1 for one in early)
