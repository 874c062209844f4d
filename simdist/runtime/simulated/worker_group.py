"""A worker group: workers that train together, each with a main of its own. Mains join it and leave it.

The k-th strategy that the main of one worker makes forms a group with the k-th of every other. When a worker dies or its main ends,
its groups break up: a main that waits for it, or arrives later, gets an error. Mains that start again make new strategies, which
form new groups; one that starts again has no partner where others return without taking part in its new group, before it or later.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simdist.errors import UnavailableError
from simdist.runtime.launched_main import launched_main
from simdist.runtime.replicas import Communication, Member
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.task import Incarnation
from simdist.runtime.simulated.world import World

__all__ = ["WorkerGroup", "join_group", "main_returned"]


class WorkerGroup:
    """Replicas on several tasks, driven by the mains of the tasks."""

    def __init__(self, world: World, members: Sequence[Member], communication: Communication) -> None:
        self.devices = tuple(member.device for member in members)
        self.members = members
        self.returned: Mapping[str, object] | None = None  # what the mains of the same run have returned; None in a notebook
        self.processes: dict[str, Incarnation] = {}
        self.collective_group = CollectiveGroup(world, members, communication, CollectivePlans())

    def admits(self, task_name: str, devices: tuple[str, ...]) -> bool:
        """Whether a task may join: it is not yet in it, and no task has left."""
        whole = self.collective_group.broken is None and all(process.alive for process in self.processes.values())
        return whole and task_name not in self.processes and self.devices == devices

    def leave(self, task_name: str, error: BaseException | None) -> None:
        """The main of a task has ended."""
        how = "has ended" if error is None else f"has failed ({type(error).__name__})"
        self.collective_group.break_up(
            UnavailableError(f"The main of {task_name} {how}, so no all-reduce with it can end. Let all mains take equally many steps."),
            keep_begun=True,
        )


def join_group(world: World, members: Sequence[Member], task_name: str, communication: Communication) -> CollectiveGroup:
    """The collective group of this task's strategy and those of the other tasks."""
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
    main = launched_main.get()
    if main is not None:
        joined.returned = main.returned
        main.endings.append(lambda error: joined.leave(task_name, error))
    return group.collective_group


def main_returned(world: World, task_name: str, returned: Mapping[str, object]) -> None:
    """A main has returned, which joins no group any more that waits for it, whether or not it has joined one before.

    Args:
        world: has the groups.
        task_name: of its task.
        returned: what the mains of its run have returned.
    """
    for group in world.groups:
        is_awaited = task_name not in group.processes and any(member.task == task_name for member in group.members)
        if group.returned is returned and is_awaited and group.collective_group.broken is None:
            group.collective_group.break_up(_no_partner(next(iter(group.processes)), [task_name]))


def _break_up_without_others(group: WorkerGroup, members: Sequence[Member], task_name: str) -> None:
    """End the collectives of a new group where mains of the same run have returned: they never arrive."""
    main = launched_main.get()
    ended = [name for name in dict.fromkeys(member.task for member in members) if main is not None and name in main.returned]
    if ended:
        group.collective_group.break_up(_no_partner(task_name, ended))


def _no_partner(task_name: str, ended: Sequence[str]) -> UnavailableError:
    return UnavailableError(
        f"{task_name} has no partner in its collectives: {'the main' if len(ended) == 1 else 'the mains'} of {', '.join(ended)} "
        "returned without taking part in this strategy. What they returned is in the results of the run."
    )
