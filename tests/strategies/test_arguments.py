"""What is passed to strategies and steps: it is taken as it is meant, or refused with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


def nested(levels: int) -> Any:
    value: Any = 1.0
    for _ in range(levels):
        value = (value,)
    return value


@pytest.fixture
def two() -> sd.MirroredStrategy:
    return sd.MirroredStrategy(2)


@pytest.fixture
def coordinator() -> Iterator[sd.ClusterCoordinator]:
    with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
        yield sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


Use = Callable[[Any, Any], Any]
USES: dict[str, Use] = {
    "run": lambda strategy, deep: strategy.run(lambda x: x, args=(deep,)),
    "kwargs": lambda strategy, deep: strategy.run(lambda x: x, kwargs={"x": deep}),
    "result": lambda strategy, deep: strategy.run(lambda: deep),
    "step": lambda _, deep: sd.function(lambda x: 1)(deep),
    "result of a step": lambda _, deep: sd.function(lambda: deep)(),
    "reduce": lambda strategy, deep: strategy.reduce("sum", deep, None),
    "gather": lambda strategy, deep: strategy.gather(deep, 0),
    "local results": lambda strategy, deep: strategy.local_results(deep),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_structure_nested_thousands_deep_is_refused_and_does_no_harm(use: Use, two: sd.MirroredStrategy) -> None:
    with pytest.raises(InvalidArgumentError, match="nested more than"):
        use(two, nested(5_000))
    # What JAX does with such a structure leaves the interpreter without stack; nothing of that may be felt.
    assert float(two.reduce("mean", two.run(lambda x: x[0][0], args=(nested(2),)), None)) == 1.0


def test_structure_nested_thousands_deep_is_refused_by_schedule(coordinator: sd.ClusterCoordinator) -> None:
    with pytest.raises(InvalidArgumentError, match="nested more than"):
        coordinator.schedule(lambda x: x, args=(nested(5_000),))
    assert coordinator.schedule(lambda x: x[0], args=(nested(1),)).fetch() == 1.0


@pytest.mark.parametrize(("arguments", "remedy"), [({"args": 1.0}, r"args=\(x,\)"), ({"kwargs": [1.0]}, r"kwargs=\{'x': x\}")])
def test_arguments_that_are_no_list_say_how_to_write_them(
    arguments: dict[str, Any], remedy: str, two: sd.MirroredStrategy, coordinator: sd.ClusterCoordinator
) -> None:
    for call in (two.run, coordinator.schedule):
        with pytest.raises(InvalidArgumentError, match=remedy):
            call(lambda x: x, **arguments)


def test_strings_in_a_batch_of_a_step_say_to_look_them_up_before(two: sd.MirroredStrategy) -> None:
    dataset = sd.Dataset.from_tensor_slices((["a", "b"], [1, 2])).batch(2)
    with pytest.raises(InvalidArgumentError, match=r"holds strings.*dataset\.map"):
        sd.function(lambda iterator: next(iterator)[1])(iter(dataset))
    step = sd.function(lambda iterator: two.run(lambda words, numbers: numbers, args=next(iterator)))
    with pytest.raises(InvalidArgumentError, match=r"holds strings.*dataset\.map"):
        step(iter(two.distribute_dataset(dataset)))
    with pytest.raises(InvalidArgumentError, match="an argument of <lambda> holds strings"):
        sd.function(lambda words: 1)(np.array(["a"]))
