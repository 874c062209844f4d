"""What a function that builds a dataset is given, and how it may ask for its elements to be fetched."""

from __future__ import annotations

import pytest

from simdist.errors import InvalidArgumentError
from simdist.input import InputContext, InputOptions, InputReplicationMode


def test_rows_of_a_replica_are_its_share_of_the_global_batch():
    context = InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    assert context.get_per_replica_batch_size(64) == 16
    with pytest.raises(InvalidArgumentError, match="for example 8"):
        context.get_per_replica_batch_size(10)


@pytest.mark.parametrize("given", [(2, 2, 1), (0, 0, 1), (1, 0, 0), (1, -1, 1)])
def test_pipeline_that_does_not_exist_is_refused(given: tuple[int, int, int]):
    with pytest.raises(InvalidArgumentError):
        InputContext(*given)


def test_mode_may_be_given_by_its_name_and_no_other_word():
    options = InputOptions(experimental_replication_mode="PER_REPLICA")  # pyright: ignore[reportArgumentType]
    assert options.experimental_replication_mode is InputReplicationMode.PER_REPLICA
    with pytest.raises(InvalidArgumentError, match="PER_WORKER, PER_REPLICA"):
        InputOptions(experimental_replication_mode="PER_DEVICE")  # pyright: ignore[reportArgumentType]


def test_buffer_holds_at_least_one_element():
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        InputOptions(experimental_per_replica_buffer_size=0)
