"""Device names as users write them, and what is no device."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.strategies.devices import MOST_DEVICES, device_names, require_task


@pytest.mark.parametrize("name", ["gpu:1", "GPU:1", "/GPU:1", "/device:GPU:1", "/job:worker/task:0/device:GPU:1", " gpu:1 "])
def test_all_ways_to_write_a_device_are_one_name(name: str) -> None:
    assert device_names([name]) == ["gpu:1"]


@pytest.mark.parametrize(
    ("devices", "names"), [(None, ["cpu:0"]), (2, ["gpu:0", "gpu:1"]), (("tpu:3", "/CPU:0"), ["tpu:3", "cpu:0"])], ids=str
)
def test_devices_are_a_number_names_or_the_default(devices: Any, names: list[str]) -> None:
    assert device_names(devices) == names


@pytest.mark.parametrize(
    ("devices", "match"),
    [
        ([], "no device to compute on"),
        (0, "must be 1 or more"),
        (True, "must be 1 or more"),
        (MOST_DEVICES + 1, "takes memory of this machine"),
        ("gpu:0", "write \\['gpu:0'\\]"),
        ("2", "write devices=2"),
        (2.0, "must be a number of devices"),
        (["gpu:0", "/GPU:0"], "names gpu:0 twice"),
        ([0], "is no name of a device"),
        (["gpu"], "is no name of a device"),
        (["worker:0"], "names a task, and not a device"),
        (["/job:worker/task:0"], "names a task, and not a device"),
        (["ps:1"], "names a task, and not a device"),
    ],
    ids=str,
)
def test_what_names_no_device_is_refused(devices: Any, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        device_names(devices)


def test_a_device_of_another_task_is_refused() -> None:
    require_task(["/job:worker/task:1/device:GPU:0", "/job:localhost/task:0/gpu:1", "gpu:2", 3], "worker:1")
    with pytest.raises(InvalidArgumentError, match="is a device of worker:1, and this strategy runs on worker:0"):
        require_task(["/job:worker/task:1/device:GPU:0"], "worker:0")


def test_a_task_is_no_device_of_a_strategy() -> None:
    """It was taken for a device worker:0/worker:0, beside the task's own memory."""
    cluster = sd.Cluster({"worker": 1})
    with pytest.raises(InvalidArgumentError, match="'worker:0' names a task"):
        sd.OneDeviceStrategy("worker:0", cluster)
    with pytest.raises(InvalidArgumentError, match="'worker:0' names a task"):
        sd.MirroredStrategy(["worker:0", "worker:1"], cluster=cluster)
