"""The workers of one coordinator, in the simulated engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from simdist.process_state import active_context
from simdist.program.scope import Scope
from simdist.runtime.membership import MemberChange, MemberDecision
from simdist.runtime.serving import NOT_IN_ROUNDS, Round, Serving, Ticket
from simdist.runtime.simulated.closure_call import ClosureCall
from simdist.runtime.simulated.joining import end_process, leave
from simdist.runtime.simulated.recoveries import protect
from simdist.runtime.simulated.round_call import ApplyingRound
from simdist.runtime.simulated.served import Served
from simdist.runtime.simulated.worker_loop import WorkerLoop
from simdist.runtime.simulated.world import World
from simdist.runtime.work import PlainFunction, WorkerStep
from simdist.runtime.worker_replicas import LocalReplicas

__all__ = ["SimulatedWorkers"]


class SimulatedWorkers:
    """As `WorkerPool`.

    Args:
        world: where they are.
        tasks: their names.
        strategy: in whose scope code of users runs.
        serving: what the servers do for them.
        local: the replicas of each; None: it is one.
    """

    def __init__(self, world: World, tasks: Sequence[str], strategy: Scope, serving: Serving, local: LocalReplicas | None = None) -> None:
        self.world = world
        self.local = local
        protect(world, serving)
        self.served = Served(world.servers, serving, next(world.coordinators), lambda: world.silence.ends_s)
        self.strategy = strategy
        self.process = active_context().process  # of the program that gives them closures
        self.loops: dict[str, WorkerLoop] = {}
        self._away: dict[str, int] = {}  # those that are believed to be down, with their incarnations
        for name in tasks:
            self.add(name)
        world.workers.append(self)
        world.detection.listeners.append(self._tell_those_who_were_away)

    def add(self, task: str) -> None:
        loop = self.loops[task] = WorkerLoop(self.world, self.world.task(task), self.strategy, self.process, self.local)
        self.world.mains[task].append(loop.start)
        if loop.task.alive:
            loop.start()

    def remove(self, task: str) -> None:
        loop = self.loops.pop(task)
        self._away.pop(task, None)
        self.world.mains[task].remove(loop.start)
        self._tell_servers(task, loop.task.incarnation, loop.sent)
        is_needed = any(task in pool.loops for pool in self.world.workers) or bool(self.world.mains[task])
        if not is_needed:
            leave(self.world, loop.task)
        self.world.routes.post(self.world.chief, loop.task, "notice", self._ended, (loop, is_needed))

    def _ended(self, what: tuple[WorkerLoop, bool]) -> None:
        """A worker learns that it is one no longer."""
        loop, is_needed = what
        loop.replaced(loop.sent)
        if not is_needed:
            end_process(self.world, loop.task)

    def call(self, task: str, step: WorkerStep, number: int, ticket: Ticket = NOT_IN_ROUNDS) -> ClosureCall:
        loop = self.loops[task]
        return loop.send(ClosureCall(self.world, loop.task, number, self.served, step, ticket=ticket, argument_bytes=step.argument_bytes))

    def call_function(
        self, task: str, function: PlainFunction, number: int, ticket: Ticket = NOT_IN_ROUNDS, argument_bytes: int = 0
    ) -> ClosureCall:
        loop = self.loops[task]
        return loop.send(ClosureCall(self.world, loop.task, number, self.served, None, function, ticket, argument_bytes))

    def abandon(self, task: str) -> None:
        loop = self.loops[task]
        self.world.routes.post(self.world.chief, loop.task, "notice", loop.abandon, loop.sent)

    def apply_round(self, complete: Round) -> ApplyingRound:
        return ApplyingRound(self.world, self.served, complete)

    def awaits_servers(self) -> bool:
        return self.served.is_away()

    def _tell_those_who_were_away(self, decision: MemberDecision) -> None:
        """A worker that was only silent has been heard again: it learns that it was replaced."""
        loop = self.loops.get(decision.task)
        if loop is None:
            return
        match decision.kind:
            case MemberChange.DOWN:
                self._away[decision.task] = decision.incarnation
                self._tell_servers(decision.task, decision.incarnation, loop.sent)
            case MemberChange.UP:
                loop.up_s = self.world.now
                if self._away.pop(decision.task, None) == decision.incarnation:
                    self.world.routes.post(self.world.chief, loop.task, "notice", loop.replaced, loop.sent)
            case _:
                assert_never(decision.kind)

    def _tell_servers(self, worker: str, incarnation: int, sent: int) -> None:
        """The closures of a worker go to others: what it still sends for them must not count."""
        given = self.served.number, worker, incarnation, sent
        for server in self.served.servers:
            self.world.routes.post(self.world.chief, server.task, "notice", self.world.servers[server.task.name].give_up, given)
