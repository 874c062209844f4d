"""Which cells make up a variable's value, which of them a replica reads and changes, and which part of a whole value each one has."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.program.values import Aval
from simdist.variables.placement import Placement
from simdist.variables.shard_range import ShardRange
from simdist.variables.state import Cell


def cell(rows: int, number: int, part: ShardRange | None = None, replica: int | None = None) -> Cell:
    return Cell("v", Aval((rows,), "float32"), f"ps:{number}", part, replica=replica)


def placed(cells: list[Cell], spread: str, ranges: list[ShardRange] | None = None) -> Placement[sd.Variable]:
    return Placement(cells, sd.Variable(0.0).placement.store, spread, ranges=ranges)


@pytest.fixture
def shards() -> list[Cell]:
    return [cell(2, 0, ShardRange(0, 0, 2, 3, 0, 2)), cell(1, 1, ShardRange(0, 2, 3, 3, 1, 2))]


def test_of_shards_every_replica_reads_all(shards: list[Cell]) -> None:
    placement = placed(shards, "shards")
    assert placement.read_by(0) == placement.read_by(1) == placement.changed_by(1) == shards


def test_of_copies_that_are_equal_every_replica_reads_the_first() -> None:
    copies = [cell(2, 0), cell(2, 1)]
    placement = placed(copies, "copies")
    assert placement.read_by(0) == placement.read_by(1) == [copies[0]]
    assert placement.changed_by(0) == copies


def test_of_replica_local_values_each_replica_has_one() -> None:
    cells = [cell(2, 0, replica=0), cell(2, 0, replica=1)]
    placement = placed(cells, "replicas")
    assert (placement.read_by(1), placement.changed_by(1)) == ([cells[1]], [cells[1]])


def test_a_shard_has_its_part_of_a_whole_value(shards: list[Cell]) -> None:
    placement, whole = placed(shards, "shards"), np.arange(3.0)
    assert [placement.part_of(shard, whole).tolist() for shard in shards] == [[0.0, 1.0], [2.0]]


def test_a_shard_by_itself_has_all_of_its_value(shards: list[Cell]) -> None:
    alone = placed(shards[1:], "shards")
    assert alone.range_of(shards[1]) is None
    assert (alone.part_of(shards[1], np.arange(1.0)).tolist(), alone.axis) == ([0.0], 0)


def test_ranges_that_were_given_go_before_those_of_the_cells(shards: list[Cell]) -> None:
    first, second = ShardRange(1, 0, 1, 2, 0, 2), ShardRange(1, 1, 2, 2, 1, 2)
    placement = placed(shards, "shards", [first, second])
    assert (placement.axis, placement.range_of(shards[1])) == (1, second)
