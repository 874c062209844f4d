"""Options of one call hold for its collective; where they are no options, or concern gradients alone, they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.collectives.compression import Fp16
from simdist.errors import InvalidArgumentError

REPLICAS = 4
RING, DEFAULT = "ring", "recursive doubling"  # the default of a small array among so few


def rank() -> Any:
    context = sd.get_replica_context()
    assert context is not None
    return context.replica_id_in_sync_group + 1.0


def reduce_to(strategy: Any, value: Any, options: Any) -> Any:
    return strategy.extended.reduce_to("sum", value, None, options)


def batch_reduce_to(strategy: Any, value: Any, options: Any) -> Any:
    return strategy.extended.batch_reduce_to("sum", [(value, None)], options=options)[0]


def mean(strategy: Any, value: Any, options: Any) -> Any:
    return strategy.extended.reduce_to("mean", value, None, options) * REPLICAS


CALLS = [reduce_to, batch_reduce_to, mean]


def in_a_step(strategy: Any, call: Callable[..., Any], options: Any) -> Any:
    return sd.function(lambda: call(strategy, strategy.run(lambda: jnp.float32(rank())), options))()


def in_a_merge_call(strategy: Any, call: Callable[..., Any], options: Any) -> Any:
    def replica() -> Any:
        context = sd.get_replica_context()
        assert context is not None
        return context.merge_call(lambda strategy, value: call(strategy, value, options), args=(jnp.float32(rank()),))

    return strategy.local_results(strategy.run(replica))[0]


def algorithms(cluster: sd.Cluster) -> set[str]:
    return {span.facts["algorithm"] for span in cluster.trace.spans.where(category="collective")}


@pytest.mark.parametrize("where", [in_a_step, in_a_merge_call])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("options", "algorithm"), [(None, DEFAULT), (sd.CommunicationOptions(algorithm=RING), RING)])
def test_options_hold_for_the_call(where: Callable[..., Any], call: Callable[..., Any], options: Any, algorithm: str) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": REPLICAS}))
    assert float(where(strategy, call, options)) == REPLICAS * (REPLICAS + 1) / 2
    assert algorithms(strategy.cluster) == {algorithm}


@pytest.mark.parametrize(("options", "algorithm"), [(None, DEFAULT), (sd.CommunicationOptions(algorithm=RING), RING)])
def test_options_hold_for_what_mains_reduce(options: Any, algorithm: str) -> None:
    def main() -> float:
        strategy = sd.MultiWorkerMirroredStrategy()
        return float(reduce_to(strategy, jnp.float32(strategy.worker_index), options))

    cluster = sd.Cluster({"worker": REPLICAS})
    run = cluster.launch(main)
    run.join()
    assert set(run.results.values()) == {REPLICAS * (REPLICAS - 1) / 2}
    assert algorithms(cluster) == {algorithm}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("options", "message"), [("ring", "must be sd.CommunicationOptions"), (sd.CommunicationOptions(bytes_per_pack=8), "bytes_per_pack")]
)
def test_other_options_are_refused(call: Callable[..., Any], options: Any, message: str) -> None:
    strategy, value = sd.MirroredStrategy(2), sd.PerReplica([1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match=message):
        call(strategy, value, options)
    for operations in (sd.NcclAllReduce(), sd.HierarchicalCopyAllReduce()):
        with pytest.raises(InvalidArgumentError, match=message):
            operations.reduce("sum", value, options=options)
        with pytest.raises(InvalidArgumentError, match=message):
            operations.batch_reduce("sum", [(value, None)], options)


def test_an_all_gather_has_no_algorithm_of_an_all_reduce() -> None:
    """It is a ring, whatever was asked for."""
    strategy = sd.MirroredStrategy(2)

    def replica(options: Any) -> Any:
        context = sd.get_replica_context()
        assert context is not None
        return context.all_gather(jnp.ones((1,)), 0, options)

    assert strategy.run(lambda: replica(sd.CommunicationOptions(implementation="NCCL"))).values[0].shape == (2,)
    with pytest.raises(InvalidArgumentError, match="algorithm='ring' is that of an all-reduce, and an all-gather is always a ring"):
        strategy.run(lambda: replica(sd.CommunicationOptions(algorithm=RING)))


@pytest.mark.parametrize("algorithm", [[RING], 3, "rings"])
def test_what_is_no_algorithm_is_refused(algorithm: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"algorithm=.* is not known"):
        sd.CommunicationOptions(algorithm=algorithm)


@pytest.mark.parametrize(("bytes_per_pack", "packs"), [(0, [56]), (1, [24, 16, 12, 4]), (30, [40, 12, 4]), (1 << 20, [52, 4])])
def test_values_of_an_all_reduce_travel_in_packs_of_one_dtype_the_last_first(bytes_per_pack: int, packs: list[int]) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": REPLICAS}))
    options = sd.CommunicationOptions(bytes_per_pack=bytes_per_pack)
    shapes = {"a": (3,), "b": (4,), "c": (), "d": (6,)}

    def replica() -> Any:
        context = sd.get_replica_context()
        assert context is not None
        values = {name: jnp.full(shape, rank(), "int32" if name == "c" else "float32") for name, shape in shapes.items()}
        return context.all_reduce("sum", values, options)

    sums = strategy.local_results(strategy.run(replica))[0]
    for name, shape in shapes.items():
        np.testing.assert_array_equal(sums[name], np.full(shape, REPLICAS * (REPLICAS + 1) / 2))
    spans = strategy.cluster.trace.spans.where(category="collective", lane="worker:0")
    assert [span.facts["bytes"] for span in spans] == packs


@pytest.mark.parametrize("options", [sd.CommunicationOptions(num_packs=2), sd.CommunicationOptions(compression=Fp16())])
def test_what_only_gradients_do_is_refused_for_an_all_reduce(options: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="concern gradients: give them to the strategy, not to one call"):
        sd.MirroredStrategy(2).run(lambda: sd.get_replica_context().all_reduce("sum", 1.0, options))  # type: ignore[union-attr]
