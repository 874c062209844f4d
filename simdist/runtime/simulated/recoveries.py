"""Servers get the recovery that a strategy asks for; and what a program sees of it that looks at variables from outside of every step."""

from __future__ import annotations

from collections.abc import Sequence

from simdist.errors import InvalidArgumentError, UnavailableError
from simdist.program.values import Bundle
from simdist.runtime.serving import Serving
from simdist.runtime.simulated.chain import Chain
from simdist.runtime.simulated.server_recovery import ServerRecovery
from simdist.runtime.simulated.snapshots import Snapshots
from simdist.runtime.simulated.world import World
from simdist.simulation.dead_code import require_not_dead

__all__ = ["present_versions", "protect"]

KINDS: dict[str, type[ServerRecovery]] = {"replica": Chain, "checkpoint": Snapshots}


def protect(world: World, serving: Serving) -> None:
    """Let servers keep what they hold as a strategy asks for, from now on.

    Raises:
        InvalidArgumentError: another strategy on the same servers has asked for something else.
    """
    if serving.recovery == "raise":
        return
    for position, name in enumerate(serving.servers):
        known = world.recoveries.get(name)
        if known is None:
            following = serving.servers[(position + 1) % len(serving.servers)]
            _install(world, name, _recovery_of(world, serving, name, following))
        elif type(known) is not KINDS[serving.recovery]:
            raise InvalidArgumentError(
                f"recovery={serving.recovery!r}: {name} has another recovery already, which a strategy on the same cluster has asked for "
                f"({type(known).__name__}). Give both strategies the same one, or two clusters."
            )


def present_versions(world: World, groups: Sequence[int]) -> list[Bundle]:
    """The present versions of groups.

    Raises:
        UnavailableError: the task that held one has died, or its server gets it back only later.
    """
    try:
        return [world.states.present(group) for group in groups]
    except UnavailableError as error:
        require_not_dead()
        for task in dict.fromkeys(world.states.groups[group].task for group in groups):
            recovery = world.recoveries.get(task)
            if recovery is not None and not (recovery.is_serving or recovery.is_lost):
                raise UnavailableError(
                    f"{task} has crashed, and does not have its variables back yet; to read or assign one takes no time in which they "
                    "could come. Let time pass and look again: sd.sleep(seconds), or schedule a step that uses them, and join."
                ) from None
            if recovery is not None and recovery.reason and str(error).startswith(f"{task} "):
                raise UnavailableError(f"{error} {recovery.reason}") from None
        raise


def _recovery_of(world: World, serving: Serving, name: str, following: str) -> ServerRecovery:
    task, forget = world.task(name), world.servers[name].forget
    if serving.recovery == "replica":
        chain = Chain(world, task, world.task(following), forget)
        world.detection.listeners.append(chain.believed)
        return chain
    return Snapshots(world, task, forget, world.servers[name].remembered)


def _install(world: World, name: str, recovery: ServerRecovery) -> None:
    world.recoveries[name] = world.servers[name].recovery = recovery
    world.mains[name].append(recovery.started)
