"""`PreemptionCheckpointHandler`: a program whose machine will be taken away saves its state in time, and ends.

All mains save after the same call of `run`, and end with the same exit status, so that all of them are started again; the next
handler restores what was saved.

Taught in lesson 13.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from simdist.arguments import number, shown
from simdist.checkpoint.checkpoint import Checkpoint
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.manager import CheckpointManager
from simdist.checkpoint.notice import Notices
from simdist.checkpoint.objects import Objects
from simdist.cluster import ClusterResolver
from simdist.errors import InvalidArgumentError

__all__ = ["EXIT_STATUS", "PreemptionCheckpointHandler", "TerminationConfig"]

EXIT_STATUS = 42
"""With which a program ends that has saved its state before its machine was taken away."""

POLL_S = 1.0
"""Virtual seconds between two questions to a `termination_watcher_fn`."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class TerminationConfig:
    """What a handler does when the machine of a task is about to be taken away.

    Args:
        termination_watcher_fn: asked every virtual second, between calls of `run`; what it says counts as a notice. Default: the notices
            of the cluster's faults (`cluster.faults.preempt`).
        exit_fn: called after the last save; default: ``sys.exit(42)``, after which a launched main with ``restart="always"`` starts again.
        grace_period: virtual seconds from the notice to the end. Above 0 the training goes on after a first save, and saves once more
            before the time is over. Default None: it saves once, and ends.
        save_fn: saves in the place of the checkpoint.

    Raises:
        InvalidArgumentError: a negative grace period.
        TypeError: something is no function.

    Example:
        >>> TerminationConfig(grace_period=30.0, exit_fn=lambda: None).grace_period
        30.0
    """

    termination_watcher_fn: Callable[[], object] | None = None
    exit_fn: Callable[[], object] | None = None
    grace_period: float | None = None
    save_fn: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        for name in ("termination_watcher_fn", "exit_fn", "save_fn"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise TypeError(f"{name} is {function!r}; expected a function without arguments, or None")
        if self.grace_period is not None:
            object.__setattr__(self, "grace_period", number(self.grace_period, "grace_period"))


class _Calls:
    """How often `run` was called, over all incarnations."""

    total = 0

    def state_dict(self) -> dict[str, int]:
        return {"total": self.total}

    def load_state_dict(self, state: Any) -> None:
        self.total = int(state["total"])


class PreemptionCheckpointHandler:
    """Runs steps, and saves before a task is preempted; restores when it is made.

    It knows the notices of the program's own machine, and those of all machines whose replicas the program drives, as in a notebook.

    Args:
        cluster_resolver: of the strategy: ``strategy.cluster_resolver``; None where there is none.
        checkpoint_or_checkpoint_manager: what is saved.
        checkpoint_dir: where a `Checkpoint` is saved; a manager has a directory of its own.
        termination_config: a `TerminationConfig`; default: one save, and ``sys.exit(42)``.

    Raises:
        NotImplementedError: the cluster has parameter servers, which keep the variables when a worker goes: use
            ``ParameterServerStrategy(recovery=...)``.
        InvalidArgumentError: a `Checkpoint` without a directory, or a manager with one.
        TypeError: neither of the two, or another argument of the wrong type.

    Example:
        >>> import simdist as sd
        >>> def main(directory):
        ...     strategy = sd.MultiWorkerMirroredStrategy()
        ...     with strategy.scope():
        ...         v = sd.Variable(0.0)
        ...     handler = sd.PreemptionCheckpointHandler(strategy.cluster_resolver, sd.Checkpoint(v=v), directory)
        ...     while handler.total_run_calls < 5:
        ...         handler.run(strategy.run, lambda: v.assign_add(sd.get_replica_context().all_reduce("SUM", 1.0)))
        ...         sd.sleep(1.0)
        ...     return float(v.numpy())
        >>> cluster = sd.Cluster({"worker": 2})
        >>> _ = cluster.faults.preempt("worker:1", at=1.5, notice=30.0, restart_after=5.0)
        >>> run = cluster.launch(main, restart="always", args=(cluster.directory("saved"),))
        >>> run.join()
        >>> run.results["worker:0"], run.restarts["worker:0"]
        (10.0, 1)
        >>> cluster.close()
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None,
        checkpoint_or_checkpoint_manager: Checkpoint | CheckpointManager,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        termination_config: TerminationConfig | None = None,
    ) -> None:
        if not isinstance(cast("object", cluster_resolver), (ClusterResolver, type(None))):
            raise TypeError(f"cluster_resolver is {shown(cluster_resolver)}; expected strategy.cluster_resolver, or None")
        if not isinstance(cast("object", termination_config), (TerminationConfig, type(None))):
            raise TypeError(f"termination_config is {shown(termination_config)}; expected sd.TerminationConfig(...), or None")
        spec = None if cluster_resolver is None else cluster_resolver.cluster_spec()
        if spec is not None and "ps" in spec:
            raise NotImplementedError(
                "PreemptionCheckpointHandler is for strategies whose workers hold the variables. Parameter servers keep them when a worker "
                "goes; for a server that goes, use ParameterServerStrategy(recovery='replica')."
            )
        self.manager = _manager_of(checkpoint_or_checkpoint_manager, checkpoint_dir)
        self.config = TerminationConfig() if termination_config is None else termination_config
        # A handler that is made again, as in a cell that is run twice, counts where the one before it does.
        self._calls = _calls_of(self.manager.checkpoint)
        self._notices = Notices(Mains(Objects.of(self.manager.checkpoint.objects).strategies))
        self._asked_s = -POLL_S
        self._noticed_s: float | None = None  # by the user's function
        self._saved_s: float | None = None  # how long the save took that came with the notice
        self._deadline_s: float | None = None
        self._checked_s: float | None = None
        self._between_s = 0.0  # at most, from one question whether to save to the next one
        self.manager.restore_or_initialize()

    @property
    def total_run_calls(self) -> int:
        """How often `run` has called its function, over all restarts."""
        return self._calls.total

    def run(self, distributed_train_function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Save and end where a task is about to be taken away; otherwise call a function.

        Take batches inside of the function: what an iterator gave before the call would be saved as taken, and no step has had it.

        Args:
            distributed_train_function: a step, or several; all mains call it equally often.
            args, kwargs: its arguments.
        """
        self.save_checkpoint_if_preempted()
        result = distributed_train_function(*args, **kwargs)
        self._calls.total += 1
        return result

    def save_checkpoint_if_preempted(self) -> None:
        """Save, and end the program, where a task is about to be taken away; every main has to call it equally often."""
        killed_s = self._notices.soonest_s(self._asked())
        if self._checked_s is not None:
            self._between_s = max(self._between_s, self._now - self._checked_s)
        if killed_s is not None:
            self._save_in_time(killed_s)
        self._checked_s = self._now

    def _save_in_time(self, killed_s: float) -> None:
        """Save at the notice; with a grace period go on, and save once more and end before that is over."""
        grace_s = self.config.grace_period
        if self._deadline_s is None:
            self._deadline_s = killed_s if not grace_s else min(killed_s, self._now + grace_s)
            began_s = self._now
            self._save()
            self._saved_s = self._now - began_s
            if not grace_s:
                self._exit()
            return
        assert self._saved_s is not None
        self._deadline_s = min(self._deadline_s, killed_s)  # another task may have got a notice meanwhile, with less time
        # What is done between two questions, and one more save, must fit in, with as much again to spare. The chief says so for all: only
        # it waits for the disk, and no two clocks of mains are read at the same moment.
        if self._notices.mains.of_chief(self._now + 2 * (self._between_s + self._saved_s) >= self._deadline_s):
            self._save()
            self._exit()

    @contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Around a loop that calls `save_checkpoint_if_preempted` itself, after each of its steps."""
        yield

    @property
    def _now(self) -> float:
        return self._notices.mains.now_s

    def _asked(self) -> float | None:
        """What the user's function says: a notice without a second counts from now on, with the grace period."""
        watcher = self.config.termination_watcher_fn
        is_due = self._notices.mains.clock is None or self._now - self._asked_s >= POLL_S
        if watcher is not None and self._noticed_s is None and is_due:
            self._asked_s = self._now
            if watcher():
                self._noticed_s = self._now + (self.config.grace_period or 0.0)
        return self._noticed_s

    def _save(self) -> None:
        if self.config.save_fn is not None:
            self.config.save_fn()
        else:
            self.manager.save(check_interval=False)
            self.manager.sync()

    def _exit(self) -> None:
        if self.config.exit_fn is not None:
            self.config.exit_fn()
        else:
            sys.exit(EXIT_STATUS)


def _calls_of(checkpoint: Checkpoint) -> _Calls:
    """The count that a checkpoint saves.

    Raises:
        InvalidArgumentError: it saves something else under this name.
    """
    calls = checkpoint.objects.setdefault("preemption_calls", _Calls())
    if not isinstance(calls, _Calls):
        raise InvalidArgumentError(
            f"The checkpoint has an object 'preemption_calls', a {type(calls).__name__}, and PreemptionCheckpointHandler saves its count "
            "of calls under this name. Give the object another name."
        )
    return calls


def _manager_of(saved: object, directory: str | os.PathLike[str] | None) -> CheckpointManager:
    if isinstance(saved, CheckpointManager):
        if directory is not None:
            raise InvalidArgumentError(
                f"checkpoint_dir={str(directory)!r}: the CheckpointManager has a directory of its own. Leave it out."
            )
        return saved
    if not isinstance(saved, Checkpoint):
        raise TypeError(f"PreemptionCheckpointHandler takes an sd.Checkpoint or an sd.CheckpointManager; got {type(saved).__name__}.")
    if directory is None:
        raise InvalidArgumentError(
            "PreemptionCheckpointHandler was given a Checkpoint and no checkpoint_dir. Pass the directory to save to."
        )
    return CheckpointManager(saved, directory, max_to_keep=1)
