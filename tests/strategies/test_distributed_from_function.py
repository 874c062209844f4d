"""Datasets that are made from a function: what is kept of them, and what they are not."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.strategies.distributed_from_function import DistributedFromFunction


def test_each_worker_makes_the_dataset_of_its_context() -> None:
    distributed = DistributedFromFunction(lambda context: sd.Dataset.range(4).shard(2, context.input_pipeline_id))
    assert list(distributed.on_worker(sd.InputContext(2, 1))) == [1, 3]


def test_it_is_no_dataset_of_the_coordinator() -> None:
    with pytest.raises(InvalidArgumentError, match=r"lives on the workers .* coordinator\.create_per_worker_dataset"):
        list(DistributedFromFunction(lambda context: sd.Dataset.range(4)))


def test_one_dataset_cannot_have_a_pipeline_for_each_replica() -> None:
    options = sd.InputOptions(experimental_replication_mode=sd.InputReplicationMode.PER_REPLICA)
    assert DistributedFromFunction(lambda context: sd.Dataset.range(4), options).options is options
    with pytest.raises(NotImplementedError):
        DistributedFromFunction(lambda context: sd.Dataset.range(4), options, sd.Dataset.range(4))
