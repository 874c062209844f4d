"""What the simulated machines do at this moment, for pictures: the state of each task, messages on their way, closures in flight.

Looking changes nothing. A trace has what is over; what goes on is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simdist.runtime.cluster import Cluster
from simdist.runtime.simulated.calls import Call
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.copies import Copy
from simdist.runtime.simulated.parcels import Parcel
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World
from simdist.trace.records import task_of

__all__ = ["TASK_STATES", "Flight", "closures_in_flight", "flights", "task_states", "tasks_since"]

TASK_STATES = ("idle", "reading", "computing", "updating", "waiting", "down", "restarting", "slow", "paused", "cut off")
"""All states of a task, in the words that pictures use."""


@dataclass(frozen=True)
class Flight:
    """A message on its way.

    Args:
        source, target: the tasks.
        kind: as faults name it: "read_reply", "update", "closure", "copy", "collective", ...
        size_bytes: how much.
        began_s: when the call or the copy that it belongs to began, or the transfer of a collective was sent, in virtual seconds.
    """

    source: str
    target: str
    kind: str
    size_bytes: float
    began_s: float


def task_states(cluster: Cluster) -> dict[str, str]:
    """The state of each task; what a fault does to it goes before what it does itself.

    Example:
        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 2})
        >>> cluster.faults.pause("worker:1", at=1.0, until=2.0) and sd.sleep(1.5, cluster)
        >>> task_states(cluster)
        {'chief:0': 'idle', 'worker:0': 'idle', 'worker:1': 'paused'}
    """
    return {name: state for name, (state, _) in tasks_since(cluster).items()}


def tasks_since(cluster: Cluster) -> dict[str, tuple[str, float | None]]:
    """The state of each task, and since which virtual second; None where the machines do not keep it.

    Example:
        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 1})
        >>> cluster.faults.pause("worker:0", at=1.0, until=2.0) and sd.sleep(1.5, cluster)
        >>> tasks_since(cluster)
        {'chief:0': ('idle', None), 'worker:0': ('paused', 1.0)}
    """
    world = cluster.world
    waiting, cut_off = _in_collectives(world), {name for pair in world.transport.blocked for name in pair}
    return {name: _state(world, task, waiting, cut_off) for name, task in world.tasks.items()}


def flights(cluster: Cluster, most: int = 200) -> list[Flight]:
    """Messages on their way, those of calls, copies and collectives: of a collective, the transfers of the steps that it is in.

    What has come is left out. A reply to a read is given from the request on.

    Args:
        cluster: whose.
        most: how many are given; default 200.
    """
    found: list[Flight] = []
    for flight in _flights(cluster.world):
        if len(found) >= most:
            break
        found.append(flight)
    return found


def closures_in_flight(cluster: Cluster) -> list[tuple[str, int]]:
    """The workers that have a closure, and its number; a worker of several coordinators may have one of each."""
    loops = [loop for workers in cluster.world.workers for loop in workers.loops.values()]
    return [(loop.task.name, loop.running.number) for loop in loops if loop.running is not None]


def _state(world: World, task: Task, waiting: Mapping[str, float], cut_off: set[str]) -> tuple[str, float | None]:
    if not task.alive:
        return "down" if task.restart_plan is None else "restarting", task.down_since_s
    if task.held is not None:
        return "paused", task.held_since_s
    if task.name in cut_off:
        return "cut off", None
    return ("slow", None) if task.slowness > 1.0 else _activity(world, task, waiting)


def _activity(world: World, task: Task, waiting: Mapping[str, float]) -> tuple[str, float | None]:
    if any(processor.free_s > world.now for processor in task.processors.values()):
        return "computing", None
    for sender in task.calls:
        if isinstance(sender, Call) and sender.client is task:
            return "reading" if sender.plan.parts[0].update is None else "updating", sender.began_s
    return ("waiting", waiting[task.name]) if task.name in waiting else ("idle", None)


def _in_collectives(world: World) -> dict[str, float]:
    """The tasks of replicas that have come to a collective and have no result yet, with when they came."""
    groups = [listener for listener in world.listeners if isinstance(listener, CollectiveGroup)]
    return {
        group.members[rank].task: arrival.began_s
        for group in groups
        for pending in group.pending.values()
        for rank, arrival in pending.arrivals.items()
        if not arrival.over
    }


def _flights(world: World) -> Iterator[Flight]:
    for task in world.tasks.values():
        for sender in task.calls:
            if isinstance(sender, Call) and sender.client is task:
                for leg in sender.under_way():
                    yield Flight(leg.source.name, leg.target.name, leg.kind, leg.size_bytes, sender.began_s)
            elif isinstance(sender, (Copy, Parcel)) and sender.ends[0] is task and sender.is_under_way:
                yield Flight(sender.ends[0].name, sender.ends[1].name, sender.leg.kind, sender.leg.size_bytes, sender.began_s)
    for group in world.listeners:
        if isinstance(group, CollectiveGroup):
            for pending in group.queue[:1]:
                for source, target, size_bytes, sent_s in pending.under_way():
                    if task_of(source) != task_of(target):
                        yield Flight(task_of(source), task_of(target), "collective", size_bytes, sent_s)
