"""Slices of TPU chips by their names."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

import simdist as sd
from simdist.cluster.tpu import GENERATIONS, slice_shape


@pytest.mark.parametrize(
    ("name", "shape", "cores_per_chip"),
    [
        ("v3-8", (2, 2), 2),
        ("v3-2048", (32, 32), 2),
        ("v4-8", (2, 2, 1), 2),
        ("v4-8192", (16, 16, 16), 2),
        ("v5e-8", (4, 2), 1),
        ("v5p-16", (2, 2, 2), 2),
    ],
)
def test_a_name_says_chips_cores_and_grid(name: str, shape: tuple[int, ...], cores_per_chip: int) -> None:
    resolver = sd.TPUClusterResolver(name)
    assert resolver.shape == shape
    assert resolver.num_cores == int(name.partition("-")[2]) == math.prod(shape) * cores_per_chip
    assert resolver.cluster_spec().num_tasks("worker") == math.prod(shape)
    assert resolver.num_accelerators() == {"TPU": cores_per_chip}
    assert repr(resolver) == f"TPUClusterResolver({name!r})"


@pytest.mark.parametrize("name", ["", "local", "v2-8", "v6-8", "v4-08", "v4-8 ", "v4", "V4-8", "v4-\N{ARABIC-INDIC DIGIT EIGHT}", None])
def test_what_names_no_generation_is_refused_with_those_that_are_known(name: Any) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"a generation \(v3, v4, v5e, v5p\) and a number of cores"):
        sd.TPUClusterResolver(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v3-4", "a multiple of 8 cores, at most 2,048"),
        ("v3-2056", "a multiple of 8 cores, at most 2,048"),
        ("v5e-6", "a multiple of 4 cores, at most 256"),
        ("v4-12", "a multiple of 8 cores, at most 8,192"),
    ],
)
def test_slices_have_whole_multiples_of_four_chips(name: str, expected: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=expected):
        sd.TPUClusterResolver(name)


@pytest.mark.parametrize("axes", sorted({known.axes for known in GENERATIONS.values()}))
def test_a_grid_is_as_near_to_a_cube_as_whole_numbers_allow(axes: int) -> None:
    for chips in range(4, 65, 4):
        grids = [grid for grid in itertools.product(range(1, chips + 1), repeat=axes) if math.prod(grid) == chips]
        found = slice_shape(chips, axes)
        assert found in grids and list(found) == sorted(found, reverse=True)
        assert sum(found) == min(map(sum, grids))
