"""Forms of faults: each says what its class declares, and each preset is a plan that its cluster takes."""

from __future__ import annotations

import json

import pytest

import simdist as sd
from simdist.faults.base import KINDS
from simdist.hardware import ethernet_10g
from simdist_widgets.fault_forms import fault_forms, presets, trigger_forms
from simdist_widgets.lab import Lab

CLUSTERS = {
    "one worker": sd.Cluster({"worker": 1}),
    "workers alone": sd.Cluster({"worker": 3}),
    "servers": sd.Cluster({"worker": 2, "ps": 2}),
    "a server alone": sd.Cluster({"ps": 1}),
    "racks": sd.Cluster({"worker": 5, "ps": 2}, network=ethernet_10g.in_racks(3)),
}


def test_forms_say_what_the_classes_declare() -> None:
    forms = {form["kind"]: form for form in fault_forms()}
    assert set(forms) >= set(KINDS) and json.dumps([*forms.values(), *trigger_forms()], allow_nan=False)
    for kind, cls in KINDS.items():
        parameters = {parameter["name"]: parameter for parameter in forms[kind]["parameters"]}
        assert set(parameters) == set(cls.parameters()) and "\n" not in forms[kind]["says"]
        for name, declared in cls.parameters().items():
            assert (parameters[name]["type"], parameters[name]["unit"]) == (declared.type, declared.unit)
    slow = {parameter["name"]: parameter for parameter in forms["slow"]["parameters"]}
    assert (slow["factor"]["required"], slow["factor"]["above"], slow["until"]["optional"]) == (True, 0.0, True)
    assert [form["name"] for form in trigger_forms()] == ["at", "after_steps"]


@pytest.mark.parametrize("name", CLUSTERS)
def test_presets_can_be_planned(name: str) -> None:
    for preset in presets(CLUSTERS[name]):
        lab = Lab(lambda cluster: sd.sleep(20.0, cluster), CLUSTERS[name])
        lab.script([{"verb": "seek", "t_s": 1.5}, {"verb": "plan", "faults": preset["faults"]}])
        assert len(lab.session.commands) == len(preset["faults"]) > 0


def test_presets_are_those_that_a_cluster_has_tasks_for() -> None:
    names = {name: [preset["name"] for preset in presets(cluster)] for name, cluster in CLUSTERS.items()}
    assert "split the workers" not in names["one worker"] and "split the workers" in names["workers alone"]
    assert "lose ps:0 at step 40" in names["servers"] and "lose ps:0 at step 40" not in names["workers alone"]
    assert [name for name, found in names.items() if "slow rack" in found] == ["racks"]
    rack = next(preset for preset in presets(CLUSTERS["racks"]) if preset["name"] == "slow rack")
    assert [fault["task"] for fault in rack["faults"]] == CLUSTERS["racks"].tasks[6:]
