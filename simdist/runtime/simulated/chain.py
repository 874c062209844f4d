"""A chain: the next server keeps a copy of what a server holds, and a change is confirmed when the copy has it.

Each change is sent to the next server, which repeats it and answers. Changes become safe in their order; when the server dies, those that
are not safe yet are taken back, and their clients, who have no confirmation, send them again. So nothing that was confirmed is lost, and
nothing counts twice. While the next server is down, or does not answer, there is no copy, and changes are confirmed at once; when it is
back, or some time after it did not answer, everything is copied again, also where nothing changes any more.

A read is answered by the server itself, with changes that may not be safe yet.

Not simulated: the memory that the copy takes.

Source: van Renesse and Schneider, Chain Replication for Supporting High Throughput and Availability, 2004, with chains of two.

Taught in lesson 07.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from simdist.program.values import num_bytes
from simdist.runtime.membership import MemberChange, MemberDecision
from simdist.runtime.simulated.calls import REPEAT_FOR_S
from simdist.runtime.simulated.server_recovery import Change, Held, ServerRecovery
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.world import World
from simdist.trace.records import NO_CAUSE

__all__ = ["Chain"]

# So long a server waits before it tries again to make a copy that has failed.
COPY_AGAIN_S = 30.0


class Chain(ServerRecovery):
    """A server and its copy on the next one.

    Args:
        world: where they are.
        task: the server.
        follower: the next one.
        forget: as of `ServerRecovery`.

    Attributes:
        has_copy: whether the follower can stand in.
        log: changes that are not safe yet, in their order.
    """

    def __init__(self, world: World, task: Task, follower: Task, forget: Callable[[], None]) -> None:
        super().__init__(task, world.clock, world.trace, world.states, forget)
        self.world = world
        self.follower = follower
        self.has_copy = True
        self.is_copying = False
        self.log: deque[Change] = deque()
        self._tried_s = 0.0
        self._copies = 0  # that were begun
        self._kind = world.trace.kind(follower.name, "copy", f"copy of {task.name}", {})

    # -- changes --------------------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        if not (self.has_copy or self.is_copying):
            change.done()
            return
        change.cause = self.task.processor.last
        self.log.append(change)
        self._forward(change)

    def changed_at_once(self) -> None:
        # The copy gets the present versions with it, which have what is not safe yet.
        for change in self.log:
            change.undo = _nothing

    def _forward(self, change: Change) -> None:
        what = "a change of variables"
        if not self.follower.alive and not self.follower.process.lost:
            self._break()
            return
        self.world.copy(self.task.name, self.follower.name, change.size_bytes, what, partial(self._forwarded, change, self.task.process))

    def _forwarded(self, change: Change, process: Incarnation, error: BaseException | None) -> None:
        if not process.alive:
            return
        if error is not None:
            self._break()
            return
        start, end = self._occupy(change)
        if start > self.clock.now:
            change.cause = NO_CAUSE
        self.clock.after(end - self.clock.now, self._repeated, (change, process, self.follower.process, start, end))

    def _occupy(self, change: Change) -> tuple[float, float]:
        """Let the follower's device repeat a change: at its pace, whatever has slowed the server down."""
        now, processor = self.clock.now, self.follower.processor
        if not change.costs:
            return processor.occupy_for(now, 0.0)
        busy = [processor.occupy(now, cost) for cost in change.costs]
        return busy[0][0], busy[-1][1]

    def _repeated(self, what: tuple[Change, Incarnation, Incarnation, float, float]) -> None:
        change, process, copier, start, end = what
        if not (process.alive and copier.alive):
            return
        if self.follower.held is not None:
            self.follower.held.append((self._begin_again, what))
            return
        if end > start and self.world.servers[self.follower.name].planned.has_stood_still_since(start):
            self._begin_again(what)
            return
        if end > start:
            processor = self.follower.processor
            cause = processor.last if change.cause == NO_CAUSE else change.cause
            processor.last = self.trace.add(self._kind, processor.began(start, end), end, 0.0, 0.0, cause)
        answer = change, process
        self.world.routes.post(self.follower, self.task, "update_reply", self._safe, answer, lambda _: self._break())

    def _begin_again(self, what: tuple[Change, Incarnation, Incarnation, float, float]) -> None:
        """The follower goes on after a pause, and repeats the change from its beginning."""
        change, process, copier, _, _ = what
        if process.alive and copier.alive:
            self._forwarded(change, process, None)

    def _safe(self, answer: tuple[Change, Incarnation]) -> None:
        change, process = answer
        if not process.alive:
            return
        change.is_safe = True
        while self.log and self.log[0].is_safe:
            self.log.popleft().done()

    def _break(self) -> None:
        """There is no copy any more: what waits for it is confirmed."""
        self.has_copy = self.is_copying = False
        self._tried_s = self.clock.now
        self.clock.after_daemon(COPY_AGAIN_S, self._copy_again)
        log, self.log = self.log, deque()
        for change in log:
            change.done()

    # -- deaths ---------------------------------------------------------------------------------------------------

    def died(self, task: Task) -> None:
        is_getting_back = task is self.task and not (self.is_serving or self.is_lost)
        held = self.held()
        super().died(task)
        if is_getting_back:
            self._take_back()
            if self.has_copy:
                self.kept.update(self._rolled_back(self.held(), held))  # variables that were made since it was started again
        if task is self.task:
            self.is_copying = False
        if task is self.follower:
            self.has_copy = self.is_copying = False
            if not self.is_serving:
                self.lose()
            if self.is_serving and not self.world.detection.membership.is_up(task.name):
                self._break()  # the chief believes so already, and will not say it again

    def _saved(self) -> Held | None:
        if not self.has_copy:
            self.log.clear()
            return None
        self._take_back()
        return self.held()

    def _take_back(self) -> None:
        """Take back what is not safe: its clients send it again."""
        log, self.log = self.log, deque()
        for change in reversed(log):
            change.undo()

    def why_lost(self) -> str:
        return (
            f"The copy of {self.task.name} on {self.follower.name} was lost too, or not complete, so its variables are lost. "
            "recovery='replica' outlives one server at a time: save checkpoints as well."
        )

    def believed(self, decision: MemberDecision) -> None:
        """The chief believes that a task is up, or down."""
        if decision.task != self.follower.name:
            return
        if decision.kind is MemberChange.DOWN:
            if self.is_serving:
                self._break()
        elif not self.has_copy and self.is_serving:
            self._copy_all()

    def started(self, task: Task) -> None:
        super().started(task)
        if self.is_serving and not self.has_copy:
            self._copy_all()  # what it held is lost: what it gets from now on shall not be

    # -- copies ---------------------------------------------------------------------------------------------------

    def _copy_again(self) -> None:
        """Try again to make a copy, unless that was tried since."""
        if self.is_serving and not self.has_copy and self.clock.now >= self._tried_s + COPY_AGAIN_S:
            self._copy_all()

    def _copy_all(self) -> None:
        """Give the follower a copy of everything."""
        self._tried_s = self.clock.now
        if self.is_copying or not (self.task.alive and self.follower.alive):
            return
        self.is_copying = True
        self._copies += 1
        size_bytes = sum(num_bytes(bundle.avals) for bundle, _ in self.held().values())
        what = f"the variables of {self.task.name}"
        self.world.copy(self.task.name, self.follower.name, size_bytes, what, partial(self._copied, self.task.process, self._copies))

    def _copied(self, process: Incarnation, number: int, error: BaseException | None) -> None:
        if not process.alive or number != self._copies:
            return  # one that was given up: it has nothing of what was changed after that
        if error is not None:
            self._break()
        elif self.is_copying:
            self.has_copy, self.is_copying = True, False

    def _bring_back(self, process: Incarnation, size_bytes: int) -> None:
        began_s, what = self.clock.now, f"the variables of {self.task.name}"
        if not self.follower.alive and not self.follower.process.lost:
            return  # `died` has noted that they are lost
        self.world.copy(self.follower.name, self.task.name, size_bytes, what, partial(self._brought_back, process, began_s, size_bytes))

    def _brought_back(self, process: Incarnation, began_s: float, size_bytes: int, error: BaseException | None) -> None:
        if error is None:
            self._restored(process, began_s)
        elif process.alive and not self.is_lost:
            if self.clock.now - process.began_s > REPEAT_FOR_S:
                self.lose()
            else:
                self._bring_back(process, size_bytes)


def _nothing() -> None:
    """What takes back a change that is safe."""
