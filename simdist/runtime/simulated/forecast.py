"""Forecasts: how long a step of a worker and the messages of its closure take, on idle links and devices, without jitter and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simdist.cost.flops import Cost
from simdist.runtime.linked import ApplyAll, LinkedProgram, ReadGroups, RunKernel
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World
from simdist.simulation.fabric import Route
from simdist.simulation.network import Link

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
            seconds += _read_s(world, task, sizes)
        elif isinstance(op, ApplyAll):
            sent: dict[str, float] = {}
            work: dict[str, float] = {}
            for part in op.parts:
                if part.task != world.chief.name:  # what is the chief's travels with the reply
                    sent[part.task] = sent.get(part.task, 0.0) + part.size_bytes
                    work[part.task] = work.get(part.task, 0.0) + _seconds(world.task(part.task), costs[part.number])
            seconds += _update_s(world, task, sent, work)
    return seconds, world.routes.latency_s(world.chief, task) + world.routes.latency_s(task, world.chief)


def _seconds(task: Task, cost: Cost) -> float:
    return cost.seconds if cost.seconds is not None else task.device.seconds(cost.flops, cost.bytes_moved)


def _read_s(world: World, task: Task, sizes: Mapping[str, float]) -> float:
    """Seconds in which the values of several servers come."""
    routes = {name: world.routes.between(name, task.name) for name in sizes if name != task.name}
    return _call_s(world, task, sizes, routes, {})


def _update_s(world: World, task: Task, sizes: Mapping[str, float], work: Mapping[str, float]) -> float:
    """Seconds in which gradients come to several servers, which apply them."""
    routes = {name: world.routes.between(task.name, name) for name in sizes if name != task.name}
    return _call_s(world, task, sizes, routes, work)


def _call_s(world: World, task: Task, sizes: Mapping[str, float], routes: Mapping[str, Route], work: Mapping[str, float]) -> float:
    """Seconds of a call to several servers at once: there and back, the bytes on links that they share, and what servers compute."""
    on_links: dict[Link, list[float]] = {}
    for name, route in routes.items():
        for link in route.links:
            on_links.setdefault(link, []).append(sizes[name])
    slowest_s = 0.0
    for name, size_bytes in sizes.items():
        there_and_back_s = travel_s = 0.0
        if name in routes:
            server = world.task(name)
            there_and_back_s = world.routes.latency_s(task, server) + world.routes.latency_s(server, task)
            travel_s = max((_shared_s(link, on_links[link], size_bytes) for link in routes[name].links), default=0.0)
        slowest_s = max(slowest_s, there_and_back_s + travel_s + work.get(name, 0.0))
    return slowest_s


def _shared_s(link: Link, sizes: Sequence[float], size_bytes: float) -> float:
    """Seconds until so many bytes have passed a link with others: each of those has passed as many, or all that it has."""
    bandwidth = link.bandwidth_bytes_per_s
    return sum([min(size, size_bytes) for size in sizes]) / bandwidth if bandwidth else 0.0
