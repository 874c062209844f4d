"""What a program meets where it runs as one of several replicas that take a step together.

Variables lie on the replica's own device, as copies that cannot differ or as values of its own. What a step changes counts
when the step is over for all replicas that this program drives: until then each replica sees its own progress, and a step
that fails leaves no mark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import call
from typing import Any

import numpy as np

from simdist.errors import SimdistError, UnavailableError
from simdist.program.values import Bundle
from simdist.randomness import derive_seed
from simdist.runtime.linked import Apply, ApplyAll, Meeting, ReadGroups, Run
from simdist.runtime.simulated.engine import SimulatedRuntime
from simdist.runtime.simulated.members import NETWORK, Member
from simdist.runtime.simulated.rendezvous import Coming, Rendezvous
from simdist.runtime.simulated.task import Life
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.variables.state import Group

__all__ = ["SimulatedReplica", "StepVersions"]


class StepVersions:
    """The versions that a step makes of each group, one after the other, until they count."""

    def __init__(self) -> None:
        self.made: dict[int, tuple[Group, list[Bundle]]] = {}

    def after(self, group: Group, updates: int) -> Bundle:
        """The version after so many updates of this step."""
        return group.present() if updates == 0 else self.made[id(group)][1][updates - 1]

    def known(self, group: Group, updates: int) -> bool:
        """Whether another replica, whose copy is the same, has made so many updates already."""
        return id(group) in self.made and len(self.made[id(group)][1]) >= updates

    def add(self, group: Group, version: Bundle) -> None:
        self.made.setdefault(id(group), (group, []))[1].append(version)

    def commit(self) -> None:
        """The step is over: its last versions become the present ones, all of them or, where Ctrl-C comes first, none."""
        changes: list[Callable[[], None]] = []
        for group, versions in self.made.values():
            changes.append(partial(setattr, group, "bundle", versions[-1]))
            changes.append(partial(setattr, group, "version", group.version + len(versions)))
        # One call into C, so that no handler of a signal, which may raise, runs in between.
        deque(map(call, changes), maxlen=0)


class SimulatedReplica(SimulatedTask):
    """One replica of a step, as `TaskRuntime`.

    Args:
        runtime: the cluster's.
        member: its rank, task and device.
        versions: what the step has made so far.
        rendezvous: where it meets the others; None for a single replica.
        leads: whether its task counts steps by it.
    """

    def __init__(
        self, runtime: SimulatedRuntime, member: Member, versions: StepVersions, rendezvous: Rendezvous | None, leads: bool = True
    ) -> None:
        super().__init__(runtime, member.task, processor=member.task.processors[member.place])
        self.rank = member.rank
        self.step = member.task.steps
        self.versions = versions
        self.rendezvous = rendezvous
        self.leads = leads
        self.updates: dict[int, int] = {}
        self.early: dict[Meeting, Coming | SimdistError] = {}

    def random_key(self, salt: int) -> Any:
        which = () if self.rendezvous is None else ("replica", self.rank)
        seed = derive_seed(self.runtime.seed, self.task.name, self.step, salt, *which)
        return np.array([seed & 0xFFFFFFFF, 0], np.uint32)

    def next_batch(self, iterator: Any) -> Any:
        ready_s = getattr(iterator, "ready_s", None)
        if ready_s is not None:
            began = self.clock.now
            until = ready_s(began)
            if until > began:
                self.clock.sleep(until - began)
                self.trace.span(self.place, "input", "wait for input", began, self.clock.now)
        return super().next_batch(iterator)

    def read(self, op: ReadGroups) -> list[Bundle]:
        return [self._read(group) for group, _, _ in op.groups]

    def _read(self, group: Group) -> Bundle:
        if self.place not in group.places:
            self._fetch(group)
        return self.versions.after(group, self.updates.get(id(group), 0))

    def _fetch(self, group: Group) -> None:
        """A variable that lies on another device of the task comes over; one that was lost does not."""
        if group.bundle is None or group.task != self.task.name or group.cells[0].replica is not None or len(group.cells[0].places) > 1:
            raise UnavailableError(
                f"{self.place} has no copy of {group.cells[0].name} any more: {self.task.name} crashed after the variable was made. Build "
                "the model again, or restore a checkpoint."
            )
        self._travel(group.places[0], self.place, sum(cell.aval.size_bytes for cell in group.cells if cell.kind != "slot"), "read")

    def _travel(self, source: str, target: str, size_bytes: int, what: str) -> None:
        began = self.clock.now
        self.runtime.carry(source, target, size_bytes, f"variables from {source}")
        self.trace.span(self.place, what, what, began, self.clock.now, bytes=size_bytes)

    def run(self, op: Run, inputs: Sequence[Bundle], batch: Any, host: tuple[Any, ...]) -> Sequence[Bundle]:
        now = self.clock.now
        start, end = self.processor.occupy(now, op.cost)
        if not op.early:
            if end > now:
                self.clock.sleep(end - now)
                self.trace.span(self.place, "compute", op.site.kernel.name, start, end)
            return self.runtime.ledger.call(op.site, inputs, batch, host, (self.place, self.step, end))
        # What is exchanged early is written down before the kernel has ended.
        outputs = self.runtime.ledger.call(op.site, inputs, batch, host, (self.place, self.step, end))
        for early in op.early:
            self.clock.after(
                start + early.fraction * (end - start) - now, self._come, (early.meeting, outputs[early.place], self.task.life)
            )
        self.clock.sleep(end - now)
        self.trace.span(self.place, "compute", op.site.kernel.name, start, end)
        return outputs

    def _come(self, what: tuple[Meeting, Bundle, Life]) -> None:
        """A pack of gradients is there, while others are still being computed."""
        meeting, operands, life = what
        assert self.rendezvous is not None
        if not life.alive or not self.rendezvous.admits(self.rank):
            return
        try:
            self.early[meeting] = self.rendezvous.come(self.rank, meeting.exchange, operands, self.place + NETWORK)
        except SimdistError as error:
            # Nobody waits yet; whoever comes for the result gets it.
            self.early[meeting] = error

    def meet(self, op: Meeting, operands: Bundle) -> Bundle:
        assert self.rendezvous is not None
        coming = self.early.pop(op, None)
        if isinstance(coming, SimdistError):
            raise coming
        return self.rendezvous.wait(coming) if coming else self.rendezvous.meet(self.rank, op.exchange, operands)

    def apply(self, op: ApplyAll, operands: list[Bundle]) -> None:
        for part, bundle in zip(op.parts, operands, strict=True):
            self._apply(part, bundle)

    def _apply(self, part: Apply, bundle: Bundle) -> None:
        group = part.group
        if not group.places:
            raise group.lost_error()
        before = self.updates.get(id(group), 0)
        if self.rendezvous is None and self.place not in group.places:
            self._travel(self.place, group.places[0], part.size_bytes, "update")
        now = self.clock.now
        start, end = self.runtime.processor(self._where(group)).occupy(now, part.cost) if self._pays(group, before) else (now, now)
        self.clock.sleep(end - now)
        if not self.versions.known(group, before + 1):
            old = self.versions.after(group, before)
            (new,) = self.runtime.ledger.call(part.site, (old, bundle), None, (), (self.place, self.step, end))
            self.versions.add(group, new)
        self.updates[id(group)] = before + 1
        if end > start:
            self.trace.span(
                self._where(group), "apply", part.site.kernel.name, start, end, worker=self.task.name, version=group.version + before + 1
            )

    def _where(self, group: Group) -> str:
        """The device that carries out an update: this one, or the only one that has the variable."""
        return self.place if self.place in group.places else group.places[0]

    def _pays(self, group: Group, before: int) -> bool:
        """A central variable is changed once, for all; of copies, each replica changes its own."""
        return self.place in group.places or not self.versions.known(group, before + 1)

    def step_done(self) -> None:
        if self.leads:
            super().step_done()
