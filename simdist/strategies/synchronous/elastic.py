"""Going on with the survivors: what becomes of a strategy when one of its workers dies or falls silent, and when it comes back.

A step that loses a replica leaves no mark, so the survivors, which have copies of everything, can take it again among
themselves: the same global batch, in fewer and larger parts. A worker that was started again joins before the next step; it
gets the variables from a survivor, over the network, and a part of the batch. What a dead replica alone had counted (its
share of a metric) is lost.

Source of the idea: Horovod's elastic mode and PyTorch's torchrun restart such jobs in the same way, from a survivor's state.

Taught in lesson 04.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

import jax
import numpy as np

from simdist.data import DatasetIterator
from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError, TimedOutError, UnavailableError
from simdist.input import DistributedIterator
from simdist.program.arrays import Array, Tree
from simdist.program.bound_call import is_iterator
from simdist.program.per_replica import PerReplica
from simdist.runtime.replicas import Member
from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.strategies.synchronous.policies import EveryReplica, OverAnother, StepPolicy
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.state import Cell
from simdist.variables.variable import Placement, Variable

__all__ = ["MAX_TIME_OUTS", "Elastic"]


log = logging.getLogger("simdist")

# So often a step of survivors is taken again because bytes of it were lost.
MAX_TIME_OUTS = 5

Positions: TypeAlias = list[tuple[Callable[[Position], None], Position]]
"""Of each iterator, what takes it back, and where it stood before a step."""


class Elastic(OverAnother):
    """Lets replicas leave and join between steps; a step that loses one is taken again by the others.

    Args:
        inner: the policy otherwise; default `EveryReplica`.

    Raises:
        InvalidArgumentError: when it is attached: launched mains, local updates, or another strategy has this policy.
    """

    def __init__(self, inner: StepPolicy | None = None) -> None:
        super().__init__(EveryReplica() if inner is None else inner)
        self.everybody: list[Member] = []

    strategy: SteppingStrategy

    def attach(self, strategy: SteppingStrategy) -> None:
        if self.everybody:
            raise InvalidArgumentError("This Elastic knows the replicas of another strategy. Make one for each strategy.")
        super().attach(strategy)
        if strategy.launched or self.local_updates:
            raise InvalidArgumentError(
                "on_failure='continue' needs one program that drives all workers, and sync_every=1. Make the strategy in the notebook, or "
                "launch the mains with restart='always'."
            )
        self.strategy = strategy
        self.everybody = list(strategy.members)

    def step(self, strategy: SteppingStrategy, arguments: Sequence[Tree], take: Callable[[], StepOutcome]) -> StepOutcome:
        iterators, num_time_outs = self.positions(arguments), 0
        while True:
            try:
                self.settle(iterators)
                return super().step(strategy, arguments, take)
            except UnavailableError as error:
                # Where messages between members are lost nobody is gone: the way may open again, but not for ever is tried.
                num_time_outs += isinstance(error, TimedOutError)
                if not self.has_lost_members() and not (isinstance(error, TimedOutError) and num_time_outs <= MAX_TIME_OUTS):
                    raise
                self.rewind(iterators)

    def require_parts(self, value: PerReplica, count: int) -> None:
        raise InvalidArgumentError(
            "With on_failure='continue' a step must take its batches itself: pass the iterator of the distributed dataset, and call "
            f"next(iterator) in the step. Values for {len(value.values)} replicas, such as the parts of a batch, do not fit fewer."
        )

    def positions(self, arguments: Sequence[Tree]) -> Positions:
        """Where the iterators of a step stand before it.

        Raises:
            InvalidArgumentError: one cannot be taken back to where it stood.
        """
        found: Positions = []
        for leaf in jax.tree_util.tree_leaves(list(arguments)):
            if isinstance(leaf, DistributedIterator):
                found.append((leaf.restart, leaf.state_dict()))
            elif isinstance(leaf, DatasetIterator):
                found.append((leaf.go_to, leaf.state_dict()))
            elif is_iterator(leaf):
                raise InvalidArgumentError(
                    f"With on_failure='continue' a step that fails takes its batches again, and a {type(leaf).__name__} cannot go back to "
                    "them. Pass the iterator of a distributed dataset: strategy.distribute_dataset(dataset)."
                )
        return found

    def settle(self, iterators: Positions) -> None:
        """Let those leave who have died, and take back those whose tasks are up again; it takes virtual time.

        Raises:
            UnavailableError: nobody is left who has the variables.
        """
        strategy = self.strategy
        believes_in = strategy.group.believes_in
        left = [member for member in strategy.members if believes_in(member)]
        for member in strategy.members:
            if member in left:
                continue
            if member.alive:
                self._forget_copies(member)
            else:
                strategy.engine.notice(member, "no answer")
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

    def rewind(self, iterators: Positions) -> None:
        """Go back to where a step began that has failed: it takes its batches again."""
        for go_back, position in iterators:
            go_back(position)

    def has_lost_members(self) -> bool:
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

    def _resize(self, members: list[Member], iterators: Positions, what: str) -> None:
        strategy = self.strategy
        old = [member.device for member in strategy.members]
        own = [variable for variable in strategy.variables if variable.placement.spread == "replicas"]
        firsts = [self._first_cell(variable, old, members) for variable in own]
        strategy.replicas.members = [replace(member, rank=rank) for rank, member in enumerate(members)]
        for variable, first in zip(own, firsts, strict=True):
            self._renumber(variable, old, first)
        strategy.programs.clear()
        strategy.store.layout.version += 1
        self.rewind(iterators)
        if len(members) < len(old):
            self._say_what_is_lost(old, own)
        engine = strategy.engine
        engine.trace.instant(strategy.members[0].task, "resize", f"{what}: {len(members)} replicas", engine.now)

    def _say_what_is_lost(self, old: Sequence[str], local: Sequence[Variable]) -> None:
        gone = sorted(set(old) - {member.device for member in self.strategy.members})
        counts = dict.fromkeys(
            variable.name.rpartition("/")[0] or variable.name for variable in local if variable.placement.combine == "sum"
        )
        if counts:
            log.warning(
                "%s: what it alone had added to %s is lost. This epoch's losses and metrics miss these rows; the weights do not.",
                ", ".join(gone),
                ", ".join(list(counts)[:8]),
            )

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

    def _beginning(self, variable: Variable, first: Cell) -> Array:
        store = self.strategy.store
        if variable.beginning is not None:
            return np.asarray(variable.beginning())
        if variable.placement.combine == "sum" or store.engine.numerics == "off":
            return np.zeros(first.aval.shape, first.aval.dtype)
        return store.cell_value(variable, first)

    def _bring_back(self, back: Sequence[Member]) -> list[Member]:
        """The variables travel from a survivor to each that has come back; one that dies meanwhile, or that none reaches, stays away."""
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
        present = [other.device for other in strategy.members]
        kept = [group for group in own if any(device in versions.devices_of(group.number) for device in present)]
        if any(group not in shared for group in kept):
            # It was started again, before anybody missed it.
            raise UnavailableError(f"{source} has lost the variables that {member.device} was to get.")
        groups = [group for group in shared if member.device not in versions.devices_of(group.number)]
        size_bytes = sum(cell.aval.size_bytes for group in groups for cell in group.cells)
        began = engine.now
        engine.copy(source, member.device, size_bytes, f"variables for {member.device}")
        engine.trace.span(member.device, "read", "variables of a survivor", began, engine.now, bytes=size_bytes)
        for group in groups:
            versions.lie_at(group.number, (*versions.devices_of(group.number), member.device))
            for cell in group.cells:
                versions.hold(member.device, cell.name, cell.aval.size_bytes)
