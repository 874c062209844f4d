"""Elements of which some components have no rows: nobody loses a row at the end, and rows are counted where there are some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import FunctionInput, InputContext

X = np.arange(6.0, dtype=np.float32)
COMPONENTS = {"one row": np.ones(1), "three rows": np.ones(3), "a number": np.float32(1)}


def beside(component: Any, drop_remainder: bool = False) -> Callable[[InputContext], Dataset]:
    """Batches of two of six rows, each beside a component without rows, which comes first and last."""

    def dataset_fn(_: InputContext) -> Dataset:
        dataset = Dataset.from_tensor_slices({"x": X}).batch(2, drop_remainder=drop_remainder)
        return dataset.map(lambda features: {"a": component, **features, "z": component})

    return dataset_fn


@pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)
def test_no_row_is_lost_where_a_replica_has_no_element(component: Any) -> None:
    for strategy in (sd.MirroredStrategy(2), sd.MirroredStrategy(4)):
        sums = [
            strategy.reduce("sum", strategy.run(lambda batch: batch["x"].sum(), args=(batch,)), axis=None)
            for batch in strategy.distribute_datasets_from_function(beside(component))
        ]
        assert float(sum(sums)) == X.sum()


def test_a_replica_without_an_element_gets_no_rows_and_the_other_components_whole() -> None:
    *_, last = FunctionInput(beside(np.ones(3)), 1, 2)
    shapes = [{name: leaf.shape for name, leaf in part.value().items()} for part in last.parts[0]]
    assert shapes == [{"a": (3,), "x": (2,), "z": (3,)}, {"a": (3,), "x": (0,), "z": (3,)}]


def test_rows_are_counted_where_there_are_some() -> None:
    five = FunctionInput(lambda _: Dataset.range(5).batch(2).map(lambda x: (np.ones(1), x)), 1, 2)
    assert [step.sizes for step in five] == [((2, 2),), ((1, 0),)]
    strategy = sd.MirroredStrategy(2)
    iterator = iter(strategy.distribute_datasets_from_function(lambda _: Dataset.range(3).batch(2).map(lambda x: (np.ones(1), x))))

    @sd.function
    def step(iterator: Any) -> Any:
        def all_rows(batch: Any) -> Any:
            return sd.get_replica_context().global_batch_size(len(batch[1])) + 0 * batch[1].sum()

        return strategy.run(all_rows, args=(next(iterator),))

    assert [int(rows) for rows in strategy.local_results(step(iterator))] == [3, 3]


def test_a_position_in_the_midst_is_restored() -> None:
    given = FunctionInput(beside(np.ones(1)), 1, 2)
    iterator = iter(given)
    next(iterator)
    restored = iter(FunctionInput(beside(np.ones(1)), 1, 2))
    restored.load_state_dict(iterator.state_dict())
    assert [step.sizes for step in restored] == [step.sizes for step in iterator] == [((2, 0),)]


def test_elements_of_one_shape_are_left_out_as_full_batches_are() -> None:
    assert len(list(FunctionInput(beside(np.ones(1), drop_remainder=True), 1, 2))) == 1
    examples = Dataset.from_tensor_slices((np.ones((3, 2)), np.ones(3)))
    assert len(list(FunctionInput(lambda _: examples, 1, 2))) == 1


def test_elements_of_which_nobody_knows_the_rows_are_refused_where_a_replica_has_none() -> None:
    def dataset_fn(_: InputContext) -> Dataset:
        return Dataset.from_iterable([{"aux": np.ones(1), "x": X[:2]}] * 3)

    steps = iter(FunctionInput(dataset_fn, 1, 2))
    next(steps)
    with pytest.raises(InvalidArgumentError, match=r"for some replicas only.*\.batch\(n\).*take\(n\)"):
        next(steps)
