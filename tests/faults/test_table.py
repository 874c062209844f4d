"""What the table of a plan says of each fault."""

from __future__ import annotations

import warnings

import pytest

import simdist as sd
from faults.fake_effects import FakeEffects
from simdist.faults.schedule import Faults


@pytest.fixture
def effects() -> FakeEffects:
    return FakeEffects()


@pytest.fixture
def faults(effects: FakeEffects) -> Faults:
    return Faults(effects)


def states(faults: Faults) -> list[str]:
    return [faults.state(fault) for fault in faults]


def test_a_fault_is_pending_fired_and_healed_with_its_times(faults: Faults, effects: FakeEffects) -> None:
    fault = faults.slow("worker:0", 2.0, at=1.0, until=2.5)
    assert (states(faults), fault.fired_s, fault.healed_s) == (["pending"], None, None)
    effects.move_to(1.5)
    assert (states(faults), fault.fired_s, fault.healed_s) == (["fired"], 1.0, None)
    effects.move_to(3.0)
    assert (states(faults), fault.fired_s, fault.healed_s) == (["healed"], 1.0, 2.5)


def test_a_fault_that_can_fire_no_more_is_never(faults: Faults, effects: FakeEffects) -> None:
    faults.pause("worker:0", after_steps=1, until=2.0)
    faults.slow("worker:1", 2.0, after_steps=5)
    faults.crash("worker:0", when=lambda cluster: 1 / 0)
    faults.crash("ps:0", when=lambda cluster: False)
    assert states(faults) == ["pending"] * 4
    effects.move_to(2.0).step("worker:0")
    assert states(faults) == ["never", "pending", "never", "pending"]
    effects.gone.add("worker:1")
    assert states(faults) == ["never", "never", "never", "pending"]
    effects.is_open = False
    assert states(faults) == ["never"] * 4


def test_on_a_cluster_a_task_that_is_down_for_good_takes_no_more_steps() -> None:
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.crash("worker:0", at=0.1)
    cluster.faults.crash("worker:1", at=0.1, restart_after=1.0)
    waiting = [cluster.faults.slow(f"worker:{index}", 2.0, after_steps=3) for index in range(2)]
    late = cluster.faults.slow("worker:0", 2.0, at=9.0)
    sd.sleep(0.5, cluster)
    assert [cluster.faults.state(fault) for fault in [*waiting, late]] == ["never", "pending", "pending"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster.close()
    assert [cluster.faults.state(fault) for fault in [*waiting, late]] == ["never"] * 3


def test_the_table_has_a_line_for_each_fault_and_its_figures_below(faults: Faults, effects: FakeEffects) -> None:
    faults.crash("worker:0", at=1.0, restart_after=0.5)
    faults.delay(["worker:0", "worker:1"], "ps:0", 0.25, kind="update", after_steps=2, until=7.0)
    effects.move_to(1.0)
    assert repr(faults).splitlines() == [
        "fault                                    begins         ends  state    fired  healed",
        "crash('worker:0')                        at=1.0         -     fired    1 s    -",
        "  restart_after=0.5",
        "delay(['worker:0', 'worker:1'], 'ps:0')  after_steps=2  7 s   pending  -      -",
        "  messages='update', seconds=0.25",
    ]


def test_the_table_of_a_notebook_escapes_what_it_shows(faults: Faults) -> None:
    assert faults._repr_html_() == "<p>no faults</p>"
    faults.slow("worker:0", 2.0, at=1.0)
    html = faults._repr_html_()
    assert html.startswith("<table><thead><tr><th>fault</th><th>figures</th><th>begins</th>")
    assert "<td>slow(&#x27;worker:0&#x27;)</td><td>factor=2.0</td><td>at=1.0</td><td>never</td><td>pending</td>" in html
