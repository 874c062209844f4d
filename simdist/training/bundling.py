"""How many steps a closure takes: as few as keep the messages of closures a small part of the time, for ``steps_per_execution="auto"``.

Between two closures a worker waits for a reply and for what comes next. With k steps in a closure, that is the share
overhead / (overhead + k * step) of its time. The forecast is of the first batch, with the rows of tables that it asks for. It knows no
jitter, faults, or links and servers that others use: then steps take longer, and the share is smaller.
"""

from __future__ import annotations

import math

from simdist.coordinator.closure import new_closure
from simdist.coordinator.remote_value import Result
from simdist.data.iterator import DatasetIterator
from simdist.errors import InvalidArgumentError
from simdist.program.function import StepFunction
from simdist.program.scope import opened
from simdist.runtime.linked import LinkedProgram
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["LARGEST_SHARE", "bundled", "steps_for"]

# Of the time of a worker, what the messages of closures may take.
LARGEST_SHARE = 0.05


def bundled(step: StepFunction, strategy: ParameterServerStrategy, sample: DatasetIterator, steps: int) -> int:
    """How many steps of an epoch a closure takes.

    Args:
        step: a step that takes an iterator.
        strategy: on whose workers.
        sample: an iterator with the batches that workers will have; nothing is taken of it.
        steps: of the epoch.

    Raises:
        InvalidArgumentError: workers have several replicas, for which there is no forecast.
    """
    if strategy.serving.in_rounds:
        return 1  # there each step is a closure
    if strategy.replicas is not None:
        raise InvalidArgumentError(
            f"steps_per_execution='auto' knows no forecast for workers with {strategy.replicas.count} devices each. Give a number, for "
            "example steps_per_execution=8."
        )
    with opened(strategy):
        closure = new_closure(strategy, step, (), {}, Result(strategy.engine, -1), 1, 0)
        linked = closure.linked(step.bind((sample,), {}), strategy.workers[0])
    assert isinstance(linked, LinkedProgram)
    batches = [sample.peek(number) for number in range(len(linked.batches))]
    figures = [strategy.engine.closure_figures(linked, worker, batches) for worker in strategy.workers]
    step_s, overhead_s = min(step_s for step_s, _ in figures), max(overhead_s for _, overhead_s in figures)
    count = steps_for(step_s, overhead_s, steps // len(strategy.workers))
    text = f"{count} steps in a closure: a step takes {step_s:.3g} s, the messages of a closure {overhead_s:.3g} s"
    strategy.engine.trace.instant(strategy.engine.chief, "bundle", text, strategy.engine.now, steps=count)
    return count


def steps_for(step_s: float, overhead_s: float, most: int) -> int:
    """The fewest steps with which the messages of a closure take `LARGEST_SHARE` of the time or less.

    Args:
        step_s: seconds of a step.
        overhead_s: seconds of the messages of a closure.
        most: steps that a worker takes in an epoch: no closure has more, so that each worker gets its share.

    Example:
        >>> steps_for(step_s=1e-3, overhead_s=1e-4, most=100)
        2
        >>> steps_for(step_s=0.0, overhead_s=1e-4, most=100)
        100
    """
    if overhead_s == 0.0:
        return 1
    wanted = overhead_s * (1.0 / LARGEST_SHARE - 1.0)
    count = most if step_s * most < wanted else math.ceil(wanted / step_s)
    return max(1, min(count, most))
