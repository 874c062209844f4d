"""What a step takes in functions that JAX traces once: each call takes the next batch; a loop, whose turns would be equal, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

LOOPS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "scan": lambda taken: jax.lax.scan(lambda total, _: (total + taken(), None), jnp.float32(0), jnp.arange(3))[0],
    "fori_loop": lambda taken: jax.lax.fori_loop(0, 3, lambda _, total: total + taken(), jnp.float32(0)),
    "while_loop": lambda taken: jax.lax.while_loop(lambda total: total < 9, lambda total: total + taken(), jnp.float32(0)),
}


def batches() -> Any:
    rows = np.arange(10, dtype=np.float32)
    return iter(sd.OneDeviceStrategy().distribute_dataset(sd.Dataset.from_tensor_slices(rows).batch(2)))


@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("remembers", [jax.jit, jax.checkpoint], ids=["jit", "checkpoint"])  # type: ignore[attr-defined]
def test_each_call_of_a_function_that_jax_remembers_takes_the_next_batch(remembers: Any, run_eagerly: bool) -> None:
    @sd.function
    def step(iterator: Any) -> Any:
        taken = remembers(lambda: next(iterator).sum())
        return taken(), taken(), next(iterator).sum(), taken()

    step.run_eagerly = run_eagerly
    assert list(map(float, step(batches()))) == [1.0, 5.0, 9.0, 13.0]


@pytest.mark.parametrize("name", LOOPS)
def test_a_batch_of_each_turn_of_a_loop_is_refused_and_none_is_taken(name: str) -> None:
    iterator = batches()
    step = sd.function(lambda iterator: LOOPS[name](lambda: next(iterator).sum()))
    with pytest.raises(InvalidArgumentError, match=rf"A batch was taken inside the body of a jax\.lax\.{name}.*loop in Python"):
        step(iterator)
    assert np.asarray(next(iterator)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", LOOPS)
def test_random_numbers_of_each_turn_of_a_loop_are_refused(name: str) -> None:
    with sd.OneDeviceStrategy().scope():
        seed = keras.random.SeedGenerator(1)
    step = sd.function(lambda: LOOPS[name](lambda: keras.random.uniform((), seed=seed)))
    with pytest.raises(InvalidArgumentError, match=rf"Random numbers were drawn inside the body of a jax\.lax\.{name}"):
        step()


def test_what_was_taken_and_drawn_before_a_loop_is_what_its_turns_get() -> None:
    with sd.OneDeviceStrategy().scope():
        seed = keras.random.SeedGenerator(1)

    @sd.function
    def step(iterator: Any) -> Any:
        given = jnp.stack([next(iterator), next(iterator)]), keras.random.uniform((2,), seed=seed)
        return given, jax.lax.scan(lambda total, turn: (total + turn[0].sum() * turn[1], None), jnp.float32(0), given)[0]

    (rows, drawn), total = step(batches())
    assert len(set(map(float, drawn))) == 2
    np.testing.assert_allclose(total, np.dot(np.asarray(rows).sum(axis=1), np.asarray(drawn)), rtol=1e-6)
