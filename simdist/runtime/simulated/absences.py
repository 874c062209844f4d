"""Tasks that are not there, in words: what the error of a wait without an end names as its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from simdist.runtime.membership import Membership, MemberState
from simdist.runtime.simulated.task import Task

__all__ = ["absences"]

MOST_NAMED = 8


def absences(tasks: Iterable[Task], left: Collection[str], membership: Membership) -> list[str]:
    """Which tasks are down, stand still, or are not heard of by the chief; of many the first ones.

    Args:
        tasks: all of a cluster.
        left: names of those that are members no longer.
        membership: what the chief believes.
    """
    found: list[str] = []
    for task in tasks:
        if task.name in left:
            continue
        belief = membership.beliefs.get(task.name)
        if not task.alive:
            how = "was lost with its machine" if task.process.lost else "has been down"
            found.append(f"{task.name} {how} {'at' if task.process.lost else 'since'} {task.down_since_s:.6f} s")
        elif task.held is not None:
            found.append(f"{task.name} has been paused since {task.held_since_s:.6f} s")
        elif belief is not None and belief.state is MemberState.DOWN:
            found.append(f"{task.name} is up, but the chief does not hear of it")
    return found if len(found) <= MOST_NAMED else [*found[:MOST_NAMED], f"{len(found) - MOST_NAMED} others are not there either"]
