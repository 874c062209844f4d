"""`extended.update` with a value of each replica: each copy of a variable by its own, and an error where there is one copy for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError

VALUES = [3.0, 7.0]


def plain(strategy: Any, v: sd.Variable, values: Any) -> None:
    strategy.extended.update(v, lambda copy, x: copy.assign_add(x), args=(values,))


def by_name(strategy: Any, v: sd.Variable, values: Any) -> None:
    strategy.extended.update(v, lambda copy, x: copy.assign_add(x), kwargs={"x": values})


def nested(strategy: Any, v: sd.Variable, values: Any) -> None:
    strategy.extended.update(v, lambda copy, given: copy.assign_add(given["x"][0]), args=({"x": [values]},))


WAYS = [plain, by_name, nested]


def variable(strategy: Any, aggregation: str) -> sd.Variable:
    with strategy.scope():
        return sd.Variable(1.0, name="v", aggregation=aggregation)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_a_step", [False, True])
def test_each_copy_is_changed_by_the_value_of_its_replica(way: Callable[..., None], in_a_step: bool) -> None:
    strategy = sd.MirroredStrategy(2)
    v = variable(strategy, "none")
    update = sd.function(lambda values: way(strategy, v, values)) if in_a_step else lambda values: way(strategy, v, values)
    update(sd.PerReplica(VALUES))
    assert [float(value) for value in strategy.local_results(v)] == [1.0 + value for value in VALUES]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("aggregation", ["none", "sum"])
def test_the_only_copy_of_a_variable_has_no_values_of_replicas(way: Callable[..., None], aggregation: str) -> None:
    strategy = sd.CentralStorageStrategy(2)
    v, values = variable(strategy, aggregation), sd.PerReplica(VALUES)
    with pytest.raises(InvalidArgumentError, match=r"extended\.update of v was given a PerReplica.*one copy, on .*cpu:0.*strategy\.reduce"):
        way(strategy, v, values)
    assert float(v.numpy()) == 1.0
    way(strategy, v, strategy.reduce("sum", values, axis=None))
    assert float(v.numpy()) == 1.0 + sum(VALUES)


@pytest.mark.parametrize("in_a_step", [False, True])
@pytest.mark.parametrize("aggregation", ["none", "mean", "only_first_replica", "sum"])
def test_of_copies_that_each_replica_has_for_itself_the_function_reads_and_changes_one(aggregation: str, in_a_step: bool) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable(0.0, name="v", synchronization=sd.VariableSynchronization.ON_READ, aggregation=aggregation)  # pyright: ignore
    given = sd.PerReplica(VALUES)

    def update(change: Callable[..., Any], *values: Any) -> list[float]:
        call = lambda *values: strategy.extended.update(v, change, args=values, group=False)  # noqa: E731
        results = sd.function(call)(*values) if in_a_step else call(*values)
        assert results is None or strategy.local_results(results) == strategy.local_results(v)
        return [float(value) for value in strategy.local_results(v)]

    assert update(lambda copy, x: copy.assign(x), given) == VALUES
    assert update(lambda copy, x: copy.assign_add(x), given) == [6.0, 14.0]
    assert update(lambda copy, x: (copy.assign(copy.value - x), copy.value)[1], given) == VALUES
    halves = update(lambda copy: copy.assign(copy.value / 2.0))
    assert halves == ([sum(VALUES) / 4.0] * 2 if aggregation == "sum" else [value / 2.0 for value in VALUES])
