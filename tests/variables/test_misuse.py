"""What is easily written and has no good meaning: refused, or given the one meaning that it can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

MAKERS: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
}


def run(strategy: Any, fn: Callable[..., Any], *args: Any) -> Any:
    """What the first replica returns of a function that all run in one step."""
    step = sd.function(lambda *given: strategy.run(fn, args=given))
    if isinstance(strategy, sd.ParameterServerStrategy):
        return sd.ClusterCoordinator(strategy).schedule(step, args=args).fetch()
    result = step(*args)
    return strategy.local_results(result)[0] if result is not None else None


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_two_gradients_of_one_variable_are_refused(make: Callable[[], Any]) -> None:
    strategy = make()
    with strategy.scope():
        v, optimizer = sd.Variable([1.0, 2.0], name="v"), sd.Optimizer(keras.optimizers.SGD(0.1))
    with pytest.raises(InvalidArgumentError, match="two gradients of v"):
        run(strategy, lambda: optimizer.apply_gradients([(jnp.ones(2), v), (jnp.ones(2), v)]))
    assert v.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("gradient", [1.0, np.ones(3, np.float32), np.ones((2, 1), np.float32)])
def test_a_gradient_of_another_shape_is_refused(gradient: Any) -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v, optimizer = sd.Variable([1.0, 2.0], name="v"), sd.Optimizer(keras.optimizers.SGD(0.1))
    with pytest.raises(InvalidArgumentError, match=r"gradient of 'v' has shape .*and the variable \(2,\)"):
        run(strategy, lambda: optimizer.apply_gradients([(gradient, v)]))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_variable_that_is_asked_for_twice_has_its_gradient_twice(make: Callable[[], Any]) -> None:
    strategy = make()
    with strategy.scope():
        x, y = sd.Variable([3.0, 1.0]), sd.Variable([2.0, 2.0])
    found = run(strategy, lambda: sd.value_and_grad(lambda: (x.value**2 * y.value).sum(), [x, y, x])()[1])
    assert [np.asarray(part).tolist() for part in found] == [[12.0, 4.0], [9.0, 1.0], [12.0, 4.0]]


def test_a_variable_beside_one_of_its_shards_has_no_gradient() -> None:
    strategy = MAKERS["servers"]()
    with strategy.scope():
        table: Any = sd.Variable([[1.0], [2.0]], name="table")
    for given in ([table, table.variables[0]], [table.variables[1], table]):
        with pytest.raises(InvalidArgumentError, match="are parts of one variable"):
            run(strategy, lambda given=given: sd.value_and_grad(lambda: table.value.sum(), given)()[0])
    assert np.asarray(run(strategy, lambda: sd.value_and_grad(lambda: table.value.sum(), table.variables)()[1][1])).tolist() == [[1.0]]


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_sum_of_a_variable_is_that_of_its_present_value(replicas: int) -> None:
    strategy = sd.MirroredStrategy(replicas)
    with strategy.scope():
        x = sd.Variable(2.0, aggregation="mean")

    def replica() -> Any:
        total = sd.get_replica_context().all_reduce("sum", {"x": x})
        x.assign_add(jnp.float32(10.0))
        return total["x"] + 0

    assert float(run(strategy, replica)) == 2.0 * replicas
    assert float(x) == 12.0


@pytest.mark.sample
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    "name", ["scatter_add", "scatter_sub", "scatter_update", "scatter_max", "scatter_min", "scatter_mul", "scatter_div"]
)
def test_a_row_that_a_step_finds_to_be_none_changes_nothing(make: Callable[[], Any], name: str) -> None:
    strategy = make()
    with strategy.scope():
        v = sd.Variable([1.0, 2.0, 4.0], aggregation="none" if name not in ("scatter_add", "scatter_sub") else "mean")
    value = 9.0 if name == "scatter_max" else 3.0  # which would change the last row, too
    run(strategy, lambda rows: getattr(v, name)(rows, jnp.full(3, value)), np.array([-1, 1, 3], np.int32))
    with sd.OneDeviceStrategy().scope():
        expected = sd.Variable([1.0, 2.0, 4.0])
    getattr(expected, name)([1], value)
    np.testing.assert_allclose(v.numpy(), expected.numpy(), rtol=1e-6)


def test_an_element_of_a_batch_that_is_none_changes_nothing() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v = sd.Variable([[1.0, 2.0], [3.0, 4.0]])
    run(strategy, lambda rows: v.batch_scatter_update(rows, jnp.full((2, 1), 9.0)), np.array([[-1], [1]], np.int32))
    assert v.numpy().tolist() == [[1.0, 2.0], [3.0, 9.0]]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_whole_numbers_are_not_divided_in_a_step(make: Callable[[], Any]) -> None:
    strategy = make()
    with strategy.scope():
        v = sd.Variable(np.array([7, 8], np.int32), name="v")
    with pytest.raises(InvalidArgumentError, match="whole numbers"):
        run(strategy, lambda: v.scatter_div([0], [2]))
    assert v.numpy().tolist() == [7, 8]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("how", ["assign", "assign_add", "assign_sub"])
def test_a_value_of_a_function_that_jax_traces_is_not_assigned_outside_of_a_step(make: Callable[[], Any], how: str) -> None:
    with make().scope():
        v = sd.Variable(np.ones(2, np.float32), name="v")
    with pytest.raises(InvalidArgumentError, match=r"v was about to get a value of a jax\.jit"):
        jax.jit(lambda given: getattr(v, how)(given))(np.ones(2, np.float32))
    assert v.numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("change", [lambda v: v.assign_sub(1.0), lambda v: v.assign_add(np.float64(1.0)), lambda v: v.assign_add(1.0)])
def test_a_constant_of_all_replicas_is_no_contribution_to_their_sum(change: Callable[[Any], None]) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable(1.0, aggregation="sum")
    with pytest.raises(InvalidArgumentError, match="aggregation SUM, and every replica"):
        run(strategy, lambda: change(v))
    assert float(v) == 1.0


NO_HOLD = {
    "fractions": ("int32", [0.7, 1.9]),
    "imaginary parts": ("float32", [1.0 + 2.0j, 0.0]),
}


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, MAKERS["servers"]], ids=["device", "servers"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("what", NO_HOLD)
def test_a_gradient_or_a_value_that_the_dtype_cannot_hold_is_refused(make: Callable[[], Any], known: bool, what: str) -> None:
    dtype, numbers = NO_HOLD[what]
    strategy = make()
    with strategy.scope():
        v, optimizer = sd.Variable(np.array([5, 6]), dtype=dtype, name="v"), sd.Optimizer(optax.sgd(1.0))
    changes = {"apply": lambda given: optimizer.apply_gradients([(given, v)]), "assign": v.assign, "add": v.assign_add}
    for change in changes.values():
        with pytest.raises(InvalidArgumentError, match=r"v.* (has|was given) .*(hold|fit|cut off|dropped)"):
            run(strategy, lambda change=change: change(numbers)) if known else run(strategy, change, np.array(numbers))
    assert v.numpy().tolist() == [5, 6]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("dtype", "given"), [("float16", "float32"), ("float32", "float16"), ("float32", "int32"), ("complex64", "float32")]
)
def test_a_gradient_of_another_float_width_is_that_of_the_variable(dtype: str, given: str, known: bool) -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v, optimizer = sd.Variable(np.array([5, 6]), dtype=dtype), sd.Optimizer(optax.sgd(1.0))
    gradient = np.array([1, 2], given)
    if known:
        run(strategy, lambda: optimizer.apply_gradients([(gradient, v)]))
    else:
        run(strategy, lambda given: optimizer.apply_gradients([(given, v)]), gradient)
    assert (v.numpy().tolist(), v.dtype) == ([4, 4], dtype)


# -- across replicas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 4, 5, -3])
@pytest.mark.parametrize("known", [True, False])
def test_whole_numbers_that_are_a_sum_of_replicas_stay_whole_when_they_are_assigned(value: int, known: bool) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        counter: Any = sd.Variable(7, synchronization="on_read", aggregation="sum")
    if known:
        sd.function(lambda: counter.assign(value))()
    else:
        sd.function(lambda given: counter.assign(given))(np.int32(value))
    assert (int(counter), str(counter.numpy().dtype)) == (value, "int32")
    strategy.run(lambda: counter.assign_add(1))
    assert int(counter) == value + 2


LOSSES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a loss of each row": (lambda v: v.value**2, InvalidArgumentError, r"a loss of shape \(2,\); expected one number. Give the mean"),
    "no return": (lambda v: None, TypeError, "returned None; expected a loss, one number"),
    "a pair": (lambda v: (v.value.sum(), v.value), TypeError, "returned a tuple; expected a loss, one number. With has_aux=True"),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_loss_that_is_no_number_is_refused(make: Callable[[], Any], kind: str) -> None:
    loss, error, message = LOSSES[kind]
    strategy = make()
    with strategy.scope():
        v = sd.Variable([1.0, 2.0], name="v")
    with pytest.raises(error, match=message):
        run(strategy, lambda: sd.value_and_grad(lambda: loss(v), [v])())


PAIRS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "the other order": (lambda g, v: zip([v], [g], strict=True), r"got an array of float32 of shape \(2,\). .*zip\(gradients, variables\)"),
    "no pairs": (lambda g, v: [g], "in place of a pair. Write apply_gradients"),
    "one gradient": (lambda g, v: g, "in place of a pair. Write apply_gradients"),
    "one pair": (lambda g, v: (g, v), "in place of a pair. Write apply_gradients"),
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_gradients_that_are_not_paired_with_variables_are_refused(make: Callable[[], Any], kind: str) -> None:
    given, message = PAIRS[kind]
    strategy = make()
    with strategy.scope():
        v, optimizer = sd.Variable([1.0, 2.0], name="v"), sd.Optimizer(keras.optimizers.SGD(0.1))
    with pytest.raises(TypeError, match=message):
        run(strategy, lambda: optimizer.apply_gradients(given(jnp.ones(2), v)))


def test_the_value_of_a_variable_is_no_variable_of_value_and_grad() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable([1.0, 2.0], name="v")
    with pytest.raises(TypeError, match=r"Expected a variable, and got an array of float32 of shape \(2,\). Give the variable itself"):
        run(strategy, lambda: sd.value_and_grad(lambda: v.value.sum(), [cast(Any, v.value)])())


@pytest.mark.parametrize(("given", "shown"), [(lambda v: {"w": v}, r"got 'w', a str"), (lambda v: [[v]], r"got \[Variable\('v'.*a list")])
def test_a_structure_of_variables_is_told_how_to_be_a_list(given: Callable[[Any], Any], shown: str) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable([1.0, 2.0], name="v")
    with pytest.raises(TypeError, match=rf"{shown}\. Give a list of variables.*jax\.tree\.leaves"):
        run(strategy, lambda: sd.value_and_grad(lambda: v.value.sum(), given(v))())
    (gradient,) = strategy.local_results(
        run(strategy, lambda: sd.value_and_grad(lambda: v.value.sum(), jax.tree.leaves(given(v)))()[1][0])
    )[:1]
    assert gradient.tolist() == [1.0, 1.0]


def test_an_optimizer_by_its_name_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"keras\.optimizers\.SGD\(0\.1\).*got 'sgd'"):
        sd.Optimizer("sgd")  # type: ignore[arg-type]
