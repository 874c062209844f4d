"""Costs against hand counts, and against what XLA says of the compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.cost.flops import Cost, cost_of
from simdist.cost.memory import temporaries_bytes
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.apart import compiled_apart
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval


def cost(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32") -> Cost:
    def flat(*arrays: Any) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return cost_of(kernel_of("counted", flat, [Aval(shape, dtype) for shape in shapes]))


B, M, N = 32, 64, 128


def test_dense_forward_is_two_operations_a_weight_and_row() -> None:
    assert cost(jnp.matmul, (B, M), (M, N)).flops == 2 * B * M * N


def test_dense_gradients_are_three_times_the_forward_pass() -> None:
    def loss(w: Any, x: Any) -> Any:
        return (x @ w).sum()

    both = cost(jax.grad(lambda w, x: ((x @ w) ** 2).sum(), argnums=(0, 1)), (M, N), (B, M)).flops
    assert both == pytest.approx(3 * 2 * B * M * N, rel=0.05)
    assert cost(loss, (M, N), (B, M)).flops == pytest.approx(2 * B * M * N, rel=0.05)


def test_convolution_is_counted_by_hand() -> None:
    def convolve(x: Any, k: Any) -> Any:
        return jax.lax.conv_general_dilated(x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    out = 8 * 26 * 26 * 16
    assert cost(convolve, (8, 28, 28, 3), (3, 3, 3, 16)).flops == pytest.approx(2 * out * 3 * 3 * 3, rel=0.02)


def test_attention_is_two_products_and_a_softmax() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.T) @ v

    assert cost(attend, (100, 64), (100, 64), (100, 64)).flops == pytest.approx(2 * 2 * 100 * 100 * 64, rel=0.05)


def test_gather_of_rows_moves_the_rows_and_not_the_table() -> None:
    rows = cost_of(kernel_of("rows", lambda table, ids: [table[ids]], [Aval((100_000, 16), "float32"), Aval((8,), "int32")]))
    small = cost_of(kernel_of("rows", lambda table, ids: [table[ids]], [Aval((1_000, 16), "float32"), Aval((8,), "int32")]))
    assert rows.flops == pytest.approx(small.flops)


def test_a_number_that_stands_among_the_results_is_written_and_what_is_handed_on_is_not() -> None:
    found = cost(lambda handed_on, x: (handed_on, 2 * x, 1.0), (M,), (N,))
    assert found.bytes_moved == 4 * (M + N + N + 1)  # both inputs are read; 2 x and the number are written


@pytest.mark.parametrize("trips", [1, 7, 50])
def test_scan_costs_its_body_as_often_as_it_runs(trips: int) -> None:
    def scanned(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=trips)[0]

    assert cost(scanned, (B, M), (M, M)).flops == pytest.approx(trips * 2 * B * M * M, rel=0.02)


def test_nested_scans_multiply() -> None:
    def inner(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=5)[0]

    def outer(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda x, _: (inner(x, w), None), x, None, length=3)[0]

    assert cost(outer, (B, M), (M, M)).flops == pytest.approx(15 * 2 * B * M * M, rel=0.02)


def test_while_loop_that_counts_is_a_loop_of_known_length() -> None:
    def counting(x: Any, w: Any) -> Any:
        return jax.lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] @ w), (0, x))[1]

    assert cost(counting, (B, M), (M, M)).flops == pytest.approx(9 * 2 * B * M * M, rel=0.02)


def test_while_loop_that_depends_on_values_needs_a_declared_time() -> None:
    def until_small(x: Any) -> Any:
        return jax.lax.while_loop(lambda x: x.sum() > 1.0, lambda x: x * 0.5, x)

    with pytest.raises(FailedPreconditionError, match=r"counted has a while loop.*@sd.function\(seconds="):
        cost(until_small, (8,))


def test_cond_costs_its_dearest_branch() -> None:
    def either(p: Any, x: Any, w: Any) -> Any:
        return jax.lax.cond(p.sum() > 0, lambda: (x @ w) @ w.T, lambda: x)

    def dear_loop(p: Any, x: Any, w: Any) -> Any:
        loop = lambda: jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=6)[0]  # noqa: E731
        return jax.lax.cond(p.sum() > 0, loop, lambda: x)

    assert cost(either, (1,), (B, M), (M, M)).flops == pytest.approx(2 * 2 * B * M * M, rel=0.02)
    assert cost(dear_loop, (1,), (B, M), (M, M)).flops == pytest.approx(6 * 2 * B * M * M, rel=0.02)


def turns(count: int) -> Callable[[Any], Any]:
    """So many products in a loop."""
    return lambda x: jax.lax.fori_loop(0, count, lambda _, x: x @ x, x)


PRODUCT = 2 * M**3


def test_the_dearest_branch_of_a_cond_is_that_of_most_operations_with_all_turns() -> None:
    def many_small_turns(p: Any, x: Any) -> Any:
        return jax.lax.cond(p > 0, lambda x: jax.lax.fori_loop(0, 100, lambda _, x: x * 2 + 1, x), turns(50), x)

    def straight(p: Any, x: Any) -> Any:
        return jax.lax.cond(p > 0, turns(4), lambda x: x @ x @ x @ x, x)

    def in_a_loop(p: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (straight(p, x), None), x, length=5)[0]

    assert cost(many_small_turns, (), (M, M)).flops == pytest.approx(50 * PRODUCT, rel=1e-3)
    assert cost(straight, (), (M, M)).flops == pytest.approx(4 * PRODUCT, rel=1e-3)
    assert cost(in_a_loop, (), (M, M)).flops == pytest.approx(5 * 4 * PRODUCT, rel=1e-3)


@pytest.mark.parametrize("unroll", [1, 3, 4, 5, 15, 16, 20])
def test_an_unrolled_scan_costs_its_turns(unroll: int) -> None:
    def unrolled(x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (x @ x, None), x, length=16, unroll=unroll)[0]

    assert cost(unrolled, (M, M)).flops == pytest.approx(16 * PRODUCT, rel=1e-4)


def test_loops_without_turns_cost_nothing() -> None:
    assert cost(lambda x: jax.lax.scan(lambda x, _: (x @ x, None), x @ x, length=0)[0], (M, M)).flops == PRODUCT
    assert cost(turns(0), (M, M)).flops == 0


def compiled_bytes(function: Callable[..., Any], *shapes: tuple[int, ...]) -> float:
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return jax.jit(function).lower(*specs).compile().cost_analysis()["bytes accessed"]


def test_bytes_are_within_twice_those_of_the_compiled_program() -> None:
    def network(x: Any, w: Any, v: Any) -> Any:
        return jax.nn.relu(x @ w + 1.0) @ v

    shapes = ((256, 512), (512, 512), (512, 10))
    ratio = cost(network, *shapes).bytes_moved / compiled_bytes(network, *shapes)
    assert 0.5 <= ratio <= 2.0


def test_declared_seconds_are_what_the_step_takes() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))

    @sd.function(seconds=2.5)
    def step() -> Any:
        return jnp.ones(3) * 2.0

    coordinator.schedule(step)
    coordinator.join()
    assert [span.duration_s for span in cluster.trace.spans.where(category="compute")] == [2.5]
    cluster.close()


def test_declared_seconds_must_make_sense() -> None:
    with pytest.raises(InvalidArgumentError, match="seconds=-1"):
        sd.function(seconds=-1)


def chained(x: Any, w: Any) -> Any:
    apart = compiled_apart(lambda x, w: [x @ w])
    return jnp.tanh(apart(x, w)[0]).sum()


def test_costs_are_the_same_whatever_computes_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def known() -> Any:
        kernel = Kernel("counted", jax.make_jaxpr(lambda x, w: [chained(x, w)])(np.ones((B, M)), np.ones((M, N))))
        found = cost_of(kernel)
        return found.flops, found.bytes_moved, temporaries_bytes(kernel)

    here = known()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert known() == here and here[0] >= 2 * B * M * N


def test_who_analyses_a_program_is_a_cpu_also_where_an_accelerator_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    analysed = jax.stages.Lowered.cost_analysis

    def analysis(lowered: Any) -> Any:
        asked.append(jax.config.jax_default_device)
        return analysed(lowered)

    monkeypatch.setattr(jax.stages.Lowered, "cost_analysis", analysis)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    cost(lambda x: x * 17.25, (B,))
    assert [device.platform for device in asked] == ["cpu"]


def test_what_nobody_can_analyse_has_no_cost_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax.stages.Lowered, "cost_analysis", lambda _: None)
    with pytest.raises(FailedPreconditionError, match="XLA says nothing"):
        cost(lambda x: x * 19.5, (B,))


def test_an_accelerator_without_a_cpu_beside_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(backend: str) -> Any:
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", none)
    with pytest.raises(FailedPreconditionError, match="set JAX_PLATFORMS to cuda,cpu"):
        cost(lambda x: x * 23.5, (B,))
