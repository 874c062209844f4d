"""Replicas on several JAX devices by shard_map: the numbers of one device (class E2), equal bits in any process (class E0).

JAX is told how many devices a processor has before it starts, so the runs are those of a process of its own.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist.errors import InvalidArgumentError
from simdist.ledger.sharded import ShardedBatches, mesh_devices

PROGRAM = Path(__file__).with_name("four_devices.py")
RTOL = 1e-6
# For each run, how many lanes the batched calls of a full batch of 16 rows have, and on which devices they lie.
LANES = {
    "a replica a device, sgd": ([4], [0, 1, 2, 3]),
    "a replica a device, adam": ([4], [0, 1, 2, 3]),
    "two lanes a device, sgd": ([8], [0, 1, 2, 3]),
    "a device to spare, adam": ([4], [0, 1, 2, 3]),  # 5 rows for two replicas; the third has 6 and is alone
    "seven lanes on three devices, adam": ([3, 6], [1, 2, 3]),  # 3 rows for two of them, 2 rows for five
    "lanes on accelerators, adam": ([4, 8], [0, 1, 2, 3]),  # 3 rows for two of seven, 2 rows for five
    "a TPU slice, adam": ([8], [0, 1, 2, 3]),
    "two workers, sgd": ([4], [0, 1, 2, 3]),
}


def run_program(*words: str, hash_seed: str = "1") -> Any:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    env = {**os.environ, "XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, str(PROGRAM), *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# What CI runs; the others are like one of these, with another optimizer or strategy.
SAMPLE = (
    "a replica a device, adam",
    "two lanes a device, sgd",
    "seven lanes on three devices, adam",
    "lanes on accelerators, adam",
    "two workers, sgd",
)


@functools.cache
def found_by(runs: tuple[str, ...]) -> Any:
    return run_program(*runs)


@pytest.fixture(scope="module")
def found() -> Any:
    return found_by(SAMPLE)


@pytest.fixture
def found_of_all(run: str) -> Any:
    """What a process has found that did this run."""
    return found_by(SAMPLE if run in SAMPLE else tuple(LANES))


@pytest.mark.parametrize("run", sampled(LANES, SAMPLE))
def test_losses_equal_those_of_one_device(found_of_all: Any, run: str) -> None:
    expected = found_of_all["runs"][f"one device, {run.rsplit(', ')[-1]}"]["losses"]
    assert len(expected) == 20 and expected[-1] < 0.5 * expected[0]
    np.testing.assert_allclose(found_of_all["runs"][run]["losses"], expected, rtol=RTOL)


@pytest.mark.parametrize("run", sampled(LANES, SAMPLE))
def test_a_wave_is_one_call_on_all_devices(found_of_all: Any, run: str) -> None:
    lanes, devices = LANES[run]
    calls = found_of_all["runs"][run]["calls"]
    assert sorted(number for number, _ in calls[: len(lanes)]) == lanes
    assert len(calls) >= 20
    assert all(used == devices for _, used in calls)


def test_fit_equals_that_of_one_device(found: Any) -> None:
    on_all, on_one = found["fit"]
    np.testing.assert_allclose(on_all, on_one, rtol=RTOL)


def test_bits_are_equal_in_another_process(found: Any) -> None:
    assert run_program("once", hash_seed="2") == found["runs"]["a replica a device, adam"]


def test_value_of_another_device_can_be_assigned(found: Any) -> None:
    assert found["elsewhere"] == [3.0, 3.0]


def test_values_that_replicas_have_of_their_own_go_to_their_devices(found: Any) -> None:
    assert found["apart"] == [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0], [7.0, 7.0]]


def test_one_device_and_debugging_fall_back_to_the_default(found: Any) -> None:
    assert (found["alone"], found["debugged"]) == ("deferred", "eager")


def test_fresh_cluster_has_the_same_devices(found: Any) -> None:
    assert found["fresh"] == [0, 1]


def test_device_given_twice_and_names_among_devices_are_refused(found: Any) -> None:
    assert "names cpu:1 twice" in found["twice"]
    assert "mixes JAX devices" in found["mixed"]


def device(platform: str, number: int, process_index: int = 0) -> Any:
    return SimpleNamespace(platform=platform, id=number, process_index=process_index)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([device("gpu", 0), device("gpu", 1), device("gpu", 0)], "gpu:0 is given twice in a list of 3"),
        ([device("gpu", 0), device("cpu", 0)], "must be of one platform; got gpu:0, cpu:0"),
        ([device("tpu", 0), device("tpu", 4, process_index=1)], "tpu:4 belongs to another process"),
        (["cpu:0"], "'cpu:0' is no JAX device"),
        ([], "An empty list"),
    ],
)
def test_devices_that_cannot_work_together_are_refused(devices: list[Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        sd.Cluster({"worker": 1}, numerics="shard_map", jax_devices=devices)


def test_strategy_of_devices_of_two_platforms_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="one platform; got gpu:0, cpu:0"):
        sd.MirroredStrategy(devices=[device("gpu", 0), device("cpu", 0)])


def test_devices_for_another_plan_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"numerics=.deferred.\. Leave one of them out"):
        sd.Cluster({"worker": 1}, jax_devices=jax.devices())


def test_devices_are_all_of_this_process_by_default() -> None:
    assert mesh_devices(None) == tuple(jax.local_devices())


def test_lanes_come_home_in_order() -> None:
    batches = ShardedBatches(mesh_devices(None))
    stack = batches.together([(np.full(2, lane, np.float32),) for lane in range(4)])
    assert [np.asarray(row).tolist() for (row,) in batches.cut([jnp.asarray(leaf) for leaf in stack], [2, 0])] == [[2.0, 2.0], [0.0, 0.0]]
