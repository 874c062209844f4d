"""`TPUClusterResolver`: a slice of TPU chips by its name, such as "v4-8".

A slice is named by its generation and its number of cores. The chips of a slice are the nodes of a grid whose shape follows from
their number: as near to a square or a cube as whole numbers allow. The simulated chips are the workers of a cluster, worker 0 the
first in row-major order.

Source: N. Jouppi et al., TPU v4: An Optically Reconfigurable Supercomputer, ISCA 2023, for chips, cores and the torus of v4; of the
others Google Cloud's documentation of each generation (2025).

Taught in lesson 02.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from simdist.cluster.resolver import SimpleClusterResolver
from simdist.cluster.spec import ClusterSpec
from simdist.errors import InvalidArgumentError

__all__ = ["GENERATIONS", "Generation", "TPUClusterResolver", "slice_shape"]

SMALLEST = 4  # chips


@dataclass(frozen=True)
class Generation:
    """What the name of a generation says of its slices.

    Attributes:
        cores_per_chip: replicas of a strategy on a chip.
        axes: of the grid of chips.
        largest: chips of one whole machine.
    """

    cores_per_chip: int
    axes: int
    largest: int


GENERATIONS = {
    "v3": Generation(cores_per_chip=2, axes=2, largest=1024),
    "v4": Generation(cores_per_chip=2, axes=3, largest=4096),
    "v5e": Generation(cores_per_chip=1, axes=2, largest=256),
    "v5p": Generation(cores_per_chip=2, axes=3, largest=6144),
}
"""The generations that are known, by the first part of the name of a slice."""


class TPUClusterResolver(SimpleClusterResolver):
    """The cluster of a slice of TPU chips.

    Args:
        tpu: its name: generation ("v3", "v4", "v5e", "v5p") and number of cores. "v4-8" has 8 cores, which are 4 chips in a
            grid of 2 x 2 x 1; a chip of "v5e" has one core, of the others two.
        zone, project: accepted for tf.distribute's sake; without effect.

    Attributes:
        generation: the first part of the name.
        shape: chips along each axis.
        num_cores: replicas of a strategy on it.

    Raises:
        InvalidArgumentError: no name of a slice: another generation, or no multiple of four chips.

    Example:
        >>> resolver = TPUClusterResolver("v4-8")
        >>> resolver.shape, resolver.num_cores, resolver.cluster_spec().num_tasks("worker")
        ((2, 2, 1), 8, 4)
    """

    def __init__(self, tpu: str = "v4-8", zone: str | None = None, project: str | None = None) -> None:
        found = re.fullmatch(rf"({'|'.join(GENERATIONS)})-([1-9]\d*)", str(tpu), re.ASCII)
        if not found:
            names = ", ".join(GENERATIONS)
            raise InvalidArgumentError(
                f'tpu={tpu!r} is no slice that is known; use a generation ({names}) and a number of cores, such as "v4-8" or "v3-8".'
            )
        self.tpu, self.generation, self.num_cores = tpu, found[1], int(found[2])
        known = GENERATIONS[self.generation]
        least, most = SMALLEST * known.cores_per_chip, known.largest * known.cores_per_chip
        if self.num_cores % least or self.num_cores > most:
            raise InvalidArgumentError(
                f"tpu={tpu!r} is no slice that is known; a slice of {self.generation} has a multiple of {least} cores, at most {most:,}: "
                f'"{self.generation}-{least}", "{self.generation}-{2 * least}", ...'
            )
        chips = self.num_cores // known.cores_per_chip
        self.shape = slice_shape(chips, known.axes)
        self.cluster: Any = None  # the simulated cluster, once a strategy has made it
        super().__init__(ClusterSpec({"worker": chips}), environment="tpu", num_accelerators={"TPU": known.cores_per_chip})

    def __repr__(self) -> str:
        return f"TPUClusterResolver({self.tpu!r})"


def slice_shape(num_chips: int, axes: int = 3) -> tuple[int, ...]:
    """The grid of so many chips: whole numbers whose product they are, as near to each other as can be, the largest first.

    Args:
        num_chips: how many chips.
        axes: how many numbers; default 3.

    Example:
        >>> slice_shape(4), slice_shape(8), slice_shape(64), slice_shape(8, axes=2)
        ((2, 2, 1), (2, 2, 2), (4, 4, 4), (4, 2))
    """
    return min(_shapes(num_chips, axes, 1), key=lambda shape: (sum(shape), shape))


def _shapes(product: int, axes: int, least: int) -> list[tuple[int, ...]]:
    """All grids of so many axes, each number at least `least`, the largest first."""
    if axes == 1:
        return [(product,)] if product >= least else []
    smallest = range(least, round(product ** (1 / axes)) + 1)
    return [(*larger, number) for number in smallest if product % number == 0 for larger in _shapes(product // number, axes - 1, number)]
