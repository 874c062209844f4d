"""What no step can compute with, and is given to one: the error names the argument, and an error of another kind stays as it is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

DATA = sd.Dataset.from_tensor_slices(np.ones((8, 2), np.float32)).batch(4)
WORDS = np.array(["a", "b"])
WRONG = [
    ("train", "args.0. is the text 'train'"),
    (b"train", "args.0. is the text b'train'"),
    (["a", "b"], "args.0..0. is the text 'a'"),
    ({"x": WORDS.astype(object)}, r"args.0...x.. is an array of object"),
    (DATA, r"args.0. is a Dataset, and .* iter\(strategy.distribute_dataset\(dataset\)\)"),
    (object(), "args.0. is an object, and the function computes with it; a step computes with numbers. Give arrays or numbers"),
]


def total(x: Any) -> Any:
    return jnp.sum(x["x"] if isinstance(x, dict) else x)


@pytest.mark.parametrize(("given", "message"), WRONG)
@pytest.mark.parametrize("strategy", [sd.MirroredStrategy(devices=2), sd.OneDeviceStrategy()], ids=repr)
def test_an_argument_that_is_no_number_is_named_where_a_replica_computes_with_it(given: Any, message: str, strategy: sd.Strategy) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"strategy.run: {message}"):
        strategy.run(total, args=(given,))


def test_an_array_of_strings_is_named_where_a_replica_computes_with_it() -> None:
    with pytest.raises(InvalidArgumentError, match=r"strategy.run: kwargs..x.. is an array of str32"):
        sd.MirroredStrategy(devices=2).run(total, kwargs={"x": WORDS})


@pytest.mark.parametrize("function", [jnp.asarray, keras.ops.sum, keras.layers.Dense(1)], ids=["asarray", "keras.ops", "layer"])
def test_a_text_is_named_whatever_function_is_given_it(function: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="the text 'train', and the function computes with it"):
        sd.MirroredStrategy(devices=2).run(lambda text: function(text), args=("train",))


@pytest.mark.parametrize("step", [total, sd.function(total)], ids=["plain", "step"])
def test_a_text_is_named_in_a_closure(step: Any) -> None:
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    coordinator.schedule(step, args=("train",))
    with pytest.raises(InvalidArgumentError, match=r"total: args.0. is the text 'train'"):
        coordinator.join()


def test_a_text_by_which_a_step_decides_stays() -> None:
    def step(x: Any, mode: str) -> Any:
        return x if mode == "train" else -x

    strategy = sd.MirroredStrategy(devices=2)
    assert [float(x) for x in strategy.local_results(strategy.run(sd.function(step), args=(np.float32(3.0), "test")))] == [-3.0, -3.0]


def test_an_error_about_shapes_stays_though_a_text_is_given() -> None:
    with pytest.raises(TypeError, match="contracting dimensions"):
        sd.MirroredStrategy(devices=2).run(lambda x, mode: jnp.ones((2, 3)) @ x, args=(np.ones(2, np.float32), "train"))


def test_an_error_of_the_users_own_stays_though_it_names_a_type() -> None:
    def step(mode: Any) -> None:
        raise TypeError(f"no {type(mode)}")

    with pytest.raises(TypeError, match="no <class 'str'>"):
        sd.MirroredStrategy(devices=2).run(step, args=("train",))


NEEDS_NUMBERS = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "float": lambda x: jnp.asarray(float(x.sum())),
    "numpy": lambda x: jnp.asarray(np.sin(x)),
    "index": lambda x: jnp.asarray([0, 1][x[0].astype(int)]),
}


@pytest.mark.parametrize("name", NEEDS_NUMBERS)
def test_a_step_whose_python_needs_a_number_is_told_what_to_write(name: str) -> None:
    strategy = sd.MirroredStrategy(devices=2)
    step = sd.function(lambda x: strategy.run(NEEDS_NUMBERS[name], args=(x,)))
    with pytest.raises(TypeError) as caught:
        step(np.ones(2, np.float32))
    assert type(caught.value).__module__.startswith("jax")
    assert sum("jax.numpy.where or jax.lax.cond in place of if" in note for note in caught.value.__notes__) == 1


@pytest.mark.parametrize("collective", [jax.lax.psum, jax.lax.pmean, lambda x, axis: x * jax.lax.axis_index(axis)])
def test_a_step_with_a_collective_over_a_named_axis_is_told_that_of_replicas(collective: Any) -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with pytest.raises(NameError, match="unbound axis name") as caught:
        sd.function(lambda x: strategy.run(lambda x: collective(x, "replicas"), args=(x,)))(np.ones(2, np.float32))
    assert sum("sd.get_replica_context()" in note for note in caught.value.__notes__) == 1


def test_an_error_about_another_name_stays() -> None:
    with pytest.raises(NameError) as caught:
        sd.MirroredStrategy(devices=2).run(lambda: nothing_of_this_name)  # type: ignore[name-defined] # noqa: F821
    assert not any("get_replica_context" in note for note in getattr(caught.value, "__notes__", ()))
