"""Rules that bring numbers of several places together are not applied to shards or rows; all others give the numbers of one device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import DenseUpdateWarning, InvalidArgumentError
from simdist.variables.elementwise import changes_place_by_place

ROWS, COLUMNS = 6, 2
GRADIENT = np.arange(1.0, 1 + ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


def rule(change: Callable[[Any], Any]) -> Any:
    """Descent by a change of the gradient."""
    changing = optax.stateless(lambda updates, params: jax.tree.map(change, updates))
    return optax.chain(changing, optax.sgd(0.1))


WHOLE: dict[str, Callable[[Any], Any]] = {
    "from back to front": lambda g: jnp.flip(g, 0),
    "the row before": lambda g: jnp.roll(g, 1, 0),
    "the first row": lambda g: g - g[0],
    "a number of elements": lambda g: g / g.size,
    "the number of a row": lambda g: g * jnp.arange(len(g), dtype=jnp.float32)[:, None],
    "rows so far": lambda g: jax.lax.scan(lambda total, row: (total + row, total), jnp.zeros(COLUMNS), g)[1],
    "all rows in a loop": lambda g: g - jax.lax.fori_loop(0, len(g), lambda i, total: total + g[i], jnp.zeros(COLUMNS)),
    "frequencies": lambda g: jnp.real(jnp.fft.fft(g, axis=0)),
    "the largest": lambda g: jnp.where(g >= jax.lax.top_k(g.ravel(), 2)[0][-1], g, 0),
    "a sum": lambda g: g / jnp.sum(g),
    "a count of ones": lambda g: g / jnp.ones_like(g).sum(),
    "the last number": lambda g: g * jnp.arange(float(g.shape[0])).max(),
    "a ramp of a scan": lambda g: g * jax.lax.scan(lambda n, _: (n + 1, n), 0.0, length=len(g))[1][:, None],
    "turns of a loop": lambda g: g * jax.lax.scan(lambda n, _: (n + 1, None), 0.0, length=len(g))[0],
    "factors of rows": lambda g: g * np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS),
    "a branch with numbers of rows": lambda g: jax.lax.cond(g.size > 0, lambda: g, lambda: jnp.arange(ROWS * 2.0).reshape(g.shape)),
}

POSITIONS: dict[str, Callable[[], Any]] = {
    "a rate by a table": lambda: optax.sgd(optax.cosine_onecycle_schedule(10, 0.1)),
    "a rate between points": lambda: optax.sgd(optax.piecewise_interpolate_schedule("linear", 0.1, {2: 0.5, 4: 0.5})),
    "a function of one's own": lambda: rule(lambda g: jnp.where(g > 3, jnp.tanh(g), jnp.zeros_like(g))),
    "a loop over each number": lambda: rule(lambda g: jax.lax.fori_loop(0, 3, lambda i, x: x * 0.5 + i, g)),
    "a scan over rates": lambda: rule(lambda g: jax.lax.scan(lambda x, rate: (x * rate, None), g, jnp.array([0.5, 2.0]))[0]),
    "a branch": lambda: rule(lambda g: jax.lax.cond(jnp.sum(jnp.arange(3)) > 2, lambda x: x * 2, lambda x: x, g)),
    "Adam with a loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=1.0),
    "averages and accumulation": lambda: keras.optimizers.AdamW(
        0.1, use_ema=True, ema_overwrite_frequency=2, gradient_accumulation_steps=2
    ),
}


def trained(make: Callable[[], Any], partitioner: Any = None) -> np.ndarray:
    """A variable after three steps, in shards or whole."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), partitioner)
    with strategy.scope():
        variable, optimizer = sd.Variable(np.ones((ROWS, COLUMNS))), sd.Optimizer(make())
        optimizer.build([variable])
    step = sd.function(lambda: optimizer.apply_gradients([(variable.value * GRADIENT, variable)]))
    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(3):
        coordinator.schedule(step)
    coordinator.join()
    return variable.numpy()


def columns(shape: Any, dtype: Any) -> list[int]:
    return [1, 2]


@pytest.mark.parametrize("name", WHOLE)
def test_what_needs_a_whole_variable_is_refused_for_shards(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="whole variable"):
        trained(lambda: rule(WHOLE[name]), sd.FixedShardsPartitioner(3))


@pytest.mark.parametrize("partitioner", [sd.FixedShardsPartitioner(3), columns], ids=["rows", "columns"])
@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.sample
def test_what_goes_place_by_place_gives_the_numbers_of_a_whole_variable(name: str, partitioner: Any) -> None:
    np.testing.assert_array_equal(trained(POSITIONS[name], partitioner), trained(POSITIONS[name]))


def test_what_follows_from_an_axis_that_is_not_cut_is_applied_to_shards() -> None:
    make = lambda: rule(lambda g: g / g.shape[1])  # noqa: E731
    np.testing.assert_array_equal(trained(make, sd.FixedShardsPartitioner(3)), trained(make))
    with pytest.raises(InvalidArgumentError, match="whole variable"):
        trained(make, columns)


@pytest.mark.parametrize("name", ["a number of elements", "the first row", "a sum"])
@pytest.mark.parametrize("lazy_rows", [False, True])
def test_what_needs_a_whole_table_is_not_applied_to_rows(name: str, lazy_rows: bool) -> None:
    found: list[np.ndarray] = []
    for looks_up in (True, False):
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
        with strategy.scope():
            table, optimizer = sd.Variable(np.ones((40, 2))), sd.Optimizer(rule(WHOLE[name]), lazy_rows=lazy_rows and looks_up)

        @sd.function
        def step(ids: Any, looks_up: bool = looks_up, table: Any = table, optimizer: Any = optimizer) -> None:
            def loss() -> Any:
                rows = sd.embedding_lookup(table, ids) if looks_up else table.value[ids]
                return (rows**2).sum()

            _, gradients = sd.value_and_grad(loss, [table])()
            optimizer.apply_gradients(zip(gradients, [table], strict=True))

        coordinator = sd.ClusterCoordinator(strategy)
        is_ignored = lazy_rows and looks_up
        with pytest.warns(DenseUpdateWarning, match="lazy_rows=True has no effect on Variable") if is_ignored else nullcontext():
            coordinator.schedule(step, args=(np.array([3, 0, 3]),))
            coordinator.join()
        found.append(table.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_numbers_that_become_those_of_a_place_in_a_loop_are_noticed() -> None:
    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda i, value: x * 2, jnp.arange(3.0))

    closed = jax.make_jaxpr(function)(jnp.ones(3))
    assert not changes_place_by_place(closed, [True], [True])
