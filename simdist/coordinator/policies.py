"""The policy of a coordinator: the given one if the servers can carry it out, or that of the strategy's mode."""

from __future__ import annotations

from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.synchronization import Asynchronous, Reads, Synchronization, UpdatesCount
from simdist.errors import InvalidArgumentError
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["policy_of"]


def policy_of(synchronization: Synchronization | None, strategy: ParameterServerStrategy) -> Synchronization:
    """A policy that the servers can carry out.

    Raises:
        InvalidArgumentError: they cannot carry out the given one, or the strategy has a mode that says another.
        TypeError: it is no policy.
    """
    if synchronization is None:
        if not strategy.serving.in_rounds:
            return Asynchronous()
        ranks = {name: rank for rank, name in enumerate(strategy.workers)}
        return BoundedStaleness(ranks, strategy.staleness, strategy.backup_workers)
    if strategy.serving.in_rounds:
        raise InvalidArgumentError(
            f"The strategy was made with mode={strategy.mode!r}, which says how workers wait for each other, and the coordinator with "
            f"synchronization={synchronization!r}. Leave one of them out."
        )
    _require_policy(synchronization)
    if synchronization.reads != Reads.PRESENT or synchronization.counts != UpdatesCount.ON_ARRIVAL:
        raise InvalidArgumentError(
            f"{synchronization!r} needs servers that keep the versions of a round and collect its updates (reads={synchronization.reads}, "
            f"counts={synchronization.counts}). Make the strategy with mode='bounded' or mode='sync' for that, or use a policy with "
            "reads=Reads.PRESENT and counts=UpdatesCount.ON_ARRIVAL."
        )
    return synchronization


NEEDS = ("reads", "counts", "joined", "left", "choose", "began", "ended")


def _require_policy(given: object) -> None:
    missing = [name for name in NEEDS if not hasattr(given, name)]
    if isinstance(given, type) or missing:
        lacks = f"; it has no {', '.join(missing)}" if missing else ""
        raise TypeError(
            f"synchronization is {given!r}, which is no policy{lacks}. Give for example an object of a subclass of Asynchronous."
        )
