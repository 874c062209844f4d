"""`ClusterCoordinator`: schedules closures on workers, and sees to it that each runs.

The decisions are those of `simdist.coordinator.queue`; this file carries them out through an engine.

Taught in lessons 00 and 01.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import jax

from simdist.arguments import require_arguments
from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.closure import Closure
from simdist.coordinator.closure_states import ClosureAction
from simdist.coordinator.per_worker import PerWorker, PerWorkerDataset, PerWorkerResource
from simdist.coordinator.queue import Attempt, ClosureDecision, ClosureQueue
from simdist.coordinator.remote_value import RemoteValue, Result
from simdist.coordinator.synchronization import Asynchronous, Reads, Synchronization, UpdatesCount
from simdist.data import Dataset
from simdist.errors import CancelledError, FailedPreconditionError, InvalidArgumentError, TimedOutError, UnavailableError
from simdist.program.function import StepFunction
from simdist.program.values import snapshot
from simdist.runtime.base import Promise
from simdist.runtime.membership import MemberChange, MemberDecision
from simdist.runtime.serving import NOT_IN_ROUNDS, Round, Ticket
from simdist.runtime.work import Handle, running_closure
from simdist.strategies.base import DistributedFromFunction, Strategy
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["ClusterCoordinator"]


class ClusterCoordinator:
    """Runs functions on the workers of a parameter-server strategy; one for each strategy.

    Args:
        strategy: a `ParameterServerStrategy`.
        synchronization: how workers wait for each other; default: as the strategy's mode= says.

    Raises:
        InvalidArgumentError: another kind of strategy; or a synchronization that the servers cannot carry out, or another than that with
            which the coordinator of this strategy was made.

    Example:
        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 2, "ps": 1})
        >>> strategy = sd.ParameterServerStrategy(cluster)
        >>> with strategy.scope():
        ...     count = sd.Variable(0.0)
        >>> @sd.function
        ... def step():
        ...     count.assign_add(1.0)
        >>> coordinator = sd.ClusterCoordinator(strategy)
        >>> for _ in range(5):
        ...     _ = coordinator.schedule(step)
        >>> coordinator.join()
        >>> float(count.numpy()), coordinator
        (5.0, ClusterCoordinator(2 workers, 5 closures scheduled, 0 pending))
    """

    def __new__(cls, strategy: Strategy, synchronization: Synchronization | None = None) -> ClusterCoordinator:
        if not isinstance(strategy, ParameterServerStrategy):
            raise InvalidArgumentError(f"ClusterCoordinator needs a ParameterServerStrategy; got {type(strategy).__name__}.")
        known: ClusterCoordinator | None = strategy.coordinator
        if known is None:
            known = super().__new__(cls)
            known._set_up(strategy, _carried_out(synchronization, strategy))
            strategy.coordinator = known
        elif synchronization not in (None, known.queue.synchronization):
            raise InvalidArgumentError(
                f"This strategy has a coordinator already, with {known.queue.synchronization!r}; {synchronization!r} cannot take its "
                "place. Leave synchronization= out, or make another strategy."
            )
        return known

    def _set_up(self, strategy: ParameterServerStrategy, synchronization: Synchronization) -> None:
        self.strategy = strategy
        self.engine = engine = strategy.engine
        self.queue = ClosureQueue(synchronization)
        self.closures: dict[int, Closure] = {}
        self.scheduled = 0
        self.attempts = 0
        self._gives_tickets = strategy.serving.remembers
        self._rounds = synchronization if isinstance(synchronization, BoundedStaleness) else None
        self._replies: dict[int, Handle] = {}  # by ticket, of closures that are done and whose round is not complete
        self._in_round: dict[int, Closure] = {}  # that are done and do not count yet
        self._broken: BaseException | None = None  # why no further round can be applied
        self._joining: list[Promise] = []  # of those who wait until nothing is pending
        self._process = engine.process(engine.chief)
        self._workers = engine.start_workers(strategy.workers, strategy, strategy.serving)
        engine.subscribe([*strategy.workers, *strategy.servers], self._membership_changed)
        for name in strategy.workers:
            # Somebody else may have been told before that they are up.
            if engine.is_believed_up(name):
                self._carry_out(self.queue.worker_up(name))

    def __repr__(self) -> str:
        return f"ClusterCoordinator({len(self.strategy.workers)} workers, {self.scheduled} closures scheduled, {self.pending} pending)"

    # -- for users ------------------------------------------------------------------------------------------------

    def schedule(self, fn: Callable[..., object], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> RemoteValue:
        """Run a function on some worker, as soon as one is free. Returns at once.

        Args:
            fn: a step under ``@sd.function``, or a plain function, which runs untraced on the worker.
            args, kwargs: its arguments; per-worker values become those of the worker.

        Returns:
            A `RemoteValue`.

        Raises:
            TypeError: `fn` is not a function.
            InvalidArgumentError: args is not a list or tuple, or there is a `RemoteValue` in it.
            FailedPreconditionError: the cluster is closed, or this is another thread, or a closure of this coordinator.
            UnavailableError: the chief has crashed, and the closures with it.
            Exception: the error of an earlier closure, once.
        """
        self._raise_stored()
        if not callable(fn):
            raise TypeError(f"schedule takes a function; got {type(fn).__name__}.")
        require_arguments(args, kwargs, "schedule")
        return RemoteValue(self.schedule_steps(fn, tuple(args), dict(kwargs or {}), 1))

    def schedule_steps(self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], repeat: int) -> Result:
        """Like `schedule`, with several steps in one closure, or where workers proceed in rounds in one closure each; the last's result."""
        self._require_usable("schedule was called")
        if self._broken is not None:
            raise UnavailableError(
                f"schedule was called, but the servers have lost a round of updates ({self._broken}). Make the strategy and the model "
                "again, or use recovery='replica'."
            )
        for _ in range(repeat - 1 if self._rounds is not None else 0):
            self.schedule_steps(fn, args, kwargs, 1)
        if self._rounds is not None:
            repeat = 1
        leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
        are_per_worker = True
        for leaf in leaves:
            if isinstance(leaf, RemoteValue):
                raise InvalidArgumentError("A RemoteValue was passed to schedule. Fetch it first: schedule(fn, args=(value.fetch(),)).")
            are_per_worker = are_per_worker and isinstance(leaf, PerWorker)
        args, kwargs = jax.tree_util.tree_unflatten(structure, list(map(snapshot, leaves)))
        number = self.scheduled
        self.scheduled += 1
        result = Result(self.engine, number)
        self.closures[number] = Closure(
            self.strategy, fn, args, kwargs, result, repeat, (fn, structure, *leaves) if are_per_worker else None
        )
        self._carry_out(self.queue.schedule(number))
        return result

    def join(self) -> None:
        """Wait for everything that was scheduled; raise the first error of a closure, once.

        Raises:
            As `schedule`.
        """
        while self.pending:
            self._require_usable("join was called")
            promise = self.engine.promise()
            self._joining.append(promise)
            promise.wait(f"{self.pending} closures (join)")
        self._raise_stored()

    def done(self) -> bool:
        """Whether nothing is pending; raises the first error of a closure, once."""
        self._raise_stored()
        return self.pending == 0

    @property
    def pending(self) -> int:
        """Closures that are neither done, failed nor cancelled; one whose round is not complete is not done."""
        return self.queue.pending + len(self._in_round)

    def fetch(self, value: Any) -> Any:
        """A structure with each `RemoteValue` replaced by its value."""
        return jax.tree_util.tree_map(lambda x: x.fetch() if isinstance(x, RemoteValue) else x, value)

    def create_per_worker_dataset(self, source: object) -> PerWorkerDataset:
        """A dataset on each worker.

        Args:
            source: a function that returns an `sd.Dataset` or a distributed one, or one of these.

        Raises:
            InvalidArgumentError: something else.
        """
        if isinstance(source, (Dataset, DistributedFromFunction)) or callable(source):
            return PerWorkerDataset(source)
        raise InvalidArgumentError(f"Unexpected dataset type: {type(source).__name__}. Pass a function that returns an sd.Dataset, or one.")

    def create_per_worker_resource(self, fn: Callable[[], object]) -> PerWorkerResource:
        """Something that each worker makes by calling `fn`; made again when it comes back.

        Raises:
            TypeError: `fn` is not a function.
        """
        if not callable(fn):
            raise TypeError(f"create_per_worker_resource takes a function without arguments; got {type(fn).__name__}.")
        return PerWorkerResource(fn)

    def _require_usable(self, what: str) -> None:
        """Refuse what cannot succeed any more: the queue was in the memory of the chief."""
        self.engine.require_usable(what)
        closure = running_closure.get()
        if closure is not None and closure.strategy is self.strategy:
            raise FailedPreconditionError(
                f"{what} in closure {closure.number} on {closure.worker}, which this coordinator has scheduled itself. A worker runs "
                "closures, and one that waits for others keeps a place from them; model.fit does so too, as its steps are closures. Return "
                "from the closure what is needed, and call schedule, join or fit where the coordinator was made."
            )
        if not self._process.alive:
            raise UnavailableError(
                f"{what}, but {self.engine.chief}, which held this coordinator and its closures, has crashed. Start again on a new "
                "cluster: cluster.fresh()."
            )

    # -- facts and decisions --------------------------------------------------------------------------------------

    def _membership_changed(self, seen: MemberDecision) -> None:
        if not self._process.alive or seen.task not in self.strategy.worker_numbers:
            return
        match seen.kind:
            case MemberChange.UP:
                self._carry_out(self.queue.worker_up(seen.task), seen.cause)
            case MemberChange.DOWN:
                self._carry_out(self.queue.worker_down(seen.task), seen.cause)
            case _:
                assert_never(seen.kind)

    def _dispatch(self, attempt: Attempt) -> None:
        number, worker = attempt.closure, attempt.worker
        closure, ticket = self.closures[number], NOT_IN_ROUNDS
        if self._gives_tickets:
            ticket = self._ticket(worker)
        call = (
            self._workers.call(worker, closure, number, ticket)
            if isinstance(closure.fn, StepFunction)
            else self._workers.call_function(worker, closure.run, number, ticket)
        )
        call.then(partial(self._replied, attempt, call, ticket.number))

    def _ticket(self, worker: str) -> Ticket:
        """What the messages of this attempt carry."""
        self.attempts += 1
        oldest = next(iter(self.closures))
        return Ticket(self.attempts, oldest=oldest) if self._rounds is None else self._rounds.ticket(worker, self.attempts, oldest)

    def _replied(self, attempt: Attempt, call: Handle, ticket: int) -> None:
        """A reply has come. What travelled with it counts if the closure is still its worker's."""
        if not self.queue.is_current(attempt):
            self.queue.completed(attempt)  # too late: nothing follows
            return
        closure, error = self.closures[attempt.closure], call.error
        if error is None:
            error = self._accepted(call, ticket, attempt)
        if error is None:
            closure.result.take(call.value)
            self._carry_out(self.queue.completed(attempt))
        elif isinstance(error, TimedOutError) and closure.may_be_tried_again():
            self._carry_out(self.queue.timed_out(attempt))
        else:
            self._carry_out(self.queue.raised(attempt, error))

    def _accepted(self, call: Handle, ticket: int, attempt: Attempt) -> Exception | None:
        """Let what travelled with a reply count: now, or with its round."""
        if self._rounds is not None:
            self._replies[ticket] = call
            self._rounds.completed(attempt.worker, ticket, attempt.closure)
            return None
        try:
            call.accept()
        except Exception as failure:
            return failure
        return None

    def _carry_out(self, decisions: list[ClosureDecision], cause: int = -1) -> None:
        """Do what the queue has decided, because of the record of this number."""
        trace, now, chief = self.engine.trace, self.engine.now, self.engine.chief
        for decision in decisions:
            number, worker = decision.closure, decision.worker
            match decision.kind:
                case ClosureAction.DISPATCH:
                    assert decision.attempt is not None
                    self._dispatch(decision.attempt)
                case ClosureAction.RETRY:
                    trace.instant(worker, "retry", f"closure {number} is run again", now, cause=cause, closure=number)
                case ClosureAction.RESOLVE if self._rounds is not None:
                    self._in_round[number] = self.closures.pop(number)
                case ClosureAction.RESOLVE:
                    self.closures.pop(number).result.end(None)
                case ClosureAction.FAIL:
                    trace.instant(worker, "error", f"closure {number}: {type(decision.error).__name__}", now, closure=number)
                    self.closures.pop(number).result.end(decision.error)
                case ClosureAction.CANCEL:
                    trace.instant(chief, "cancel", f"closure {number}", now, closure=number)
                    error = f"Closure {number} was cancelled, because another closure failed: {self.queue.error!r}"
                    self.closures.pop(number).result.end(CancelledError(error))
                case _:
                    assert_never(decision.kind)
        trace.counter(chief, "queue", now, len(self.queue.queue))
        if self._rounds is not None:
            self._complete_rounds(self._rounds)
        self._open_joins()

    def _complete_rounds(self, policy: BoundedStaleness) -> None:
        """Let the servers apply the rounds that are complete; workers that have waited for that begin the next one."""
        rounds = policy.complete_rounds(not self.queue.queue)
        for complete in rounds:
            for ticket in complete.tickets:
                self._replies.pop(ticket).accept()
            call = self._workers.apply_round(complete)
            call.then(partial(self._round_applied, complete, call))
        if rounds:
            while (worker := policy.late()) is not None:
                self._workers.abandon(worker)
                self._carry_out(self.queue.dropped(self.queue.running[worker]))
            self._carry_out(self.queue.round_complete())

    def _round_applied(self, complete: Round, call: Handle) -> None:
        """All servers have applied a round: its closures are done. If one has lost it, all are over: servers differ by a round."""
        if call.error is not None:
            self._broken = self._broken or call.error
            for worker in self.queue.running:
                self._workers.abandon(worker)
            self._carry_out(self.queue.failed(call.error))
        for number in complete.closures if call.error is None else list(self._in_round):
            closure = self._in_round.pop(number, None)
            if closure is not None:
                closure.result.end(call.error)
        self._open_joins()

    def _open_joins(self) -> None:
        if not self.pending:
            joining, self._joining = self._joining, []
            for promise in joining:
                promise.open()

    def _raise_stored(self) -> None:
        error = self.queue.take_error()
        if error is not None:
            raise error


def _carried_out(synchronization: Synchronization | None, strategy: ParameterServerStrategy) -> Synchronization:
    """A policy that the servers can carry out: the given one, or that of the strategy's mode."""
    if synchronization is None:
        if not strategy.serving.in_rounds:
            return Asynchronous()
        return BoundedStaleness(strategy.worker_numbers, strategy.staleness, strategy.backup_workers)
    if strategy.serving.in_rounds:
        raise InvalidArgumentError(
            f"The strategy was made with mode={strategy.mode!r}, which says how workers wait for each other, and the coordinator with "
            f"synchronization={synchronization!r}. Leave one of them out."
        )
    if synchronization.reads is not Reads.PRESENT or synchronization.counts is not UpdatesCount.ON_ARRIVAL:
        raise InvalidArgumentError(
            f"{synchronization!r} needs servers that keep the versions of a round and collect its updates (reads={synchronization.reads}, "
            f"counts={synchronization.counts}). Make the strategy with mode='bounded' or mode='sync' for that, or use a policy with "
            "reads=Reads.PRESENT and counts=UpdatesCount.ON_ARRIVAL."
        )
    return synchronization
