"""Forecasts: how long a step of a worker and the messages of its closure take, on idle links and devices, without jitter and faults."""

from __future__ import annotations

from collections.abc import Mapping

from simdist.cost.flops import Cost
from simdist.runtime.linked import ApplyAll, LinkedProgram, ReadGroups, RunKernel
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World

__all__ = ["closure_figures"]


def closure_figures(world: World, linked: LinkedProgram, name: str) -> tuple[float, float]:
    """Seconds of one step on a worker, and seconds between two closures in which the worker has nothing to do."""
    task, costs = world.task(name), world.prices.of(linked).costs
    seconds = 0.0
    for op in linked.operations:
        if isinstance(op, RunKernel):
            seconds += _seconds(task, costs[op.number])
        elif isinstance(op, ReadGroups):
            sizes: dict[str, float] = {}
            for group, _, size_bytes in op.groups:
                owner = world.states.groups[group].task
                sizes[owner] = sizes.get(owner, 0.0) + size_bytes
            seconds += _call_s(world, task, sizes, {})
        elif isinstance(op, ApplyAll):
            sent: dict[str, float] = {}
            work: dict[str, float] = {}
            for part in op.parts:
                if part.task != world.chief.name:  # what is the chief's travels with the reply
                    sent[part.task] = sent.get(part.task, 0.0) + part.size_bytes
                    work[part.task] = work.get(part.task, 0.0) + _seconds(world.task(part.task), costs[part.number])
            seconds += _call_s(world, task, sent, work)
    return seconds, world.routes.latency_s(world.chief, task) + world.routes.latency_s(task, world.chief)


def _seconds(task: Task, cost: Cost) -> float:
    return cost.seconds if cost.seconds is not None else task.device.seconds(cost.flops, cost.bytes_moved)


def _call_s(world: World, task: Task, sizes: Mapping[str, float], work: Mapping[str, float]) -> float:
    """Seconds of a call to several servers at once: there and back, the bytes, and what they compute."""
    slowest_s = 0.0
    for name, size_bytes in sizes.items():
        if name == task.name:
            slowest_s = max(slowest_s, work.get(name, 0.0))
            continue
        server = world.task(name)
        latency_s = world.routes.latency_s(task, server) + world.routes.latency_s(server, task)
        bandwidth = world.routes.bandwidth(task.name, name)
        slowest_s = max(slowest_s, latency_s + (size_bytes / bandwidth if bandwidth else 0.0) + work.get(name, 0.0))
    return slowest_s
