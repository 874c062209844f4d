"""What belongs to a cluster is neither pickled nor copied, and says so."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import optax
import pytest

import simdist as sd


def coordinator_of(cluster: sd.Cluster) -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


MAKE: dict[str, Callable[[sd.Cluster], Any]] = {
    "Cluster": lambda cluster: cluster,
    "MultiWorkerMirroredStrategy": sd.MultiWorkerMirroredStrategy,
    "ParameterServerStrategy": sd.ParameterServerStrategy,
    "ClusterCoordinator": lambda cluster: coordinator_of(cluster),
    "PerWorkerDataset": lambda cluster: coordinator_of(cluster).create_per_worker_dataset(sd.Dataset.range(4)),
    "PerWorkerIterator": lambda cluster: iter(coordinator_of(cluster).create_per_worker_dataset(sd.Dataset.range(4))),
    "Session": lambda cluster: sd.Session(lambda other: sd.sleep(1.0, other), cluster),
}


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda take: take.__name__)
@pytest.mark.parametrize("name", MAKE)
def test_a_part_of_a_cluster_is_neither_copied_nor_pickled(name: str, take: Callable[[Any], Any]) -> None:
    thing = MAKE[name](sd.Cluster({"worker": 1, "ps": 1}))
    with pytest.raises(TypeError, match=rf"A {name} cannot be pickled or copied.*process, with all that it has\. \w+"):
        take(thing)


SHARED: dict[str, Callable[[], Any]] = {
    "DatasetIterator": lambda: iter(sd.Dataset.range(4)),
    "DistributedIterator": lambda: iter(sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(4).batch(2))),
    "CheckpointManager": lambda: sd.CheckpointManager(sd.Checkpoint(v=sd.Variable(1.0)), tempfile.gettempdir(), max_to_keep=1),
}


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda take: take.__name__)
@pytest.mark.parametrize("name", SHARED)
def test_what_goes_on_is_not_copied_as_both_would_go_on_with_one_state(name: str, take: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=rf"A {name} cannot be pickled or copied: .*both.*\. Make another one"):
        take(SHARED[name]())


def test_an_optimizer_has_no_shallow_copy_which_would_share_its_slots() -> None:
    optimizer = sd.Optimizer(optax.sgd(0.1))
    with pytest.raises(TypeError, match="share its slots"):
        copy.copy(optimizer)
    assert isinstance(copy.deepcopy(optimizer), sd.Optimizer)
