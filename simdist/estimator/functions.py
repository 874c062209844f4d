"""Functions of the user, which are called with those arguments that they name: model_fn and input_fn.

A model_fn takes ``features``, and if it likes ``labels``, ``mode``, ``params`` and ``config``. An input_fn takes any of ``mode``,
``params``, ``config`` and ``input_context``.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from simdist.data import Dataset
from simdist.data.nodes import INFINITE
from simdist.errors import InvalidArgumentError
from simdist.estimator.specs import EstimatorSpec, InputFunction
from simdist.input import InputContext

__all__ = ["called_input_fn", "called_model_fn", "dataset_function", "require_model_fn"]

OF_MODEL_FN = ("features", "labels", "mode", "params", "config")
OF_INPUT_FN = ("mode", "params", "config", "input_context")


def require_model_fn(model_fn: object, params: Mapping[str, Any] | None) -> None:
    """Refuse a model_fn that could not be called.

    Raises:
        TypeError: it is no function.
        InvalidArgumentError: it takes no features, or something that nobody would give it; or it takes no params though there are some.
    """
    if not callable(model_fn):
        raise TypeError(f"model_fn is {model_fn!r}; expected a function of features, labels, mode, params and config")
    names = _named(model_fn, "model_fn", OF_MODEL_FN)
    if "features" not in names:
        raise InvalidArgumentError(f"model_fn takes {_shown(names)}; it must take 'features', and may take {_shown(OF_MODEL_FN[1:])}.")
    if params and "params" not in names:
        raise InvalidArgumentError(f"model_fn takes no 'params', but the Estimator was given params={dict(params)!r}. Add the argument.")


def called_model_fn(model_fn: Callable[..., Any], arguments: Mapping[str, Any]) -> EstimatorSpec:
    """What a model_fn returns; `arguments` are all that it may name.

    Raises:
        InvalidArgumentError: there are labels, and it takes none; or it returned no `EstimatorSpec`.
    """
    names = _named(model_fn, "model_fn", OF_MODEL_FN)
    if "labels" not in names and arguments["labels"] is not None:
        raise InvalidArgumentError("model_fn takes no 'labels', but input_fn gives pairs (features, labels). Add the argument.")
    spec = model_fn(**{name: arguments[name] for name in names})
    if not isinstance(spec, EstimatorSpec):
        raise InvalidArgumentError(
            f"model_fn returned {type(spec).__name__}; expected an sd.estimator.EstimatorSpec. Is a `return` missing?"
        )
    return spec


def called_input_fn(input_fn: Callable[..., Any], arguments: Mapping[str, Any]) -> Dataset:
    """The dataset that an input_fn returns.

    Raises:
        InvalidArgumentError: it takes something that nobody would give it.
        TypeError: it returned something else.
    """
    dataset = input_fn(**{name: arguments[name] for name in _named(input_fn, "input_fn", OF_INPUT_FN)})
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"input_fn returned {type(dataset).__name__}; expected an sd.Dataset of batches (features, labels). Arrays become one by "
            "sd.Dataset.from_tensor_slices((features, labels)).batch(n)."
        )
    return dataset


def dataset_function(
    input_fn: InputFunction, arguments: Mapping[str, Any], steps: int | None, prepared: Callable[[Dataset], Dataset]
) -> Callable[[InputContext], Dataset]:
    """The function that gives the dataset of one worker.

    Args:
        input_fn: called once for each worker.
        arguments: all that it may name but the context; of params each call gets a copy.
        steps: how many will be taken; None: to the end of the data.
        prepared: makes of the dataset what model_fn takes.

    Raises:
        TypeError: input_fn is no function.
        InvalidArgumentError: when it is called: the data have no end, and no number of steps was given.
    """
    if not callable(input_fn):
        raise TypeError(f"input_fn is {input_fn!r}; expected a function that returns an sd.Dataset")

    def dataset_fn(input_context: InputContext) -> Dataset:
        dataset = called_input_fn(input_fn, {**arguments, "params": copy.deepcopy(arguments["params"]), "input_context": input_context})
        if steps is None and dataset.cardinality() == INFINITE:
            raise InvalidArgumentError("input_fn gave a dataset without an end, and no number of steps was given. Pass steps=.")
        return prepared(dataset)

    return dataset_fn


def _named(fn: Callable[..., Any], what: str, known: tuple[str, ...]) -> list[str]:
    """The arguments that a function names, of those that it may.

    Raises:
        InvalidArgumentError: it needs another.
    """
    parameters = inspect.signature(fn).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return list(known)
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    for parameter in parameters:
        needed = parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        if needed and (parameter.name not in known or parameter.kind in fixed):
            raise InvalidArgumentError(f"{what} takes {parameter.name!r}, which is not known; it may take {_shown(known)}, by these names.")
    return [parameter.name for parameter in parameters if parameter.name in known and parameter.kind not in fixed]


def _shown(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"
