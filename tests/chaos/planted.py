"""Defects that this engine has had, each as a patch of a few lines that puts it back.

A campaign that says nothing is worth what it would have said: these are what it must find by itself, without being told where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from simdist.coordinator.closure_states import ClosureState
from simdist.coordinator.executor import ClosureExecutor
from simdist.coordinator.queue import Attempt, ClosureDecision, ClosureQueue
from simdist.coordinator.waits import Waits
from simdist.errors import UnavailableError
from simdist.ledger.computing import Computing
from simdist.runtime.replicas import Member
from simdist.runtime.simulated import worker_loop
from simdist.runtime.simulated.calls import Call
from simdist.runtime.simulated.closure_call import ClosureCall
from simdist.runtime.simulated.collective_group import CollectiveGroup
from simdist.runtime.simulated.replica_group import SimulatedReplicaGroup
from simdist.runtime.simulated.replica_step import ReplicaStep
from simdist.runtime.simulated.run import SimulatedRun
from simdist.runtime.simulated.silence import Silence
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.runtime.simulated.worker_loop import WorkerLoop
from simdist.runtime.simulated.world import World
from simdist.simulation.kernel import Fiber
from simdist.strategies.synchronous import elastic, resizing
from simdist.training import adoption
from simdist.variables.layout import Layout

__all__ = ["PLANTED", "Plant"]

Plant = Callable[[pytest.MonkeyPatch], None]
"""Puts one defect back, until the patch is undone."""

# -- numbers -----------------------------------------------------------------------------------------------------------


def interrupted_looks_drop_updates(patch: pytest.MonkeyPatch) -> None:
    """What ends a computation early takes the calls with it that were still to be made."""
    compute = Computing._compute

    def forgetful(computing: Computing, count: int, at_once: bool = True) -> None:
        pending = computing.pending
        end = pending.computed + count
        try:
            compute(computing, count, at_once)
        except BaseException:
            del pending.entries[: end - pending.computed]
            raise

    patch.setattr(Computing, "_compute", forgetful)


def losses_of_layers_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """What a layer adds to the loss does not count in training."""

    def __init__(scope: Any) -> None:
        adoption.stateless_scope.StatelessScope.__init__(scope, collect_losses=False, initialize_variables=False)

    patch.setattr(adoption.StepScope, "__init__", __init__)


# -- launched mains ----------------------------------------------------------------------------------------------------


def mains_killed_before_their_first_line_count_as_ended(patch: pytest.MonkeyPatch) -> None:
    """A main that is killed before it ran has succeeded, with None."""
    ended = SimulatedRun._ended

    def gullible(run: SimulatedRun, task: Task, fiber: Fiber, process: Incarnation, context: Any) -> None:
        if fiber.abandoned and process is task.process:
            run.results[task.name] = fiber.result
            run._finish(task)
        else:
            ended(run, task, fiber, process, context)

    patch.setattr(SimulatedRun, "_ended", gullible)


def mains_start_again_without_a_look_at_their_task(patch: pytest.MonkeyPatch) -> None:
    """After its back-off a main starts on a task that is down, or beside another one."""

    def again(run: SimulatedRun, failed: tuple[Task, Incarnation]) -> None:
        task, _ = failed
        run.world.trace.instant(task.name, "restart", f"the main of {task.name} starts again", run.world.now)
        run.restarts[task.name] += 1
        run._start(task)

    patch.setattr(SimulatedRun, "_again", again)


def failed_mains_keep_their_bytes(patch: pytest.MonkeyPatch) -> None:
    """The variables of a main that has failed stay in the memory of its task."""
    patch.setattr(Layout, "release_all", lambda layout: None)


# -- synchronous steps -------------------------------------------------------------------------------------------------


def members_are_known_by_their_task_not_by_their_life(patch: pytest.MonkeyPatch) -> None:
    """A worker that was started again looks as if it had never gone."""

    worlds, begin = list[World](), World.__init__

    def noted(world: World, *args: Any, **kwargs: Any) -> None:
        begin(world, *args, **kwargs)
        worlds[:] = [world]

    def alive(member: Member) -> bool:
        return bool(worlds) and worlds[0].tasks[member.task].alive

    patch.setattr(World, "__init__", noted)
    patch.setattr(Member, "alive", property(alive))


def another_death_while_a_worker_joins_ends_the_run(patch: pytest.MonkeyPatch) -> None:
    """The variables come from the first survivor; if one of the two dies on the way, nobody tries again."""

    def bring_back(strategy: Any, back: Sequence[Member]) -> list[Member]:
        try:
            for member in back:
                resizing._copy_state(strategy, strategy.members[0].device, member)
        except UnavailableError:
            strategy.policy.has_lost_members = lambda: False  # so that nobody takes the step again
            raise
        return list(back)

    patch.setattr(elastic, "bring_back", bring_back)


def a_single_replica_runs_in_the_callers_place(patch: pytest.MonkeyPatch) -> None:
    """Nothing kills it when its task dies."""
    patch.setattr(ReplicaStep, "_is_callers_own", lambda step, member: True)


def steps_that_cannot_begin_leave_a_listener(patch: pytest.MonkeyPatch) -> None:
    """A step makes its meeting place before it asks whether everybody is there, and does not take it away."""
    require_alive = SimulatedReplicaGroup._require_alive

    def untidy(group: SimulatedReplicaGroup, local: Sequence[Member]) -> None:
        try:
            require_alive(group, local)
        except UnavailableError:
            if group.collective_group is None and len(local) > 1:
                CollectiveGroup(group.world, local, group.communication, group.plans)
            raise

    patch.setattr(SimulatedReplicaGroup, "_require_alive", untidy)


# -- the coordinator ---------------------------------------------------------------------------------------------------


def closures_that_exit_end_the_loop_of_their_worker(patch: pytest.MonkeyPatch) -> None:
    """The worker is up, and nobody is there who would take a closure; nobody hears of it."""

    def only_exceptions(failure: BaseException, number: int, task_name: str) -> Exception:
        if not isinstance(failure, Exception):
            raise failure
        return failure

    patch.setattr(worker_loop, "_as_error", only_exceptions)
    patch.setattr(WorkerLoop, "_ended", lambda loop, fiber: None)


def only_the_last_who_joins_is_woken(patch: pytest.MonkeyPatch) -> None:
    """Who joins second takes the place of the first, who waits for ever."""

    def wait(waits: Waits, what: str) -> None:
        promise = waits.engine.promise()
        waits._promises = [promise]
        promise.wait(what)

    patch.setattr(Waits, "wait", wait)


def errors_cancel_nothing(patch: pytest.MonkeyPatch) -> None:
    """What waits when a closure fails runs later."""
    raised = ClosureQueue.raised

    def patient(queue: ClosureQueue, attempt: Attempt, error: Exception) -> list[ClosureDecision]:
        waiting = list(queue.queue)
        queue.queue.clear()
        decisions = raised(queue, attempt, error)
        queue.queue.extend(waiting)
        return [*decisions, *queue._dispatch()]

    patch.setattr(ClosureQueue, "raised", patient)


# -- faults ------------------------------------------------------------------------------------------------------------


def slow_faults_take_each_others_place(patch: pytest.MonkeyPatch) -> None:
    """The last factor holds alone, and the first end is the end of all."""

    def slow_by(task: Task, factor: float) -> Callable[[], None]:
        task.slowness = factor
        return lambda: setattr(task, "slowness", 1.0)

    patch.setattr(Task, "slow_by", slow_by)


# -- silence -----------------------------------------------------------------------------------------------------------


def what_is_lost_has_no_time_out(patch: pytest.MonkeyPatch) -> None:
    """Who waits for the answer to a message that was lost waits for ever."""
    patch.setattr(Call, "silenced", lambda call, leg: None)
    patch.setattr(ClosureCall, "unheard", lambda closure, _: None)


def heartbeats_of_a_paused_task_go_on(patch: pytest.MonkeyPatch) -> None:
    """Nobody notices that it stands still."""

    def hears(silence: Silence, source: Task, target: Task) -> bool:
        return source.process.alive and (source.name, target.name) not in silence.transport.blocked

    patch.setattr(Silence, "hears", hears)


def timers_of_a_paused_task_run(patch: pytest.MonkeyPatch) -> None:
    """What its device has computed goes on to the next operation."""
    patch.setattr(SimulatedTask, "_is_late", lambda step, function, argument: not step.process.alive or step.step.over)


def copies_of_a_silent_replica_count_when_it_is_back(patch: pytest.MonkeyPatch) -> None:
    """It goes on with what it had before the others went on without it."""
    patch.setattr(elastic, "forget_copies", lambda strategy, member: None)


def late_replies_count(patch: pytest.MonkeyPatch) -> None:
    """A worker that comes back is not told that it was replaced, and what it replies then is taken for the reply of another."""

    def replied(executor: ClosureExecutor, attempt: Attempt, call: Any, ticket: int) -> None:
        taken_for = executor.queue.running.setdefault(attempt.worker, attempt)
        taken_for.state = ClosureState.RUNNING
        original(executor, taken_for if taken_for.closure == attempt.closure else attempt, call, ticket)

    original = ClosureExecutor._replied
    patch.setattr(ClosureExecutor, "_replied", replied)
    patch.setattr(WorkerLoop, "replaced", lambda loop, _=None: None)


def a_batch_is_lost_where_bytes_were_lost(patch: pytest.MonkeyPatch) -> None:
    """A step that was given up is tried again with the next batch."""
    patch.setattr(elastic.Elastic, "rewind", lambda policy, iterators: None)


PLANTED: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        slow_faults_take_each_others_place,
        members_are_known_by_their_task_not_by_their_life,
        a_single_replica_runs_in_the_callers_place,
        mains_start_again_without_a_look_at_their_task,
        mains_killed_before_their_first_line_count_as_ended,
        failed_mains_keep_their_bytes,
        closures_that_exit_end_the_loop_of_their_worker,
        errors_cancel_nothing,
        only_the_last_who_joins_is_woken,
        another_death_while_a_worker_joins_ends_the_run,
        interrupted_looks_drop_updates,
        losses_of_layers_are_dropped,
        steps_that_cannot_begin_leave_a_listener,
        what_is_lost_has_no_time_out,
        heartbeats_of_a_paused_task_go_on,
        timers_of_a_paused_task_run,
        late_replies_count,
        copies_of_a_silent_replica_count_when_it_is_back,
        a_batch_is_lost_where_bytes_were_lost,
    )
}
"""By name; those that show most often first."""
