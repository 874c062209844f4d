"""What a strategy takes as its cluster."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError
from simdist.runtime.controlled import is_controlled
from simdist.strategies.given_cluster import cluster_behind, require_cluster


def test_a_resolver_of_a_cluster_stands_for_it_and_others_for_themselves() -> None:
    cluster, plain = sd.Cluster({"worker": 2}), sd.SimpleClusterResolver(sd.ClusterSpec({"worker": ["a:1"]}))
    assert cluster_behind(cluster.resolver) is cluster_behind(cluster) is cluster
    assert cluster_behind(plain) is plain


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, sd.MirroredStrategy])
def test_what_is_no_cluster_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match=r"cluster is 'worker:0'; expected an sd\.Cluster"):
        make(cluster="worker:0")


def test_the_program_of_a_session_has_to_give_its_cluster() -> None:
    with is_controlled.replaced(True):
        require_cluster(sd.Cluster({"worker": 1}), "OneDeviceStrategy")
        with pytest.raises(
            FailedPreconditionError, match=r"^MirroredStrategy was made without cluster= .* sd\.MirroredStrategy\(\.\.\., cluster=cl"
        ):
            require_cluster(None, "MirroredStrategy")
