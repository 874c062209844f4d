"""Going on with the survivors: what becomes of a strategy when one of its workers dies or falls silent, and when it comes back.

A step that loses a replica leaves no mark, so the survivors, which have copies of everything, can take it again among
themselves: the same global batch, in fewer and larger parts. A worker that was started again joins before the next step; it
gets the variables from a survivor, over the network, and a part of the batch. What a dead replica alone had counted (its
share of a metric) is lost.

Source of the idea: Horovod's elastic mode and PyTorch's torchrun restart such jobs in the same way, from a survivor's state.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from simdist.errors import InvalidArgumentError, UnavailableError
from simdist.program.per_replica import PerReplica
from simdist.runtime.replicas import Member
from simdist.strategies.distributed import DistributedIterator
from simdist.variables.state import Cell
from simdist.variables.variable import Placement, Variable

__all__ = ["Elastic"]


class Elastic:
    """Lets replicas of a strategy leave and join between steps.

    Args:
        strategy: whose; all its replicas are driven from one program.
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.everybody: list[Member] = list(strategy.members)

    def positions(self, arguments: Sequence[Any]) -> list[tuple[DistributedIterator, dict[str, Any]]]:
        """Where the iterators of a step stand before it.

        Raises:
            InvalidArgumentError: parts of a batch are passed, which were cut for a fixed number of replicas.
        """
        if any(isinstance(argument, PerReplica) for argument in arguments):
            raise InvalidArgumentError(
                "With on_failure='continue' a step must take its batches itself: pass the iterator of the distributed dataset, and call "
                "next(iterator) in the step. Parts that were cut for a number of replicas do not fit fewer."
            )
        return [(argument, argument.state_dict()) for argument in arguments if isinstance(argument, DistributedIterator)]

    def settle(self, iterators: list[tuple[DistributedIterator, dict[str, Any]]]) -> None:
        """Let those leave who have died, and take back those whose tasks are up again; it takes virtual time.

        Raises:
            UnavailableError: nobody is left who has the variables.
        """
        strategy = self.strategy
        believes_in = strategy.group.believes_in
        left = [member for member in strategy.members if believes_in(member)]
        for member in strategy.members:
            if not member.alive:
                strategy.engine.notice(member, "no answer")
            elif member not in left:
                self._forget_copies(member)
        if not left:
            raise UnavailableError(
                "All replicas have died or are silent, and the variables with them. Build the model again, or restore a checkpoint; faults "
                "that leave one worker alive can be survived."
            )
        if len(left) < len(strategy.members):
            self._resize(left, iterators, "leave")
        present = {member.device for member in left}
        now = [replace(member, process=strategy.engine.process(member.task)) for member in self.everybody]
        back = [member for member in now if believes_in(member) and member.device not in present]
        joined = {member.device: member for member in self._bring_back(back)}
        if joined:
            present = {member.device: member for member in strategy.members if believes_in(member)} | joined
            self._resize([present[member.device] for member in self.everybody if member.device in present], iterators, "join")

    def rewind(self, iterators: list[tuple[DistributedIterator, dict[str, Any]]]) -> None:
        """Go back to where a step began that has failed: it takes its batches again."""
        for iterator, position in iterators:
            iterator.restart(position)

    def has_lost_somebody(self) -> bool:
        """Whether a replica has died or is silent, and another is left to go on."""
        present = list(map(self.strategy.group.believes_in, self.strategy.members))
        return any(present) and not all(present)

    def _forget_copies(self, member: Member) -> None:
        """What a member has that is silent will be out of date when it is heard again: it does not count any more."""
        versions = self.strategy.engine.versions
        for group in self.strategy.store.layout.groups:
            devices = versions.devices_of(group.number)
            if member.device not in devices:
                continue
            for cell in group.cells:
                versions.hold(member.device, cell.name, -cell.aval.size_bytes)
            left = tuple(device for device in devices if device != member.device)
            if left:
                versions.lie_at(group.number, left)
            else:
                versions.forget(group.number)

    def _resize(self, members: list[Member], iterators: list[tuple[DistributedIterator, dict[str, Any]]], what: str) -> None:
        strategy = self.strategy
        old = [member.device for member in strategy.members]
        own = [variable for variable in strategy.variables if variable.placement.spread == "replicas"]
        firsts = [self._first_cell(variable, old, members) for variable in own]
        strategy.members = [replace(member, rank=rank) for rank, member in enumerate(members)]
        for variable, first in zip(own, firsts, strict=True):
            self._renumber(variable, old, first)
        strategy.editions.clear()
        strategy.linked.clear()
        strategy.store.layout.version += 1
        self.rewind(iterators)
        engine = strategy.engine
        engine.trace.instant(strategy.members[0].task, "resize", f"{what}: {len(members)} replicas", engine.now)

    def _first_cell(self, variable: Variable, old: list[str], members: list[Member]) -> Cell:
        """A cell of one that stays."""
        stay = {member.device for member in members}
        found = [cell for device, cell in zip(old, variable.placement.cells, strict=True) if device in stay]
        if not found:
            raise UnavailableError(
                f"Everybody who had a value of {variable.name} has died. Build the model again, or restore a checkpoint."
            )
        return found[0]

    def _renumber(self, variable: Variable, old: list[str], first: Cell) -> None:
        """The cells of those that are there now; one that has come anew starts with its share of nothing."""
        placement: Placement = variable.placement
        known = dict(zip(old, placement.cells, strict=True))
        cells: list[Cell] = []
        for number, member in enumerate(self.strategy.members):
            cell = known.get(member.device)
            if cell is None:
                cell = Cell(variable.name, variable.aval, member.task, kind=first.kind, devices=(member.device,), replica=number)
                self.strategy.store.layout.add(cell, self._beginning(variable, first))
            cell.replica = number
            cells.append(cell)
        placement.cells = cells

    def _beginning(self, variable: Variable, first: Cell) -> Any:
        store = self.strategy.store
        if variable.placement.combine == "sum" or store.engine.numerics == "off":
            return np.zeros(first.aval.shape, first.aval.dtype)
        return store.cell_value(variable, first)

    def _bring_back(self, back: Sequence[Member]) -> list[Member]:
        """The variables travel from a survivor to each that has come back; whoever dies on the way, or is reached by none, stays away."""
        joined: list[Member] = []
        believes_in = self.strategy.group.believes_in
        for member in back:
            tried: list[Member] = []
            while believes_in(member) and member not in joined:
                source = next((other for other in [*self.strategy.members, *joined] if believes_in(other) and other not in tried), None)
                if source is None:
                    break
                tried.append(source)
                with suppress(UnavailableError):  # one of the two has died, or what it sent was lost: is there another source?
                    self._copy_state(source.device, member)
                    joined.append(member)
        return [member for member in joined if believes_in(member)]

    def _copy_state(self, source: str, member: Member) -> None:
        strategy, engine = self.strategy, self.strategy.engine
        versions = engine.versions
        own = [group for group in strategy.store.layout.groups if group.cells[0].replica is None]
        shared = [group for group in own if source in versions.devices_of(group.number)]
        groups = [group for group in shared if member.device not in versions.devices_of(group.number)]
        size_bytes = sum(cell.aval.size_bytes for group in groups for cell in group.cells)
        began = engine.now
        engine.copy(source, member.device, size_bytes, f"variables for {member.device}")
        engine.trace.span(member.device, "read", "variables of a survivor", began, engine.now, bytes=size_bytes)
        for group in groups:
            versions.lie_at(group.number, (*versions.devices_of(group.number), member.device))
            for cell in group.cells:
                versions.hold(member.device, cell.name, cell.aval.size_bytes)
