"""Memory: the estimate against XLA's own figures, the account, and what a cluster says when a device is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from simdist import keras
from simdist.cost.memory import temporaries_bytes
from simdist.errors import InvalidArgumentError, ResourceExhaustedError
from simdist.hardware import Device, MemoryAccount
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval


def both(function: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[int, int]:
    """Our estimate, and the temporaries of the program that XLA compiles."""
    ours = temporaries_bytes(kernel_of("held", lambda *arrays: list(function(*arrays)), [Aval(shape, "float32") for shape in shapes]))
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return ours, jax.jit(function).lower(*specs).compile().memory_analysis().temp_size_in_bytes


def mlp_gradients(w: Any, v: Any, x: Any, y: Any) -> Any:
    return jax.grad(lambda w, v: ((jax.nn.relu(x @ w) @ v - y) ** 2).mean(), argnums=(0, 1))(w, v)


def cnn_gradients(k: Any, w: Any, x: Any) -> Any:
    def loss(k: Any, w: Any) -> Any:
        maps = jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (jax.nn.relu(maps).reshape(x.shape[0], -1) @ w).mean()

    return jax.grad(loss, argnums=(0, 1))(k, w)


def scanned(x: Any, w: Any) -> Any:
    return jax.grad(lambda w: jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), None), x, None, length=20)[0].sum())(w)[None]


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (mlp_gradients, [(256, 512), (512, 10), (1024, 256), (1024, 10)]),
        (cnn_gradients, [(3, 3, 1, 32), (28 * 28 * 32, 10), (64, 28, 28, 1)]),
        (scanned, [(128, 64), (64, 64)]),
    ],
)
def test_estimate_is_within_three_times_of_what_xla_says(function: Any, shapes: Any) -> None:
    ours, compiled = both(function, *shapes)
    assert compiled / 3 <= ours <= compiled * 3


def test_chain_of_element_wise_operations_needs_no_memory_of_its_own() -> None:
    kernel = kernel_of("chain", lambda x: [jnp.tanh(x * 2.0 + 1.0) - 3.0], [Aval((1000,), "float32")])
    assert temporaries_bytes(kernel) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 50)), max_size=50))
def test_account_is_the_sum_of_what_is_held(steps: list[tuple[str, bool, int]]) -> None:
    account, held = MemoryAccount(100, "ps:0"), dict.fromkeys("abc", 0)
    for label, more, size in steps:
        if more and sum(held.values()) + size > 100:
            with pytest.raises(ResourceExhaustedError):
                account.allocate(label, size)
        elif more:
            account.allocate(label, size)
            held[label] += size
        elif size > held[label]:
            with pytest.raises(InvalidArgumentError, match="cannot give back"):
                account.release(label, size)
        else:
            account.release(label, size)
            held[label] -= size
        assert account.in_use_bytes == sum(held.values())
    assert account.peak_bytes >= account.in_use_bytes


def cluster_with(memory: float, ps: float = 10_000.0) -> sd.Cluster:
    return sd.Cluster({"worker": 1, "ps": 1}, hardware={"worker": Device(memory=memory), "ps": Device(memory=ps)})


def test_variable_that_does_not_fit_is_refused_and_leaves_nothing_behind() -> None:
    with cluster_with(1e9) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            first = sd.Variable(np.zeros(2_000, np.float32), name="first")
            message = r"ps:0 has 9.8 KiB of memory, of which 7.8 KiB are in use; second needs 3.9 KiB more. The largest holders: first"
            with pytest.raises(ResourceExhaustedError, match=message):
                sd.Variable(np.zeros(1_000, np.float32), name="second")
            third = sd.Variable(np.zeros(400, np.float32), name="third")
        assert [id(variable) for variable in strategy.variables] == [id(first), id(third)]
        assert cluster.world.tasks["ps:0"].memory.in_use_bytes == 9_600


def test_step_that_does_not_fit_on_the_worker_says_so_before_it_runs() -> None:
    with cluster_with(20_000.0) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            v = sd.Variable(np.zeros(2_000, np.float32), name="v")

        @sd.function
        def step() -> Any:
            v.assign_add(jnp.outer(v.value, v.value) @ v.value)

        coordinator = sd.ClusterCoordinator(strategy)
        coordinator.schedule(step)
        with pytest.raises(ResourceExhaustedError, match=r"worker:0 has 19.5 KiB of memory.*a step of step .* needs 15.3 MiB more"):
            coordinator.join()


def test_crash_empties_the_memory_of_its_task() -> None:
    with cluster_with(1e9) as cluster:
        with sd.ParameterServerStrategy(cluster).scope():
            sd.Variable(np.zeros(1_000, np.float32), name="v")
        cluster.world.crash(cluster.world.tasks["ps:0"])
        assert cluster.world.tasks["ps:0"].memory.in_use_bytes == 0


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD(0.1), keras.optimizers.Adam(0.1), optax.adam(0.1)])
def test_a_worker_needs_no_memory_for_slots_that_are_on_the_server(optimizer: Any) -> None:
    with cluster_with(121_000.0, ps=1e6) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            w, own = sd.Variable(np.ones((1_000, 10), np.float32)), sd.Optimizer(optimizer)

        @sd.function
        def step() -> Any:
            loss, gradients = sd.value_and_grad(lambda: jnp.sum(w.value**2), [w])()
            own.apply_gradients(zip(gradients, [w], strict=True))
            return loss

        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(2):  # the second one reads when all slots are there
            coordinator.schedule(step)
            coordinator.join()
        # What is read, its gradient, the squares that are summed, and the loss.
        assert cluster.world.tasks["worker:0"].memory.peak_bytes == 3 * 40_000 + 4
