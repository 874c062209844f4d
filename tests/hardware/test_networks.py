"""Networks as data: figures, exceptions, and what each method leaves as it was."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from simdist import hardware
from simdist.errors import InvalidArgumentError
from simdist.hardware import FlatSwitch, LinkModel, Network, Racks, Torus


@pytest.mark.parametrize("field", ["bandwidth", "intra_host_bandwidth", "latency", "intra_host_latency"])
def test_network_figure_that_cannot_be_is_named(field: str) -> None:
    figures: dict[str, Any] = {field: -1e-9}
    with pytest.raises(InvalidArgumentError, match=f"Network: {field}"):
        Network(**figures)


def test_within_host_changes_only_the_inside() -> None:
    network = hardware.ethernet_25g.within_host(LinkModel(bandwidth=7.0, latency=3.0))
    assert (network.intra_host_bandwidth, network.intra_host_latency) == (7.0, 3.0)
    assert (network.bandwidth, network.latency) == (hardware.ethernet_25g.bandwidth, hardware.ethernet_25g.latency)


def test_latencies_may_be_zero() -> None:
    assert Network(bandwidth=1, latency=0, intra_host_latency=0).latency == 0


@pytest.mark.parametrize("shared", [True, False])
def test_within_host_takes_over_whether_devices_share(shared: bool) -> None:
    assert Network().within_host(LinkModel(bandwidth=1.0, latency=0.0, shared=shared)).intra_host_shared is shared


def test_default_topology_is_a_flat_switch() -> None:
    assert Network().topology == FlatSwitch()


def test_methods_change_only_what_they_say() -> None:
    plain = Network(bandwidth=7.0, latency=3.0, name="mine")
    assert dataclasses.replace(plain.in_racks(4, 2.0, 1.0), topology=FlatSwitch()) == plain
    assert plain.in_racks(4, 2.0, 1.0).topology == Racks(4, 2.0, 1.0)
    assert dataclasses.replace(plain.as_torus((2, 3)), topology=FlatSwitch()) == plain
    assert plain.as_torus((2, 3)).topology == Torus((2, 3))
    assert dataclasses.replace(plain.with_port("a", bandwidth=1.0).with_link("b", latency=0.0), overrides=()) == plain


def test_equal_networks_are_equal_and_hash_alike() -> None:
    def make() -> Network:
        return Network().in_racks(2).with_port("worker:1", bandwidth=1e6)

    assert make() == make() and hash(make()) == hash(make())
    assert make() != make().with_port("worker:1", bandwidth=1e6)


@pytest.mark.parametrize("method", ["with_port", "with_link"])
def test_exception_without_figures_is_refused(method: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'worker:1'.*give bandwidth=, latency= or both"):
        getattr(Network(), method)("worker:1")


@pytest.mark.parametrize("method", ["with_port", "with_link"])
@pytest.mark.parametrize("figures", [{"bandwidth": 0.0}, {"bandwidth": -1.0}, {"latency": -1e-9}, {"latency": float("nan")}])
def test_exception_that_cannot_be_is_refused(method: str, figures: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'worker:1': (bandwidth|latency) must be"):
        getattr(Network(), method)("worker:1", **figures)


def test_exception_may_take_all_latency_away() -> None:
    assert Network().with_link("worker:1/in", latency=0.0).overrides[0].latency == 0.0


@pytest.mark.parametrize(("field", "value"), [("topology", "torus"), ("topology", Torus), ("intra_host_shared", 1)])
def test_field_of_another_type_is_refused(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"Network: {field} must be"):
        Network(**{field: value})


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0,), InvalidArgumentError),
        ((2.5,), TypeError),
        ((True,), TypeError),
        ((4, 0.0), InvalidArgumentError),
        ((4, float("nan")), InvalidArgumentError),
        ((4, float("inf")), InvalidArgumentError),
        ((4, 1.0, -1e-6), InvalidArgumentError),
    ],
)
def test_racks_that_cannot_be_are_refused(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"Racks: (tasks_per_rack|oversubscription|hop_latency)"):
        Network().in_racks(*arguments)


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ((), InvalidArgumentError),
        ((4, 0), InvalidArgumentError),
        ((1,) * 7, InvalidArgumentError),
        ([4, 4], TypeError),
        ((4.0,), TypeError),
    ],
)
def test_torus_that_cannot_be_is_refused(shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"Torus: .*shape"):
        Network().as_torus(shape)


@pytest.mark.parametrize(
    ("figures", "error"),
    [({"bandwidth": 0.0, "latency": 0.0}, InvalidArgumentError), ({"bandwidth": 1.0, "latency": 0.0, "shared": 1}, TypeError)],
)
def test_link_that_cannot_be_is_refused(figures: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Link: "):
        LinkModel(**figures)
