"""Ctrl-C while a step is traced: wherever it comes, nothing of the trace is left in the process."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import core

import simdist as sd
from simdist import keras
from simdist.process_state import TaskLocal, kept_state
from simdist.program.tracing import active_tracer, is_under_a_trace


@contextmanager
def interrupted_at(number: int, patch: pytest.MonkeyPatch) -> Any:
    """Ctrl-C at one of the moments at which JAX has just opened a trace, or is about to close one; gives how many there were."""
    moments = [0]

    def moment() -> None:
        moments[0] += 1
        if moments[0] == number:
            raise KeyboardInterrupt

    def opened(self: Any, before: Callable[[Any], Any] = core.SetCurrentTraceContextManager.__enter__) -> Any:
        found = before(self)
        moment()
        return found

    def closed(self: Any, *error: Any, before: Any = core.SetCurrentTraceContextManager.__exit__) -> Any:
        moment()
        return before(self, *error)

    with patch.context() as inner:
        inner.setattr(core.SetCurrentTraceContextManager, "__enter__", opened)
        inner.setattr(core.SetCurrentTraceContextManager, "__exit__", closed)
        yield moments


def training() -> tuple[Any, Any]:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        variable: Any = sd.Variable(np.ones(3, np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.25))

    @sd.function
    def step() -> None:
        def in_replica() -> None:
            optimizer.apply_gradients([(jax.grad(lambda x: jnp.sum(x * 0.5))(variable.value), variable)])

        strategy.run(in_replica)

    optimizer.build([variable])
    return step, variable


def test_ctrl_c_at_any_moment_of_a_trace_leaves_no_trace_open(monkeypatch: pytest.MonkeyPatch) -> None:
    training()[0]()  # JAX remembers what it has traced
    step, variable = training()
    with interrupted_at(0, monkeypatch) as moments:
        step()
    expected, total = variable.numpy().tolist(), moments[0]
    assert expected == [0.75] * 3 and total > 20
    for number in range(1, total + 1):
        step, variable = training()
        with interrupted_at(number, monkeypatch), pytest.raises(KeyboardInterrupt):
            step()
        assert not is_under_a_trace() and active_tracer() is None, f"moment {number} of {total}"
        assert float(jnp.sum(jnp.ones(3))) == 3.0
        step()
        assert variable.numpy().tolist() == expected


def test_what_is_global_to_the_process_is_as_it_was_after_ctrl_c_and_not_after_other_errors() -> None:
    local, stack = TaskLocal[list[str]](list), ["outer"]
    local.get().append("first")
    scope = keras.StatelessScope()
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), kept_state(stack):
            local.get().append("second")
            stack.append("inner")
            scope.__enter__()
            raise error
        is_kept = error is KeyboardInterrupt
        assert (local.get() == ["first"]) == is_kept and (stack == ["outer"]) == is_kept
        if is_kept:
            assert float(keras.Variable(1.0).value) == 1.0, "in a stateless scope there are no new ones"
        else:
            scope.__exit__()


def test_all_code_asks_for_jaxprs_and_shapes_in_the_one_way_that_leaves_nothing_open() -> None:
    for path in Path(sd.__file__).parent.rglob("*.py"):
        asked = {node.attr for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Attribute)}
        assert path.name == "traces.py" or not asked & {"make_jaxpr", "eval_shape"}, f"{path}: use simdist.program.traces"
