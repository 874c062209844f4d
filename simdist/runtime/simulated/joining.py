"""Tasks that join a running world, and tasks that leave it.

A new task has the device of the first one of its job, a host of its own, and registers at the chief by a message. One that leaves ends its
process; its name is not given again. What it has sent is still on its way.
"""

from __future__ import annotations

from simdist.errors import InvalidArgumentError
from simdist.runtime.simulated.server_loop import ServerLoop
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World

__all__ = ["end_process", "join", "leave"]


def join(world: World, job: str) -> Task:
    """Start one more task of a job.

    Raises:
        InvalidArgumentError: there is no task of this job, or the network has no place for one more.
    """
    known = [name for name in world.tasks if name.partition(":")[0] == job]
    if not known:
        raise InvalidArgumentError(f"There is no task of the job {job!r}, after whose device a new one could be made.")
    name = f"{job}:{1 + max(int(other.partition(':')[2]) for other in known)}"
    world.fabric.add_host(name)
    world.host_of[name] = name
    task = world.tasks[name] = Task(name, world.tasks[known[0]].device)
    world.mains[name] = []
    world.servers[name] = ServerLoop(task, world.clock, world.trace, world.ledger, world.states, world.step_ended)
    world.trace.declare_lane(name)
    task.begin(world.seed, 0, world.now)
    world.detection.join(task)
    return task


def leave(world: World, task: Task) -> None:
    """A task is a member of the cluster no longer, as the chief has decided."""
    world.left.add(task.name)
    world.detection.forget(task)


def end_process(world: World, task: Task) -> None:
    """End the process of a task that has left."""
    task.restart_plan = None
    if task.alive:
        world.end(task)
