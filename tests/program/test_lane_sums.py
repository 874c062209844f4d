"""Sums over lanes are those of the stacks, and no stack is made where a product can add up its lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import partial_eval

from simdist.program.jaxprs import equations_in
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.lane_sums import adds_lanes, lane_sum_scale, with_lane_sums
from simdist.program.values import Aval

LANES, ROWS = 5, 4


def per_lane(function: Callable[..., Any]) -> Callable[..., Sequence[Any]]:
    return lambda x, w: jax.vmap(lambda own: function(own, w))(x)


def loss(x: Any, w: Any) -> Any:
    return (jnp.tanh(x @ w) @ w.T).sum()


def cube(x: Any) -> Any:
    return jnp.einsum("ai,aj,ak->aijk", x[:, 0], x[:, 1], x[:, 2])


FUNCTIONS: dict[str, tuple[Callable[..., Sequence[Any]], tuple[int, ...]]] = {
    "a product of each lane": (per_lane(lambda x, w: [x.T @ jnp.tanh(x @ w)]), (3, 2)),
    "transposed": (per_lane(lambda x, w: [(jnp.tanh(x @ w).T @ x).T]), (3, 2)),
    "of what is used twice": (per_lane(lambda x, w: [jax.grad(loss, 1)(x, w)]), (3, 2)),
    "in a compiled function": (per_lane(lambda x, w: [jax.jit(lambda x, w: x.T @ jnp.tanh(x @ w))(x, w)]), (3, 2)),
}
OTHERS: dict[str, tuple[Callable[..., Sequence[Any]], tuple[int, ...]]] = {
    "no product": (lambda x, w: [jnp.tanh(x)], (ROWS, 3)),
    "a sum of rows": (lambda x, w: [x.sum(1)], (3,)),
    "an input": (lambda x, w: [x], (ROWS, 3)),
    "a number": (lambda x, w: [jnp.full((LANES, 2), 0.5, jnp.float32)], (2,)),
    "a product whose lanes are rows": (lambda x, w: [x.reshape(LANES, -1) @ jnp.ones((ROWS * 3, 2), jnp.float32)], (2,)),
    "a product with other lanes": (lambda x, w: [jnp.einsum("bri,rij->rbj", x, jnp.ones((ROWS, 3, 2))).swapaxes(0, 1)], (ROWS, 2)),
    "a transposed product with two axes of lanes": (lambda x, w: [jnp.einsum("abi,abij->abj", x[:, :3], cube(x)).swapaxes(1, 2)], (3, 3)),
    "a transposed product with a vector": (lambda x, w: [jnp.einsum("aij,ai->aj", x[:, :3], x[:, 0]).reshape(LANES, 3)], (3,)),
    "a transposed product of a cube": (lambda x, w: [jnp.einsum("abij,ab->aij", cube(x), x[:, 0]).swapaxes(1, 2)], (3, 3)),
    "the second of two axes of lanes": (lambda x, w: [jnp.einsum("abi,abi->ba", x, x).T], (ROWS,)),
}


def kernel(name: str) -> Kernel:
    return kernel_of(name, {**FUNCTIONS, **OTHERS}[name][0], [Aval((LANES, ROWS, 3), "float32"), Aval((3, 2), "float32")])


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((LANES, ROWS, 3)).astype(np.float32), rng.standard_normal((3, 2)).astype(np.float32)]


@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize("name", [*FUNCTIONS, *OTHERS])
@pytest.mark.sample
def test_a_sum_is_that_of_the_lanes(name: str, scale: float) -> None:
    (stack,), (total,) = kernel(name)(*arguments()), with_lane_sums(kernel(name), (scale,))(*arguments())
    assert total.shape == {**FUNCTIONS, **OTHERS}[name][1]
    np.testing.assert_allclose(total, np.asarray(stack, np.float64).sum(0) * scale, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_product_that_adds_up_its_lanes_makes_no_stack(name: str) -> None:
    def compiled(kernel: Kernel) -> str:
        return kernel.jitted.lower(*arguments()).compile().as_text() or ""

    assert "f32[5,3,2]" in compiled(kernel(name))
    summing = compiled(with_lane_sums(kernel(name), (1.0,)))
    assert "f32[5,3,2]" not in summing and "f32[5,2,3]" not in summing


def test_what_is_not_added_up_stays_a_stack() -> None:
    both = kernel_of("both", per_lane(lambda x, w: [x.T @ x, x.sum(0)]), [Aval((LANES, ROWS, 3), "float32"), Aval((3, 2), "float32")])
    stacks, found = both(*arguments()), with_lane_sums(both, (None, 1.0))(*arguments())
    np.testing.assert_array_equal(found[0], stacks[0])
    np.testing.assert_allclose(found[1], np.asarray(stacks[1]).sum(0), rtol=1e-6)
    assert with_lane_sums(both, (None, 1.0)) is with_lane_sums(both, (None, 1.0))


@pytest.mark.parametrize("dtype", ["int8", "int32", "bool", "bfloat16"])
def test_a_sum_has_the_dtype_of_its_stack(dtype: str) -> None:
    ones = kernel_of("ones", lambda x: [x], [Aval((3, 2), dtype)])
    (total,) = with_lane_sums(ones, (1.0,))(jnp.ones((3, 2), dtype))
    assert total.dtype == dtype and total.tolist() == [3 if dtype != "bool" else True] * 2


def test_a_kernel_is_known_as_a_sum_if_somebody_said_so() -> None:
    one, other = (kernel_of(name, lambda x: [x.sum(0)], [Aval((3, 2), "float32")]) for name in ("one sum", "another sum"))
    adds_lanes(one, 0.5)
    assert lane_sum_scale(one) == 0.5 and lane_sum_scale(other) is None


def test_the_lanes_are_summed_before_the_rows_so_that_nothing_is_moved() -> None:
    summing = with_lane_sums(kernel("a product of each lane"), (1.0,))
    products = [eqn for eqn in equations_in(summing.closed.jaxpr) if eqn.primitive.name == "dot_general"]
    (left, right), lanes = products[-1].params["dimension_numbers"]
    assert left[0] == right[0] == 0 and lanes == ((), ())


def products_in(kernel: Kernel) -> list[Any]:
    """The products that its outputs need."""
    jaxpr, _ = partial_eval.dce_jaxpr(kernel.closed.jaxpr, [True] * len(kernel.closed.jaxpr.outvars))
    return [eqn for eqn in equations_in(jaxpr) if eqn.primitive.name == "dot_general"]


@pytest.mark.parametrize(
    "others",
    [lambda g: [g], lambda g: [(g**2).sum()], lambda g: [g.T], lambda g: [g + 1]],
    ids=["itself", "its norm", "transposed", "more"],
)
def test_a_stack_that_is_made_anyway_is_added_up_and_no_product_is_computed_twice(others: Callable[[Any], list[Any]]) -> None:
    def gradients(x: Any, w: Any) -> list[Any]:
        gradient = x.T @ jnp.tanh(x @ w)
        return [gradient, *others(gradient)]

    avals = [Aval((LANES, ROWS, 3), "float32"), Aval((3, 2), "float32")]
    both = kernel_of("gradients and others", per_lane(gradients), avals)
    summing = with_lane_sums(both, (1.0, None))
    assert len(products_in(summing)) == len(products_in(both)) == 2
    stacks, found = both(*arguments()), summing(*arguments())
    np.testing.assert_allclose(found[0], np.asarray(stacks[0]).sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[1], stacks[1])


def test_a_transposed_product_is_the_product_of_the_other_two() -> None:
    summing = with_lane_sums(kernel("transposed"), (1.0,))
    jaxpr, _ = partial_eval.dce_jaxpr(summing.closed.jaxpr, [True])
    names = [eqn.primitive.name for eqn in equations_in(jaxpr)]
    assert names.count("dot_general") == 2 and names[-1] == "dot_general"
