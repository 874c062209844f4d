"""Ctrl-C while simdist looks at what a rule, a loss or a test step does: nothing of the trace is left, and the next one is right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax._src import core

import simdist as sd
from simdist import keras
from simdist.errors import AbortedError
from simdist.program.tracing import active_tracer, is_under_a_trace

SOURCES = Path(sd.__file__).parent
MOMENTS = 7
"""How many moments of each file's traces are tried, first and last among them."""
X, Y = np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)


def stands_in(file: str) -> bool:
    """Whether code of a file is running, which may be about to return."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == str(SOURCES / file):
            return True
        frame = frame.f_back
    return False


@contextmanager
def interrupted_at(number: int, file: str, patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Ctrl-C as JAX has just opened a trace, or is about to close one, for this file; gives how many such moments there were."""
    moments, depth = [0], [0]

    def moment() -> None:
        if depth[0] and stands_in(file):
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

    def within(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            depth[0] += 1
            try:
                return function(*args, **options)
            finally:
                depth[0] -= 1

        return called

    with patch.context() as inner:
        inner.setattr(core.SetCurrentTraceContextManager, "__enter__", opened)
        inner.setattr(core.SetCurrentTraceContextManager, "__exit__", closed)
        inner.setattr(jax, "make_jaxpr", lambda *args, before=jax.make_jaxpr, **options: within(before(*args, **options)))
        inner.setattr(jax, "eval_shape", within(jax.eval_shape))
        yield moments


def model(**options: Any) -> Any:
    with sd.MirroredStrategy(2).scope():
        made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones"), keras.layers.Dropout(0.5, seed=1)])
        made.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], **options)
    return made


def evaluated() -> list[float]:
    found: list[float] = model().evaluate(X, Y, verbose=0)
    return found


def predicted() -> list[float]:
    found: list[float] = model().predict(X, verbose=0).ravel().tolist()
    return found


class Own(keras.Model):
    """Its own step."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, state: Any, data: Any) -> Any:
        return super().train_step(state, data)


def trained_by_its_own_step() -> list[float]:
    with sd.MirroredStrategy(2).scope():
        own = Own()
        own.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    found: list[float] = own.fit(X, Y, epochs=2, verbose=0).history["loss"]
    return found


names = count()


def rows_trained() -> list[float]:
    """A rule that no process has seen yet: what is found of a rule is kept."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    rate = 0.5 + next(names) * 2.0**-20
    with strategy.scope():
        table = sd.Variable(np.ones((6, 2), np.float32))
        optimizer = sd.Optimizer(optax.chain(optax.scale_by_rss(), optax.scale(-rate)))

    @sd.function
    def step(ids: Any) -> Any:
        value, gradients = sd.value_and_grad(lambda: sd.embedding_lookup_sparse(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(step, args=(np.array([[3, -1]], np.int32),))
    coordinator.join()
    return [round(float(number), 3) for number in table.numpy().ravel()]


PROGRAMS: dict[str, Callable[[], list[float]]] = {
    "training/evaluation/probe.py": evaluated,
    "training/stateless_step.py": trained_by_its_own_step,
    "variables/row_rule.py": rows_trained,
    "variables/slot_optimizer.py": rows_trained,
    "variables/independence.py": rows_trained,
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("file", PROGRAMS)
def test_ctrl_c_in_a_trace_leaves_no_trace_open(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS[file]
    program()  # JAX remembers what it has traced
    with interrupted_at(0, file, monkeypatch) as moments:
        expected = program()
    total = moments[0]
    assert total >= 2, "the file traces nothing here"
    for number in sorted({1 + round(part * (total - 1) / (MOMENTS - 1)) for part in range(MOMENTS)}):
        with interrupted_at(number, file, monkeypatch), pytest.raises((KeyboardInterrupt, AbortedError)):  # a worker's task aborts
            program()
        assert not is_under_a_trace() and active_tracer() is None, f"moment {number} of {total}"
        assert float(jnp.sum(jnp.ones(3))) == 3.0
        assert float(keras.Variable(1.0).value) == 1.0, "in a stateless scope there are no new ones"
        assert program() == pytest.approx(expected, abs=1e-3)
