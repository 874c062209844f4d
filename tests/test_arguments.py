"""Checks of arguments: what counts as a number, as a flag, and what a function or a choice is called."""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict
from collections.abc import Iterator
from enum import Enum
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.arguments import flag, name_of_function, require_shallow, whole_number, word_of


@pytest.mark.parametrize("value", [True, np.True_, np.array(True), jnp.asarray(True)], ids=lambda value: type(value).__name__)
def test_one_boolean_of_any_library_is_a_flag_and_no_number(value: Any) -> None:
    assert flag(value, "x") is True
    with pytest.raises(TypeError, match="expected an integer"):
        whole_number(value, "x")


@pytest.mark.parametrize("value", [1, 0.0, "True", None, np.int32(1), np.array([True]), jnp.asarray([True])], ids=repr)
def test_what_is_no_single_boolean_is_refused_as_a_flag(value: Any) -> None:
    with pytest.raises(TypeError, match="expected True or False"):
        flag(value, "x")


@pytest.mark.parametrize("value", [3, np.int64(3), np.array(3), jnp.asarray(3)], ids=lambda value: type(value).__name__)
def test_whole_numbers_of_any_library_are_taken(value: Any) -> None:
    assert (whole_number(value, "x"), type(whole_number(value, "x"))) == (3, int)


class Model:
    def __call__(self, x: int) -> int:
        return x


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (len, "len"),
        (Model, "Model"),
        (Model().__call__, "__call__"),
        (functools.wraps(len)(lambda x: x), "len"),
        (functools.partial(len), "step"),
        (Model(), "step"),
    ],
    ids=["function", "class", "method", "wrapped", "partial", "callable object"],
)
def test_only_what_can_be_called_and_has_no_name_is_called_otherwise(fn: Any, name: str) -> None:
    assert name_of_function(fn, "step") == name


def test_a_member_of_a_foreign_enum_stands_for_its_value() -> None:
    assert word_of(Enum("ReduceOp", {"SUM": "SUM"})["SUM"]) == "SUM"


def yields() -> Iterator[int]:
    yield 1


async def waits() -> int:
    return 1


class Owner:
    def yields(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("fn", [yields, waits, Owner().yields], ids=["generator", "async", "method"])
@pytest.mark.parametrize("taken_by", ["schedule", "strategy.run", "launch", "@sd.function"])
def test_a_function_of_which_no_line_would_run_is_refused(taken_by: str, fn: Any) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster)
    takes: dict[str, Any] = {
        "schedule": sd.ClusterCoordinator(strategy).schedule,
        "strategy.run": sd.OneDeviceStrategy().run,
        "launch": cluster.launch,
        "@sd.function": sd.function,
    }
    with pytest.raises(TypeError, match=f"{taken_by} takes a function that runs when it is called; (yields|waits) is a"):
        takes[taken_by](fn)


def test_a_dict_whose_keys_have_no_order_is_refused_where_jax_would_take_it_apart() -> None:
    mixed = {1: 0.0, "a": 0.0}
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})))
    for refused in (
        lambda: coordinator.schedule(print, args=([mixed],)),
        lambda: coordinator.fetch(mixed),
        lambda: sd.MirroredStrategy(devices=2).run(lambda x: x, args=(mixed,)),
    ):
        with pytest.raises(sd.errors.InvalidArgumentError, match=r"the keys \[1, 'a'\], which have no order"):
            refused()
    for fits in (OrderedDict(mixed), Counter([1, "a"])):
        require_shallow(fits, "values")
    sd.Cluster({"worker": 1}).launch(lambda given: given, args=(mixed,)).join()
