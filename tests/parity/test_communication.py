"""Conformance cases B092 to B104: how values travel among devices, in which packs, and what happens when somebody does not come."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from replicas import each, here, rank
from simdist.collectives.packing import group_by_size, split_in_packs
from simdist.errors import DeadlineExceededError, InvalidArgumentError

Run = Callable[..., Any]
SUM, MEAN = sd.ReduceOp.SUM, sd.ReduceOp.MEAN
OPERATIONS = [sd.ReductionToOneDevice, sd.HierarchicalCopyAllReduce, sd.NcclAllReduce]


# -- cross-device operations --------------------------------------------------------------------------------------------


def test_b092_devices_of_two_kinds_reduce_whole_numbers(run: Run) -> None:
    strategy = sd.MirroredStrategy(["cpu:0", "gpu:0"])
    total = run(strategy, lambda: here().all_reduce(SUM, jnp.asarray(rank() + 1)))
    assert each(strategy, total) == [3, 3]


@pytest.mark.parametrize("operations", OPERATIONS)
def test_b093_reduce_to_any_destination(operations: Any) -> None:
    value, ops = sd.PerReplica([1.0, 2.0]), operations()
    assert float(ops.reduce(SUM, value, destinations="cpu:0")) == 3.0
    assert [float(x) for x in ops.batch_reduce("MEAN", [(value, "cpu:0"), (value, "gpu:1")])] == [1.5, 1.5]
    assert ops.broadcast(5.0, ["gpu:0", "gpu:1"]).values == (5.0, 5.0)


@pytest.mark.parametrize("operations", [sd.NcclAllReduce, sd.HierarchicalCopyAllReduce])
def test_b094_number_of_packs_below_zero_raises(operations: Any) -> None:
    assert operations(num_packs=0).num_packs == 1
    with pytest.raises(InvalidArgumentError, match="num_packs is -1"):
        operations(num_packs=-1)
    with pytest.raises(InvalidArgumentError, match="cross_device_ops"):
        sd.MirroredStrategy(2, cross_device_ops=operations)  # pyright: ignore


@pytest.mark.parametrize("operations", OPERATIONS)
@pytest.mark.parametrize(("devices", "total"), [(2, 3.0), (3, 6.0), (4, 10.0), (5, 15.0), (8, 36.0)])
def test_b095_every_operation_is_exact_on_every_number_of_devices(run: Run, operations: Any, devices: int, total: float) -> None:
    strategy = sd.MirroredStrategy([f"cpu:{number}" for number in range(devices)], cross_device_ops=operations())
    assert each(strategy, run(strategy, lambda: here().all_reduce(SUM, jnp.asarray(rank() + 1.0)))) == [total] * devices


def test_b096_devices() -> None:
    for default in (sd.MirroredStrategy(), sd.CentralStorageStrategy()):
        assert default.extended.worker_devices == ("worker:0/cpu:0",)
    for make in (sd.MirroredStrategy, sd.CentralStorageStrategy):
        # TensorFlow takes an empty list for the default; a list of devices that came out empty is more likely a mistake.
        with pytest.raises(InvalidArgumentError, match="names no device"):
            make([])
        with pytest.raises(InvalidArgumentError, match="gpu:0 twice"):
            make(["gpu:0", "/GPU:0"])


# -- packing ------------------------------------------------------------------------------------------------------------


def packed(sizes_bytes: list[int], limit: int) -> list[list[int]]:
    return [[sizes_bytes[position] for position in pack] for pack in group_by_size(sizes_bytes, limit)]


def test_b097_new_pack_begins_when_the_last_one_exceeds_the_limit() -> None:
    assert packed([128, 32, 800, 4], 200) == [[128, 32, 800], [4]]


def test_b099_limits_around_the_size_of_a_tensor() -> None:
    assert packed([4, 4, 4], 1) == [[4], [4], [4]]
    assert packed([4, 4, 4], 4) == [[4, 4], [4]]
    assert packed([4, 4, 4, 4], 8) == [[4, 4, 4], [4]]


def gradient_bytes(options: sd.CommunicationOptions) -> list[int]:
    """What travels, in order, for gradients of 8, 12 and 20 bytes; checks the update, too."""
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), options)
    with strategy.scope():
        variables = [sd.Variable(jnp.zeros(size)) for size in (2, 3, 5)]
        optimizer = sd.Optimizer(optax.sgd(1.0))

    def replica() -> None:
        _, gradients = sd.value_and_grad(lambda: sum(jnp.sum(v.value) * (rank() + 1.0) for v in variables), variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    sd.function(lambda: strategy.run(replica))()
    assert [v.numpy().tolist() for v in variables] == [[-3.0] * size for size in (2, 3, 5)]
    spans = strategy.cluster.trace.spans.where(category="collective")
    # Packs that travel while the kernel still runs are on a lane of their own.
    first = sorted((span for span in spans if span.lane.split("/")[0] == "worker:0"), key=lambda span: span.start_s)
    return [span.facts["bytes"] for span in first]


def test_b100_last_gradient_travels_first() -> None:
    assert gradient_bytes(sd.CommunicationOptions(bytes_per_pack=8)) == [20, 12, 8]
    assert gradient_bytes(sd.CommunicationOptions(bytes_per_pack=20)) == [32, 8]
    assert gradient_bytes(sd.CommunicationOptions()) == [40]


def test_b100_mean_divides_once_by_the_number_of_replicas(run: Run) -> None:
    three = sd.MirroredStrategy(3)
    # 1 + 1 + 2 = 4, and only then a third: thirds that are added differ in the last bit.
    value = run(three, lambda x: here().all_reduce(MEAN, x), (sd.PerReplica([jnp.float32(1), jnp.float32(1), jnp.float32(2)]),))
    assert each(three, value) == [float(np.float32(4) / np.float32(3))] * 3


def test_b101_equal_packs_with_the_remainder_at_the_end() -> None:
    assert split_in_packs(10, 4) == [2, 2, 2, 4]
    assert gradient_bytes(sd.CommunicationOptions(num_packs=3)) == [12, 12, 16]


# -- options, time-outs, errors -----------------------------------------------------------------------------------------


def test_b102_options() -> None:
    auto, _, nccl = sd.CommunicationImplementation
    default = sd.CommunicationOptions()
    assert (default.bytes_per_pack, default.timeout_seconds, default.implementation) == (0, None, auto)
    assert sd.CommunicationOptions(implementation="NCCL").implementation is nccl  # pyright: ignore
    for wrong in ({"bytes_per_pack": -1}, {"implementation": "x"}, {"timeout_seconds": 0.0}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            sd.CommunicationOptions(**wrong)  # pyright: ignore


def test_b102_merged_options() -> None:
    _, ring, nccl = sd.CommunicationImplementation
    mine = sd.CommunicationOptions(5, 1.0, ring)
    assert mine.merge(sd.CommunicationOptions(timeout_seconds=9.0)) == sd.CommunicationOptions(5, 9.0, ring)
    assert mine.merge(sd.CommunicationOptions(7, None, nccl)) == sd.CommunicationOptions(7, 1.0, nccl)
    assert mine.merge(None) == mine


def test_b103_time_out_for_a_peer_that_does_not_come(run: Run) -> None:
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.slow("worker:1", factor=1e12, at=0.0)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(timeout_seconds=15.0))
    with pytest.raises(DeadlineExceededError, match=r"after 15 s: worker:1 did not come"):
        run(strategy, lambda x: here().all_reduce(SUM, x @ x), (jnp.ones((64, 64)),))
    assert cluster.now == pytest.approx(15.0, abs=1e-3)


def test_b104_an_error_is_local_to_its_call(two: Any, run: Run) -> None:
    with pytest.raises(InvalidArgumentError):
        run(two, lambda: here().all_reduce(SUM, jnp.ones(rank() + 1)))
    with pytest.raises(ZeroDivisionError):
        run(two, lambda: here().all_reduce(SUM, jnp.ones(()) / (1 / rank())))
    assert each(two, run(two, lambda: here().all_reduce(SUM, jnp.ones(())))) == [2.0, 2.0]


def test_b104_a_time_out_is_local_to_its_call() -> None:
    cluster = sd.Cluster({"worker": 2})
    cluster.faults.slow("worker:1", factor=1e12, at=0.0, until=20.0)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(timeout_seconds=30.0))
    step = sd.function(lambda x: strategy.run(lambda y: here().all_reduce(SUM, y @ y), (x,)))
    with pytest.raises(DeadlineExceededError):
        step(jnp.ones((64, 64)))
    assert each(strategy, step(jnp.eye(2))) == [[[2, 0], [0, 2]]] * 2


def test_b104_strategies_with_other_numbers_of_devices_do_not_disturb_each_other(run: Run) -> None:
    strategies = [sd.MirroredStrategy(count) for count in (2, 3, 2)]
    for strategy in [*strategies, *strategies]:
        total = run(strategy, lambda: here().all_reduce(SUM, jnp.ones(())))
        assert each(strategy, total) == [float(strategy.num_replicas_in_sync)] * strategy.num_replicas_in_sync


def test_nccl_chooses_between_ring_and_double_tree_whatever_the_device() -> None:
    def chosen(size: int, **options: Any) -> str:
        strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 8}), sd.CommunicationOptions(**options))
        strategy.run(lambda: here().all_reduce(SUM, jnp.zeros(size)))
        return strategy.cluster.trace.spans.where(category="collective")[0].facts["algorithm"]

    assert chosen(4) == "recursive doubling"
    assert chosen(4, implementation="NCCL") == "double tree"
    assert chosen(1 << 20, implementation="NCCL") == "ring"
    assert sd.NcclAllReduce().implementation is sd.CommunicationImplementation.NCCL


def test_a_time_out_of_one_call_holds_for_that_call() -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(timeout_seconds=100.0))
    cluster.faults.slow("worker:1", factor=1e6, at=0.0)
    cluster.world.clock.sleep(1e-9)
    one_second = sd.CommunicationOptions(timeout_seconds=1.0)
    with pytest.raises(DeadlineExceededError, match="after 1 s: worker:1"):
        strategy.run(lambda: here().all_reduce(SUM, jnp.ones(4) * (rank() + 1.0), one_second))


def test_an_exchange_that_is_over_is_not_kept_until_its_time_out() -> None:
    def alive() -> int:
        gc.collect()
        return sum(type(found).__name__ == "PendingCollective" for found in gc.get_objects())

    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sd.CommunicationOptions(timeout_seconds=1e6))
    step = sd.function(lambda: strategy.run(lambda: here().all_reduce(SUM, jnp.ones(4))))
    step()
    before = alive()
    for _ in range(5):
        step()
    assert alive() == before
