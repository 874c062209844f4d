"""Where parameter servers hold variables that are made beside others."""

from __future__ import annotations

import simdist as sd


def test_a_variable_that_is_made_beside_another_lies_on_its_server() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 3}))
    with strategy.scope():
        first, second = sd.Variable([1.0], name="first"), sd.Variable([2.0], name="second")
        with strategy.extended.colocate_vars_with(second):
            beside = sd.Variable([3.0], name="beside")
        after = sd.Variable([4.0], name="after")
    assert [v.device for v in (first, second, beside, after)] == ["ps:0", "ps:1", "ps:1", "ps:2"]
