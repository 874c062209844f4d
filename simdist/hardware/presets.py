"""Presets: processors, connections and networks, with the peak that a maker states and where it is stated.

Real programs reach a part of these peaks; `simdist.hardware.calibrate` measures what the machine at hand reaches. What is
no maker's figure is called a round figure. Latencies are one way, bandwidths in one direction.
"""

from __future__ import annotations

from simdist.hardware.devices import GIB, Device
from simdist.hardware.links import LinkModel
from simdist.hardware.networks import Network

__all__ = [
    "a100",
    "dgx_a100",
    "dgx_h100",
    "ethernet_1g",
    "ethernet_10g",
    "ethernet_25g",
    "ethernet_100g",
    "h100",
    "infiniband_hdr",
    "laptop",
    "laptop_cpu",
    "nvlink3",
    "nvlink4",
    "pcie4",
    "server_cpu",
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

# -- processors ---------------------------------------------------------------------------------------------------------

laptop_cpu = Device(name="laptop_cpu")
"""A laptop's processor, the default: 4 cores at 3 GHz with two 8-lane float32 multiply-add units each
(4 x 3e9 x 32 operations), two channels of DDR4-3200 (2 x 25.6 GB/s: JEDEC JESD79-4), 16 GiB.
The overhead is a round figure for starting a compiled program from Python."""

server_cpu = Device(name="server_cpu", flops=5.02e12, memory_bandwidth=204.8e9, memory=256 * GIB, launch_overhead=20e-6)
"""A server's processor: AMD EPYC 7763, 64 cores at a base clock of 2.45 GHz, 32 float32 operations each per cycle;
eight channels of DDR4-3200 give 204.8 GB/s (AMD EPYC 7003 series data sheet, 2021). The memory is a usual
configuration; the overhead is a round figure."""

v100 = Device(name="v100", flops=15.7e12, memory_bandwidth=900e9, memory=32e9, launch_overhead=10e-6)
"""NVIDIA V100 SXM2: float32 15.7 Tflop/s, 900 GB/s, 32 GB (NVIDIA V100 Tensor Core GPU data sheet, 2020).
The overhead is a round figure for starting a kernel."""

a100 = Device(name="a100", flops=156e12, memory_bandwidth=2039e9, memory=80e9, launch_overhead=10e-6)
"""NVIDIA A100 80 GB SXM: TF32, without sparsity, 156 Tflop/s (plain float32 has 19.5), 2,039 GB/s, 80 GB
(NVIDIA A100 Tensor Core GPU data sheet, 2021). TF32 is what JAX uses there for float32 matrix products by default.
The overhead is a round figure for starting a kernel."""

h100 = Device(name="h100", flops=494.5e12, memory_bandwidth=3.35e12, memory=80e9, launch_overhead=10e-6)
"""NVIDIA H100 SXM: TF32 494.5 Tflop/s without sparsity (the sheet states 989 with it; plain float32 has 67),
3.35 TB/s, 80 GB (NVIDIA H100 Tensor Core GPU data sheet, 2023). The overhead is a round figure."""

tpu_v3_core = Device(name="tpu_v3_core", flops=61.5e12, memory_bandwidth=450e9, memory=16 * GIB, launch_overhead=10e-6)
"""One of the two cores of a TPU v3 chip, which has bfloat16 123 Tflop/s, 900 GB/s and 32 GiB (Google Cloud documentation of
TPU v3, 2025): half of each. The overhead is a round figure."""

tpu_v4_core = Device(name="tpu_v4_core", flops=137.5e12, memory_bandwidth=600e9, memory=16 * GIB, launch_overhead=10e-6)
"""One of the two cores of a TPU v4 chip, which has bfloat16 275 Tflop/s, 1,200 GB/s and 32 GiB (Google Cloud
documentation of TPU v4; N. Jouppi et al., ISCA 2023): half of each. The overhead is a round figure."""

tpu_v5e_core = Device(name="tpu_v5e_core", flops=197e12, memory_bandwidth=819e9, memory=16e9, launch_overhead=10e-6)
"""The core of a TPU v5e chip: bfloat16 197 Tflop/s, 819 GB/s, 16 GB (Google Cloud documentation of TPU v5e, 2025). The overhead
is a round figure."""

tpu_v5p_core = Device(name="tpu_v5p_core", flops=229.5e12, memory_bandwidth=1382.5e9, memory=47.5e9, launch_overhead=10e-6)
"""One of the two cores of a TPU v5p chip, which has bfloat16 459 Tflop/s, 2,765 GB/s and 95 GB (Google Cloud documentation of
TPU v5p, 2025): half of each. The overhead is a round figure."""

# -- connections inside a host ------------------------------------------------------------------------------------------

pcie4 = LinkModel(name="pcie4", bandwidth=31.5e9, latency=2e-6, shared=True)
"""PCI Express 4.0 with 16 lanes: 16 GT/s x 16 lanes x 128/130 bits, 31.5 GB/s in each direction (PCI-SIG, PCI Express
Base Specification 4.0, 2017). All devices of a host share one such connection to its root complex. The latency is a
round figure."""

nvlink3 = LinkModel(name="nvlink3", bandwidth=300e9, latency=2e-6)
"""Third-generation NVLink of an A100: 12 links of 25 GB/s in each direction, 300 GB/s (NVIDIA A100 Tensor Core GPU
Architecture, 2020), through a switch that joins all of a host's. The latency is a round figure."""

nvlink4 = LinkModel(name="nvlink4", bandwidth=450e9, latency=2e-6)
"""Fourth-generation NVLink of an H100: 18 links of 25 GB/s in each direction, 450 GB/s (NVIDIA H100 Tensor Core GPU
Architecture, 2022), through a switch that joins all of a host's. The latency is a round figure."""

# -- networks -----------------------------------------------------------------------------------------------------------

ethernet_1g = Network(name="ethernet_1g", bandwidth=0.125e9, latency=100e-6)
"""Gigabit Ethernet (IEEE 802.3ab, 1999). The latency, of TCP through one switch, is a round figure."""

ethernet_10g = Network(name="ethernet_10g")
"""10 gigabit Ethernet (IEEE 802.3ae, 2002), the default. The latency, of TCP through one switch, is a round figure."""

ethernet_25g = Network(name="ethernet_25g", bandwidth=3.125e9, latency=30e-6)
"""25 gigabit Ethernet (IEEE 802.3by, 2016). The latency, of TCP through one switch, is a round figure."""

ethernet_100g = Network(name="ethernet_100g", bandwidth=12.5e9, latency=20e-6)
"""100 gigabit Ethernet (IEEE 802.3ba, 2010). The latency, of TCP through one switch, is a round figure."""

infiniband_hdr = Network(name="infiniband_hdr", bandwidth=25e9, latency=1.5e-6)
"""InfiniBand HDR, 4 lanes of 50 Gbit/s: 200 Gbit/s (InfiniBand Trade Association, HDR, 2017). The latency, of
remote memory access through one switch, is a round figure."""

dgx_a100 = Network(name="dgx_a100", bandwidth=8 * 25e9, latency=1.5e-6).within_host(nvlink3)
"""DGX A100 hosts, for 8 `a100` each: NVLink through switches inside, 8 ports of InfiniBand HDR for computing (200 Gbit/s each)
outside, taken together as one port of 200 GB/s (NVIDIA DGX A100 data sheet, 2020). The latencies are round figures."""

dgx_h100 = Network(name="dgx_h100", bandwidth=8 * 50e9, latency=1.5e-6).within_host(nvlink4)
"""DGX H100 hosts, for 8 `h100` each: NVLink through switches inside, 8 ports of 400 Gbit/s InfiniBand outside, taken together
as one port of 400 GB/s (NVIDIA DGX H100 data sheet, 2023). The latencies are round figures."""

tpu_v3_slice = Network(name="tpu_v3_slice", bandwidth=83e9, latency=1e-6).as_torus((32, 32))
"""All of a TPU v3 machine: a torus of 32 x 32 chips, each with 4 links. Google Cloud's documentation of TPU v3 (2025) states 340 TB/s for
all-reduce, which is 83 GB/s for each of the 4,096 links. A host here is a chip. The latency of a hop is a round figure.
``tpu_v3_slice.as_torus((2, 2))`` has the chips of "v3-8"."""

tpu_v4_slice = Network(name="tpu_v4_slice", bandwidth=50e9, latency=1e-6).as_torus((4, 4, 4))
"""A slice of 64 TPU v4 chips, the smallest whose ends are joined: a 3-D torus of 4 x 4 x 4, each chip with 6 links of
50 GB/s in each direction (N. Jouppi et al., TPU v4, ISCA 2023; Google Cloud's documentation of TPU v4 states 24 TB/s across
the middle of 16 x 16 x 16 chips, which 512 links cross). A host here is a chip. The latency of a hop is a round figure.
``tpu_v4_slice.as_torus((4, 4, 8))`` is a larger one."""

tpu_v5e_slice = Network(name="tpu_v5e_slice", bandwidth=50e9, latency=1e-6).as_torus((16, 16))
"""All of a TPU v5e machine: a torus of 16 x 16 chips, each with 1,600 Gbit/s in each direction on 4 links (Google Cloud
documentation of TPU v5e, 2025, which states 1.6 TB/s across the middle: 32 links). A host here is a chip. The latency of a hop is a
round figure."""

tpu_v5p_slice = Network(name="tpu_v5p_slice", bandwidth=100e9, latency=1e-6).as_torus((4, 4, 4))
"""A slice of 64 TPU v5p chips: a 3-D torus of 4 x 4 x 4, each chip with 4,800 Gbit/s in each direction on 6 links (Google Cloud
documentation of TPU v5p, 2025). A host here is a chip. The latency of a hop is a round figure."""

laptop = Network(name="laptop", bandwidth=5e9, latency=20e-6)
"""Processes of one laptop that talk over its loopback device. Both are round figures: a message is copied into
the kernel and out of it again through the memory of `laptop_cpu`, and takes two changes of process."""
