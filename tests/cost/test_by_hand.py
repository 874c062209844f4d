"""Operations that XLA does not know, against closed forms and counted loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback

from simdist.cost.flops import cost_of
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval


def flops(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32") -> float:
    kernel = kernel_of("counted", lambda *arrays: jax.tree.leaves(function(*arrays)), [Aval(shape, dtype) for shape in shapes])
    return cost_of(kernel).flops


def printed(x: Any) -> Any:
    jax.debug.print("{}", x)
    return x


def sent(x: Any) -> Any:
    io_callback(lambda _: None, None, x, ordered=True)
    return x


def answered(x: Any) -> Any:
    return jax.pure_callback(lambda value: value, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize("to_python", [printed, sent, answered])
@pytest.mark.parametrize(
    "around",
    [
        lambda f, x: f(x) @ x,
        lambda f, x: jax.jit(lambda y: f(y) @ y)(x),
        lambda f, x: jax.lax.cond(x[0, 0] > 0, lambda y: f(y) @ y, lambda y: y, x),
        lambda f, x: jax.lax.fori_loop(0, 3, lambda _, y: f(y) @ x, x),
    ],
)
def test_a_call_back_into_python_costs_nothing(around: Callable[..., Any], to_python: Callable[..., Any]) -> None:
    with_call, without = [flops(lambda x, f=f: around(f, x), (16, 16)) for f in (to_python, lambda x: x)]
    assert with_call == without >= 2 * 16**3


def test_a_key_can_be_printed() -> None:
    def drawn(x: Any, prints: bool) -> Any:
        key = jax.random.key(0)
        if prints:
            jax.debug.print("{}", key)
        return x + jax.random.normal(key, x.shape)

    assert flops(lambda x: drawn(x, True), (16,)) == flops(lambda x: drawn(x, False), (16,))


CUMULATIVE = [jax.lax.cumsum, jax.lax.cumprod, jax.lax.cummax, jax.lax.cummin]


@pytest.mark.parametrize("function", CUMULATIVE)
def test_a_cumulative_operation_takes_one_operation_a_number(function: Callable[..., Any]) -> None:
    assert flops(function, (100_000,)) == 100_000
    assert flops(lambda x: function(x, axis=1, reverse=True), (3, 500)) == 1500


def test_a_cumulative_sum_of_exponentials_takes_one_addition_of_them_a_number() -> None:
    assert flops(jax.lax.cumlogsumexp, (1000,)) == flops(jnp.logaddexp, (1000,), (1000,))


def test_what_stands_beside_a_long_cumulative_sum_counts() -> None:
    assert flops(lambda x, w: (jnp.cumsum(x), w @ w), (1_000_000,), (8, 8)) == 1_000_000 + 2 * 8**3


def test_a_cumulative_sum_in_a_loop_counts_each_turn() -> None:
    def turns(x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (jnp.cumsum(x), None), x, length=7)[0]

    assert flops(turns, (1000,)) == pytest.approx(7 * 1000, rel=0.01)


def columns_of_cholesky(n: int) -> int:
    """Operations of the plain algorithm, column by column: products and differences below the diagonal, quotients, roots."""
    return sum(2 * (n - j) * j + (n - j) for j in range(n))


def steps_of_lu(m: int, n: int) -> int:
    """Operations of elimination without pivots: quotients, and a product and a difference for each number that is left."""
    return sum((m - k - 1) + 2 * (m - k - 1) * (n - k - 1) for k in range(min(m, n)))


@pytest.mark.parametrize("n", [100, 200])
def test_factorizations_take_what_their_algorithms_do(n: int) -> None:
    assert flops(jax.lax.linalg.cholesky, (n, n)) == pytest.approx(columns_of_cholesky(n), rel=0.2)  # XLA counts a mask of n * n
    assert flops(lambda a: jax.lax.linalg.lu(a)[0], (n, n)) == pytest.approx(steps_of_lu(n, n), rel=0.05)
    assert flops(lambda a: jax.lax.linalg.lu(a)[0], (2 * n, n)) == pytest.approx(steps_of_lu(2 * n, n), rel=0.05)
    assert flops(lambda a: jax.lax.linalg.lu(a)[0], (n, 2 * n)) == pytest.approx(steps_of_lu(n, 2 * n), rel=0.05)


def test_triangular_systems_take_a_product_and_a_sum_for_each_pair() -> None:
    solved = flops(lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True), (100, 100), (100, 7))
    assert solved == 100 * 100 * 7


def test_a_linear_system_is_factored_and_solved_once() -> None:
    assert flops(jnp.linalg.solve, (200, 200), (200, 50)) == pytest.approx(2 / 3 * 200**3 + 2 * 200**2 * 50, rel=0.05)


def test_orthogonal_factors_are_formed() -> None:
    m, n = 300, 100
    triangle = 2 * n**2 * (m - n / 3)
    assert flops(lambda a: jnp.linalg.qr(a, mode="r"), (m, n)) >= triangle
    assert flops(jnp.linalg.qr, (m, n)) == pytest.approx(2 * triangle, rel=0.05)  # of the thin one, forming costs as much again
    whole = 4 * (m**2 * n - m * n**2 + n**3 / 3)
    assert flops(lambda a: jnp.linalg.qr(a, mode="complete"), (m, n)) == pytest.approx(triangle + whole, rel=0.05)


def test_eigenvalues_and_singular_values() -> None:
    n = 100
    assert flops(jnp.linalg.eigh, (n, n)) == pytest.approx(9 * n**3, rel=0.05)
    assert flops(lambda a: jnp.linalg.svd(a, compute_uv=False), (2 * n, n)) == pytest.approx(4 * 2 * n**3 - 4 / 3 * n**3, rel=0.05)
    assert flops(lambda a: jnp.linalg.svd(a, full_matrices=False), (n, 2 * n)) == pytest.approx(14 * 2 * n**3 + 8 * n**3, rel=0.05)


def test_each_matrix_of_a_stack_counts() -> None:
    assert flops(jax.lax.linalg.triangular_solve, (5, 30, 30), (5, 30, 30)) == 5 * 30**3


def test_the_largest_numbers_take_more_the_more_they_are() -> None:
    assert flops(lambda x: jax.lax.top_k(x, 1)[0], (4, 1000)) == 4 * 1000
    assert flops(lambda x: jax.lax.top_k(x, 7)[0], (4, 1000)) == 3 * 4 * 1000


def test_products_of_complex_matrices_are_four_real_ones() -> None:
    assert flops(jnp.matmul, (64, 64), (64, 64), dtype="complex64") == 4 * flops(jnp.matmul, (64, 64), (64, 64)) == 8 * 64**3
