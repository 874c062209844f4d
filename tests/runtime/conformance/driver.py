"""What a strategy does with an engine, by hand: places variables, traces plain functions, links them, and gives them to tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import simdist as sd
from simdist.collectives import ALL_GATHER, ALL_REDUCE, BROADCAST
from simdist.collectives.base import Schedule
from simdist.errors import FailedPreconditionError
from simdist.program.bound_call import BoundCall
from simdist.program.collective import Collective
from simdist.program.function import StepFunction
from simdist.program.markers import KeyMarker
from simdist.program.scope import opened
from simdist.program.taken_batches import fits_at_once
from simdist.program.tracing import active_tracer
from simdist.program.values import Aval, aval_of
from simdist.runtime.base import Engine
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.linking import link
from simdist.runtime.replicas import CollectivePlan, Member
from simdist.runtime.store import Store
from simdist.runtime.updating import prepare
from simdist.runtime.work import Drawn, Handle, StepResult, Worker, WorkerPool
from simdist.variables.placement import Placement
from simdist.variables.state import Cell, task_of

__all__ = ["Communication", "Driver", "Replicas", "WorkerStep", "exchanged", "random_key"]

Function = Callable[..., Any]


POOLS: WeakKeyDictionary[Any, WorkerPool] = WeakKeyDictionary()
"""The workers of each engine, as whoever made it has started them."""


class Driver:
    """A program that drives an engine.

    Args:
        engine: which.

    Attributes:
        store, layout: of its variables.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = Store(engine, lambda name: None)
        self.layout = self.store.layout
        self.closures = 0

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass; where none ever does, everything has happened already."""
        try:
            self.engine.sleep(seconds)
        except FailedPreconditionError:
            assert self.engine.now == 0

    # -- variables

    def variable(self, value: Any, *devices: str, name: str = "v") -> Any:
        """On one place, or equal copies on several."""
        return self._made(value, name, lambda array: [Cell(name, aval_of(array), task_of(devices[0]), devices=devices)], "copies")

    def one_each(self, value: Any, *devices: str, name: str = "v") -> Any:
        """Each of these replicas has a value of its own, which begins with this one."""

        def cells(array: Any) -> list[Cell]:
            return [Cell(name, aval_of(array), task_of(device), devices=[device], replica=rank) for rank, device in enumerate(devices)]

        return self._made(value, name, cells, "replicas")

    def _made(self, value: Any, name: str, cells: Callable[[Any], list[Cell]], spread: str) -> Any:
        def create(variable: Any, array: Any) -> None:
            placed = cells(array)
            for cell in placed:
                self.layout.add(cell, array)
            variable.placement = Placement(placed, self.store, spread)

        with opened(Creating(create)):
            return sd.Variable(np.asarray(value), name=name)

    # -- steps of workers

    def call(self, task: str, function: Function, *args: Any, repeat: int = 1, keeps_each: bool = False) -> Handle:
        """Let a worker take steps of a plain function."""
        self.closures += 1
        return POOLS[self.engine].call(task, WorkerStep(self, function, args, repeat, keeps_each), self.closures)

    def call_function(self, task: str, function: Callable[[Worker], Any]) -> Handle:
        """Let a worker call a plain function; a test that needs one is left out for an engine that refuses them."""
        self.closures += 1
        handle = POOLS[self.engine].call_function(task, lambda worker, take: function(worker), self.closures)
        if isinstance(handle.error, FailedPreconditionError) and "only data travels" in str(handle.error):
            pytest.skip("this engine sends data alone, and says so")
        return handle

    def result(self, handle: Handle) -> Any:
        """Wait for a step; what it returned, as the arrays that it is made of."""
        found = handle.wait()
        assert isinstance(found, StepResult)
        return found.value(self.engine)


class WorkerStep:
    """As `simdist.runtime.work.WorkerStep`; notes how often it was bound and linked.

    Attributes:
        known: what `ready` gives.
        fitting: what `still_fits` says; None: what is true.
    """

    def __init__(self, driver: Driver, function: Function, args: Sequence[Any], repeat: int = 1, keeps_each: bool = False) -> None:
        self.driver = driver
        self.function = StepFunction(function)
        self.args = args
        self.repeat = repeat
        self.keeps_each = keeps_each
        self.drawn: dict[int, Drawn] = {}
        self.argument_bytes = 0
        self.known: tuple[BoundCall, LinkedProgram] | None = None
        self.fitting: bool | None = None
        self.done: list[str] = []

    def ready(self, worker: Worker) -> tuple[BoundCall, LinkedProgram] | None:
        return self.known

    def bind(self, worker: Worker) -> BoundCall:
        self.done.append("bind")
        return self.function.bind(self.args, {})

    def link(self, worker: Worker, call: BoundCall) -> LinkedProgram:
        self.done.append("link")
        program = self.function.program(call)
        prepare(program, self.driver.layout)
        return link(program, self.driver.layout)

    def still_fits(self, linked: LinkedProgram, call: BoundCall) -> bool:
        if self.fitting is not None:
            return self.fitting
        return linked.version == self.driver.layout.version and fits_at_once(linked.program, call)


class Communication:
    """As `simdist.runtime.replicas.Communication`: these algorithms, whatever the size."""

    def __init__(self, all_reduce: str = "ring", timeout_s: float | None = None) -> None:
        self.all_reduce = all_reduce
        self.timeout_s = timeout_s
        self.backup_workers = 0
        self.local_updates = False

    def plan(self, collective: Collective, devices: tuple[str, ...]) -> CollectivePlan:
        schedule = schedule_of(collective.kind, self.all_reduce, len(devices))
        return CollectivePlan(schedule.algorithm, schedule, schedule, devices)


@cache
def schedule_of(kind: str, all_reduce: str, ranks: int) -> Schedule:
    if kind == "all_reduce":
        return ALL_REDUCE[all_reduce].schedule(ranks)
    return next(iter({"all_gather": ALL_GATHER, "broadcast": BROADCAST}[kind].values())).schedule(ranks)


class Replicas:
    """Replicas on some places that take steps together.

    Args:
        driver: drives them.
        devices: tasks or devices.
        communication: how they exchange; default by rings.
    """

    def __init__(self, driver: Driver, devices: Sequence[str], communication: Any = None) -> None:
        self.driver = driver
        self.communication = communication or Communication()
        engine = driver.engine
        for device in devices:
            engine.add_device(device)
        self.members = [Member(rank, task_of(device), device, engine.process(task_of(device))) for rank, device in enumerate(devices)]
        self.group = engine.replica_group(self.communication)

    def step(self, function: Function, *args: Sequence[Any]) -> list[Any]:
        """Take a step; `args` are for each argument its values, one for each replica. The results of the replicas, in order."""
        return self.step_of([function] * len(self.members), *args)

    def step_of(self, functions: Sequence[Function], *args: Sequence[Any]) -> list[Any]:
        """Take a step in which each replica runs a function of its own."""
        return run_in_group(self.driver, self.group, self.members, self.members, functions, list(zip(*args, strict=True)))


def run_in_group(
    driver: Driver, group: Any, members: Sequence[Member], local: Sequence[Member], functions: Sequence[Function], args: Sequence[Any] = ()
) -> list[Any]:
    """Trace a function for each of these local replicas, and take a step of them."""
    calls: list[BoundCall] = []
    programs: list[Any] = []
    for device, function in enumerate(functions):
        step = StepFunction(function)
        calls.append(step.bind(args[device] if args else (), {}))
        programs.append(step.trace(calls[-1], local[device].rank, len(members)))
    for device, program in enumerate(programs):
        prepare(program, driver.layout, device)
    linked = [link(program, driver.layout, device) for device, program in enumerate(programs)]
    bundles = group.run(members, local, linked, calls)
    arrays = driver.engine.arrays(bundles)
    return [program.rebuild(list(found)) for program, found in zip(linked, arrays, strict=True)]


def exchanged(kind: str, *values: Any) -> list[Any]:
    """In a step: exchange arrays with the other replicas."""
    tracer = active_tracer()
    assert tracer is not None
    return tracer.collective(kind, list(values))


def random_key(salt: int) -> Any:
    """In a step: a random key."""
    tracer = active_tracer()
    assert tracer is not None
    return tracer.mark(KeyMarker(salt), [], [Aval((2,), "uint32")])[0]


class Creating:
    """A scope whose new variables are placed like this."""

    def __init__(self, create: Callable[[Any, Any], None]) -> None:
        self.create = create

    def run_step(self, fn: StepFunction, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError

    seeding_task = None

    def next_seed(self) -> int:
        raise NotImplementedError
