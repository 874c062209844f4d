"""Going on with the survivors: what becomes of a strategy when one of its workers dies or falls silent, and when it comes back.

A step that loses a replica leaves no mark, so the survivors, which have copies of everything, can take it again among
themselves: the same global batch, in fewer and larger parts. A worker that was started again joins before the next step; it
gets the variables from a survivor, over the network, and a part of the batch. What a dead replica alone had counted (its
share of a metric) is lost.

Source of the idea: Horovod's elastic mode and PyTorch's torchrun restart such jobs in the same way, from a survivor's state.

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import jax

from simdist.data import DatasetIterator
from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError, TimedOutError, UnavailableError
from simdist.input import DistributedIterator
from simdist.program.arrays import Tree
from simdist.program.bound_call import is_iterator
from simdist.program.per_replica import PerReplica
from simdist.runtime.replicas import Member
from simdist.strategies.synchronous.outcome import StepOutcome
from simdist.strategies.synchronous.policies import EveryReplica, OverAnother, StepPolicy
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.strategies.synchronous.resizing import bring_back, forget_copies, resize

__all__ = ["MAX_TIME_OUTS", "Elastic"]

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
        self._is_stepping = False

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
        self._is_stepping = True
        try:
            return self._step_of_survivors(arguments, lambda: self.inner.step(strategy, arguments, take))
        finally:
            self._is_stepping = False

    def _step_of_survivors(self, arguments: Sequence[Tree], take: Callable[[], StepOutcome]) -> StepOutcome:
        iterators, num_time_outs = self.positions(arguments), 0
        while True:
            try:
                if self.settle():
                    self.rewind(iterators)
                return take()
            except UnavailableError as error:
                self.rewind(iterators)
                if not any(map(self.strategy.group.believes_in, self.strategy.members)):
                    raise self._nobody_left() from error
                # Where messages between members are lost nobody is gone: the way may open again, but not for ever is tried.
                num_time_outs += isinstance(error, TimedOutError)
                if not self.has_lost_members() and not (isinstance(error, TimedOutError) and num_time_outs <= MAX_TIME_OUTS):
                    raise

    def between_steps(self) -> None:
        """Let those leave who have died: what only they had does not count any more."""
        if not self._is_stepping:
            left = [member for member in self.strategy.members if member.alive]
            if left and len(left) < len(self.strategy.members):
                self._leave(left)

    def require_parts(self, value: PerReplica, count: int) -> None:
        raise InvalidArgumentError(
            "With on_failure='continue' a step must take its batches itself: pass the iterator of the distributed dataset, and call "
            f"next(iterator) in the step. Values for {len(value.values)} replicas, such as the parts of a batch, do not fit fewer."
        )

    def positions(self, arguments: Sequence[Tree]) -> Positions:
        """Where the iterators of a step stand before it, each cut for the replicas that there are now.

        Raises:
            InvalidArgumentError: one cannot be taken back to where it stood.
        """
        found: Positions = []
        for leaf in jax.tree_util.tree_leaves(list(arguments)):
            if isinstance(leaf, DistributedIterator | DatasetIterator) and not leaf.can_go_back:
                raise InvalidArgumentError(
                    "With on_failure='continue' a step that fails takes its batches again, and a generator, or another iterator, gives "
                    "them only once. Give sd.Dataset.from_iterable the function that makes it, or cache the dataset: dataset.cache()."
                )
            if isinstance(leaf, DistributedIterator):
                found.append((leaf.restart, leaf.state_dict()))
                if not leaf.fits_replicas:
                    leaf.restart(leaf.state_dict())
            elif isinstance(leaf, DatasetIterator):
                found.append((leaf.go_to, leaf.state_dict()))
            elif is_iterator(leaf):
                raise InvalidArgumentError(
                    f"With on_failure='continue' a step that fails takes its batches again, and a {type(leaf).__name__} cannot go back to "
                    "them. Pass the iterator of a distributed dataset: strategy.distribute_dataset(dataset)."
                )
        return found

    def settle(self) -> bool:
        """Let those leave who have died, and take back those whose tasks are up again; it takes virtual time.

        Returns:
            Whether there are other replicas than before.

        Raises:
            UnavailableError: nobody is left who has the variables.
        """
        strategy = self.strategy
        believes_in = strategy.group.believes_in
        before = strategy.members
        left = [member for member in before if believes_in(member)]
        if not left:
            raise self._nobody_left()
        if len(left) < len(before):
            self._leave(left)
        present = {member.device for member in left}
        now = [replace(member, process=strategy.engine.process(member.task)) for member in self.everybody]
        back = [member for member in now if believes_in(member) and member.device not in present]
        joined = {member.device: member for member in bring_back(strategy, back)}
        if joined:
            present_members = {member.device: member for member in strategy.members if believes_in(member)} | joined
            resize(strategy, [present_members[each.device] for each in self.everybody if each.device in present_members], "join")
        return strategy.members is not before

    def _nobody_left(self) -> UnavailableError:
        """No replica can go on; those that are only silent keep their variables, as nobody goes on without them."""
        members = self.strategy.members
        silent = [member for member in members if member.alive]
        self._notice([member for member in members if not member.alive])
        if not silent:
            return UnavailableError(
                "All replicas have died, and the variables with them. Build the model again, and restore a checkpoint into it; faults that "
                "leave one worker alive can be survived."
            )
        names = ", ".join(dict.fromkeys(member.task for member in silent))
        return UnavailableError(
            f"No replica is left that could go on: {names} {'is' if len(silent) == 1 else 'are'} silent. The step has left no mark, and "
            "nothing is lost. Give the pause or partition an until=, and take the step again later."
        )

    def _leave(self, left: list[Member]) -> None:
        """Go on with these alone."""
        self._notice([member for member in self.strategy.members if member not in left])
        resize(self.strategy, left, "leave")

    def _notice(self, gone: Sequence[Member]) -> None:
        for member in gone:
            if member.alive:
                forget_copies(self.strategy, member)
            else:
                self.strategy.engine.notice(member, "no answer")

    def rewind(self, iterators: Positions) -> None:
        """Go back to where a step began that has failed: it takes its batches again."""
        for go_back, position in iterators:
            go_back(position)

    def has_lost_members(self) -> bool:
        """Whether a replica has died or is silent."""
        return not all(map(self.strategy.group.believes_in, self.strategy.members))
