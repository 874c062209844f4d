"""What a strategy keeps of its steps: traced once, linked again where variables move, dropped where it is not needed."""

from __future__ import annotations

import simdist as sd
from simdist.program.function import StepFunction


def counting(strategy: sd.MirroredStrategy) -> StepFunction:
    with strategy.scope():
        v = sd.Variable(0.0)
    return StepFunction(lambda: v.assign_add(1.0), name="count")


def test_step_is_traced_once_until_it_is_forgotten() -> None:
    strategy = sd.MirroredStrategy(2)
    step = counting(strategy)
    for _ in range(3):
        strategy.step(step, (), {})
    assert step.traces == 1
    strategy.programs.forget(step)
    strategy.step(step, (), {})
    assert step.traces == 2


def test_programs_are_linked_again_when_the_layout_has_changed() -> None:
    strategy = sd.MirroredStrategy(2)
    step = counting(strategy)
    first = strategy.step(step, (), {}).linked
    programs = [linked.program for linked in first]
    assert strategy.programs.linked(step, programs) is first
    strategy.store.layout.version += 1
    assert strategy.programs.linked(step, programs) is not first


def test_nothing_is_kept_of_a_step_that_runs_once() -> None:
    strategy = sd.MirroredStrategy(2)
    known = len(strategy.programs._linked), len(strategy.programs._traced)
    strategy.run(lambda: 1.0)
    assert (len(strategy.programs._linked), len(strategy.programs._traced)) == known
