"""Wrong numbers that are put into the engine: the first few scenarios with numbers find them, by expectations that numpy computes."""

from __future__ import annotations

import pytest

from chaos import planted_numbers
from simdist.chaos import Scenario, examine, run
from simdist.chaos.block import Examined, Request, examined
from simdist.chaos.workloads import WORKLOADS

SEED, AT_MOST = 7, 8


def found(plant: planted_numbers.Plant, workload: str) -> Examined | None:
    """The first scenario in which anything is wrong with a defect."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        each = (one for number in range(AT_MOST) for one in examined(Request(SEED, (number,), workload, 0.0)))
        return next((one for one in each if one.findings), None)


@pytest.mark.parametrize(("plant", "workload"), planted_numbers.PLANTED)
def test_a_few_scenarios_find_a_wrong_number(plant: planted_numbers.Plant, workload: str) -> None:
    one = found(plant, workload)
    assert one is not None
    assert examine(one.scenario, again=False, forgotten=False) == []


OPTIONS = {"backup_workers": 0, "staleness": None, "recovery": "raise", "exactly_once": False, "rounds": [7, 3]}


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("data", ["dataset", "arguments"])
@pytest.mark.parametrize(("shards", "momentum"), [(1, False), (3, True)])
def test_training_with_servers_is_replayed_from_its_trace(mode: str, data: str, shards: int, momentum: bool) -> None:
    options = {**OPTIONS, "mode": mode, "data": data, "shards": shards, "momentum": momentum}
    scenario = Scenario("servers", options, workers=3, servers=2, numerics="deferred")
    assert examine(scenario, again=False, forgotten=False) == []
    done = run(scenario)
    done.close()
    assert list(WORKLOADS["servers"].replayed(done)) == ["weights"]
