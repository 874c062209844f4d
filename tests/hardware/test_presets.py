"""Presets: complete, named after themselves, and as fast as their makers say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fresh_python import run_beside_engine
from simdist import hardware
from simdist.hardware import Device, LinkModel, Network, presets

DEVICES = [value for value in vars(hardware).values() if isinstance(value, Device)]
NETWORKS = [value for value in vars(hardware).values() if isinstance(value, Network)]
LINKS = [value for value in vars(hardware).values() if isinstance(value, LinkModel)]


def test_defaults_are_the_default_presets() -> None:
    assert dataclasses.replace(Device(), name="laptop_cpu") == hardware.laptop_cpu
    assert dataclasses.replace(Network(), name="ethernet_10g") == hardware.ethernet_10g
    assert Network().within_host(hardware.pcie4) == Network()


def test_presets_are_named_after_themselves_and_exported() -> None:
    for model in (*DEVICES, *NETWORKS, *LINKS):
        assert getattr(hardware, model.name) is model
        assert model.name in hardware.__all__
    assert (len(DEVICES), len(NETWORKS), len(LINKS)) == (9, 12, 3)


def test_faster_generations_are_faster() -> None:
    chain = [hardware.laptop_cpu, hardware.server_cpu, hardware.v100, hardware.a100, hardware.h100]
    times = [device.seconds(1e12, 1e9) for device in chain]
    assert times == sorted(times, reverse=True)
    assert hardware.ethernet_1g.bandwidth * 8 == 1e9
    assert hardware.infiniband_hdr.bandwidth * 8 == 200e9


def test_every_preset_is_exported_where_it_is_made_and_from_the_package() -> None:
    assert {model.name for model in (*DEVICES, *NETWORKS, *LINKS)} == set(presets.__all__) <= set(hardware.__all__)


def test_every_preset_states_where_its_figures_are_from() -> None:
    source = Path(presets.__file__).read_text(encoding="utf-8")
    for name in presets.__all__:
        docstring = source.split(f"\n{name} = ")[1].split('"""')[1]
        assert any(word in docstring for word in ("(19", "(20", " 20", "199", "round figure")), name


@pytest.mark.parametrize(("network", "gbit_per_s"), [(hardware.dgx_a100, 8 * 200), (hardware.dgx_h100, 8 * 400)])
def test_dgx_hosts_have_eight_ports_and_a_switch_inside(network: Network, gbit_per_s: float) -> None:
    assert network.bandwidth * 8 == gbit_per_s * 1e9
    assert not network.intra_host_shared and network.intra_host_bandwidth > network.bandwidth


def test_tpu_slice_of_a_whole_pod_has_the_bisection_that_google_states() -> None:
    crossing = 2 * 16 * 16  # links of one direction across the middle of a torus of 16 x 16 x 16
    assert hardware.tpu_v4_slice.topology == hardware.Torus((4, 4, 4))
    assert crossing * hardware.tpu_v4_slice.bandwidth == pytest.approx(24e12, rel=0.07)
    assert hardware.tpu_v5e_slice.topology == hardware.Torus((16, 16))
    assert 2 * 16 * hardware.tpu_v5e_slice.bandwidth == 1.6e12


def test_links_of_whole_tpu_machines_carry_what_google_states_for_their_all_reduces() -> None:
    assert 4 * 1024 * hardware.tpu_v3_slice.bandwidth == pytest.approx(340e12, rel=0.02)
    assert 4 * 256 * hardware.tpu_v5e_slice.bandwidth == 51.2e12


def test_import_does_not_load_jax() -> None:
    assert run_beside_engine("import simdist.hardware; sys.exit('jax' in sys.modules)").returncode == 0
