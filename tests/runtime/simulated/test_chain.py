"""Servers with a copy on the next one that die again before all is as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import UnavailableError

MANY = 20_000_000  # their copy takes 64 ms
CLOSURES = 4


class Counting:
    """A worker counts on `ps:0`, which also holds many numbers.

    Args:
        cluster: with two servers.
    """

    def __init__(self, cluster: sd.Cluster, **options: Any) -> None:
        self.cluster = cluster
        self.strategy = sd.ParameterServerStrategy(cluster, recovery="replica", **options)
        with self.strategy.scope():
            self.count = sd.Variable(np.zeros(2, np.float32), name="count")
            self.other = sd.Variable(np.zeros(2, np.float32), name="other")
            self.many = sd.Variable(np.zeros(MANY, np.float32), name="many")
        assert [v.device for v in (self.count, self.many)] == ["ps:0", "ps:0"]
        self.coordinator = sd.ClusterCoordinator(self.strategy)

    def run(self, closures: int) -> None:
        """Schedule so many closures, each of which computes for 0.1 s before it adds one, and join."""

        @sd.function(seconds=0.1)
        def step() -> None:
            read = self.count.value + self.other.value
            self.count.assign_add(0 * read + 1.0)
            self.other.assign_add(0 * read + 1.0)

        for _ in range(closures):
            self.coordinator.schedule(step)
        self.coordinator.join()


@pytest.mark.parametrize("options", [{"mode": "sync"}, {"exactly_once": True}], ids=["sync", "async"])
@pytest.mark.parametrize("second_s", [0.10018, 0.10022, 0.10026, 0.1003, 0.10034])
@pytest.mark.sample
def test_a_server_that_dies_again_while_updates_come_and_its_variables_do_not_blocks_nothing(options: Any, second_s: float) -> None:
    training = Counting(sd.Cluster({"worker": 1, "ps": 2}), **options)
    training.cluster.faults.crash("ps:0", at=0.05, restart_after=0.04)  # its variables are back at 0.154 s; an update comes at 0.1002 s
    training.cluster.faults.crash("ps:0", at=second_s, restart_after=0.04)
    training.run(CLOSURES)
    assert training.count.numpy().tolist() == training.other.numpy().tolist() == [CLOSURES, CLOSURES]


def test_a_variable_that_is_made_while_its_server_gets_others_back_outlives_its_next_death() -> None:
    training = Counting(sd.Cluster({"worker": 1, "ps": 2}))
    training.cluster.faults.crash("ps:0", at=0.05, restart_after=0.04)
    training.cluster.faults.crash("ps:0", at=0.12, restart_after=0.04)
    sd.sleep(0.1)
    with training.strategy.scope(), training.strategy.extended.colocate_vars_with(training.count):
        late = sd.Variable([3.0, 4.0], name="late")
    sd.sleep(2.0)
    assert (late.device, late.numpy().tolist()) == ("ps:0", [3.0, 4.0])


def test_a_server_whose_copy_was_not_complete_has_one_when_the_model_was_made_again() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    lost = Counting(cluster)
    cluster.faults.crash("ps:1", at=0.001, restart_after=0.001)
    cluster.faults.crash("ps:0", at=0.02, restart_after=0.1)  # its numbers are still on their way to ps:1
    sd.sleep(1.0)
    with pytest.raises(UnavailableError, match="was lost too, or not complete"):
        lost.run(1)
    training = Counting(cluster)
    training.run(1)
    sd.sleep(1.0)
    cluster.faults.crash("ps:0", at=cluster.now + 0.1)
    sd.sleep(5.0)
    assert training.count.numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("copied", [False, True])
def test_a_copy_that_was_given_up_does_not_stand_for_the_one_after_it(copied: bool) -> None:
    training = Counting(sd.Cluster({"worker": 1, "ps": 2}))
    faults = training.cluster.faults
    faults.slow_link("ps:0", "ps:1", bandwidth_factor=1000.0, at=0.5)
    faults.crash("ps:1", at=1.0, restart_after=0.1)  # from now on its copy is on its way, for longer than a minute
    faults.partition("chief:0", ["ps:1"], at=2.0, until=39.0)  # the chief gives ps:1 up, and with it the copy
    faults.crash("ps:0", at=250.0 if copied else 100.0)  # the first copy is there after 90 s, the second one much later
    sd.sleep(38.0)
    training.run(1)
    sd.sleep(300.0)
    if copied:
        assert training.count.numpy().tolist() == [1.0, 1.0]
    else:
        with pytest.raises(UnavailableError, match="ps:0 has lost its variables"):
            training.count.numpy()


@pytest.mark.parametrize("options", [{}, {"mode": "sync"}], ids=["async", "sync"])
@pytest.mark.parametrize("fault", ["slow", "pause"])
def test_the_copy_of_a_slow_or_paused_server_repeats_its_changes_at_its_pace(options: Any, fault: str) -> None:
    hardware = {"ps": sd.hardware.Device(launch_overhead=0.1), "worker": sd.hardware.Device()}
    cluster = sd.Cluster({"worker": 1, "ps": 2}, hardware=hardware, numerics="off")
    if fault == "slow":
        cluster.faults.slow("ps:0", 4.0, at=0.0)
    else:
        cluster.faults.pause("ps:0", at=0.05, until=0.35)  # while it applies the update
    strategy = sd.ParameterServerStrategy(cluster, recovery="replica", **options)
    with strategy.scope():
        count = sd.Variable(np.zeros(2, np.float32), name="count")
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: count.assign_add([1.0, 1.0])))
    coordinator.join()
    seconds = {span.category: span.end_s - span.start_s for span in cluster.trace.spans}
    assert (seconds["apply"], seconds["copy"]) == (pytest.approx(0.4), pytest.approx(0.1))


def test_a_server_waits_for_no_copy_on_one_that_dies_while_it_is_believed_to_be_down() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    cluster.faults.pause("ps:1", at=0.0003, until=70.0)  # for 60 s a server waits for a copy, and then does not
    cluster.faults.crash("ps:1", after_steps=4, restart_after=1.0)  # at once when it goes on, before the chief hears of it
    strategy = sd.ParameterServerStrategy(cluster, recovery="replica", exactly_once=True)
    with strategy.scope():
        counts = [sd.Variable(0.0), sd.Variable(0.0)]

    @sd.function
    def step() -> None:
        for count in counts:
            count.assign_add(1.0)

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(8):
        coordinator.schedule(step)
    coordinator.join()
    assert [float(count.numpy()) for count in counts] == [8.0, 8.0]


def counted_after_a_late_crash(silent_until_s: float) -> float:
    """The count of one closure, whose server dies long after it, and long after its copy was lost on its way."""
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, recovery="replica")
    cluster.faults.drop("ps:0", "ps:1", kind="copy", at=0.0, until=silent_until_s)
    with strategy.scope():
        count = sd.Variable(0.0, name="count")
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: count.assign_add(1.0)))
    coordinator.join()
    sd.sleep(150.0)
    cluster.faults.crash("ps:0", at=cluster.now + 1.0, restart_after=0.1)
    sd.sleep(2.0)
    return float(count.numpy())


@pytest.mark.parametrize("silent_until_s", [0.01, 70.0])
def test_a_copy_that_was_lost_on_its_way_is_sent_again_where_nothing_changes_any_more(silent_until_s: float) -> None:
    assert counted_after_a_late_crash(silent_until_s) == 1.0


def test_a_copy_that_cannot_be_sent_lets_a_wait_end_that_nothing_else_ends() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    training = Counting(cluster)
    cluster.faults.drop("ps:0", "ps:1", kind="copy", at=0.0)
    training.run(1)
    cluster.faults.pause("worker:0", at=cluster.now + 0.01)
    with pytest.raises(sd.errors.SimdistError, match="worker:0"):
        training.run(1)
    assert cluster.now < 1_000


def test_a_server_that_has_lost_its_variables_waits_for_no_copy_of_what_came_meanwhile() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    first = sd.ParameterServerStrategy(cluster, recovery="replica", mode="bounded", staleness=1)
    with first.scope():
        count, other = sd.Variable(0.0, name="count"), sd.Variable(0.0, name="other")
        sd.Variable(np.zeros(1_000_000, np.float32), name="many")
    cluster.faults.slow("ps:1", 1e7, at=0.0, until=20.0)  # it repeats the second change of ps:0 only after its round
    cluster.faults.crash("ps:0", at=0.7, restart_after=0.1)
    cluster.faults.slow_link("ps:1", "ps:0", bandwidth_factor=1e6, at=0.0, until=20.0)  # its variables do not come
    cluster.faults.pause("ps:1", at=2.0)
    cluster.faults.crash("ps:1", at=10.0, restart_after=1.0)

    @sd.function(seconds=0.5)
    def step() -> None:
        count.assign_add(1.0)
        other.assign_add(1.0)

    training = sd.ClusterCoordinator(first)
    for _ in range(2):
        training.schedule(step)
    with pytest.raises(UnavailableError, match="The copy of ps:0 on ps:1 was lost too"):
        training.join()
    sd.sleep(20.0)
    again = sd.ParameterServerStrategy(cluster, recovery="replica")
    with again.scope():
        late = sd.Variable(0.0, name="late")
    sd.ClusterCoordinator(again).schedule(sd.function(lambda: late.assign_add(1.0))).fetch()
    assert float(late.numpy()) == 1.0
