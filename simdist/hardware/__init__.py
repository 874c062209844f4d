"""What computers and networks can do: operations a second, bytes a second, seconds of waiting.

A device is four numbers and a jitter, a network is four more and a topology, and the time of everything that the cluster
simulates follows from them. All of it is frozen data in base units; nothing here knows a clock.

    devices.py     processors: the roofline model, and which job has which
    jitter.py      distributions of a factor on a program's time
    links.py       one connection, as figures
    topology.py    which links there are between hosts, and which a message crosses
    networks.py    ports, topology, the inside of hosts, exceptions
    wiring.py      which links join the places of a cluster
    disks.py       what a disk can do
    memory.py      who holds how many bytes of a device
    presets.py     machines that exist, with the sources of their figures
    calibrate.py   the machine at hand, measured
    figures.py     what a figure has to be
    plain.py       figures as plain data, and back

Taught in lesson 02.
"""

from __future__ import annotations

from simdist.hardware.calibrate import calibrate
from simdist.hardware.devices import Device, Hardware, device_for
from simdist.hardware.disks import DiskModel, hdd, nvme, ssd
from simdist.hardware.jitter import Exponential, Factors, Jitter, LogNormal, NoJitter, TwoPoint, Uniform, quantised
from simdist.hardware.links import LinkModel
from simdist.hardware.memory import MemoryAccount
from simdist.hardware.networks import Network, Override
from simdist.hardware.presets import (
    a100,
    dgx_a100,
    dgx_h100,
    ethernet_1g,
    ethernet_10g,
    ethernet_25g,
    ethernet_100g,
    h100,
    infiniband_hdr,
    laptop,
    laptop_cpu,
    nvlink3,
    nvlink4,
    pcie4,
    server_cpu,
    tpu_v3_core,
    tpu_v3_slice,
    tpu_v4_core,
    tpu_v4_slice,
    tpu_v5e_core,
    tpu_v5e_slice,
    tpu_v5p_core,
    tpu_v5p_slice,
    v100,
)
from simdist.hardware.topology import FlatSwitch, Racks, Topology, Torus

__all__ = [
    "Device",
    "DiskModel",
    "Exponential",
    "Factors",
    "FlatSwitch",
    "Hardware",
    "Jitter",
    "LinkModel",
    "LogNormal",
    "MemoryAccount",
    "Network",
    "NoJitter",
    "Override",
    "Racks",
    "Topology",
    "Torus",
    "TwoPoint",
    "Uniform",
    "a100",
    "calibrate",
    "device_for",
    "dgx_a100",
    "dgx_h100",
    "ethernet_1g",
    "ethernet_10g",
    "ethernet_25g",
    "ethernet_100g",
    "h100",
    "hdd",
    "infiniband_hdr",
    "laptop",
    "laptop_cpu",
    "nvlink3",
    "nvme",
    "nvlink4",
    "pcie4",
    "quantised",
    "server_cpu",
    "ssd",
    "tpu_v3_core",
    "tpu_v4_core",
    "tpu_v5e_core",
    "tpu_v5p_core",
    "tpu_v3_slice",
    "tpu_v4_slice",
    "tpu_v5e_slice",
    "tpu_v5p_slice",
    "v100",
]
