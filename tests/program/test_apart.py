"""What is compiled apart has the same bits wherever it stands; what is not has others, so these tests can fail."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.extend.core import jaxpr_as_fun

from simdist.program.apart import compiled_apart, inlined, looped, not_in_one_function
from simdist.program.convolutions import with_axes_in_order
from simdist.program.kernels import Kernel, compiler_options, kernel_of
from simdist.program.values import Aval, aval_of

Function = Callable[..., Sequence[jax.Array]]
TRIES = 6


def samples(count: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    return [[rng.standard_normal(shape).astype(np.float32) for shape in ((16, 16), (16,), (32, 16), (32, 1))] for _ in range(count)]


def multilayer(w: Any, b: Any, x: Any, y: Any) -> Any:
    return ((jnp.tanh(x @ w + b) @ w[:, :1] + b[:1] - y) ** 2).mean()


def convolution(w: Any, b: Any, x: Any, y: Any) -> Any:
    image, kernel = x.reshape(-1, 4, 4, 1), w.reshape(-1)[:9].reshape(3, 3, 1, 1)
    made = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return ((jax.nn.relu(made + b[0]).sum(axis=(1, 2)) - y) ** 2).mean()


def grouped_convolution(w: Any, b: Any, x: Any, y: Any) -> Any:
    image, kernel = x.reshape(-1, 2, 2, 4), w.reshape(-1)[:144].reshape(3, 3, 2, 8)
    made = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2)
    return (((made + b[0]) ** 2).mean(axis=(1, 2, 3)) - y[:, 0]).mean()


def recurrent_convolution(w: Any, b: Any, x: Any, y: Any) -> Any:
    kernel = w.reshape(-1)[:81].reshape(3, 3, 3, 3)

    def turn(state: Any, _: None) -> Any:
        return jnp.tanh(jax.lax.conv(state, kernel, (1, 1), "SAME")), state.sum()

    state, sums = jax.lax.scan(turn, x.reshape(-1)[:216].reshape(2, 3, 6, 6), None, length=3)
    return ((state.sum() + b[0] - y) ** 2).mean() + sums.mean()


def recurrent(w: Any, b: Any, x: Any, y: Any) -> Any:
    def turn(state: Any, _: None) -> Any:
        state = jnp.tanh(state @ w + b + x)
        return state, state.sum()

    state, sums = jax.lax.scan(turn, x, None, length=4)
    return ((state.sum(axis=1, keepdims=True) - y) ** 2).mean() + sums.mean()


def attention(w: Any, b: Any, x: Any, y: Any) -> Any:
    scores = jax.nn.softmax((x @ w) @ x.T / 4.0, axis=-1)
    normal = (x - x.mean(axis=-1, keepdims=True)) / jnp.sqrt(x.var(axis=-1, keepdims=True) + 1e-3)
    return ((scores @ normal @ w[:, :1] + b[0] - y) ** 2).mean()


def looked_up(w: Any, b: Any, x: Any, y: Any) -> Any:
    ids = jnp.abs(x[:, :3] * 8).astype(jnp.int32) % w.shape[0]
    return ((w[ids].mean(axis=1) @ b[:, None] - y) ** 2).mean()


def gradient(loss: Function) -> Function:
    def run(*arrays: jax.Array) -> Sequence[jax.Array]:
        value, gradients = jax.value_and_grad(loss, argnums=(0, 1))(*arrays)
        return [value, *gradients]

    return jaxpr_as_fun(with_axes_in_order(jax.make_jaxpr(run)(*samples(1)[0])))


def adam(w: Any, b: Any, x: Any, y: Any) -> Sequence[jax.Array]:
    rule = optax.adam(0.1)
    state = (optax.ScaleByAdamState(jnp.int32(3), [w * 0.1, b], [w * w, b * b]), optax.EmptyState())
    changes, state = rule.update([x[:16], y[:16, 0]], state)
    return [*optax.apply_updates([w, b], changes), *jax.tree_util.tree_leaves(state)]


def momentum(_: Any, b: Any, __: Any, y: Any) -> Sequence[jax.Array]:
    """Of four numbers: a loop over it touches less than a kilobyte."""
    changed = 0.9 * b[:4] + 0.1 * y[:4, 0]
    return [changed, b[:4] * b[4:8] * 0.3 + changed * 0.7]


FUNCTIONS = {
    loss.__name__: gradient(loss)
    for loss in (multilayer, convolution, grouped_convolution, recurrent, recurrent_convolution, attention, looked_up)
} | {"adam": adam, "momentum": momentum}


def compiled(function: Function) -> Function:
    return jax.jit(function, compiler_options=compiler_options())


def scaled(leaves: Sequence[jax.Array]) -> list[jax.Array]:
    """By powers of two, which changes no bit but lets XLA fuse."""
    return [(leaf * 4 / 4).astype(leaf.dtype) for leaf in leaves]


def in_a_scan(part: Function, other: Function) -> Function:
    """A machine of two branches on rows of a stack, which computes with what goes in and what comes out."""

    def run(*stacks: jax.Array) -> Sequence[jax.Array]:
        def turn(_: None, number: jax.Array) -> Any:
            def arrays() -> list[jax.Array]:
                return [2 * (jax.lax.dynamic_index_in_dim(stack, number, keepdims=False) / 2) for stack in stacks]

            def neither() -> list[jax.Array]:
                return [(0 * leaf + not_in_one_function(number)).astype(leaf.dtype) for leaf in scaled(part(*arrays()))]

            made = jax.lax.switch(number % 2, [lambda: scaled(part(*arrays())), lambda: scaled(other(*arrays())), neither])
            return None, made

        return jax.lax.scan(turn, None, jnp.arange(len(stacks[0])))[1]

    return compiled(run)


def in_a_map(part: Function) -> Function:
    return compiled(lambda *stacks: looped(lambda arrays: list(part(*arrays)), stacks))


def in_a_larger_one(part: Function) -> Function:
    def run(*stacks: jax.Array) -> Sequence[jax.Array]:
        lanes = [scaled(part(*scaled(lane))) for lane in zip(*stacks, strict=True)]
        return [jnp.stack(column) for column in zip(*lanes, strict=True)]

    return compiled(run)


PLACES: dict[str, Callable[[Function], Function]] = {
    "scan": lambda part: in_a_scan(part, part),
    "map": in_a_map,
    "larger": in_a_larger_one,
}


@functools.cache
def by_itself(function: Function) -> list[np.ndarray]:
    single = compiled(function)
    return [np.stack(column) for column in zip(*[list(map(np.asarray, single(*arrays))) for arrays in samples(TRIES)], strict=True)]


def differs(function: Function, part: Function, place: str) -> bool:
    """Whether the function has other bits by itself than its part in this place has."""
    made = PLACES[place](part)(*[np.stack(column) for column in zip(*samples(TRIES), strict=True)])
    return any(np.asarray(one).tobytes() != other.tobytes() for one, other in zip(made, by_itself(function), strict=True))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.sample
def test_what_is_compiled_apart_has_the_bits_that_it_has_by_itself(name: str, place: str) -> None:
    assert not differs(FUNCTIONS[name], compiled_apart(FUNCTIONS[name]), place)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_compiled_with_what_stands_around_it_has_others(place: str) -> None:
    assert any(differs(function, function, place) for function in reversed(FUNCTIONS.values()))  # the last ones are compiled fastest


@pytest.mark.parametrize("keeps_calls", [True, False])
def test_a_small_loop_calls_what_is_compiled_apart(keeps_calls: bool) -> None:
    part, stack, loop = compiled_apart(lambda x: [x * x + 0.3 * x]), np.ones((6, 4), np.float32), looped if keeps_calls else jax.lax.map
    text = compiled(lambda stack: loop(lambda rows: part(*rows), (stack,))).lower(stack).compile().as_text()
    assert ("xla_cpu_small_call" in text) is not keeps_calls  # else XLA has another name for it, or makes no functions of loops


def test_rows_of_a_loop_are_those_of_a_map() -> None:
    stacks = [np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(3, dtype=np.int32)]
    for length in (1, 3):
        found = looped(lambda rows: [rows[0] * rows[1], rows[1] + 1], [stack[:length] for stack in stacks])
        assert [one.tolist() for one in found] == [(stacks[0] * stacks[1][:, None])[:length].tolist(), (stacks[1] + 1)[:length].tolist()]


def test_a_kernel_that_calls_another_one_computes_with_its_bits() -> None:
    avals = [aval_of(array) for array in samples(1)[0]]
    inner = kernel_of("gradient", FUNCTIONS["multilayer"], avals)
    outer = kernel_of("scaled", lambda *arrays: [leaf * 2 for leaf in inner.apart(*arrays)], avals)
    for arrays in samples(TRIES):
        assert [np.asarray(leaf).tobytes() for leaf in outer(*arrays)] == [np.asarray(leaf * 2).tobytes() for leaf in inner(*arrays)]


def kernels_inside() -> Kernel:
    avals = [Aval((3,), "float32"), Aval((), "float32")]
    inner = kernel_of("inner", lambda x, rate: [rate * x, x], avals)
    middle = kernel_of("middle", lambda x, rate: [*inner.apart(x, rate), rate + 1], avals)
    return kernel_of("outer", lambda x, rate: [*middle.apart(*middle.apart(x, rate)[::2]), rate * 2], avals)


def test_the_jaxpr_of_a_kernel_has_the_operations_of_those_that_it_calls() -> None:
    outer = kernels_inside()
    assert [eqn.primitive.name for eqn in outer.closed.jaxpr.eqns] == ["mul", "add", "mul", "add", "mul"]
    arrays = np.arange(3, dtype=np.float32), np.float32(0.3)
    found = jaxpr_as_fun(outer.closed)(*arrays)
    assert [np.asarray(one).tolist() for one in found] == [np.asarray(one).tolist() for one in outer(*arrays)]


def test_an_input_that_no_called_kernel_uses_is_not_used() -> None:
    avals = [Aval((3,), "float32")] * 2
    inner = kernel_of("inner", lambda x, _: [x + 1], avals)
    assert kernel_of("outer", lambda x, y: inner.apart(x, y), avals).used == (True, False)


def test_what_is_not_apart_is_left_as_it_is() -> None:
    closed = jax.make_jaxpr(lambda x: jax.nn.relu(x) + 1)(jnp.ones(2))
    assert inlined(closed) is closed


def test_a_sum_in_half_precision_is_rounded_after_each_addition() -> None:
    arrays = np.random.default_rng(0).standard_normal((8, 50)).astype(np.float16)
    kernel = kernel_of("sum", lambda *rows: [sum(rows[1:], start=rows[0])], [Aval((50,), "float16")] * 8)
    expected = arrays[0]
    for row in arrays[1:]:
        expected = expected + row
    assert np.asarray(kernel(*arrays)[0]).tobytes() == expected.tobytes()


def test_what_a_kernel_computes_is_the_same_where_barriers_stand_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def primitives() -> tuple[list[str], list[str]]:
        apart = compiled_apart(lambda x, y: [3 * x, y])
        closed = jax.make_jaxpr(lambda x: apart(*compiled_apart(lambda x: [x + 1, x])(x)))(np.ones(2))
        return str(closed).split(), [eqn.primitive.name for eqn in inlined(closed).jaxpr.eqns]

    traced, here = primitives()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with_barriers, there = primitives()
    assert "optimization_barrier" in with_barriers and "optimization_barrier" not in traced
    assert there == here == ["add", "mul"]
