"""Functions of users get the arguments that they name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.estimator.functions import called_input_fn, called_model_fn, dataset_function, require_model_fn

SPEC = sd.estimator.EstimatorSpec("infer", predictions=1)
ARGUMENTS = {"features": 1, "labels": 2, "mode": "train", "params": {"a": 1}, "config": 3}
OF_INPUT = {"mode": "train", "params": {"a": 1}, "config": 3, "input_context": 4}


def spec_of(found: list[Any], *given: Any) -> sd.estimator.EstimatorSpec:
    found.append(given)
    return SPEC


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda found: lambda features, labels: spec_of(found, features, labels), (1, 2)),
        (lambda found: lambda labels, features, config: spec_of(found, features, labels, config), (1, 2, 3)),
        (
            lambda found: lambda features, labels, mode=None, params=None, other=5: spec_of(found, mode, params, other),
            ("train", {"a": 1}, 5),
        ),
        (lambda found: lambda features, **others: spec_of(found, features, *others.values()), (1, 2, "train", {"a": 1}, 3)),
        (lambda found: functools.partial(lambda extra, features, labels: spec_of(found, extra, features), "x"), ("x", 1)),
    ],
)
def test_model_fn_gets_what_it_names(make: Callable[[list[Any]], Callable[..., Any]], expected: tuple[Any, ...]) -> None:
    found: list[Any] = []
    model_fn = make(found)
    require_model_fn(model_fn, None)
    assert called_model_fn(model_fn, ARGUMENTS) is SPEC
    assert found == [expected]


def test_a_method_is_a_model_fn() -> None:
    class Net:
        def model_fn(self, features: Any, labels: Any) -> sd.estimator.EstimatorSpec:
            return SPEC

    require_model_fn(Net().model_fn, None)
    assert called_model_fn(Net().model_fn, ARGUMENTS) is SPEC


@pytest.mark.parametrize(
    ("model_fn", "params", "error", "message"),
    [
        (3, None, TypeError, "model_fn is 3"),
        (lambda labels: SPEC, None, InvalidArgumentError, "must take 'features'"),
        (lambda features, other: SPEC, None, InvalidArgumentError, "takes 'other'"),
        (lambda features, labels, /: SPEC, None, InvalidArgumentError, "by these names"),
        (lambda features: SPEC, {"a": 1}, InvalidArgumentError, "takes no 'params'"),
    ],
)
def test_model_fn_that_could_not_be_called_is_refused(model_fn: Any, params: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        require_model_fn(model_fn, params)


def test_model_fn_must_take_labels_where_there_are_some_and_return_a_spec() -> None:
    with pytest.raises(InvalidArgumentError, match="takes no 'labels'"):
        called_model_fn(lambda features: SPEC, ARGUMENTS)
    assert called_model_fn(lambda features: SPEC, {**ARGUMENTS, "labels": None}) is SPEC
    with pytest.raises(InvalidArgumentError, match="returned NoneType"):
        called_model_fn(lambda features, labels: None, ARGUMENTS)


def test_input_fn_gets_what_it_names() -> None:
    dataset = sd.Dataset.range(3)
    found: list[Any] = []

    def input_fn(input_context: Any, config: Any = None) -> sd.Dataset:
        found.append((input_context, config))
        return dataset

    assert called_input_fn(input_fn, OF_INPUT) is dataset and found == [(4, 3)]
    assert called_input_fn(lambda: dataset, OF_INPUT) is dataset
    with pytest.raises(InvalidArgumentError, match="takes 'context'"):
        called_input_fn(lambda context: dataset, OF_INPUT)
    with pytest.raises(TypeError, match="returned tuple; expected an sd"):
        called_input_fn(lambda: (1, 2), OF_INPUT)


def test_each_worker_gets_a_dataset_of_its_own_with_a_copy_of_the_params() -> None:
    params: dict[str, Any] = {"rows": [4]}

    def input_fn(params: dict[str, Any], input_context: sd.InputContext) -> sd.Dataset:
        params["rows"].append(0)
        return sd.Dataset.range(params["rows"][0]).shard(2, input_context.input_pipeline_id)

    make = dataset_function(input_fn, {"mode": "train", "params": params, "config": None}, None, lambda dataset: dataset.batch(2))
    assert [[list(batch) for batch in make(sd.InputContext(2, number))] for number in range(2)] == [[[0, 2]], [[1, 3]]]
    assert params == {"rows": [4]}


def test_data_without_an_end_need_a_number_of_steps() -> None:
    arguments: dict[str, Any] = {"mode": "train", "params": {}, "config": None}
    endless = dataset_function(lambda: sd.Dataset.range(4).repeat(), arguments, None, lambda dataset: dataset)
    with pytest.raises(InvalidArgumentError, match="without an end"):
        endless(sd.InputContext())
    dataset_function(lambda: sd.Dataset.range(4).repeat(), arguments, 1, lambda dataset: dataset)(sd.InputContext())
    with pytest.raises(TypeError, match="input_fn is 3"):
        dataset_function(3, arguments, 1, lambda dataset: dataset)  # type: ignore[arg-type]
