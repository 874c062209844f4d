"""What is stored of variables: cells, and the lines that they have in a shard map."""

from __future__ import annotations

import pytest

from simdist.program.values import Aval
from simdist.variables.state import Cell


@pytest.mark.parametrize(("shape", "rows"), [((), 1), ((3,), 3), ((4, 2), 4)])
def test_a_cell_of_no_variable_is_one_shard_with_all_its_rows_in_the_map(shape: tuple[int, ...], rows: int) -> None:
    record = Cell("momentum", Aval(shape, "float32"), "ps:1", kind="slot").record()
    assert (record.variable, record.shape, record.task, record.kind) == ("momentum", shape, "ps:1", "slot")
    assert (record.shard, record.num_shards, record.row_start, record.row_stop) == (0, 1, 0, rows)
