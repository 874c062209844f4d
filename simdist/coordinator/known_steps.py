"""Steps that a worker knows: their arguments and linked programs, by the calls that they are of. They go with the step."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

from simdist.caches import OfLiving
from simdist.program.function import KEPT_SIGNATURES, StepFunction
from simdist.runtime.work import LinkedStep, StepCall, Worker

__all__ = ["forget_steps_with", "keep_step", "known_step"]

STEPS = "steps that were linked"  # in the memory of a worker
Known = tuple[StepCall, LinkedStep]


def known_step(worker: Worker, fn: StepFunction, key: Hashable) -> Known | None:
    """What this worker knows of a call of a step."""
    return _of(worker).get(fn, dict).get(key)


def keep_step(worker: Worker, fn: StepFunction, key: Hashable, known: Known) -> None:
    """This worker knows a call of a step from now on."""
    _of(worker).get(fn, dict)[key] = known


def forget_steps_with(worker: Worker, numbers: set[int]) -> None:
    """Forget the calls that take what this worker has made for these per-worker values."""
    for calls in _of(worker).values():
        for key in [key for key in calls if isinstance(key, tuple) and numbers.intersection(cast("tuple[object, ...]", key)[2:])]:
            del calls[key]


def _of(worker: Worker) -> OfLiving[StepFunction, dict[Hashable, Known]]:
    steps = worker.local.get(STEPS)
    if steps is None:
        steps = worker.local[STEPS] = OfLiving[StepFunction, dict[Hashable, Known]](KEPT_SIGNATURES)
    return steps
