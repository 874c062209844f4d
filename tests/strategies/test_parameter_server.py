"""How a strategy with parameter servers finds its cluster."""

from __future__ import annotations

import pytest

import simdist as sd


def test_without_a_cluster_the_main_of_the_chief_finds_it_in_tf_config() -> None:
    def main() -> list[str]:
        resolver = sd.TFConfigClusterResolver()
        if resolver.task_type in ("worker", "ps"):
            sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        return sd.ParameterServerStrategy().workers

    run = sd.Cluster({"chief": 1, "worker": 2, "ps": 1}).launch(main, job=["chief", "worker", "ps"])
    run.join()
    assert run.results == {"chief:0": ["worker:0", "worker:1"]}
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"needs an sd\.Cluster.*got nothing"):
        sd.ParameterServerStrategy()
