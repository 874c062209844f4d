"""The worker loop: it takes closures, one after the other, runs each, and replies.

A traced step is bound and linked by its coordinator's code (`WorkerStep`), in the context of this incarnation, as code of users runs
there; then it goes on by callbacks, `repeat` times. A plain function is simply called. The worker's fiber wakes only when code
of users has to run; a closure with the program of the one before needs none. Updates of the chief's variables travel with the reply.

Arguments of more than a packet are bytes that pass the links, and so are results and these updates on the way back; less is a message
without bytes.

    idle      --a closure that needs no code of users-->  stepping
    idle      --another closure-->                        calling     (the fiber runs code of users)
    calling   --bound and linked-->                       stepping
    calling   --a plain function returned, or an error--> idle        (a reply is sent)
    calling   --a plain function takes a step-->          calling     (its fiber waits for the step)
    calling   --replaced meanwhile, and bound-->          idle
    stepping  --its steps are over, or failed-->          idle        (a reply is sent)
    stepping  --the program fits no more-->               calling
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from simdist import debugging
from simdist.errors import AbortedError
from simdist.process_state import TaskContext
from simdist.program.scope import Scope, open_scopes
from simdist.runtime.simulated.closure_call import ClosureCall
from simdist.runtime.simulated.closure_steps import ClosureSteps, WorkerDevices
from simdist.runtime.simulated.parcels import Parcel
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.task_runtime import REPEAT_S
from simdist.runtime.simulated.world import World
from simdist.runtime.work import LinkedStep, Returned, StepCall, StepResult, WorkerStep
from simdist.runtime.worker_replicas import LocalReplicas
from simdist.simulated_process import SimulatedProcess
from simdist.simulation.fiber import Fiber, Gate, Rest, TaskKilled, words

__all__ = ["PACKET_BYTES", "WorkerLoop"]

# What one packet of a network carries beside the message itself: arguments or results that fit into it take no time of their own.
PACKET_BYTES = 1_460


class WorkerLoop:
    """One worker, through all its incarnations.

    Args:
        world: the cluster's.
        task: the worker.
        strategy: in whose scope code of users runs.
        process: the one of the program that gives the closures; None: the Python process.
        local: the replicas of the worker; None: it is one.
    """

    def __init__(
        self, world: World, task: Task, strategy: Scope, process: SimulatedProcess | None = None, local: LocalReplicas | None = None
    ) -> None:
        self.world = world
        self.task = task
        self.strategy = strategy
        self.process = process
        self.devices = WorkerDevices(world, task, local)
        self.sent = 0  # closures, by the chief
        self.unwanted = 0  # of these so many, from the first on: they were given to others
        self.up_s = 0.0  # when the chief heard last that it is up again
        self.inbox: deque[ClosureCall] = deque()
        self.running: ClosureCall | None = None
        self.steps: ClosureSteps | None = None
        self.mail: Gate | None = None  # at which the fiber waits
        self.waits: Gate | None = None  # at which a plain function waits for a step that it takes, or for a round that it needs
        self.given_up: ClosureCall | None = None  # whose steps are not taken when the code of users has ended that runs for it
        self.context = TaskContext()
        self.kind = world.trace.kind(task.name, "closure", "closure {closure}", {"closure": int})
        self.dropped = world.trace.kind(task.name, "dropped", "closure {closure}", {"closure": int})

    def start(self, _: Task | None = None) -> None:
        """Begin the present incarnation."""
        self.inbox.clear()
        self.running = self.steps = self.given_up = None
        self.mail = self.waits = None
        self.context = self.world.context_of(self.task, self.process)
        open_scopes.get(self.context).append(self.strategy)
        fiber = self.world.start(self.task, self._call_code_of_users, context=self.world.engine_context)
        fiber.finished.then(lambda _: self._ended(fiber))

    def _ended(self, fiber: Fiber) -> None:
        """The fiber ends when its task dies. Any other end is a defect of the engine, and is raised."""
        if not fiber.killed and fiber.error is not None:
            self.world.tell_driver(fiber.error)

    def killed(self) -> None:
        """End the work of the worker, because its task has died."""
        if self.steps is not None:
            self.steps.stop()
        self.running = self.steps = self.waits = None

    def replaced(self, sent: int) -> None:
        """The chief, which had not heard of this worker for a while, has given its work to others: it drops what it still has of it.

        Args:
            sent: how many closures the chief had sent then; those that it sent later are wanted.
        """
        self.unwanted = max(self.unwanted, sent)
        self.inbox = deque(closure for closure in self.inbox if closure.ordinal > sent)
        if self.running is None or self.running.ordinal > sent:
            return
        if self.waits is not None:
            if self.steps is not None:
                self.steps.stop()
            self.given_up = self.running
            self.waits.open(self._replaced_error())
        elif self.steps is not None and self.steps.is_under_way:
            self._note(self.dropped, self.running)
            self.killed()
            self._go_to_next()
        else:
            self.given_up = self.running  # code of a user is not interrupted; a reply will be refused

    def abandon(self, sent: int) -> None:
        """The round of what it computes is complete without it: it stops, and its device is free.

        Args:
            sent: as of `replaced`.
        """
        if self.running is not None and self.running.ordinal <= sent and self.steps is not None:
            self.devices.stop_computing()
        self.replaced(sent)

    def send(self, closure: ClosureCall) -> ClosureCall:
        """Send a closure from the chief."""
        self.sent += 1
        closure.ordinal = self.sent
        closure.cause = self.world.chief.processor.last
        if self.up_s == self.world.clock.now:  # the closure has waited for this worker
            closure.cause = max(closure.cause, self.task.processor.last)
        self._post(self.world.chief, self.task, "closure", closure.argument_bytes, self._arrived, closure)
        return closure

    def _post(
        self, source: Task, target: Task, kind: str, size_bytes: int, arrived: Callable[[ClosureCall], None], closure: ClosureCall
    ) -> None:
        if size_bytes > PACKET_BYTES and source is not target:
            leg = self.world.routes.leg(source, target, kind, size_bytes, closure)
            came = partial(self._came, "arguments" if kind == "closure" else "reply", size_bytes)
            Parcel(self.world.transport, leg, came, arrived, closure.unheard)
        else:
            self.world.routes.post(source, target, kind, arrived, closure, closure.unheard)

    def _came(self, what: str, size_bytes: int, closure: ClosureCall, began_s: float) -> None:
        """Record bytes that have passed the links; what reads them has waited for them."""
        kind = self.world.trace.kind(self.task.name, "transfer", what + " of closure {closure}", {"bytes": int, "closure": int})
        closure.cause = self.world.trace.add(kind, began_s, self.world.clock.now, size_bytes, closure.number, closure.cause)

    def _arrived(self, closure: ClosureCall) -> None:
        if closure.ordinal <= self.unwanted:
            return  # its bytes came after the word that it was given to others
        if self.running is not None or self.inbox:
            self.inbox.append(closure)
        else:
            self.task.processor.last = closure.cause
            self._begin(closure)

    # -- one closure ----------------------------------------------------------------------------------------------

    def _begin(self, closure: ClosureCall) -> None:
        self.running = closure
        closure.began_s = self.world.clock.now
        self.task.running[self] = None
        ready = None if closure.work is None else closure.work.ready(self.task)
        if ready is None:
            self._wake()
        else:
            self._step(closure, *ready)

    def _wake(self) -> None:
        if self.mail is not None:
            self.mail.open()

    def _step(self, closure: ClosureCall, call: StepCall, linked: LinkedStep) -> None:
        """Take the steps of a closure, or those that are left."""
        try:
            priced = self.devices.priced(linked)
        except Exception as error:
            self._finish(closure, error)
            return
        if self.steps is None:
            assert closure.work is not None
            self.steps = ClosureSteps(self.devices, closure, closure.work, call, self._stepped)
        self.steps.run(linked, priced)

    def _stepped(self, steps: ClosureSteps, error: BaseException | None) -> None:
        """The steps have ended, or need code of users."""
        if error is not None or not steps.left:
            self._finish(steps.closure, error)
        else:
            self._wake()

    def _finish(self, closure: ClosureCall, failure: BaseException | None) -> None:
        """Send the reply, and begin the closure that arrived in the meantime."""
        world, name = self.world, self.task.name
        if failure is not None:
            error = closure.error = _as_error(failure, closure.number, name)
            if debugging.is_on():
                debugging.report(error, f"closure {closure.number}", name, self.task.incarnation, closure.step, world.now)
                world.clock.interrupt_driver(error)
        kind = self.dropped if closure is self.given_up else self.kind
        closure.cause = self.task.processor.last = self._note(kind, closure)
        self._post(self.task, world.chief, "closure_reply", closure.reply_bytes, closure.reply, closure)
        self._go_to_next()

    def _note(self, kind: int, closure: ClosureCall) -> int:
        """Record a closure that has ended; returns the number of the record."""
        return self.world.trace.add(kind, closure.began_s, self.world.clock.now, closure.number, 0.0, self.task.processor.last)

    def _go_to_next(self) -> None:
        self.running = self.steps = self.given_up = None
        self.task.running.pop(self, None)
        if self.inbox:
            self._begin(self.inbox.popleft())

    # -- code of users --------------------------------------------------------------------------------------------

    def _call_code_of_users(self) -> Rest:
        """What the fiber does: run code of users for as long as there is some to run; then it rests until there is more."""
        self.mail = None
        while self.running is not None and (self.steps is None or not self.steps.is_under_way):
            closure = self.running
            while closure.served.is_away():
                self.world.clock.sleep(REPEAT_S)  # what is linked needs all servers
            try:
                with self.world.clock.inside(self.context):
                    found = self._called(closure)
            except TaskKilled:
                raise
            except BaseException as failure:
                self._finish(closure, failure)
                continue
            if closure.work is None:
                closure.value = found
                self._finish(closure, None)
            elif closure is self.given_up:
                self._note(self.dropped, closure)
                self._go_to_next()
            else:
                self._step(closure, *found)
        self.mail = Gate(self.world.clock)
        return Rest(self.mail, self._waits_for)

    def _called(self, closure: ClosureCall) -> Returned:
        """The result of code of users: of a plain function its value, of a step its arguments and its program."""
        if closure.work is None:
            assert closure.function is not None
            self._await_rounds(closure)
            return closure.function(self.task, partial(self._take, closure))
        call = closure.work.bind(self.task) if self.steps is None else self.steps.call
        return call, closure.work.link(self.task, call)

    def _await_rounds(self, closure: ClosureCall) -> None:
        """Wait until what a plain function may look at has the rounds that its closure needs, as the reads of a step do."""
        for name, server in (closure.rounds or {}).items():
            while server.applied < closure.ticket.needs:
                if closure is self.given_up:
                    raise self._replaced_error()
                waits = self.waits = Gate(self.world.clock)
                server.notify(waits.open)
                waits.wait(f"round {closure.ticket.needs - 1}, which {name} has not applied")
                if self.waits is waits:  # otherwise this incarnation has died
                    self.waits = None

    def _take(self, closure: ClosureCall, work: WorkerStep) -> StepResult:
        """Take a step in the middle of a plain function, whose fiber waits for it."""
        while closure.served.is_away():
            self.world.clock.sleep(REPEAT_S)
        if closure is self.given_up:
            raise self._replaced_error()
        closure.drawn = work.drawn
        call = work.bind(self.task)
        linked = work.link(self.task, call)
        priced, waits = self.devices.priced(linked), Gate(self.world.clock)
        steps = ClosureSteps(self.devices, closure, work, call, lambda _, error: waits.open(error))
        self.steps, self.waits = steps, waits
        try:
            steps.run(linked, priced)
            error = waits.wait(lambda: words(steps.waits_for()))
        finally:
            if self.steps is steps:  # otherwise this incarnation has died
                self.steps = self.waits = None
        if error is not None:
            raise error
        found, closure.value = closure.value, None
        return found

    def _replaced_error(self) -> AbortedError:
        return AbortedError(f"{self.task.name} was replaced: the chief has given what it runs to another worker.")

    def _waits_for(self) -> str:
        return "a closure" if self.steps is None else words(self.steps.waits_for())


def _as_error(failure: BaseException, number: int, task_name: str) -> Exception:
    """The error of a closure: its own, or where its code wanted to end the process, one that says so."""
    if isinstance(failure, Exception):
        return failure
    error = AbortedError(
        f"Closure {number} wanted to end the process of {task_name} ({failure!r}). It was not run again, as it would end the next one "
        "too; raise an ordinary exception instead."
    )
    error.__cause__ = failure
    return error
