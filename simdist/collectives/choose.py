"""The default algorithm of an all-reduce: the one that is predicted to end first.

The candidates are those that a library for the kind of device has:

- ``"cpu"``: recursive doubling, Rabenseifner's, the ring and the binomial tree, as in MPI libraries;
- ``"gpu"``: the ring and the double tree, cut into 1, 4 or 16 pieces, as in NCCL;
- ``"tpu"``: the ring;
- ``"mixed"``: reduction to one, because no library spans devices of different kinds.

NCCL predicts latency + size / bandwidth for each of its algorithms and takes the least; the latency is the number of steps
times that of a link, within a host and between hosts, and the bandwidth that of the algorithm on these links. So does this
file, but without NCCL's measured constants, protocols (LL, LL128) and corrections: the figures are those of the cluster
at hand. MPICH uses two thresholds instead (recursive doubling up to 2 kB, Rabenseifner's above), which come from the
same formulas.

On several hosts with more than one rank each, the ranks of a host share its port. Then steps are counted one by one: a step
lasts as long as its slowest message, and messages on one port share it. Ranks are on the hosts in their order, the same
number on each; the last host may have fewer. Nothing here knows what else the network has to do. Between racks
`simdist.collectives.in_racks` predicts.

Invariant: the same arguments give the same algorithm; of equally fast ones the first in the list.

Source: NVIDIA, NCCL, src/graph/tuning.cc (`ncclTopoTuneModel`, `ncclTopoGetAlgoTime`); Thakur, Rabenseifner and Gropp,
Optimization of Collective Communication Operations in MPICH, 2005.

Taught in lesson 03a.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from simdist.arguments import known_word
from simdist.caches import bounded
from simdist.collectives.base import Algorithm, Schedule
from simdist.collectives.binomial import BINOMIAL
from simdist.collectives.double_tree import double_tree
from simdist.collectives.order import steps_of
from simdist.collectives.rabenseifner import RABENSEIFNER
from simdist.collectives.recursive_doubling import RECURSIVE_DOUBLING
from simdist.collectives.reduction_to_one import REDUCTION_TO_ONE
from simdist.collectives.ring import RING
from simdist.hardware.figures import check_figure, check_whole

__all__ = ["CANDIDATES", "choose", "predicted_seconds"]

CANDIDATES: dict[str, tuple[Algorithm, ...]] = {
    "cpu": (RECURSIVE_DOUBLING, RABENSEIFNER, RING, BINOMIAL),
    "gpu": (RING, double_tree(1), double_tree(4), double_tree(16)),
    "tpu": (RING,),
    "mixed": (REDUCTION_TO_ONE,),
}


def choose(
    num_ranks: int,
    size_bytes: float,
    latency_s: float,
    bandwidth_bytes_per_s: float,
    *,
    ranks_per_host: int = 1,
    device_kind: str = "cpu",
    intra_host_latency_s: float | None = None,
    intra_host_bandwidth_bytes_per_s: float | None = None,
) -> Algorithm:
    """The all-reduce that is predicted to end first, of those that a library for this kind of device has (`CANDIDATES`).

    Args:
        num_ranks: members.
        size_bytes: of each rank's data.
        latency_s: of a message between hosts.
        bandwidth_bytes_per_s: of a host's port, in each direction.
        ranks_per_host: how many ranks share a host and its port; default 1.
        device_kind: "cpu", "gpu", "tpu", or "mixed" if the ranks' devices are of different kinds; default "cpu".
        intra_host_latency_s: of a message within a host; default: as between hosts.
        intra_host_bandwidth_bytes_per_s: of a rank's port within its host; default: as between hosts.

    Raises:
        TypeError: a figure is no number.
        InvalidArgumentError: a figure is too small, or an unknown kind of device.

    Example:
        >>> choose(8, 1e3, latency_s=10e-6, bandwidth_bytes_per_s=10e9).name
        'recursive doubling'
        >>> choose(8, 100e6, latency_s=10e-6, bandwidth_bytes_per_s=10e9).name
        'rabenseifner'
        >>> choose(64, 1e6, latency_s=10e-6, bandwidth_bytes_per_s=10e9, device_kind="gpu").name
        'double tree'
    """
    device_kind = known_word(device_kind, "device_kind", CANDIDATES)

    def seconds(algorithm: Algorithm) -> float:
        return predicted_seconds(
            algorithm,
            num_ranks,
            size_bytes,
            latency_s,
            bandwidth_bytes_per_s,
            ranks_per_host=ranks_per_host,
            intra_host_latency_s=intra_host_latency_s,
            intra_host_bandwidth_bytes_per_s=intra_host_bandwidth_bytes_per_s,
        )

    return min(CANDIDATES[device_kind], key=seconds)


def predicted_seconds(
    algorithm: Algorithm,
    num_ranks: int,
    size_bytes: float,
    latency_s: float,
    bandwidth_bytes_per_s: float,
    *,
    ranks_per_host: int = 1,
    intra_host_latency_s: float | None = None,
    intra_host_bandwidth_bytes_per_s: float | None = None,
) -> float:
    """The duration of an algorithm on an idle network; arguments as in `choose`.

    With one rank on each host, or all ranks on one, this is the closed form. Otherwise it is the sum over the steps of
    the longest message of each. That is exact where all hosts do the same, and an estimate elsewhere: ranks that need not
    wait for the slowest of a step go on, and then share ports with messages of other steps.

    Example:
        >>> spread = predicted_seconds(RABENSEIFNER, 8, 1e8, 10e-6, 10e9)
        >>> shared = predicted_seconds(RABENSEIFNER, 8, 1e8, 10e-6, 10e9, ranks_per_host=4)
        >>> round(spread * 1e3, 2), round(shared * 1e3, 2)
        (17.56, 47.56)
    """
    counts = (("num_ranks", num_ranks), ("ranks_per_host", ranks_per_host))
    num_ranks, ranks_per_host = [check_whole("all-reduce", name, count) for name, count in counts]
    inner_latency_s = latency_s if intra_host_latency_s is None else intra_host_latency_s
    inner_bandwidth = bandwidth_bytes_per_s if intra_host_bandwidth_bytes_per_s is None else intra_host_bandwidth_bytes_per_s
    for name, figure in (("size_bytes", size_bytes), ("latency_s", latency_s), ("intra_host_latency_s", inner_latency_s)):
        check_figure("all-reduce", name, figure, may_be_zero=True)
    for name, figure in (("bandwidth", bandwidth_bytes_per_s), ("intra_host_bandwidth", inner_bandwidth)):
        check_figure("all-reduce", f"{name}_bytes_per_s", figure)
    if num_ranks <= ranks_per_host:
        return algorithm.seconds(num_ranks, size_bytes, inner_latency_s, inner_bandwidth)
    if ranks_per_host == 1:
        return algorithm.seconds(num_ranks, size_bytes, latency_s, bandwidth_bytes_per_s)
    loads = _loads(algorithm.schedule, num_ranks, ranks_per_host)
    between = [latency_s + size_bytes * share / bandwidth_bytes_per_s if share else 0.0 for share, _, _ in loads]
    within = [inner_latency_s + size_bytes * share / inner_bandwidth if share else 0.0 for _, share, _ in loads]
    return sum(times * max(pair) for (_, _, times), *pair in zip(loads, between, within, strict=True))


@bounded("loads of collectives", size=256)
def _loads(make: Callable[[int], Schedule], num_ranks: int, ranks_per_host: int) -> tuple[tuple[float, float, int], ...]:
    """The kinds of steps: shares of the data on the busiest port between hosts and within one, and how many such steps."""
    if make is RING.schedule:  # each step is like the others, and there are too many to count them
        return ((1 / num_ranks, 1 / num_ranks, 2 * (num_ranks - 1)),)
    schedule = make(num_ranks)
    kinds: Counter[tuple[float, float]] = Counter()
    for step in steps_of(schedule):
        between: Counter[tuple[str, int]] = Counter()
        within: Counter[tuple[str, int]] = Counter()
        for transfer in step:
            hosts = transfer.source // ranks_per_host, transfer.target // ranks_per_host
            ports, ends = (within, (transfer.source, transfer.target)) if hosts[0] == hosts[1] else (between, hosts)
            ports["out", ends[0]] += len(transfer.chunks)
            ports["in", ends[1]] += len(transfer.chunks)
        kinds[max(between.values(), default=0) / schedule.num_chunks, max(within.values(), default=0) / schedule.num_chunks] += 1
    return tuple((outer, inner, times) for (outer, inner), times in kinds.items())
