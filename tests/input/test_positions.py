"""Saved positions are checked before anybody goes there."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.errors import InvalidArgumentError
from simdist.input.positions import part_in, sources_in


@pytest.mark.parametrize("position", [{}, {"sources": None}, {"sources": {}}, {"sources": [{}]}, {"sources": [{}, {}, {}]}])
def test_position_of_another_number_of_sources_is_refused(position: dict[str, Any]):
    with pytest.raises(InvalidArgumentError, match=r"2 source.s."):
        sources_in(position, 2)


def test_sources_come_in_their_order():
    assert sources_in({"sources": [{"consumed": 1}, {"consumed": 2}]}, 2) == [{"consumed": 1}, {"consumed": 2}]


@pytest.mark.parametrize("position", [{"part": 0, "step": 0}, {"part": None, "step": 0, "batch_size": 1}, {"step": 1, "batch_size": 1}])
def test_position_of_whole_batches_is_none_of_cut_ones(position: dict[str, Any]):
    with pytest.raises(InvalidArgumentError, match="cut batches"):
        part_in(position)
