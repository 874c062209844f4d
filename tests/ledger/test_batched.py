"""Batched calls: the results of one go into the next as they are, on a host's memory and on an accelerator's."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from simdist.ledger import batched, registers, stack_lanes
from simdist.ledger.batched import Batches
from simdist.ledger.ledger import Ledger
from simdist.ledger.stack_lanes import Column, LaneStack, cut_apart, put_together
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval, Bundle

AVAL = Aval((3,), "float32")
ONE = (AVAL,)
STEP = kernel_of("local step", lambda v, k: (v * 0.5 + k, k * 2.0), [AVAL, AVAL])
WORKERS = 20


class Locals:
    """Workers that go on from their own values, and numpy's values of them."""

    def __init__(self, on_host: bool) -> None:
        self.ledger = Ledger("vmap")
        self.batches = self.ledger.plans.batches
        self.batches.on_host = on_host
        self.site = self.ledger.site(STEP, [ONE], [ONE, ONE])
        start = np.zeros(3, np.float32)
        self.values = [Bundle.of([start]) for _ in range(WORKERS)]
        self.expected = [start] * WORKERS

    def step(self) -> list[Bundle]:
        """What the workers make besides."""
        besides = list[Bundle]()
        for worker in range(WORKERS):
            fed = np.full(3, worker, np.float32)
            self.values[worker], other = self.ledger.call(self.site, (self.values[worker],), None, (fed,))
            besides.append(other)
            self.expected[worker] = self.expected[worker] * np.float32(0.5) + fed
        return besides

    def check(self) -> None:
        for bundle, wanted in zip(self.values, self.expected, strict=True):
            np.testing.assert_allclose(np.asarray(self.ledger.arrays(bundle)[0]), wanted, rtol=1e-6)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """What a function is called with from now on."""
    calls, function = list[Any](), getattr(owner, name)

    def counting(*given: Any) -> Any:
        calls.append(given)
        return function(*given)

    monkeypatch.setattr(owner, name, counting)
    return calls


def holding(bundle: Bundle) -> LaneStack:
    file: Any = bundle.file
    return file.held(bundle.register).stack


@pytest.fixture(params=[True, False], ids=["host", "accelerator"])
def on_host(request: pytest.FixtureRequest) -> bool:
    return request.param


