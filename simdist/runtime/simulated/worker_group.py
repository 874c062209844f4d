"""The workers that train together, each with a main of its own: how they find each other, and when they part.

The k-th strategy that the main of one worker makes belongs with the k-th of every other. When a worker dies or its main ends,
its groups break up: whoever waits for it, or comes later, gets an error. Mains that start again make new strategies, which
find each other in new groups; one that starts again after others have returned finds nobody.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.errors import UnavailableError
from simdist.process_state import active_context
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.task import Incarnation
from simdist.runtime.simulated.world import World

__all__ = ["WorkerGroup", "join_group"]


class WorkerGroup:
    """Some replicas on several tasks, driven by the mains of the tasks."""

    def __init__(self, world: World, members: Sequence[Member], communication: Communication) -> None:
        self.devices = tuple(member.device for member in members)
        self.processes: dict[str, Incarnation] = {}
        self.collective_group = CollectiveGroup(world, members, communication, CollectivePlans())

    def admits(self, task_name: str, devices: tuple[str, ...]) -> bool:
        """Whether a task may join: not yet in it, and nobody has left."""
        whole = self.collective_group.broken is None and all(process.alive for process in self.processes.values())
        return whole and task_name not in self.processes and self.devices == devices

    def leave(self, task_name: str, error: BaseException | None) -> None:
        """The main of a task has ended."""
        how = "has ended" if error is None else f"has failed ({type(error).__name__})"
        self.collective_group.break_up(
            UnavailableError(f"The main of {task_name} {how}, so no all-reduce with it can end. Let all mains take equally many steps."),
            spare_begun=True,
        )


def join_group(world: World, members: Sequence[Member], task_name: str, communication: Communication) -> CollectiveGroup:
    """The meeting place of this task's strategy with those of the other tasks."""
    devices = tuple(member.device for member in members)
    groups: list[WorkerGroup] = world.groups
    groups[:] = [group for group in groups if group.collective_group.broken is None]
    group = next((group for group in groups if group.admits(task_name, devices)), None)
    if group is None:
        group = WorkerGroup(world, members, communication)
        _break_up_without_others(group, members, task_name)
        groups.append(group)
    group.processes[task_name] = world.tasks[task_name].process
    joined = group
    endings: list[Any] = active_context().locals.setdefault("endings", [])
    endings.append(lambda error: joined.leave(task_name, error))
    return group.collective_group


def _break_up_without_others(group: WorkerGroup, members: Sequence[Member], task_name: str) -> None:
    """Where mains of the same run have returned, nobody comes to the collectives of a new group."""
    returned = active_context().locals.get("returned", ())
    ended = [name for name in dict.fromkeys(member.task for member in members) if name in returned]
    if ended:
        group.collective_group.break_up(
            UnavailableError(
                f"{task_name} has nobody to train with: {'the main' if len(ended) == 1 else 'the mains'} of {', '.join(ended)} returned "
                "before it made this strategy. What they returned is in the results of the run."
            )
        )
