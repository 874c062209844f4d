"""Going on with the survivors: what becomes of a strategy when one of its workers dies, and when it comes back.

A step that loses a replica leaves no mark, so the survivors, which have copies of everything, can take it again among
themselves: the same global batch, in fewer and larger parts. A worker that was started again joins before the next step; it
gets the variables from a survivor, over the network, and a part of the batch. What a dead replica alone had counted (its
share of a metric) is lost.

Source of the idea: Horovod's elastic mode and PyTorch's torchrun restart such jobs in the same way, from a survivor's state.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.errors import InvalidArgumentError, UnavailableError
from simdist.program.per_replica import PerReplica
from simdist.runtime.members import Member
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

    def join(self, iterators: list[tuple[DistributedIterator, dict[str, Any]]]) -> None:
        """Take back those whose tasks are up again."""
        present = {member.place for member in self.strategy.members}
        back = [member for member in self.everybody if member.task.alive and member.place not in present]
        if back:
            self._copy_state(back)
            self._resize([member for member in self.everybody if member.place in present or member in back], iterators, "join")

    def leave(self, iterators: list[tuple[DistributedIterator, dict[str, Any]]]) -> bool:
        """Go on without those whose tasks are down; whether anybody is left and anybody has gone."""
        left = [member for member in self.strategy.members if member.task.alive]
        if not left or len(left) == len(self.strategy.members):
            return False
        self._resize(left, iterators, "leave")
        return True

    def _resize(self, members: list[Member], iterators: list[tuple[DistributedIterator, dict[str, Any]]], what: str) -> None:
        strategy = self.strategy
        old = [member.place for member in strategy.members]
        strategy.members = [Member(rank, member.task, member.place) for rank, member in enumerate(members)]
        for variable in strategy.variables:
            if variable.placement.spread == "replicas":
                self._renumber(variable, old)
        strategy.editions.clear()
        strategy.linked.clear()
        strategy.store.layout.version += 1
        for iterator, position in iterators:
            iterator.restart(position)
        runtime = strategy.runtime
        runtime.trace.instant(strategy.members[0].task.name, "resize", f"{what}: {len(members)} replicas", runtime.now)

    def _renumber(self, variable: Variable, old: list[str]) -> None:
        """The cells of those that are there now; one that has come anew starts with its share of nothing."""
        placement: Placement = variable.placement
        known = dict(zip(old, placement.cells, strict=True))
        first = next(known[member.place] for member in self.strategy.members if member.place in known)
        cells: list[Cell] = []
        for number, member in enumerate(self.strategy.members):
            cell = known.get(member.place)
            if cell is None:
                value = self.strategy.store.cell_value(variable, first)
                cell = Cell(variable.name, variable.aval, member.task.name, kind=first.kind, places=(member.place,), replica=number)
                self.strategy.store.layout.add(cell, value * 0 if placement.combine == "sum" else value)
            cell.replica = number
            cells.append(cell)
        placement.cells = cells

    def _copy_state(self, back: list[Member]) -> None:
        """The variables travel from the first survivor to those that have come back."""
        strategy, runtime = self.strategy, self.strategy.runtime
        source = strategy.members[0].place
        for member in back:
            groups = [group for group in strategy.store.layout.groups if source in group.places and group.cells[0].replica is None]
            size_bytes = sum(cell.aval.size_bytes for group in groups for cell in group.cells)
            began = runtime.now
            runtime.carry(source, member.place, size_bytes, f"variables for {member.place}")
            runtime.trace.span(member.place, "read", "variables of a survivor", began, runtime.now, bytes=size_bytes)
            if not member.task.alive:
                raise UnavailableError(f"{member.task.name} died again while it joined.")
            for group in groups:
                group.places = (*group.places, member.place)
                for cell in group.cells:
                    runtime.hold(member.place, cell.name, cell.aval.size_bytes)