def test_levels_take_the_stacks_of_those_before_without_moving_them(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Locals(on_host)
    workers.step()
    workers.ledger.flush()
    moved = [counted(monkeypatch, workers.batches, name) for name in ("cut", "gathered", "together", "pooled", "single")]
    for _ in range(3):  # from one flush to the next too
        workers.step()
        workers.step()
        workers.ledger.flush()
    assert moved == [[]] * 5
    monkeypatch.undo()
    workers.check()


def test_arrays_that_are_too_large_for_a_heap_are_batched_too(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "HUGE_BYTES", 8)
    workers = Locals(on_host)
    assert all(file.tables for file in workers.ledger.files.values())
    alone = counted(monkeypatch, workers.ledger.plans.calls, "run_kernel")
    for _ in range(3):
        workers.step()
        workers.ledger.flush()
    workers.check()
    assert not alone


def test_lanes_that_are_read_in_between_are_stacked_again(on_host: bool) -> None:
    workers = Locals(on_host)
    for worker in (3, 0, 7):
        workers.step()
        workers.ledger.arrays(workers.values[worker])
    workers.values[2], workers.expected[2] = workers.values[5], workers.expected[5]
    workers.step()
    workers.check()


def test_lanes_in_another_order_are_gathered_in_one_call(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Locals(on_host)
    workers.step()
    workers.ledger.flush()
    workers.values.reverse()
    workers.expected.reverse()
    calls = [counted(monkeypatch, workers.batches, name) for name in ("gathered", "cut")]
    workers.step()
    workers.ledger.flush()
    assert list(map(len, calls)) == [1, 0]
    workers.check()


def test_result_that_is_kept_does_not_keep_those_of_the_other_workers(on_host: bool) -> None:
    workers = Locals(on_host)
    besides = workers.step()
    workers.ledger.flush()
    gone, kept = weakref.ref(holding(besides[4]).leaves[0]), besides[4]
    besides.clear()
    workers.step()
    workers.ledger.flush()
    gc.collect()
    assert gone() is None
    np.testing.assert_array_equal(np.asarray(workers.ledger.arrays(kept)[0]), [8.0] * 3)


def test_small_stack_is_fetched_once_and_a_large_one_lane_by_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Locals(on_host=False)
    workers.step()
    workers.ledger.flush()
    calls = counted(monkeypatch, workers.batches, "cut")
    workers.check()
    assert calls == []
    workers.step()
    workers.ledger.flush()
    monkeypatch.setattr(stack_lanes, "SMALL_BYTES", 0)
    workers.check()
    assert len(calls) == WORKERS


@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
def test_lanes_that_are_cut_apart_and_put_together_are_the_same(count: int, on_host: bool) -> None:
    stack = [jax.numpy.arange(2.0 * count).reshape(count, 2), jax.numpy.arange(count)]
    rows = cut_apart(stack, list(range(count)), on_host)
    assert len(rows) == count
    for leaf, again in zip(stack, put_together(rows, on_host), strict=True):
        np.testing.assert_array_equal(np.asarray(again), np.asarray(leaf))


@pytest.mark.parametrize(("count", "kind"), [(stack_lanes.BLOCK, jax.Array), (stack_lanes.BLOCK + 1, np.ndarray)])
def test_on_a_host_few_rows_of_jax_are_put_together_without_waiting_for_them(count: int, kind: type) -> None:
    (stack,) = put_together([(jax.numpy.full(2, row),) for row in range(count)], on_host=True)
    assert isinstance(stack, kind)
    assert np.asarray(stack).tolist() == [[row, row] for row in range(count)]


def test_column_of_several_stacks_is_cut_stack_by_stack(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Batches()
    batches.on_host = on_host
    stacks = [LaneStack([jax.numpy.arange(4.0) + 10 * number], batches) for number in range(2)]
    calls = counted(monkeypatch, batches, "cut")
    apart = Column([stacks[1], stacks[0], (np.float32(7),), stacks[1]], [2, 0, 0, 2]).apart()  # type: ignore[list-item]
    assert [float(row[0]) for row in apart] == [12.0, 0.0, 7.0, 12.0]
    assert len(calls) == 2


# -- batches that are rows of a table ---------------------------------------------------------------------------------------------


def trained(numerics: str, map_rows: bool = False, finds_rows: bool = True) -> tuple[np.ndarray[Any, Any], Any]:
    x = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    strategy = sd.MirroredStrategy(4, cluster=sd.Cluster({"worker": 1}, numerics=numerics))
    batches = strategy.cluster.world.ledger.plans.batches
    batches.finds_rows = finds_rows
    with strategy.scope():
        v = sd.Variable(np.ones(3, np.float32), name="v")
    dataset = sd.Dataset.from_tensor_slices((x, x.sum(1)))
    dataset = dataset.map(lambda a, b: (a * 2, b)) if map_rows else dataset
    iterator = iter(strategy.distribute_dataset(dataset.batch(4).repeat()))

    @sd.function
    def step(iterator: Any) -> None:
        def replica(a: Any, _: Any) -> None:
            v.assign(v.value * 0.5 + sd.get_replica_context().all_reduce("sum", a[0] * v.value))

        strategy.run(replica, args=next(iterator))

    for _ in range(5):
        step(iterator)
    return np.asarray(v.numpy()), batches


@pytest.mark.parametrize("map_rows", [False, True])
def test_rows_are_gathered_from_the_columns_on_the_device(map_rows: bool) -> None:
    found, batches = trained("vmap", map_rows)
    np.testing.assert_allclose(found, trained("eager", map_rows)[0], rtol=1e-4)
    assert len(batches._tables) == 1


def test_rows_of_all_replicas_are_gathered_by_numpy_where_the_host_computes() -> None:
    found, batches = trained("vmap", finds_rows=False)
    np.testing.assert_array_equal(found, trained("vmap")[0])
    assert batches._tables == {}


def test_large_table_stays_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "TABLE_BYTES", 10)
    found, batches = trained("vmap")
    np.testing.assert_allclose(found, trained("eager")[0], rtol=1e-4)
    assert batches._tables == {}
