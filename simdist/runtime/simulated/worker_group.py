"""A worker group: workers that train together, each with a main of its own. Mains join it and leave it.

The k-th strategy that the main of one worker makes forms a group with the k-th of every other. When a worker dies or its main ends,
its groups break up: a main that waits for it, or arrives later, gets an error. So does one that has not used its strategy since, and makes
another one: the next strategy of that task is the first again, and no partner of it. Mains that start again make new strategies, which
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

    @property
    def is_over(self) -> bool:
        """Whether the main of a member has ended, or will never go on."""
        return self.collective_group.broken is not None or not all(process.alive for process in self.processes.values())

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
    main = launched_main.get()
    joined = [] if main is None else main.groups
    lost = next((each for each in joined if each.is_over and task_name not in each.collective_group.known_to), None)
    group = None if lost is not None else next((group for group in groups if group.admits(task_name, devices)), None)
    if group is None:
        group = WorkerGroup(world, members, communication)
        _break_up_without_others(group, members, task_name)
        if lost is not None:
            group.collective_group.break_up(_behind(task_name, lost))
            lost.collective_group.known_to.add(task_name)
        groups.append(group)
    group.processes[task_name] = world.tasks[task_name].process
    if main is not None:
        joined.append(group)
        group.returned = main.returned
        main.endings.append(lambda error: group.leave(task_name, error))
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


def _behind(task_name: str, lost: WorkerGroup) -> UnavailableError:
    """The error of a strategy that a main makes while the others begin anew."""
    ended = [name for name, process in lost.processes.items() if not process.alive]
    why = str(lost.collective_group.broken or f"{', '.join(ended)} died. Launch the mains with restart='always'.")
    return UnavailableError(
        f"{task_name} has no partner for another strategy, as one that it made before has ended, and the others begin with their "
        f"first: {why}"
    )
