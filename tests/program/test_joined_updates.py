"""Assignments that follow each other are one update; where one could see another, or they are of different kinds, they stay apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from simdist.program.cutting import cut
from simdist.program.joined_updates import with_joined_updates
from simdist.program.markers import CheckMarker
from simdist.program.operations import RuleHandle, Update, VariableHandle
from simdist.program.tracing import Tracer
from simdist.program.values import Aval

Step = Callable[[Tracer], list[Any]]


class Handle(VariableHandle):
    """Stands for a variable; its parts are stored in it."""

    aval = Aval((2,), "float32")  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, kind: Hashable = "any", parts: Sequence[VariableHandle] = ()) -> None:
        self.kind = kind
        self.parts = parts

    @property
    def assigned_with(self) -> Hashable:
        return self.kind

    def overlapping(self) -> Sequence[VariableHandle]:
        return self.parts


A, B, C = Handle(), Handle(), Handle()
PART = Handle()
ONE = np.ones(2, np.float32)


def updates(step: Step) -> list[int]:
    """How many variables each update of a step changes."""
    tracer = Tracer()
    program = cut("step", tracer.trace(lambda: step(tracer)), tracer.markers, lambda arrays: arrays)
    return [len(op.variables) for op in with_joined_updates(program).operations if isinstance(op, Update)]


def each(rule: Any, *handles: Handle) -> Step:
    def step(tracer: Tracer) -> list[Any]:
        for handle in handles:
            tracer.update(rule, [handle], [tracer.read(C) * 2.0])
        return []

    return step


def read_between(tracer: Tracer) -> list[Any]:
    tracer.update("assign", [A], [ONE])
    tracer.update("assign", [B], [tracer.read(A)])
    return []


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (each("assign", A, B), [2]),
        (each("add", A, B), [2]),
        (each("assign", A, B, A), [2, 1]),
        (each("add", A, A), [1, 1]),
        (each("assign", A, Handle("another")), [1, 1]),
        (each("assign", Handle(None), Handle(None)), [1, 1]),
        (each("assign", Handle(parts=[PART]), PART), [1, 1]),
        (each("assign", PART, Handle(parts=[PART])), [1, 1]),
        (each(RuleHandle(), A, B), [1, 1]),
        (lambda tracer: each("assign", A)(tracer) + each("add", B)(tracer), [1, 1]),
        (read_between, [1, 1]),
    ],
    ids=[
        "assign",
        "add",
        "twice",
        "add twice",
        "kinds",
        "no kind",
        "whole and part",
        "part and whole",
        "optimizer",
        "rules",
        "read between",
    ],
)
def test_only_assignments_that_cannot_see_each_other_are_joined(step: Step, found: list[int]) -> None:
    assert updates(step) == found


def test_a_check_between_stays_between() -> None:
    def step(tracer: Tracer) -> list[Any]:
        tracer.update("assign", [A], [ONE])
        tracer.mark(CheckMarker("no number"), [tracer.read(C)], [])
        tracer.update("assign", [B], [ONE])
        return []

    assert updates(step) == [1, 1]


STRATEGIES = {
    "one device": lambda: sd.OneDeviceStrategy(),
    "mirrored": lambda: sd.MirroredStrategy(2),
    "central storage": lambda: sd.CentralStorageStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_clipped_weights_are_those_of_numpy(name: str) -> None:
    strategy = STRATEGIES[name]()
    values = [np.linspace(-2.0, 2.0, 6, dtype=np.float32).reshape(2, 3) * (number + 1) for number in range(10)]
    with strategy.scope():
        variables = [sd.Variable(value, aggregation="mean") for value in values]
        counts = [sd.Variable(0.0, synchronization="on_read", aggregation="sum") for _ in range(2)]

    @sd.function
    def step() -> jax.Array:
        for variable in variables:
            variable.assign(variable.value.clip(-1.5, 1.5))
        variables[0].assign(variables[1].value)
        for number, count in enumerate(counts):
            count.assign_add(number + 1.0)
        return variables[0].value + variables[9].value

    if isinstance(strategy, sd.ParameterServerStrategy):
        coordinator = sd.ClusterCoordinator(strategy)
        result = coordinator.schedule(step).fetch()
    else:
        result = strategy.local_results(strategy.run(step))[-1]
    clipped = [value.clip(-1.5, 1.5) for value in values]
    clipped[0] = clipped[1]
    for variable, value in zip(variables, clipped, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    np.testing.assert_array_equal(np.asarray(result), clipped[0] + clipped[9])
    replicas = strategy.num_replicas_in_sync
    assert [float(count.numpy()) for count in counts] == [replicas * 1.0, replicas * 2.0]


def test_assignments_of_a_step_are_one_span_on_each_device() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        variables = [sd.Variable(np.full(3, number, np.float32), aggregation="mean") for number in range(20)]

    @sd.function
    def step() -> None:
        for variable in variables:
            variable.assign(variable.value.clip(0.0, 5.0))

    strategy.run(step)
    assert len({variable.placement.cells[0].group.number for variable in variables}) == 1
    updates = [span.lane for span in strategy.cluster.trace.spans if span.category == "apply"]
    assert sorted(updates) == sorted(strategy.replica_devices())
    np.testing.assert_array_equal([variable.numpy()[0] for variable in variables], np.arange(20.0).clip(0, 5))


def test_assignments_of_a_step_are_sent_to_servers_side_by_side() -> None:
    network, device = sd.hardware.Network(bandwidth=1e4, latency=0.5), sd.hardware.Device(launch_overhead=0.0)
    cluster = sd.Cluster({"worker": 1, "ps": 2}, network=network, hardware=device, numerics="off")
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variables = [sd.Variable(np.ones(250, np.float32)) for _ in range(4)]

    def step() -> None:
        for variable in variables:
            variable.assign_sub(variable.value * 0.1)

    sd.ClusterCoordinator(strategy).schedule(sd.function(step)).fetch()
    calls = [(span.category, span.duration_s) for span in cluster.trace.spans if span.category in ("read", "update")]
    # A latency there and one back, and the port of the worker for the bytes of all.
    assert calls == [(category, pytest.approx(2 * 0.5 + 4000 / 1e4, rel=1e-4)) for category in ("read", "update")]
