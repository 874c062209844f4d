"""Variables as parts: what they add to the contents of a checkpoint, and what they take back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.checkpoint.contents import REPLICA_VALUES, Contents
from simdist.checkpoint.variable_parts import VariablePart
from simdist.errors import InvalidArgumentError


def counted(replicas: int, aggregation: str) -> Any:
    """A variable of which each replica has a value of its own: 1, 2, ..."""
    strategy = sd.MirroredStrategy(devices=replicas)
    with strategy.scope():
        variable = sd.Variable(0.0, "count", synchronization="on_read", aggregation=aggregation)

    def count() -> None:
        context: Any = sd.get_replica_context()
        variable.assign(1.0 + context.replica_id_in_sync_group)

    strategy.run(count)
    return variable


def saved(variable: Any) -> Contents:
    contents = Contents()
    VariablePart("v", variable).save(contents, [])
    return contents


def local(variable: Any) -> list[float]:
    return [float(value) for value in variable.placement.store.local_values(variable)]


def test_a_variable_with_one_value_is_saved_once() -> None:
    contents = saved(sd.Variable([1.0, 2.0], "w"))
    assert {path: array.tolist() for path, array in contents.arrays.items()} == {"v": [1.0, 2.0]}
    assert (contents.names, contents.replicas) == ({"v": "w"}, {})


@pytest.mark.parametrize(("aggregation", "combined"), [("sum", 3.0), ("mean", 1.5), ("only_first_replica", 1.0)])
def test_replica_local_values_are_saved_beside_the_combined_one(aggregation: str, combined: float) -> None:
    contents = saved(counted(2, aggregation))
    assert float(contents.arrays["v"]) == combined
    assert contents.arrays[f"{REPLICA_VALUES}/v"].tolist() == [1.0, 2.0]
    assert contents.replicas == {"v": 2}


@pytest.mark.parametrize(("replicas", "found"), [(2, [1.0, 2.0]), (3, [1.5, 1.5, 1.5])])
def test_as_many_replicas_get_their_values_back_and_others_the_combined_one(replicas: int, found: list[float]) -> None:
    contents, variable = saved(counted(2, "mean")), counted(replicas, "mean")
    variable.assign(9.0)
    part = VariablePart("v", variable)
    assert part.check("v", contents)
    part.restore("v", contents, 0)
    assert local(variable) == found


def test_values_that_cannot_be_combined_are_refused_by_another_number_of_replicas() -> None:
    with pytest.raises(InvalidArgumentError, match="has a value of its own on each of 3 replicas, and the checkpoint has those of 2"):
        VariablePart("v", counted(3, "none")).check("v", saved(counted(2, "none")))


def test_what_the_contents_do_not_have_is_no_error() -> None:
    assert not VariablePart("v", sd.Variable(np.zeros(2))).check("v", Contents())
