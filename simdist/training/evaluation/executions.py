"""Batches as callbacks see them: as many at a time as the model was compiled for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from simdist.training.evaluation.passes import Parts, Pass
from simdist.training.keras_model import StrategyModel, fixed_steps_per_execution
from simdist.training.sources import Source

__all__ = ["Execution", "batches_per_execution", "count_batches", "executions"]


@dataclass
class Execution:
    """Some batches of a pass, which `take` takes.

    Attributes:
        one_pass: of data.
        first: the number of the first batch.
        size: how many there are, unless the data end.
    """

    one_pass: Pass
    first: int
    size: int

    def take(self) -> list[Parts]:
        """What the batches give."""
        taken: list[Parts] = []
        while len(taken) < self.size and self.one_pass.has_next():
            taken.append(self.one_pass.take())
        self.size = len(taken)
        return taken

    @property
    def last(self) -> int:
        """The number of the last batch that there was."""
        return self.first + self.size - 1


def executions(model: StrategyModel, one_pass: Pass, steps: int | None) -> Iterator[Execution]:
    """The executions of a pass, to the end of the data or for so many steps; each has to be taken."""
    size, done = batches_per_execution(model), 0
    while steps is None or done < steps:
        if not one_pass.has_next():
            if steps is not None:
                warnings.warn(f"The dataset ran out after {done} of {steps} steps.", stacklevel=6)
            return
        execution = Execution(one_pass, done, size if steps is None else min(size, steps - done))
        yield execution
        done += execution.size


def batches_per_execution(model: StrategyModel) -> int:
    """How many batches an execution has, unless the data end."""
    return model.simdist_state.evaluation_executions or fixed_steps_per_execution(model) or 1


def count_batches(source: Source, steps: int | None) -> int | None:
    """The number of batches that a progress bar shows."""
    found = source.num_batches
    return steps if found is None else found if steps is None else min(found, steps)
