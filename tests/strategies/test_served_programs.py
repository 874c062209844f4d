"""Programs of parameter servers: linked once for all workers, and what is refused before."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError


def served(mode: Any = "async") -> tuple[sd.ParameterServerStrategy, sd.Variable]:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode=mode)
    with strategy.scope():
        return strategy, sd.Variable(1.0, name="v")


def test_a_program_is_linked_once_for_all_workers_and_again_for_another_layout() -> None:
    strategy, variable = served()
    step = sd.function(lambda: variable.assign_add(1.0))
    program = strategy.programs.program(step, step.bind((), {}))
    linked = strategy.link(step, program, "worker:0")
    assert strategy.link(step, program, "worker:1") is linked and linked.version == strategy.store.layout.version
    with strategy.scope():
        sd.Variable([2.0], name="another")
    again = strategy.link(step, program, "worker:0")
    assert again is not linked and again.version == strategy.store.layout.version


def test_a_program_with_a_variable_of_another_strategy_is_not_linked() -> None:
    strategy, _ = served()
    _, foreign = served()
    step = sd.function(lambda: foreign.assign_add(1.0))
    with pytest.raises(FailedPreconditionError, match=r"^Mixing different strategies: v was made in the scope"):
        strategy.link(step, strategy.programs.program(step, step.bind((), {})), "worker:0")


def test_a_program_that_reads_what_it_has_changed_is_linked_unless_workers_proceed_in_rounds() -> None:
    def link(mode: Any) -> None:
        strategy, variable = served(mode)

        def step() -> Any:
            variable.assign_add(1.0)
            return variable.read_value()

        fn = sd.function(step)
        strategy.link(fn, strategy.programs.program(fn, fn.bind((), {})), "worker:0")

    link("async")
    with pytest.raises(FailedPreconditionError, match="reads v after it has changed it"):
        link("sync")
