"""`ClusterCoordinator`: schedules closures on workers, and sees to it that each runs.

This is the face that users see. `simdist.coordinator.queue` decides, and `simdist.coordinator.executor` carries it out through an engine.

Taught in lessons 00, 01 and 07.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from simdist.arguments import flag, require_arguments, require_function
from simdist.coordinator.closure import new_closure
from simdist.coordinator.endings import Endings
from simdist.coordinator.executor import ClosureExecutor
from simdist.coordinator.leftovers import Leftovers
from simdist.coordinator.options import CoordinatorOptions
from simdist.coordinator.per_worker import PerWorkerDataset, PerWorkerResource
from simdist.coordinator.policies import policy_of
from simdist.coordinator.polling import Polling
from simdist.coordinator.queue import ClosureQueue
from simdist.coordinator.refusals import require_outside_of_closures, require_same
from simdist.coordinator.remote_value import RemoteValue, Result, fetched
from simdist.coordinator.synchronization import Synchronization
from simdist.coordinator.waits import Waits
from simdist.coordinator.watchdog import Watchdog
from simdist.coordinator.workforce import Workforce
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.interrupts import delayed_interrupts
from simdist.program.function import step_behind
from simdist.strategies.base import Strategy
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.uncopied import Uncopied

__all__ = ["ClusterCoordinator"]

DEFAULTS = CoordinatorOptions()
SUSPICIOUS = 3


class ClusterCoordinator(Uncopied, instead="There is one for each strategy."):
    """Runs functions on the workers of a parameter-server strategy; one for each strategy.

    Args:
        strategy: a `ParameterServerStrategy`.
        synchronization: how workers wait for each other; default: as the strategy's mode= says.
        max_queued: closures that may wait for a worker; `schedule` waits while there are so many. Default 262,144; 0 or less: any number.
        start_delay_s: seconds; the worker with index i begins i times so much later. Default 0.
        start_delay_max_s: seconds; no worker begins later than that. Default 0: no bound.
        watchdog_s: seconds; if closures are pending and none has ended for so long, a `RuntimeWarning` and an instant of the trace
            ("watchdog") say who waits for what. Default None: never.
        tolerated_time_outs: how often a closure is run again because a message of it was lost; the next time that is its error. Default 5.

    Raises:
        InvalidArgumentError: another kind of strategy; or a synchronization that the servers cannot carry out, or a number that makes no
            sense; or other arguments than those with which the coordinator of this strategy was made.
        FailedPreconditionError: a start delay or a watchdog on an engine without time.
        TypeError: an option that is no number.

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

    def __new__(
        cls,
        strategy: Strategy,
        synchronization: Synchronization | None = None,
        *,
        max_queued: int = DEFAULTS.max_queued,
        start_delay_s: float = DEFAULTS.start_delay_s,
        start_delay_max_s: float = DEFAULTS.start_delay_max_s,
        watchdog_s: float | None = DEFAULTS.watchdog_s,
        tolerated_time_outs: int = DEFAULTS.tolerated_time_outs,
    ) -> ClusterCoordinator:
        if not isinstance(strategy, ParameterServerStrategy):
            raise InvalidArgumentError(f"ClusterCoordinator needs a ParameterServerStrategy; got {type(strategy).__name__}.")
        options = CoordinatorOptions(max_queued, start_delay_s, start_delay_max_s, watchdog_s, tolerated_time_outs)
        known: ClusterCoordinator | None = strategy.coordinator
        if known is None:
            known = super().__new__(cls)
            known._set_up(strategy, policy_of(synchronization, strategy), options)
            strategy.coordinator = known
        else:
            require_same((options, synchronization), (known.options, known.queue.synchronization), DEFAULTS)
        return known

    def _set_up(self, strategy: ParameterServerStrategy, synchronization: Synchronization, options: CoordinatorOptions) -> None:
        self.strategy = strategy
        self.engine = engine = strategy.engine
        self.options = options
        self.queue = ClosureQueue(synchronization)
        self.scheduled = 0
        self._joining, self._scheduling = Waits(engine), Waits(engine)  # until nothing is pending; until the queue has room
        self._polling = Polling(SUSPICIOUS)
        self.pool = engine.start_workers(strategy.workers, strategy, strategy.serving, strategy.local_replicas)
        self._watchdog = Watchdog(engine, options.watchdog_s, lambda: self.pending, lambda: self._workforce.tells())
        remembers, ended = strategy.serving.remembers, self._watchdog.ended
        self._executor = executor = ClosureExecutor(engine, self.queue, self.pool, remembers, ended, self._open_waits)
        self.closures = executor.closures
        self._endings = Endings(strategy, engine.process(engine.chief), self.queue)
        self.leftovers = Leftovers(self.queue, executor.unended, executor.carry_out, self.join, self._require_usable)
        self._workforce = Workforce(strategy, self.pool, self.queue, options, executor.carry_out)
        self._workforce.begin()

    def __repr__(self) -> str:
        return f"ClusterCoordinator({len(self.strategy.workers)} workers, {self.scheduled} closures scheduled, {self.pending} pending)"

    # -- for users ------------------------------------------------------------------------------------------------

    def schedule(self, fn: Callable[..., object], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None) -> RemoteValue:
        """Run a function on some worker, as soon as one is free. Returns at once, unless max_queued closures wait for a worker already.

        The messages that bring it there and its result back take their latency. Arrays among its arguments, if they are more than a
        packet (1,460 bytes) together, travel from the chief to the worker each time that it is sent: give large data as per-worker
        datasets. So do the arrays of its result, and updates of the chief's variables, on the way back. The trace shows both as
        `transfer`, on the lane of the worker.

        Args:
            fn: a step under ``@sd.function``, or a plain function, which runs untraced on the worker. It may call steps, and
                `strategy.run`, which runs the replicas of this worker: it waits for them, and they are steps of this closure. What
                it takes from around it is that of the moment when a worker runs it (a step: first runs it), and not of this call.
            args, kwargs: its arguments; per-worker values become those of the worker.

        Returns:
            A `RemoteValue`.

        Raises:
            TypeError: `fn` is not a function.
            InvalidArgumentError: args is not a list or tuple, or there is a `RemoteValue` in it.
            FailedPreconditionError: the cluster is closed, or this is another thread, or a closure of this coordinator.
            UnavailableError: the chief has crashed, and the closures with it.
            Exception: the error of an earlier closure, once.

        Warns:
            UserWarning: when a step is traced, a name around it stands for something else than when it was scheduled.
        """
        self._raise_stored()
        require_function(fn, "schedule")
        require_arguments(args, kwargs, "schedule")
        return RemoteValue(self.schedule_steps(step_behind(fn), tuple(args), dict(kwargs or {}), 1))

    def schedule_steps(
        self, fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], repeat: int, keeps_each: bool = False
    ) -> Result:
        """Like `schedule`, with several steps in one closure, or where workers proceed in rounds in one closure each.

        Args:
            fn: a step, or with `repeat` of 1 a function.
            args, kwargs: its arguments, the same for each step; an iterator gives each its own batch.
            repeat: the number of steps, 1 or more.
            keeps_each: whether the result has those of all steps of the closure; not where each step is one.

        Returns:
            The result of the last step.

        Raises:
            InvalidArgumentError: there is a `RemoteValue` in the arguments, or a per-worker value of another strategy.
            UnavailableError: the servers have lost a round; all else as `schedule`.
        """
        self._require_usable("schedule was called")
        if (rounds := self._executor.rounds) is not None:
            rounds.require_whole()
            for _ in range(repeat - 1):
                self.schedule_steps(fn, args, kwargs, 1)
            repeat = 1
        self._wait_for_room()
        with delayed_interrupts():  # a decision of the queue that is not carried out would never end
            number, result = self.scheduled, Result(self.engine, self.scheduled, self._is_awaited)
            patience = self.options.tolerated_time_outs
            self.closures[number] = new_closure(self.strategy, fn, args, kwargs, result, repeat, patience, keeps_each)
            self.scheduled += 1
            self._watchdog.scheduled()
            self._executor.carry_out(self.queue.schedule(number))
        return result

    def _wait_for_room(self) -> None:
        """Wait until the queue may take one more closure."""
        while self.options.is_full(len(self.queue.queue)):
            self._scheduling.wait(f"room in the queue, which holds max_queued={self.options.max_queued} closures (schedule)")
            self._require_usable("schedule was called")
            self._raise_stored()

    def between_rounds(self) -> AbstractContextManager[None]:
        """Inside, all servers have applied the same rounds; where each update counts when it comes there is nothing to wait for."""
        rounds = self._executor.rounds
        alive = self.engine.process(self.engine.chief).alive  # nobody applies a round any more whose coordinator is gone
        return nullcontext() if rounds is None or not alive else rounds.between_rounds()

    def expect(self, more: bool) -> None:
        """Say whether closures are to be scheduled for which a round that is not full waits, until a caller waits for a closure."""
        if self._executor.rounds is not None:
            self._executor.rounds.expect(more)

    def _is_awaited(self, number: int) -> None:
        """A caller waits for a closure."""
        self._endings.require_end(number)
        self.expect(False)

    def join(self) -> None:
        """Wait for everything that was scheduled; raise the first error of a closure, once.

        Raises:
            As `schedule`.
        """
        while self.pending:
            self._require_usable("join was called")
            self.expect(False)
            self._joining.wait(lambda: f"{self.pending} closures (join: {self._workforce.tells()})")
        self._raise_stored()

    def done(self) -> bool:
        """Whether nothing is pending; raises the first error of a closure, once. No virtual time passes: a loop needs `sd.sleep`.

        Raises:
            DeadlineExceededError: it was False 10,000 times, and no virtual time passed in between. (At the third time it warns.)
            UnavailableError: the chief has crashed, and the closures with it.
            Exception: the error of an earlier closure, once.
        """
        self._raise_stored()
        if self.pending:
            self._endings.require_chief("done was called")
            self.expect(False)
            self._polling.found(self.engine.now, "done() was False", self.pending)
        return self.pending == 0

    @property
    def pending(self) -> int:
        """Closures that are neither done, failed nor cancelled; one whose round is not complete is not done."""
        return self._executor.pending

    def fetch(self, val: Any) -> Any:
        """A structure with each `RemoteValue` replaced by its value."""
        return fetched(val)

    def create_per_worker_dataset(self, dataset_fn: object, resume: bool = False) -> PerWorkerDataset:
        """A dataset on each worker, which each makes when a closure first needs it.

        Each worker keeps its pipeline. One that is added later begins anew; of what was distributed from a function it takes over the
        pipeline of a worker that was removed (with `resume`, where it stood), or makes one more: no row is lost, some are read twice.

        Args:
            dataset_fn: a function that returns an `sd.Dataset` or a distributed one, or one of these. It is never traced, also under
                ``@sd.function``.
            resume: whether a worker that comes back goes on after the last batch of a closure that counts. It also takes batches once
                more which it took for a closure that did not count (it failed, or was given to another worker; with `exactly_once`
                that one takes these batches, and each has the other's pipeline). Default False, as in TensorFlow: the worker begins its
                dataset anew, and batches of such closures are lost.

        Raises:
            InvalidArgumentError: anything else, or a function under ``@sd.function(seconds=...)``.
            TypeError: resume is neither True nor False.
        """
        flag(resume, "resume")
        if isinstance(dataset_fn, (Dataset, DistributedFromFunction)) or callable(dataset_fn):
            pipelines = {name: self.strategy.input_context(name) for name in self.strategy.workers}
            return PerWorkerDataset(self.strategy, dataset_fn, pipelines, resume, lambda: self.strategy.workers)
        raise InvalidArgumentError(
            f"Unexpected dataset type: {type(dataset_fn).__name__}. Pass a function that returns an sd.Dataset, or one."
        )

    def create_per_worker_resource(self, fn: Callable[[], object]) -> PerWorkerResource:
        """Something that each worker makes by calling `fn`; made again when it comes back.

        A plain function is given the object itself. A step is given one that consists of arrays, numbers and containers of these, as they
        are when it begins.

        Raises:
            TypeError: `fn` is not a function.
        """
        if not callable(fn):
            raise TypeError(f"create_per_worker_resource takes a function without arguments; got {type(fn).__name__}.")
        return PerWorkerResource(self.strategy, fn)

    def add_worker(self) -> str:
        """Start one more worker, while training goes on. It takes closures as soon as the chief has heard of it.

        Returns:
            The name of its task.

        Raises:
            FailedPreconditionError: the tasks of this engine are fixed; or as `schedule`.
            InvalidArgumentError: the network has no place for another: a torus has as many nodes as its shape says.

        Example:
            >>> import simdist as sd
            >>> cluster = sd.Cluster({"worker": 1, "ps": 1})
            >>> coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
            >>> coordinator.add_worker(), cluster.tasks
            ('worker:1', ['chief:0', 'worker:0', 'ps:0', 'worker:1'])
            >>> coordinator.remove_worker("worker:0")
            >>> coordinator.strategy.workers, cluster.tasks
            (['worker:1'], ['chief:0', 'ps:0', 'worker:1'])
        """
        self._require_usable("add_worker was called")
        return self._workforce.add()

    def remove_worker(self, task: str) -> None:
        """Take a worker away, while training goes on. A message tells it to end; what it runs is given to another worker at once.

        Args:
            task: the name of its task, such as "worker:1".

        Raises:
            InvalidArgumentError: there is no such worker.
            FailedPreconditionError: it is the last one, or as many are left as backup_workers= says; or as `schedule`.
        """
        self._require_usable("remove_worker was called")
        self._workforce.remove(task)

    def _require_usable(self, what: str) -> None:
        """Refuse what cannot succeed any more: the queue was in the memory of the chief."""
        self.engine.require_usable(what)
        require_outside_of_closures(self.strategy, what)
        self._endings.require_chief(what)

    def _open_waits(self) -> None:
        """Let those go on who wait for room in the queue, or until nothing is pending."""
        if not self.options.is_full(len(self.queue.queue)):
            self._scheduling.let_go()
        if not self.pending:
            self._joining.let_go()

    def _raise_stored(self) -> None:
        if (error := self.queue.take_error()) is not None:
            raise error
