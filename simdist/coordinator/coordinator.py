"""`ClusterCoordinator`: schedules closures on workers, and sees to it that each runs.

The decisions are those of `simdist.coordinator.queue`; this file carries them out through an engine.

Taught in lessons 00 and 01.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from simdist.arguments import require_arguments
from simdist.coordinator.closure import Closure
from simdist.coordinator.per_worker import PerWorker, PerWorkerDataset, PerWorkerResource
from simdist.coordinator.queue import ClosureQueue, Decision
from simdist.coordinator.remote_value import RemoteValue, Result
from simdist.errors import CancelledError, InvalidArgumentError, TimedOutError, UnavailableError
from simdist.program.function import StepFunction
from simdist.program.values import snapshot
from simdist.runtime.base import Promise
from simdist.runtime.membership import Decision as Seen
from simdist.runtime.work import Handle
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["ClusterCoordinator"]


class ClusterCoordinator:
    """Runs functions on the workers of a parameter-server strategy; one for each strategy.

    Args:
        strategy: a `ParameterServerStrategy`.

    Raises:
        InvalidArgumentError: another kind of strategy.
    """

    def __new__(cls, strategy: Any) -> ClusterCoordinator:
        if not isinstance(strategy, ParameterServerStrategy):
            raise InvalidArgumentError(f"ClusterCoordinator needs a ParameterServerStrategy; got {type(strategy).__name__}.")
        known: ClusterCoordinator | None = strategy.coordinator
        if known is None:
            known = super().__new__(cls)
            known._set_up(strategy)
            strategy.coordinator = known
        return known

    def _set_up(self, strategy: ParameterServerStrategy) -> None:
        self.strategy = strategy
        self.engine = engine = strategy.engine
        self.queue = ClosureQueue()
        self.closures: dict[int, Closure] = {}
        self.calls: dict[str, Handle] = {}  # by worker: the one that the queue knows of
        self.scheduled = 0
        self._joining: list[Promise] = []  # of those who wait until nothing is pending
        self._process = engine.process(engine.chief)
        self._workers = engine.start_workers(strategy.workers, strategy)
        engine.subscribe([*strategy.workers, *strategy.servers], self._membership_changed)
        for name in strategy.workers:
            # Somebody else may have been told before that they are up.
            if engine.is_believed_up(name):
                self._carry_out(self.queue.worker_up(name))

    def __repr__(self) -> str:
        return (
            f"ClusterCoordinator({len(self.strategy.workers)} workers, {self.scheduled} closures scheduled, {self.queue.pending} pending)"
        )

    # -- for users ------------------------------------------------------------------------------------------------

    def schedule(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Run a function on some worker, as soon as one is free. Returns at once.

        Args:
            fn: a step under ``@sd.function``, or a plain function, which runs untraced on the worker.
            args, kwargs: its arguments; per-worker values become those of the worker.

        Returns:
            A `RemoteValue`.

        Raises:
            TypeError: `fn` is not a function.
            InvalidArgumentError: args is not a list or tuple, or there is a `RemoteValue` in it.
            FailedPreconditionError: the cluster is closed, or this is another thread.
            UnavailableError: the chief has crashed, and the closures with it.
            Exception: the error of an earlier closure, once.
        """
        self._raise_stored()
        if not callable(fn):
            raise TypeError(f"schedule takes a function; got {type(fn).__name__}.")
        require_arguments(args, kwargs, "schedule")
        return RemoteValue(self.schedule_steps(fn, tuple(args), dict(kwargs or {}), 1))

    def schedule_steps(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], repeat: int) -> Result:
        """Like `schedule`, with several steps in one closure; gives the result of the last."""
        self._require_usable("schedule was called")
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
        while self.queue.pending:
            self._require_usable("join was called")
            promise = self.engine.promise()
            self._joining.append(promise)
            promise.wait(f"{self.queue.pending} closures (join)")
        self._raise_stored()

    def done(self) -> bool:
        """Whether nothing is pending; raises the first error of a closure, once."""
        self._raise_stored()
        return self.queue.pending == 0

    def fetch(self, value: Any) -> Any:
        """A structure with each `RemoteValue` replaced by its value."""
        return jax.tree_util.tree_map(lambda x: x.fetch() if isinstance(x, RemoteValue) else x, value)

    def create_per_worker_dataset(self, source: Any) -> PerWorkerDataset:
        """A dataset on each worker.

        Args:
            source: a function that returns an `sd.Dataset` or a distributed one, or one of these.

        Raises:
            InvalidArgumentError: something else.
        """
        from simdist.data import Dataset
        from simdist.strategies.base import DistributedFromFunction

        if not callable(source) and not isinstance(source, (Dataset, DistributedFromFunction)):
            raise InvalidArgumentError(
                f"Unexpected dataset type: {type(source).__name__}. Pass a function that returns an sd.Dataset, or one."
            )
        return PerWorkerDataset(source)

    def create_per_worker_resource(self, fn: Callable[[], Any]) -> PerWorkerResource:
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
        if not self._process.alive:
            raise UnavailableError(
                f"{what}, but {self.engine.chief}, which held this coordinator and its closures, has crashed. Start again on a new "
                "cluster: cluster.fresh()."
            )

    # -- facts and decisions --------------------------------------------------------------------------------------

    def _membership_changed(self, seen: Seen) -> None:
        if self._process.alive and seen.task in self.strategy.workers:
            up = seen.kind == "up"
            self._carry_out(self.queue.worker_up(seen.task) if up else self.queue.worker_down(seen.task))

    def _dispatch(self, number: int, worker: str) -> None:
        closure = self.closures[number]
        call = (
            self._workers.call(worker, closure, number)
            if isinstance(closure.fn, StepFunction)
            else self._workers.call_function(worker, closure.run, number)
        )
        self.calls[worker] = call
        call.then(partial(self._replied, worker, number, call))

    def _replied(self, worker: str, number: int, call: Handle) -> None:
        """A reply has come; that of a worker which no longer has the closure does not count."""
        if self.calls.get(worker) is not call or self.queue.running.get(worker) != number:
            return
        error = call.error
        if error is None:
            try:
                call.accept()
            except Exception as failure:
                error = failure
        if isinstance(error, TimedOutError) and self.closures[number].may_be_tried_again():
            self._carry_out(self.queue.timed_out(worker, number))
            return
        if error is not None:
            self._carry_out(self.queue.raised(worker, number, error))
            return
        self.closures[number].result.take(call.value)
        self._carry_out(self.queue.completed(worker, number))

    def _carry_out(self, decisions: list[Decision]) -> None:
        trace, now, chief = self.engine.trace, self.engine.now, self.engine.chief
        for decision in decisions:
            match decision.kind:
                case "dispatch":
                    self._dispatch(decision.closure, decision.worker)
                case "retry":
                    trace.instant(
                        decision.worker,
                        "retry",
                        f"closure {decision.closure} is run again",
                        now,
                        closure=decision.closure,
                    )
                case "resolve":
                    self._end(decision.closure, None)
                case "fail":
                    name = type(decision.error).__name__
                    trace.instant(decision.worker, "error", f"closure {decision.closure}: {name}", now, closure=decision.closure)
                    self._end(decision.closure, decision.error)
                case _:
                    trace.instant(chief, "cancel", f"closure {decision.closure}", now, closure=decision.closure)
                    error = CancelledError(
                        f"Closure {decision.closure} was cancelled, because another closure failed: {self.queue.error!r}"
                    )
                    self._end(decision.closure, error)
        trace.counter(chief, "queue", now, len(self.queue.queue))
        if not self.queue.pending:
            joining, self._joining = self._joining, []
            for promise in joining:
                promise.open()

    def _end(self, number: int, error: BaseException | None) -> None:
        result = self.closures.pop(number).result
        result.error = error
        result.ready.open()

    def _raise_stored(self) -> None:
        error = self.queue.take_error()
        if error is not None:
            raise error
