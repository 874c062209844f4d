"""The methods of a plan that break a task: its process, its machine, its disk. Each plans one fault.

Taught in lesson 01.
"""

from __future__ import annotations

from simdist.faults.disk import DiskFull, DiskSlow, TornWrite
from simdist.faults.planner import Planner, Predicate
from simdist.faults.process import Crash, LoseHost, Pause, Preempt, Slow
from simdist.faults.triggers import Trigger

__all__ = ["PlansOfTasks"]


class PlansOfTasks(Planner):
    """Faults of one task each."""

    def crash(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        restart_after: float | None = None,
        keep_disk: bool = True,
    ) -> Crash:
        """Kill a task's process: its memory is lost, its connections are reset.

        Args:
            task: "worker:1", "ps:0" or "chief:0" ("chief" for short; so "evaluator").
            at: virtual second; or
            after_steps: after so many steps of that task, of a parameter server after so many updates (what a strategy does for
                itself, such as averaging variables, is no step); or
            when: as soon as this predicate of the cluster holds at the end of some step. It may look, but not wait.
            restart_after: seconds until the process starts again, with the next incarnation; None: never.
            keep_disk: whether what was durable on its disk is there afterwards; False: it is lost, and the directories on it are empty.

        Raises:
            InvalidArgumentError: an unknown task, a time in the past or without an end, or not exactly one of the three triggers.
            TypeError: keep_disk is neither True nor False.
        """
        return self.add(Crash(task, restart_after, keep_disk, trigger=Trigger(at, after_steps, when)))

    def lose_host(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        restart_after: float | None = None,
    ) -> LoseHost:
        """Lose a task's machine, with its memory and its disk; no task is notified. Others find it out by missing heartbeats, or time-outs.

        Args:
            task, at, after_steps, when: as in `crash`.
            restart_after: seconds until the process starts again elsewhere, with the next incarnation; None: never.

        Raises:
            InvalidArgumentError: as `crash`.
        """
        return self.add(LoseHost(task, restart_after, trigger=Trigger(at, after_steps, when)))

    def preempt(
        self,
        task: str,
        notice: float,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        restart_after: float | None = None,
    ) -> Preempt:
        """Take a task's machine away, as a cloud does with cheap ones: the task gets notice, and some seconds later its process is killed.

        Its disk is lost, and the directories on it are empty.

        Args:
            task: as in `crash`; also the chief.
            notice: seconds from the notice, which is given at the moment of the fault, to the kill; more than 0.
            at, after_steps, when: as in `crash`, of the notice.
            restart_after: seconds from the kill until the process starts again on another machine; None: never.

        Raises:
            InvalidArgumentError: as `crash`, or a notice that is not positive or has no end.
        """
        return self.add(Preempt(task, notice, restart_after, trigger=Trigger(at, after_steps, when)))

    def slow(
        self,
        task: str,
        factor: float,
        at: float | None = None,
        after_steps: int | None = None,
        until: float | None = None,
        when: Predicate | None = None,
    ) -> Slow:
        """Make a task's devices slower by a factor, from a moment on, until another.

        Args:
            task: as in `crash`.
            factor: on the time of everything that begins then; 2.0: half as fast. Those of several faults multiply.
            at, after_steps, when: as in `crash`.
            until: virtual second at which this factor goes; None: never.

        Raises:
            InvalidArgumentError: as `crash`, a factor that is not positive and finite, or an end that is not after the beginning.
        """
        return self.add(Slow(task, factor, until=until, trigger=Trigger(at, after_steps, when)))

    def pause(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
    ) -> Pause:
        """Let a task's process stand still, from a moment on, until another: it is alive, and silent.

        Args:
            task, at, after_steps, when: as in `crash`.
            until: virtual second at which it goes on, not knowing that it was away; None: never.

        Raises:
            InvalidArgumentError: as `crash`, or an end that is not after the beginning.
        """
        return self.add(Pause(task, until=until, trigger=Trigger(at, after_steps, when)))

    def disk_full(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
    ) -> DiskFull:
        """Leave no room on a task's disk, from a moment on, until another: what begins or ends to be written meanwhile fails.

        Args:
            task, at, after_steps, when: as in `crash`.
            until: virtual second at which there is room again; None: never.

        Raises:
            InvalidArgumentError: as `crash`, or an end that is not after the beginning.
        """
        return self.add(DiskFull(task, until=until, trigger=Trigger(at, after_steps, when)))

    def disk_slow(
        self,
        task: str,
        factor: float,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        until: float | None = None,
    ) -> DiskSlow:
        """Make a task's disk slower by a factor, from a moment on, until another.

        Args:
            task, at, after_steps, when: as in `crash`.
            factor: on the time of each operation that begins then; 2.0: half as fast. Those of several faults multiply.
            until: virtual second at which this factor goes; None: never.

        Raises:
            InvalidArgumentError: as `crash`, a factor that is not positive and finite, or an end that is not after the beginning.
        """
        return self.add(DiskSlow(task, factor, until=until, trigger=Trigger(at, after_steps, when)))

    def torn_write(
        self,
        task: str,
        at: float | None = None,
        after_steps: int | None = None,
        when: Predicate | None = None,
        writes: int = 1,
    ) -> TornWrite:
        """Let the next write of a task's disk keep only a prefix; the disk says nothing of it.

        A checkpoint is read back when it was written, and written once more; a snapshot of a server is torn when it is needed.

        Args:
            task, at, after_steps, when: as in `crash`.
            writes: how many of the next writes; 1 or more.

        Raises:
            InvalidArgumentError: as `crash`, or a number of writes that is not 1 or more.
        """
        return self.add(TornWrite(task, writes, trigger=Trigger(at, after_steps, when)))
