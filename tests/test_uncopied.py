"""What belongs to a cluster is neither pickled nor copied, and says so."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd

MAKE: dict[str, Callable[[sd.Cluster], Any]] = {
    "Cluster": lambda cluster: cluster,
    "MultiWorkerMirroredStrategy": sd.MultiWorkerMirroredStrategy,
    "ParameterServerStrategy": sd.ParameterServerStrategy,
    "ClusterCoordinator": lambda cluster: sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster)),
    "Session": lambda cluster: sd.Session(lambda other: sd.sleep(1.0, other), cluster),
}


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda take: take.__name__)
@pytest.mark.parametrize("name", MAKE)
def test_a_part_of_a_cluster_is_neither_copied_nor_pickled(name: str, take: Callable[[Any], Any]) -> None:
    thing = MAKE[name](sd.Cluster({"worker": 1, "ps": 1}))
    with pytest.raises(TypeError, match=rf"A {name} cannot be pickled or copied.*process, with all that it has\. \w+"):
        take(thing)
