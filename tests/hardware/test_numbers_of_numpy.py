"""Numbers of NumPy as figures, seconds and steps: a run with them is the run with the same numbers of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.collectives import bus_bandwidth, choose
from simdist.hardware import Device, DiskModel, Network
from simdist.hardware.links import LinkModel
from simdist.hardware.topology import Racks, Torus

Kind = Callable[[float], Any]


def run_with(kind: Kind) -> tuple[float, str]:
    """The end and the digest of a run whose figures are numbers of some kind; 0.25 and the like are the same in all of them."""
    device = Device(flops=kind(2.0**38), memory_bandwidth=kind(2.0**35), memory=kind(2.0**34), launch_overhead=kind(2.0**-16))
    network = Network(bandwidth=kind(2.0**30), latency=kind(2.0**-14)).with_port("worker:0", bandwidth=kind(2.0**27))
    with sd.Cluster({"worker": 2, "ps": 1}, hardware=device, network=network, disks=DiskModel(latency=kind(2.0**-14))) as cluster:
        cluster.faults.crash("worker:1", at=kind(2.0**-9), restart_after=kind(2.0**-10))
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            table = sd.Variable(np.ones(999, np.float32))

        @sd.function
        def step() -> None:
            table.assign_add(table.value)

        coordinator = sd.ClusterCoordinator(strategy, start_delay_s=kind(2.0**-12))
        for _ in range(30):
            coordinator.schedule(step)
        coordinator.join()
        assert type(cluster.now) is float
        return cluster.now, cluster.trace.digest()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_run_with_numbers_of_numpy_has_the_clock_and_the_digest_of_one_with_those_of_python(kind: Kind) -> None:
    assert run_with(kind) == run_with(float)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Device, "flops"),
        (DiskModel, "fsync"),
        (Network, "intra_host_latency"),
        (lambda **given: LinkModel(**{"bandwidth": 1.0, "latency": 0.0, **given}), "bandwidth"),
        (lambda **given: Racks(2, **given), "oversubscription"),
        (sd.hardware.LogNormal, "sigma"),
        (sd.CommunicationOptions, "timeout_seconds"),
    ],
)
@pytest.mark.parametrize("value", [np.float32(0.1), np.float64(0.1), np.int8(3)])
def test_figure_of_numpy_is_kept_as_one_of_python(make: Callable[..., Any], name: str, value: Any) -> None:
    kept = getattr(make(**{name: value}), name)
    assert type(kept) in (int, float) and kept == value


def test_whole_number_beyond_all_floats_is_an_infinite_figure() -> None:
    assert Device(flops=10**400, launch_overhead=0).seconds(flops=1e9, bytes=0) == 0.0


@pytest.mark.parametrize("value", [None, 3, "ps:0"])
def test_overrides_that_are_none_are_named(value: Any) -> None:
    with pytest.raises(TypeError, match="Network: overrides is"):
        Network(overrides=value)


def test_session_on_hardware_with_figures_of_numpy_has_a_text() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)

    session = sd.Session(program, sd.Cluster({"worker": 1}, network=Network(latency=np.float32(0.25))))
    session.advance()
    opened = sd.open_share(sd.share(session), {"program": program})
    assert opened.cluster.network.latency == 0.25 and opened.digest() == session.digest()


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64])
def test_whole_number_of_numpy_is_kept_as_one_of_python(kind: Any) -> None:
    racks, torus = Network().in_racks(kind(100)).topology, Network().as_torus((kind(2), kind(3))).topology
    assert isinstance(racks, Racks) and type(racks.tasks_per_rack) is int and racks == Racks(100)
    assert isinstance(torus, Torus) and torus == Torus((2, 3)) and {type(length) for length in torus.shape} == {int}
    assert bus_bandwidth("all_reduce", kind(100), 1e6, 1e-3) == bus_bandwidth("all_reduce", 100, 1e6, 1e-3)
    assert choose(kind(64), 1e6, 1e-5, 1e9, ranks_per_host=kind(8)) is choose(64, 1e6, 1e-5, 1e9, ranks_per_host=8)


def test_number_of_numpy_that_is_not_whole_is_refused() -> None:
    given: Any = np.float64(2.0)
    with pytest.raises(TypeError, match=r"must be a whole number; got np.float64\(2.0\)"):
        Racks(given)
