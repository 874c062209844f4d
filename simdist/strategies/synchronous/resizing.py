"""Other replicas than before: what becomes of the variables of a strategy when replicas leave it, and when they join it.

A copy that all replicas have stays; a value that each has for itself goes with its replica, and begins anew with a new one.

Taught in lesson 04.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from simdist.errors import UnavailableError
from simdist.program.arrays import Array
from simdist.runtime.delivery import Delivery
from simdist.runtime.replicas import Member
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.placement import Placement
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["bring_back", "forget_copies", "resize"]

log = logging.getLogger("simdist")


def forget_copies(strategy: SteppingStrategy, member: Member) -> None:
    """What a member has that is silent will be out of date when it is heard again: it does not count any more."""
    versions = strategy.engine.versions
    for group in strategy.store.layout.groups:
        devices = versions.devices_of(group.number)
        if member.device not in devices:
            continue
        for cell in group.kept:
            versions.hold(member.device, cell.name, -cell.aval.size_bytes)
        left = tuple(device for device in devices if device != member.device)
        if left:
            versions.lie_at(group.number, left)
        else:
            versions.forget(group.number)


def resize(strategy: SteppingStrategy, members: Sequence[Member], what: str) -> None:
    """Let other replicas be those of a strategy.

    Args:
        strategy: whose.
        members: in the order of their new ranks; one that has come anew has the variables already.
        what: for people: "leave", or "join".

    Raises:
        UnavailableError: a variable had its only values at replicas that leave.
    """
    old = [member.device for member in strategy.members]
    own = [variable for variable in strategy.known_variables.all() if variable.placement.spread == "replicas"]
    firsts = [_first_cell(variable, old, members) for variable in own]
    strategy.replicas.members = [replace(member, rank=rank) for rank, member in enumerate(members)]
    for variable, first in zip(own, firsts, strict=True):
        _renumber(strategy, variable, old, first)
    strategy.programs.clear()
    strategy.store.layout.version += 1
    if len(members) < len(old):
        _say_what_is_lost(strategy, old, own)
    engine = strategy.engine
    engine.trace.instant(strategy.members[0].task, "resize", f"{what}: {len(members)} replica{'s' * (len(members) != 1)}", engine.now)


def _say_what_is_lost(strategy: SteppingStrategy, old: Sequence[str], local: Sequence[Variable]) -> None:
    gone = sorted(set(old) - {member.device for member in strategy.members})
    counts = dict.fromkeys(variable.name.rpartition("/")[0] or variable.name for variable in local if variable.placement.combine == "sum")
    if counts:
        log.warning(
            "%s: what it alone had added to %s is lost. This epoch's losses and metrics miss these rows; the weights do not.",
            ", ".join(gone),
            ", ".join(list(counts)[:8]),
        )


def _first_cell(variable: Variable, old: list[str], members: Sequence[Member]) -> Cell:
    """A cell of one that stays."""
    stay = {member.device for member in members}
    found = [cell for device, cell in zip(old, variable.placement.cells, strict=True) if device in stay]
    if not found:
        raise UnavailableError(
            f"Everybody who had a value of {variable.name} has died. Build the model again, and restore a checkpoint into it."
        )
    return found[0]


def _renumber(strategy: SteppingStrategy, variable: Variable, old: list[str], first: Cell) -> None:
    """The cells of those that are there now; one that has come anew starts with its share of nothing."""
    placement: Placement[Variable] = variable.placement
    known = dict(zip(old, placement.cells, strict=True))
    cells: list[Cell] = []
    for number, member in enumerate(strategy.members):
        cell = known.get(member.device)
        if cell is None:
            cell = Cell(variable.name, variable.aval, member.task, kind=first.kind, devices=(member.device,), replica=number)
            strategy.store.layout.add(cell, _beginning(strategy, variable, first))
        cell.replica = number
        cells.append(cell)
    placement.cells = cells


def _beginning(strategy: SteppingStrategy, variable: Variable, first: Cell) -> Array:
    store = strategy.store
    if variable.beginning is not None:
        return np.asarray(variable.beginning())
    if variable.placement.combine == "sum" or store.engine.numerics == "off":
        return np.zeros(first.aval.shape, first.aval.dtype)
    return store.cell_value(variable, first)


def bring_back(strategy: SteppingStrategy, back: Sequence[Member]) -> list[Member]:
    """The variables travel from a survivor to each that has come back; one that dies meanwhile, or that none reaches, stays away."""
    joined: list[Member] = []
    believes_in = strategy.group.believes_in
    for member in back:
        tried: list[Member] = []
        while believes_in(member) and member not in joined:
            source = next((other for other in [*strategy.members, *joined] if believes_in(other) and other not in tried), None)
            if source is None:
                break
            tried.append(source)
            with suppress(UnavailableError):  # one of the two has died, or what it sent was lost: is there another source?
                _copy_state(strategy, source.device, member)
                joined.append(member)
    return [member for member in joined if believes_in(member)]


def _copy_state(strategy: SteppingStrategy, source: str, member: Member) -> None:
    engine = strategy.engine
    versions = engine.versions
    own = [group for group in strategy.store.layout.groups if group.cells[0].replica is None]
    shared = [group for group in own if source in versions.devices_of(group.number)]
    present = [other.device for other in strategy.members]
    kept = [group for group in own if any(device in versions.devices_of(group.number) for device in present)]
    if any(group not in shared for group in kept):
        # It was started again, before anybody missed it.
        raise UnavailableError(f"{source} has lost the variables that {member.device} was to get.")
    groups = [group for group in shared if member.device not in versions.devices_of(group.number)]
    size_bytes = sum(cell.aval.size_bytes for group in groups for cell in group.kept)
    delivery = Delivery(source, member.device, size_bytes, "variables of a survivor")
    engine.deliver([delivery], f"variables for {member.device}", "read")
    for group in groups:
        versions.lie_at(group.number, (*versions.devices_of(group.number), member.device))
        for cell in group.kept:
            versions.hold(member.device, cell.name, cell.aval.size_bytes)
