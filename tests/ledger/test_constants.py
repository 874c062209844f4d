"""Kernels are computed outside of every other trace, and JAX computes none of their constants by programs of their own."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.ledger.ledger import Ledger
from simdist.program.arrays import jax_array
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval, Bundle

AVALS = (Aval((7,), "float32"),)
START = np.arange(7, dtype=np.float32)


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """The names of the events of JAX's compiler."""
    events: list[str] = []

    def note(event: str, _: float, **facts: str | int) -> None:
        if event.endswith("/backend_compile_duration"):
            events.append(event)

    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(note)
    yield events
    jax.monitoring.unregister_event_duration_listener(note)


def counting(number: int) -> Kernel:
    """A kernel that counts: it makes an array that depends on no input, of a length that no other test has."""
    return kernel_of(f"count {number}", lambda array: [array + jnp.sum(jnp.arange(number, dtype=jnp.float32))], AVALS)


@pytest.mark.parametrize("numerics", ["loop", "eager"])
def test_a_kernel_with_constants_is_one_program(numerics: str, compiled: list[str]) -> None:
    ledger = Ledger(numerics)
    kernel = counting(137)
    compiled.clear()
    (bundle,) = ledger.call(ledger.site(kernel, [AVALS], [AVALS]), [Bundle.of([START])])
    np.testing.assert_array_equal(ledger.arrays(bundle)[0], START + 136 * 137 / 2)
    assert len(compiled) == 1


def test_numbers_are_known_while_another_function_is_traced() -> None:
    ledger = Ledger("loop")
    (bundle,) = ledger.call(ledger.site(counting(139), [AVALS], [AVALS]), [Bundle.of([START])])

    def function(x: jax.Array) -> jax.Array:
        (known,) = ledger.arrays(bundle)
        assert not isinstance(known, jax.core.Tracer)
        return x + known

    np.testing.assert_array_equal(jax.jit(function)(np.zeros(7, np.float32)), START + 138 * 139 / 2)


def test_an_array_of_numpy_becomes_one_of_jax_without_a_program(compiled: list[str]) -> None:
    found = jax_array(np.ones((3, 149), np.float32))
    assert isinstance(found, jax.Array) and not found.committed
    np.testing.assert_array_equal(found, np.ones((3, 149)))
    assert not compiled
