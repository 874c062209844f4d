"""How the replicas of a strategy treat a variable of Keras."""

from __future__ import annotations

import pytest

from simdist import keras
from simdist.training.variable_roles import variable_roles
from simdist.variables.aggregation import VariableAggregation as Aggregation
from simdist.variables.aggregation import VariableSynchronization as Synchronization

AUTO, ON_READ = Synchronization.AUTO, Synchronization.ON_READ


@pytest.mark.parametrize(
    ("given", "floating", "expected"),
    [
        ({"trainable": True}, True, (AUTO, Aggregation.MEAN)),
        ({"trainable": True}, False, (AUTO, Aggregation.ONLY_FIRST_REPLICA)),
        ({"trainable": False, "aggregation": "sum"}, True, (ON_READ, Aggregation.SUM)),
        ({"trainable": False, "aggregation": "mean"}, True, (AUTO, Aggregation.MEAN)),
        ({"trainable": False, "aggregation": "mean", "synchronization": "on_read"}, True, (ON_READ, Aggregation.MEAN)),
        ({"trainable": False, "aggregation": "mean"}, False, (ON_READ, Aggregation.ONLY_FIRST_REPLICA)),
        ({"trainable": False, "aggregation": "only_first_replica"}, True, (AUTO, Aggregation.ONLY_FIRST_REPLICA)),
        ({"trainable": False}, True, (ON_READ, Aggregation.MEAN)),
        ({"trainable": False}, False, (AUTO, Aggregation.ONLY_FIRST_REPLICA)),
    ],
)
def test_roles_follow_from_what_the_variable_is_for(
    given: dict[str, object], floating: bool, expected: tuple[Synchronization, Aggregation]
) -> None:
    variable = keras.Variable(0.0 if floating else 0, dtype="float32" if floating else "int32", **given)  # pyright: ignore[reportArgumentType]
    assert variable_roles(variable, floating) == expected
