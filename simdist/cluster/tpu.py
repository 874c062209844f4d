"""`TPUClusterResolver`: a slice of TPU chips by its name, such as "v4-8".

A slice is named by its generation and its number of cores. A v4 chip has two cores, and the chips of a slice are the nodes of
a grid whose shape follows from their number: as near to a cube as whole numbers allow. The simulated chips are the workers of
a cluster, worker 0 the first in row-major order.

Source: N. Jouppi et al., TPU v4: An Optically Reconfigurable Supercomputer, ISCA 2023, for chips, cores and the torus.

Taught in lesson 02.
"""

from __future__ import annotations

import re
from typing import Any

from simdist.cluster.resolver import SimpleClusterResolver
from simdist.cluster.spec import ClusterSpec
from simdist.errors import InvalidArgumentError

__all__ = ["CORES_PER_CHIP", "TPUClusterResolver", "slice_shape"]

CORES_PER_CHIP = 2
LARGEST = 4096  # chips of one v4 machine


class TPUClusterResolver(SimpleClusterResolver):
    """The cluster of a slice of TPU chips.

    Args:
        tpu: its name: "v4-8" has 8 cores, which are 4 chips in a grid of 2 x 2 x 1.
        zone, project: accepted for tf.distribute's sake; without effect.

    Attributes:
        shape: chips along each axis.
        num_cores: replicas of a strategy on it.

    Raises:
        InvalidArgumentError: no name of a v4 slice.

    Example:
        >>> resolver = TPUClusterResolver("v4-8")
        >>> resolver.shape, resolver.num_cores, resolver.cluster_spec().num_tasks("worker")
        ((2, 2, 1), 8, 4)
    """

    def __init__(self, tpu: str = "v4-8", zone: str | None = None, project: str | None = None) -> None:
        found = re.fullmatch(r"v4-(\d+)", str(tpu))
        cores = int(found[1]) if found else 0
        if not found or cores < 8 or cores % 8 or cores > LARGEST * CORES_PER_CHIP:
            raise InvalidArgumentError(
                f'tpu={tpu!r} is no slice that is known; use "v4-8", "v4-16", "v4-32", ..., with a multiple of 8 cores.'
            )
        self.tpu = tpu
        self.num_cores = cores
        self.shape = slice_shape(cores // CORES_PER_CHIP)
        self.cluster: Any = None  # the simulated cluster, once a strategy has made it
        super().__init__(ClusterSpec({"worker": cores // CORES_PER_CHIP}), environment="tpu", num_accelerators={"TPU": CORES_PER_CHIP})

    def __repr__(self) -> str:
        return f"TPUClusterResolver({self.tpu!r})"


def slice_shape(num_chips: int) -> tuple[int, int, int]:
    """The grid of so many chips: three whole numbers whose product they are, as near to each other as can be, the largest first.

    Example:
        >>> slice_shape(4), slice_shape(8), slice_shape(64)
        ((2, 2, 1), (2, 2, 2), (4, 4, 4))
    """
    shapes = [
        (num_chips // (b * c), b, c)
        for c in range(1, round(num_chips ** (1 / 3)) + 1)
        if num_chips % c == 0
        for b in range(c, int((num_chips // c) ** 0.5) + 1)
        if (num_chips // c) % b == 0
    ]
    return min(shapes, key=lambda shape: (sum(shape), shape))
